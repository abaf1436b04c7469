"""Titles of items from a file: item and title in a CSV or TSV, or as MovieLens and Frappe publish them."""

from pathlib import Path

from resus.data.datasets.movielens import MOVIES
from resus.data.problems import refuse
from resus.data.readers.delimited import read_delimited
from resus.errors import DataError


def read_titles(path: Path) -> dict[str, str]:
    """Item → title; of an item listed twice the first title counts."""
    if path.suffix.lower() == ".dat":
        read = read_delimited(path, separator="::", encoding="latin-1", names=MOVIES, quoted=False)
    else:
        tabbed = path.is_file() and b"\t" in path.read_bytes().partition(b"\n")[0]
        read = read_delimited(path, separator="\t" if tabbed else ",", quoted=not tabbed)
    refuse(read.problems)
    assert read.frame is not None
    names = read.frame.columns
    item = "item" if "item" in names else names[0]
    title = next((name for name in ("title", "name") if name in names), names[1] if len(names) == 2 else None)
    if title is None:
        raise DataError(f"{path} has no column 'title' among {', '.join(names)}: write two columns, item and title")
    listed = read.frame.select(item, title).drop_nulls().unique(item, keep="first")
    return dict(zip(listed[item], listed[title], strict=True))
