"""`docs/proving.md`, written from the finished cells, which are recorded with it."""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.planted import WorldCell
from benchmarks.proving.cells import ProvedCell
from benchmarks.proving.compare import COMPARISONS, Comparison
from benchmarks.proving.recorded import record
from benchmarks.proving.report import as_page
from resus.files import write_text

DOCS = Path("docs")
INTRODUCTION = """\
# The proving ground

RESUS+, RESUS+ without each of its parts, and its rivals on real data sets, with the default settings of
`resus train`. Each seed draws its own split of the users. Validation users choose, test users only judge. The terms are
in the [glossary](glossary.md).

```sh
python -m benchmarks.proving --jobs 2                       # the five data sets, five seeds
python -m benchmarks.proving --jobs 2 --training-users 500  # the same with 500 training users
python -m benchmarks.proving data/mine                      # a log of your own
python -m benchmarks.planted --users 500,2000,10000 --jobs 2
python -m benchmarks.proving --report-only --docs           # this page
```

The data sets are read from the folder in `RESUS_DATA`. Events of goodbooks, anime, douban-book and Frappe have no time,
so supports are drawn at random. The times of MovieLens-1M that were used are rounded to about 17.5 minutes, which
inflates what a user bias gains. Every cell (data set, method, seed, training users) is a line of
[proving/cells.jsonl](proving/cells.jsonl), every comparison a line of
[proving/comparisons.jsonl](proving/comparisons.jsonl).
"""


def write_docs(
    folder: Path, cells: Sequence[ProvedCell], comparisons: Sequence[Comparison], worlds: Sequence[WorldCell]
) -> Path:
    """The page and its data."""
    record(folder)
    write_text(DOCS / "proving" / COMPARISONS, (folder / COMPARISONS).read_text(encoding="utf-8"))
    page = DOCS / "proving.md"
    write_text(page, f"{INTRODUCTION}\n{as_page(cells, comparisons, worlds, whole=False)}")
    return page
