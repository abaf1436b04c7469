"""The other process of `trial.py`: reads a model from standard input, opens it and scores a few rows."""

import contextlib
import os
import sys
from pathlib import Path

import numpy as np
import polars as pl

from resus.errors import ResusError
from resus.external.choice import open_here
from resus.external.columns import ListsCategories
from resus.external.scoring_model import ScoringModel
from resus.external.trial import REFUSED

ROWS = 200
MEMORY = 1 << 33  # bytes of address space, and 64 more for each byte of the file


def main() -> None:
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # libraries print to standard output
    content = sys.stdin.buffer.read()
    _limit_memory(MEMORY + 64 * len(content))
    sys.modules["sklearn"] = None  # type: ignore[assignment]  # as if not installed: importing it takes the longest here
    try:
        model = open_here(Path(sys.argv[1]), content)
    except ResusError as error:
        answer.write(str(error))
        answer.close()
        os._exit(REFUSED)
    with contextlib.suppress(Exception):  # these rows need not suit the model: only a crash counts
        model.logits(_rows(model))
    os._exit(0)  # a library may still crash while it ends, which says nothing about the file


def _limit_memory(most: int) -> None:
    with contextlib.suppress(ImportError, OSError, ValueError):  # not on Windows
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (most, resource.getrlimit(resource.RLIMIT_AS)[1]))


def _rows(model: ScoringModel) -> pl.DataFrame:
    """Numbers of all sizes, and some that are missing; in columns of categories, those that the file lists."""
    reads = model.reads
    names = [str(number) for number in range(reads)] if isinstance(reads, int) else list(reads or ())
    draw = np.random.default_rng(0)
    numbers = draw.normal(size=(ROWS, len(names))) * 10.0 ** draw.integers(-3, 7, size=(ROWS, len(names)))
    numbers[draw.random(numbers.shape) < 0.1] = np.nan
    columns = {name: pl.Series(numbers[:, place]).round() for place, name in enumerate(names)}
    for place, categories in model.listed.items() if isinstance(model, ListsCategories) else ():
        if categories.words:
            columns[names[place]] = pl.Series(draw.choice(np.array(categories.words, dtype=object), ROWS).tolist())
    return pl.DataFrame(columns)


if __name__ == "__main__":
    main()
