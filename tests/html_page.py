"""An HTML page as a browser reads it."""

from html.parser import HTMLParser


class Page(HTMLParser):
    """Tags with their attributes, the texts of the body, and tables as rows of texts."""

    void = frozenset({"meta", "br"})

    def __init__(self, html: str) -> None:
        super().__init__()
        self.html = html
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.rows: list[list[str]] = []
        self.widths: list[list[int]] = []  # columns of each row, table by table
        self.feed(html)
        self.close()
        assert self.open == [], "every tag is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.void:
            self.open.append(tag)
        if tag == "table":
            self.widths.append([])
        if tag == "tr":
            self.rows.append([])
            self.widths[-1].append(0)
        if tag in ("td", "th"):
            self.widths[-1][-1] += int(dict(attrs).get("colspan") or 1)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"{tag} is closed in its order"

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "title"):
            self.words.append(data)
        if {"td", "th"} & set(self.open):
            self.rows[-1].append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())
