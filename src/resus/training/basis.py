"""Ψ's logits of the rows that meta-training reads: computed once and kept in a file, not in memory."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from resus.data.log import InteractionLog
from resus.episodes.tensors import Rows
from resus.files import atomic_path
from resus.predictors.neural import Predictor, logits_of_rows
from resus.progress import Progress, silent

Floats = npt.NDArray[np.float32]
BLOCK = 1 << 16


def keep_logits(
    predictor: Predictor, log: InteractionLog, rows: Rows, path: Path | None, progress: Progress = silent
) -> Floats:
    """One logit per row of the log, not a number where it is not among `rows`.

    With a `path` they are a memory-mapped file; what a killed run wrote of it is not computed again.
    """
    kept = _open(path, log.n_rows) if path else np.full(log.n_rows, np.nan, dtype=np.float32)
    missing = rows[np.isnan(kept[rows])]
    for block in _blocks(missing):
        kept[missing[block]] = logits_of_rows(predictor, log, missing[block])
        progress("basis logits", block.stop, len(missing), "rows")
    return kept


def _open(path: Path, rows: int) -> Floats:
    """The file, full of "not a number" at first: written out, for a hole in a file may find no room later."""
    if not path.exists():
        unknown = np.full(BLOCK, np.nan, dtype=np.float32)
        header = {"descr": npy.dtype_to_descr(unknown.dtype), "fortran_order": False, "shape": (rows,)}
        with atomic_path(path) as aside, aside.open("wb") as stream:
            npy.write_array_header_1_0(stream, header)
            for block in _blocks(range(rows)):
                stream.write(unknown[: block.stop - block.start].tobytes())
    return np.asarray(npy.open_memmap(path, mode="r+"))


def _blocks(rows: Rows | range) -> Iterator[slice]:
    for start in range(0, len(rows), BLOCK):
        yield slice(start, min(start + BLOCK, len(rows)))
