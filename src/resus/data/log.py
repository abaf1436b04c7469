"""InteractionLog: every event of every user, columnar, memory-mapped, sorted by user and then by order of events."""

import hashlib
import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from resus.data.features import FeatureMap, Ids, Weights
from resus.errors import ArtifactError, ConfigError, DataError
from resus.files import atomic_folder, read_json

FORMAT = 1
MANIFEST = "manifest.json"
EVENTS = "events.arrow"
USERS = "users.arrow"
FEATURES = "features.json"

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class InteractionLog:
    """Rows `offsets[u]:offsets[u + 1]` are user `u`'s events, oldest first where `ordered`.

    `truth` and `crowd` are the click probabilities of a planted world, given and not given who the user is.
    """

    features: FeatureMap
    ids: Ids  # [N, C]
    weights: Weights | None  # [N, C], or None where all are 1
    labels: Floats  # [N] in {0, 1}
    offsets: Integers  # [U + 1]
    user_ids: pa.Array  # [U] text
    ordered: bool
    truth: Floats | None = None
    crowd: Floats | None = None
    manifest: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.labels) == 0:
            raise DataError("the log has no event: check the filters and the input file")
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
        return str(self.manifest.get("name", "log"))

    @property
    def data_set(self) -> str:
        """The published data set or `planted` that this is a log of; empty for a table of one's own."""
        return str(self.manifest.get("data_set", ""))

    @cached_property
    def content_hash(self) -> str:
        """One hash of everything a model could see, to tell two logs apart."""
        return str(self.manifest.get("hash") or self._hash())

    def rows_of(self, users: npt.NDArray[np.int64]) -> Integers:
        """Row numbers of the given users, user by user."""
        lengths = self.lengths[users]
        starts = np.repeat(self.offsets[users] - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths)
        return starts + np.arange(lengths.sum())

    def save(self, folder: Path, **facts: Any) -> "InteractionLog":
        """Write the log as a folder, whole or not at all, and open it memory-mapped."""
        refuse_foreign(folder)
        if (folder / MANIFEST).is_file() and _name_in(folder) not in (None, self.name):
            raise ConfigError(f"{folder} holds the log '{_name_in(folder)}': choose another place, or delete it first")
        manifest = {"format": FORMAT, **self.manifest, **facts, "hash": self._hash(), "counts": self._counts()}
        manifest["ordered"] = self.ordered
        columns: dict[str, pa.Array] = {"label": pa.array(self.labels), "ids": _matrix(self.ids)}
        for name, column in (("weights", self.weights), ("truth", self.truth), ("crowd", self.crowd)):
            if column is not None:
                columns[name] = _matrix(column) if column.ndim == 2 else pa.array(column)
        users = pa.table({"user": self.user_ids, "first_row": pa.array(self.offsets[:-1])})
        with atomic_folder(folder) as aside:
            _write_arrow(aside / EVENTS, pa.table(columns))
            _write_arrow(aside / USERS, users)
            (aside / FEATURES).write_text(json.dumps(self.features.to_json(), ensure_ascii=False), encoding="utf-8")
            (aside / MANIFEST).write_text(json.dumps(manifest, indent=2, ensure_ascii=False), encoding="utf-8")
        return InteractionLog.open(folder)

    @classmethod
    def open(cls, folder: Path | str) -> Self:
        """Memory-map a prepared log."""
        folder = Path(folder)
        if not (folder / MANIFEST).is_file():
            raise ArtifactError(f"{folder} is not a prepared log (no {MANIFEST}): make one with 'resus prepare'")
        manifest = read_json(folder / MANIFEST)
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT or "counts" not in manifest:
            raise ArtifactError(
                f"{folder / MANIFEST} is of another format than {FORMAT}: prepare the data again with this version"
            )
        try:
            return cls._of_parts(folder, manifest)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, AssertionError, pa.ArrowException) as error:
            raise ArtifactError(
                f"{folder} is a damaged prepared log ({str(error) or 'its parts do not fit together'}): "
                "prepare the data again with 'resus prepare'"
            ) from None

    @classmethod
    def _of_parts(cls, folder: Path, manifest: dict[str, Any]) -> Self:
        events, users = _read_arrow(folder / EVENTS), _read_arrow(folder / USERS)
        rows = manifest["counts"]["rows"]
        if events.num_rows != rows:
            raise ValueError(f"{EVENTS} has {events.num_rows} rows, not {rows}")
        return cls(
            features=FeatureMap.from_json(read_json(folder / FEATURES)),
            ids=_as_matrix(events["ids"]),
            weights=_as_matrix(events["weights"]) if "weights" in events.column_names else None,
            labels=_as_vector(events["label"]),
            offsets=np.append(_as_vector(users["first_row"]), rows).astype(np.int64),
            user_ids=_whole(users["user"]),
            ordered=bool(manifest["ordered"]),
            truth=_as_vector(events["truth"]) if "truth" in events.column_names else None,
            crowd=_as_vector(events["crowd"]) if "crowd" in events.column_names else None,
            manifest=manifest,
        )

    def _counts(self) -> dict[str, Any]:
        item = next((f for f in self.features.fields if f.name == self.features.item), None)
        return {
            "rows": self.n_rows,
            "users": self.n_users,
            "items": len(item.vocabulary) if item else None,
            "positives": int(self.labels.sum()),
            "ids": self.features.n_ids,
            "fields": {f.name: f.ids - 1 if f.kind != "numeric" else "numeric" for f in self.features.fields},
        }

    def _hash(self) -> str:
        digest = hashlib.sha256(json.dumps(self.features.to_json(), sort_keys=True).encode())
        for column in (self.ids, self.weights, self.labels, self.offsets):
            if column is not None:
                digest.update(np.ascontiguousarray(column).data)
        digest.update(str(self.ordered).encode())
        return digest.hexdigest()


def _name_in(folder: Path) -> str | None:
    """Whose log a folder holds; None where its manifest is damaged."""
    try:
        manifest = read_json(folder / MANIFEST)
    except ArtifactError:
        return None
    return manifest.get("name") if isinstance(manifest, dict) else None


def refuse_foreign(folder: Path) -> None:
    """A prepared log may be replaced; anything else in that place is somebody's work."""
    if folder.is_file():
        raise ConfigError(f"{folder} is a file: choose a folder for the result")
    parts = {MANIFEST, EVENTS, USERS, FEATURES}
    foreign = {path.name for path in folder.iterdir()} - parts if folder.is_dir() else set()
    if foreign:
        raise ConfigError(
            f"{folder} holds {min(foreign)}, which is no part of a log: choose another place for the result"
        )


def _matrix(values: npt.NDArray[Any]) -> pa.FixedSizeListArray:
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(values).reshape(-1)), values.shape[1])


def _write_arrow(path: Path, table: pa.Table) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())


def _read_arrow(path: Path) -> pa.Table:
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()


def _whole(column: pa.ChunkedArray) -> pa.Array:
    """One array; `combine_chunks` copies even a single chunk out of the memory map."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _as_vector(column: pa.ChunkedArray) -> npt.NDArray[Any]:
    values: npt.NDArray[Any] = _whole(column).to_numpy(zero_copy_only=False)
    return values


def _as_matrix(column: pa.ChunkedArray) -> npt.NDArray[Any]:
    lists = _whole(column)
    values: npt.NDArray[Any] = lists.flatten().to_numpy(zero_copy_only=True)
    return values.reshape(len(lists), -1)
