"""Writes the folder of an InteractionLog block by block, so that a log may be larger than memory."""

import contextlib
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from resus.arrays import Array, Integers
from resus.data.fields.feature_map import FeatureMap
from resus.data.log.column_files import ColumnReader, ColumnWriter, row_blocks
from resus.data.log.manifest import MANIFEST, Counts, Manifest
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


@dataclass(frozen=True)
class LogRows:
    """A log whose rows come in blocks, in the order of the log, so that they need not be in memory together.

    A block has the columns `ids` and `labels`, and the same other columns every time.
    """

    manifest: Manifest
    features: FeatureMap
    user_ids: pa.Array
    offsets: Integers
    ordered: bool
    blocks: Iterable[dict[str, Array]]

    def write(self, folder: Path) -> None:
        """Write the folder of the log."""
        content, positives = ContentHash(self.features.to_json()), 0
        columns: dict[str, ColumnWriter] = {}
        with contextlib.ExitStack() as opened:
            for block in self.blocks:
                for name, part in block.items():
                    if name not in columns:
                        width = part.shape[1] if part.ndim == 2 else None
                        column = ColumnWriter(folder / column_file(name), COLUMNS[name], width)
                        columns[name] = opened.enter_context(column)
                    columns[name].add(part)
                content.add([block["ids"]])
                positives += int(np.count_nonzero(block["labels"]))
        if not columns:
            raise DataError(NO_EVENT)
        assert {column.rows for column in columns.values()} == {int(self.offsets[-1])}
        for name in ("weights", "labels"):  # hashed after all ids, so read again
            if name in columns:
                with ColumnReader(folder / column_file(name), COLUMNS[name]) as reader:
                    content.add(reader.blocks())
        content.add(row_blocks(self.offsets))
        found = {"hash": content.finish(self.ordered), "counts": self._counts(positives)}
        manifest = self.manifest.model_copy(update=found | {"columns": tuple(columns), "ordered": self.ordered})
        users = pa.table({"user": self.user_ids, "first_row": pa.array(self.offsets[:-1])})
        with pa.OSFile(str(folder / USERS), "wb") as sink, pa.ipc.new_file(sink, users.schema) as writer:
            writer.write_table(users.combine_chunks())
        features = json.dumps(self.features.to_json(), ensure_ascii=False)
        (folder / FEATURES).write_text(features, encoding="utf-8")
        (folder / MANIFEST).write_text(manifest.model_dump_json(indent=2), encoding="utf-8")

    def _counts(self, positives: int) -> Counts:
        fields = self.features.fields
        return Counts(
            rows=int(self.offsets[-1]),
            users=len(self.user_ids),
            items=next((len(field.values) for field in fields if field.name == self.features.item), None),
            positives=positives,
            ids=self.features.n_ids,
            fields={field.name: len(field.values) or field.kind for field in fields},
        )
