"""InteractionLog: every event of every user, columnar, memory-mapped, sorted by user and then by order of events."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa

from resus.arrays import Array, Floats, Ids, Integers
from resus.arrow_files import read_arrow
from resus.data.fields.feature_map import FeatureMap
from resus.data.log.column_files import map_column, row_blocks
from resus.data.log.manifest import MANIFEST, Manifest
from resus.data.log.writer import COLUMNS, FEATURES, NO_EVENT, USERS, ContentHash, LogRows, column_file
from resus.errors import ArtifactError, ConfigError, DataError
from resus.files import atomic_folder, check_regular, read_json

__all__ = ["FEATURES", "MANIFEST", "USERS", "InteractionLog", "check_log_folder"]

_TEXT = (pa.string(), pa.large_string(), pa.string_view())
PARTS = {MANIFEST, USERS, FEATURES, *map(column_file, COLUMNS)}


@dataclass(frozen=True, eq=False, repr=False)
class InteractionLog:
    """Rows `offsets[u]:offsets[u + 1]` are user `u`'s events, oldest first where `ordered`.

    In a planted world, `truth` is the click probability if one knows the user, and `crowd` if one does not.
    """

    features: FeatureMap
    ids: Ids  # [N, C]
    weights: Floats | None  # [N, C], or None where all are 1
    labels: Floats  # [N] in {0, 1}
    offsets: Integers  # [U + 1]
    user_ids: pa.Array  # [U] text
    ordered: bool
    truth: Floats | None = None
    crowd: Floats | None = None
    manifest: Manifest = field(default_factory=Manifest)

    def __post_init__(self) -> None:
        if len(self.labels) == 0:
            raise DataError(NO_EVENT)
        assert self.ids.shape == (self.n_rows, self.features.n_columns)
        assert self.offsets[0] == 0
        assert self.offsets[-1] == self.n_rows
        assert bool((np.diff(self.offsets) > 0).all()), "every user has at least one row"

    def __repr__(self) -> str:
        return f"<InteractionLog '{self.name}': {self.n_rows:,} events of {self.n_users:,} users>"

    @property
    def n_rows(self) -> int:
        return len(self.labels)

    @property
    def n_users(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> Integers:
        """Events per user."""
        return np.diff(self.offsets)

    @property
    def name(self) -> str:
        return self.manifest.name

    @property
    def data_set(self) -> str:
        """The name of the data set in the registry, or `planted`; empty for a table of the user's own."""
        return self.manifest.data_set

    @cached_property
    def content_hash(self) -> str:
        """One hash of everything a model could see, to tell two logs apart."""
        return self.manifest.hash or self._hash()

    def rows_of(self, users: Integers) -> Integers:
        """Row numbers of the given users, user by user."""
        lengths = self.lengths[users]
        starts = np.repeat(self.offsets[users] - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths)
        return starts + np.arange(lengths.sum())

    def owners_of(self, rows: Integers) -> Integers:
        """The user of each of the given rows."""
        return np.searchsorted(self.offsets, rows, side="right") - 1

    def with_facts(self, **facts: Any) -> "InteractionLog":
        """The same log with other facts in its manifest."""
        return replace(self, manifest=self.manifest.model_copy(update=facts))

    def save(self, folder: Path | str, **facts: Any) -> "InteractionLog":
        """Write the log as a folder, whole or not at all, and open it memory-mapped. `facts` go to its manifest."""
        folder = Path(folder)
        check_log_folder(folder, self.name)
        manifest = self.manifest.model_copy(update=facts)
        rows = LogRows(manifest, self.features, self.user_ids, self.offsets, self.ordered, self._blocks())
        with atomic_folder(folder) as aside:
            rows.write(aside)
        return InteractionLog.open(folder)

    @classmethod
    def open(cls, folder: Path | str) -> Self:
        """Memory-map a prepared log."""
        folder = Path(folder)
        manifest = Manifest.read(folder)
        try:
            return cls._of_parts(folder, manifest)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, AssertionError, pa.ArrowException) as error:
            raise ArtifactError(
                f"{folder} is a damaged prepared log ({str(error) or 'its parts do not fit together'}): "
                "prepare the data again with 'resus prepare'"
            ) from None

    @classmethod
    def _of_parts(cls, folder: Path, manifest: Manifest) -> Self:
        if manifest.counts is None or manifest.ordered is None:
            raise ValueError(f"{MANIFEST} is not complete")
        rows = manifest.counts.rows
        columns = {name: map_column(folder / column_file(name), COLUMNS[name]) for name in manifest.columns}
        for name, column in columns.items():
            if len(column) != rows:
                raise ValueError(f"{column_file(name)} has {len(column)} rows, not {rows}")
        check_regular(folder / USERS)
        users = read_arrow(pa.memory_map(str(folder / USERS)).read_buffer())
        kinds = dict(zip(users.schema.names, users.schema.types, strict=True))
        if kinds.pop("user", None) not in _TEXT or kinds != {"first_row": pa.int64()}:
            raise ValueError(f"{USERS} has other columns than a log")
        features = FeatureMap.from_json(read_json(folder / FEATURES))
        if (users.num_rows, features.n_ids) != (manifest.counts.users, manifest.counts.ids):
            raise ValueError(f"{USERS} or {FEATURES} belongs to another log")
        return cls(
            features=features,
            ids=columns["ids"],
            weights=columns.get("weights"),
            labels=columns["labels"],
            offsets=np.append(_whole(users["first_row"]).to_numpy(), rows).astype(np.int64),
            user_ids=_whole(users["user"]),
            ordered=manifest.ordered,
            truth=columns.get("truth"),
            crowd=columns.get("crowd"),
            manifest=manifest,
        )

    def check_content(self, folder: Path) -> None:
        """Read all rows, and refuse a log of which a byte changed after it was written."""
        if self._hash() != self.manifest.hash:
            raise ArtifactError(
                f"{folder} is a damaged prepared log (its rows changed after they were written): prepare the data "
                "again with 'resus prepare'"
            )

    def _blocks(self) -> Iterator[dict[str, Array]]:
        """Some rows of all columns at a time."""
        columns = {name: getattr(self, name) for name in COLUMNS if getattr(self, name) is not None}
        for parts in zip(*map(row_blocks, columns.values()), strict=True):
            yield dict(zip(columns, parts, strict=True))

    def _hash(self) -> str:
        content = ContentHash(self.features.to_json())
        for column in (self.ids, self.weights, self.labels, self.offsets):
            if column is not None:
                content.add(row_blocks(column))
        return content.finish(self.ordered)


def check_log_folder(folder: Path, name: str | None = None) -> None:
    """A log may be replaced by a log of the same name. Refuse to replace anything else."""
    if folder.is_file():
        raise ConfigError(f"{folder} is a file: choose a folder for the result")
    foreign = {path.name for path in folder.iterdir()} - PARTS if folder.is_dir() else set()
    if foreign:
        raise ConfigError(
            f"{folder} holds {min(foreign)}, which is not part of a log: choose another place for the result"
        )
    held = Manifest.found(folder)
    if name is not None and held is not None and held.name != name:
        raise ConfigError(f"{folder} holds the log '{held.name}': choose another place, or delete it first")


def _whole(column: pa.ChunkedArray) -> pa.Array:
    """One array; `combine_chunks` copies even a single chunk out of the memory map."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
