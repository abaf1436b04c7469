"""A log as another feature map reads it, such as that of a model which was trained on an earlier log."""

import tempfile
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from resus.arrays import Array
from resus.data.fields.base import Encoded
from resus.data.fields.feature_map import FeatureMap
from resus.data.log.column_files import BLOCK_ROWS
from resus.data.log.log import InteractionLog


def recoded(log: InteractionLog, features: FeatureMap) -> InteractionLog:
    """The same events with the ids of `features`; a value that it does not know has the id of unknown values.

    The columns are mapped from files without a name, which the system deletes when nobody reads them any more. The hash
    stays that of the log on disk.
    """
    if log.features == features:
        return log
    features.check_readable(log.features, f"the log '{log.name}'")
    ids = _Nameless(features.n_columns, np.dtype(np.int32))
    weights = _Nameless(features.n_columns, np.dtype(np.float32)) if features.weighted else None
    for own_ids, own_weights in _blocks(log, features):
        ids.add(own_ids)
        if weights is not None and own_weights is not None:
            weights.add(own_weights)
    return replace(
        log,
        features=features,
        ids=ids.mapped(),
        weights=weights.mapped() if weights is not None else None,
        manifest=log.manifest.model_copy(update={"hash": log.content_hash}),
    )


def _blocks(log: InteractionLog, features: FeatureMap) -> Iterator[Encoded]:
    recode = features.recoder(log.features)
    for start in range(0, log.n_rows, BLOCK_ROWS):
        rows = slice(start, start + BLOCK_ROWS)
        weights = None if log.weights is None else np.asarray(log.weights[rows])
        yield recode(np.asarray(log.ids[rows]), weights)


class _Nameless:
    """A column `[N, width]` in a temporary file. It is written, not mapped, so that a full disk is an error."""

    def __init__(self, width: int, dtype: np.dtype[np.generic]) -> None:
        self._width, self._dtype, self._rows = width, dtype, 0
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  # lives as long as its map

    def add(self, block: Array) -> None:
        self._file.write(np.ascontiguousarray(block).data)
        self._rows += len(block)

    def mapped(self) -> Array:
        self._file.flush()
        with self._file:
            return np.asarray(np.memmap(self._file, self._dtype, mode="r", shape=(self._rows, self._width)))
