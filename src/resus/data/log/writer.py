"""Writes the folder of an InteractionLog block by block, so that a log may be larger than memory."""

import contextlib
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from resus.arrays import Array, Integers
from resus.data.fields.feature_map import FeatureMap
from resus.data.log.column_files import ColumnReader, ColumnWriter, row_blocks
from resus.data.log.manifest import MANIFEST, Counts, Manifest
from resus.data.options import BuildOptions
from resus.data.schema import TableSchema
from resus.errors import DataError

USERS = "users.arrow"
FEATURES = "features.json"
COLUMNS: dict[str, npt.DTypeLike] = {
    "ids": np.int32,
    "labels": np.float32,
    "weights": np.float32,
    "truth": np.float32,
    "crowd": np.float32,
}
NO_EVENT = "the log has no event: check the filters and the input file"


def column_file(name: str) -> str:
    return f"{name}.npy"


class ContentHash:
    """One hash of everything a model could see: features, ids, weights, labels and offsets, in this order."""

    def __init__(self, features: dict[str, Any]) -> None:
        self._digest = hashlib.sha256(json.dumps(features, sort_keys=True).encode())

    def add(self, blocks: Iterable[Array]) -> None:
        for block in blocks:
            self._digest.update(np.ascontiguousarray(block).data)

    def finish(self, ordered: bool) -> str:
        self._digest.update(str(ordered).encode())
        return self._digest.hexdigest()


class LogWriter:
    """Takes the rows in the order of the log, then their users. `folder` is a log as soon as `finish` returns."""

    def __init__(self, folder: Path, features: FeatureMap, *, ordered: bool) -> None:
        self._folder = folder
        self._features = features
        self._ordered = ordered
        self._columns: dict[str, ColumnWriter] = {}
        self._open = contextlib.ExitStack()
        self._json = features.to_json()
        self._hash = ContentHash(self._json)
        self._positives = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self._open.close()

    def add(self, columns: dict[str, Array]) -> None:
        """The next rows: `ids` and `labels`, and the same other columns every time."""
        if not self._columns:
            self._columns = {name: self._new_column(name, block) for name, block in columns.items()}
        assert columns.keys() == self._columns.keys()
        for name, block in columns.items():
            self._columns[name].add(block)
        self._hash.add([columns["ids"]])
        self._positives += int(np.count_nonzero(columns["labels"]))

    def finish(self, user_ids: pa.Array, offsets: Integers, manifest: Manifest) -> None:
        """Write the users, the features and the manifest."""
        self._open.close()
        if not self._columns:
            raise DataError(NO_EVENT)
        assert {column.rows for column in self._columns.values()} == {int(offsets[-1])}
        users = pa.table({"user": user_ids, "first_row": pa.array(offsets[:-1])})
        with pa.OSFile(str(self._folder / USERS), "wb") as sink, pa.ipc.new_file(sink, users.schema) as writer:
            writer.write_table(users.combine_chunks())
        written = manifest.model_copy(
            update={
                "hash": self._content_hash(offsets),
                "counts": self._counts(len(user_ids)),
                "columns": tuple(self._columns),
                "ordered": self._ordered,
            }
        )
        texts = {FEATURES: json.dumps(self._json, ensure_ascii=False), MANIFEST: written.model_dump_json(indent=2)}
        for name, text in texts.items():
            (self._folder / name).write_text(text, encoding="utf-8")

    def _new_column(self, name: str, block: Array) -> ColumnWriter:
        width = block.shape[1] if block.ndim == 2 else None
        return self._open.enter_context(ColumnWriter(self._folder / column_file(name), COLUMNS[name], width))

    def _content_hash(self, offsets: Integers) -> str:
        for name in ("weights", "labels"):  # hashed after all ids, so read again
            if name in self._columns:
                with ColumnReader(self._folder / column_file(name), COLUMNS[name]) as reader:
                    self._hash.add(reader.blocks())
        self._hash.add(row_blocks(offsets))
        return self._hash.finish(self._ordered)

    def _counts(self, users: int) -> Counts:
        fields = self._features.fields
        return Counts(
            rows=self._columns["ids"].rows,
            users=users,
            items=next((len(field.values) for field in fields if field.name == self._features.item), None),
            positives=self._positives,
            ids=self._features.n_ids,
            fields={field.name: len(field.values) or field.kind for field in fields},
        )


@dataclass(frozen=True)
class LogRows:
    """A log whose rows are not in memory: they come in blocks, in the order of the log."""

    name: str
    schema: TableSchema
    options: BuildOptions
    features: FeatureMap
    user_ids: pa.Array
    offsets: Integers
    blocks: Iterable[dict[str, Array]]

    def write(self, folder: Path, manifest: Manifest) -> None:
        """Write the folder of the log."""
        with LogWriter(folder, self.features, ordered=self.schema.time is not None) as writer:
            for columns in self.blocks:
                writer.add(columns)
            writer.finish(self.user_ids, self.offsets, manifest)
