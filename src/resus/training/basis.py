"""Ψ's logits of the rows that meta-training reads: computed once and kept in a file, not in memory."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from resus.data.log.column_files import ColumnWriter, row_blocks
from resus.data.log.log import InteractionLog
from resus.episodes.tensors import Rows
from resus.files import atomic_path
from resus.model.predictors.base import Predictor
from resus.progress import Progress, silent

Floats = npt.NDArray[np.float32]
BLOCK = 1 << 16


def open_logits(rows: int, path: Path | None) -> Floats:
    """Room for one logit per row of a log, not a number where it is not known yet.

    With a `path` they are a memory-mapped file; what a killed run wrote of it is there already.
    """
    return _open(path, rows) if path else np.full(rows, np.nan, dtype=np.float32)


def fill_logits(
    kept: Floats, predictor: Predictor, log: InteractionLog, rows: Rows, progress: Progress = silent
) -> None:
    """The logits of `rows`, but for those that are known."""
    missing = rows[np.isnan(kept[rows])]
    done = 0
    for block in row_blocks(missing, BLOCK):
        kept[block] = predictor.logits_of_rows(log, block)
        done += len(block)
        progress("basis logits", done, len(missing), "rows")


def _open(path: Path, rows: int) -> Floats:
    """The file, full of "not a number" at first: written out, for a hole in a file may find no room later."""
    if not path.exists():
        with atomic_path(path) as aside, ColumnWriter(aside, np.float32) as column:
            for start in range(0, rows, BLOCK):
                column.add(np.full(min(BLOCK, rows - start), np.nan, dtype=np.float32))
    return np.asarray(np.lib.format.open_memmap(path, mode="r+"))
