"""A log that is known but for its rows, which come in blocks."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from resus.data.build import BuildOptions
from resus.data.fields.feature_map import FeatureMap
from resus.data.log.column_files import Column
from resus.data.log.writer import LogWriter
from resus.data.schema import TableSchema


@dataclass(frozen=True)
class LogRows:
    """What a log is called and how it came about, its features, its users, and its rows in their order."""

    name: str
    schema: TableSchema
    options: BuildOptions
    features: FeatureMap
    user_ids: pa.Array
    offsets: npt.NDArray[np.int64]
    blocks: Iterable[dict[str, Column]]

    def write(self, folder: Path, facts: dict[str, Any]) -> None:
        """Write the log's folder; `facts` go to its manifest."""
        own = {"name": self.name, "options": self.options.model_dump(), "schema": self.schema.model_dump()}
        with LogWriter(folder, self.features, ordered=self.schema.time is not None) as writer:
            for columns in self.blocks:
                writer.add(columns)
            writer.finish(self.user_ids, self.offsets, own | facts)
