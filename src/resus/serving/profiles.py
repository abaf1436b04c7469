"""Profiles: the fields that describe a user, such as age and country, so that a request need not carry them.

The file of an export holds the profiles of the users of its log, by user id: share it only where you may share the log.
"""

import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
import pyarrow as pa
from pydantic import BaseModel, ConfigDict

from resus.arrays import Floats, Ids, Integers
from resus.arrow_files import lists_of, matrix_of, read_arrow
from resus.checked_folder import CheckedFolder
from resus.data.fields.feature_map import Block, FeatureMap
from resus.data.log.log import InteractionLog
from resus.data.log.user_fields import user_fields
from resus.errors import ArtifactError
from resus.files import atomic_path
from resus.serving.catalogue import Catalogue, check_ids

PROFILES = "profiles.arrow"
NO_PROFILE: Mapping[str, Any] = {}


class ProfileFacts(BaseModel):
    """What the file says besides its table."""

    model_config = ConfigDict(frozen=True)

    format: Literal[1]
    fields: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Profiles:
    """The profiles of the users of a log, sorted by the bytes of their ids."""

    fields: tuple[str, ...]
    blocks: tuple[Block, ...]  # of these fields, with their columns in `ids` and `weights`
    users: pa.Array
    ids: Ids  # [n_users, columns of the fields]
    weights: Floats | None

    @classmethod
    def of(cls, log: InteractionLog, users: Integers, catalogue: Catalogue) -> "Profiles":
        """The fields that describe a user as `users` of the log show them, in each user's last event."""
        names = [log.features.fields[number].name for number in user_fields(log, users)]
        fields = tuple(name for name in names if name not in catalogue.fields)
        columns = _columns(log.features, fields)
        order = pl.Series(log.user_ids).arg_sort().to_numpy()
        last = log.offsets[1:][order] - 1
        return cls(
            fields=fields,
            blocks=_blocks(log.features, fields),
            users=log.user_ids.take(pa.array(order)).cast(pa.large_string()),
            ids=np.ascontiguousarray(log.ids[last][:, columns]),
            weights=None if log.weights is None else np.ascontiguousarray(log.weights[last][:, columns]),
        )

    def __len__(self) -> int:
        return len(self.users)

    def of_user(self, user: str) -> dict[str, Any]:
        """The fields of a user that have a known value; none for an unknown user."""
        place = self._keys.place_of(user)
        if place is None:
            return {}
        weights = None if self.weights is None else self.weights[place]
        decoded = {block.field.name: block.field.decode(*block.of(self.ids[place], weights)) for block in self.blocks}
        return {name: value for name, value in decoded.items() if value is not None and value != []}

    @cached_property
    def _keys(self) -> "Keys":
        return Keys(self.users)

    def save(self, folder: Path) -> None:
        """Write one Arrow file, whole or not at all. `write_facts` must then list it."""
        columns = {"user": self.users, "ids": lists_of(self.ids)}
        if self.weights is not None:
            columns["weights"] = lists_of(self.weights)
        facts = ProfileFacts(format=1, fields=self.fields)
        table = pa.table(columns).replace_schema_metadata({"resus": facts.model_dump_json()})
        with (
            atomic_path(folder / PROFILES) as aside,
            pa.OSFile(str(aside), "wb") as sink,
            pa.ipc.new_file(sink, table.schema) as writer,
        ):
            writer.write_table(table)

    @classmethod
    def load(cls, folder: CheckedFolder, features: FeatureMap) -> "Profiles":
        """The profiles of a folder, if they fit the features of the model."""
        path, content = folder.path / PROFILES, folder.read(PROFILES)
        try:
            table = read_arrow(content).combine_chunks()
            facts = ProfileFacts.model_validate_json((table.schema.metadata or {})[b"resus"])
            if not {field.name for field in features.fields}.issuperset(facts.fields):
                raise ValueError("its fields are not those of the model")
            width = len(_columns(features, facts.fields))
            _check_table(table, width, weighted=features.weighted)
            read = cls(
                fields=facts.fields,
                blocks=_blocks(features, facts.fields),
                users=table["user"].combine_chunks(),
                ids=matrix_of(table["ids"], width),
                weights=matrix_of(table["weights"], width) if features.weighted else None,
            )
            check_ids(read.ids, read.blocks)
        except (pa.ArrowException, OSError, KeyError, ValueError) as error:
            reason = str(error).partition("\n")[0]
            raise ArtifactError(
                f"{path} is not a complete file of profiles ({reason}): make it again with 'resus export'"
            ) from None
        return read


def described(row: Mapping[str, Any], profile: Mapping[str, Any]) -> Mapping[str, Any]:
    """The row with the fields of a profile that it leaves out."""
    missing = {name: value for name, value in profile.items() if row.get(name) is None}
    return {**row, **missing} if missing else row


class Keys(Sequence[bytes]):
    """Sorted texts of Arrow as bytes, to search in without an object for each."""

    def __init__(self, texts: pa.Array) -> None:
        _, offsets, data = texts.buffers()
        self._offsets = np.frombuffer(offsets, dtype=np.int64)[texts.offset :][: len(texts) + 1]
        self._data = memoryview(data) if data else memoryview(b"")

    def place_of(self, text: str) -> int | None:
        wanted = text.encode()
        place = bisect.bisect_left(self, wanted)
        return place if place < len(self) and self[place] == wanted else None

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, place: Any) -> Any:
        return self._data[self._offsets[place] : self._offsets[place + 1]].tobytes()


def _blocks(features: FeatureMap, fields: Sequence[str]) -> tuple[Block, ...]:
    """The blocks of some fields, as if there were no other columns."""
    blocks, column = [], 0
    for name in fields:
        block = features.block(name)
        blocks.append(block._replace(columns=slice(column, column + block.field.columns)))
        column += block.field.columns
    return tuple(blocks)


def _columns(features: FeatureMap, fields: Sequence[str]) -> list[int]:
    """The columns of some fields in an encoded row."""
    spans = (features.block(name).columns for name in fields)
    return [column for span in spans for column in range(span.start, span.stop)]


def _check_table(table: pa.Table, width: int, *, weighted: bool) -> None:
    kinds = {"user": pa.large_string(), "ids": pa.list_(pa.int32(), width)}
    if weighted:
        kinds["weights"] = pa.list_(pa.float32(), width)
    if dict(zip(table.schema.names, table.schema.types, strict=True)) != kinds:
        raise ValueError("its columns are not those of the model")
    if any(table[name].null_count for name in kinds):
        raise ValueError("a value is missing")
    users = pl.Series(table["user"])
    if len(users) > 1 and not bool((users[1:] > users[:-1]).all()):
        raise ValueError("its users are not in order")
    if weighted and table.num_rows and not np.isfinite(matrix_of(table["weights"], width)).all():
        raise ValueError("a number is not finite")
