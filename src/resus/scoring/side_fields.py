"""Fields of users and items that tables to score leave out: they come from the side tables of the schema."""

from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from resus.data.problems import Place, refuse
from resus.data.readers.side_tables import SideMatch, SideRows, read_sides, side_files
from resus.data.schema import SideTable, TableSchema
from resus.errors import ConfigError, DataError
from resus.wording import option

ROLES = ("users", "items")


class SideFields:
    """Completes tables. A side table is read once, and only if a table lacks one of its fields."""

    def __init__(self, schema: TableSchema) -> None:
        self._schema = schema
        self._read: dict[str, SideRows] = {}

    @property
    def names(self) -> list[str]:
        return [*self._schema.of_user, *self._schema.of_item]

    def files(self) -> list[Path]:
        """All files of the side tables that exist."""
        return [file for file in side_files(self._schema) if file.is_file()]

    def of(self, table: pl.DataFrame, where: str) -> pl.DataFrame:
        """The table with the fields that it lacks. A column of its own stays as it is."""
        for side, names in self._lacking(table.columns, where):
            rows = side.rows_of(table[side.column])
            table = table.with_columns(side.fields_of(rows, names))
        return table

    def check(self, columns: Collection[str], keys: Iterable[pl.DataFrame], where: str) -> list[str]:
        """What to know about users and items without a row; DataError if one of their fields must not be missing.

        `keys` are blocks of a table with these columns, of which only the user and the item are read.
        """
        matches = [SideMatch(side) for side, _ in self._lacking(columns, where)]
        done = 0
        for frame in keys if matches else ():
            for match in matches:
                own = frame[match.side.column]
                match.add(own, None, match.side.rows_of(own), _place(where, done))
            done += frame.height
        refuse([problem for match in matches for problem in match.problems()])
        counts = ((match.side.noun, match.counts.model_copy(update={"unused": 0})) for match in matches)
        return [said for noun, each in counts if (said := each.sentence(noun, f"rows of {where}"))]

    def _lacking(self, columns: Collection[str], where: str) -> list[tuple[SideRows, list[str]]]:
        """The side tables of which a table lacks fields, and these fields."""
        found = []
        fields = (self._schema.of_user, self._schema.of_item)
        for role, key, names in zip(ROLES, (self._schema.user, self._schema.item), fields, strict=True):
            lacking = [name for name in names if name not in columns]
            if lacking and key in columns:  # without its key, the table is refused by what it lacks
                found.append((self._rows(role, lacking[0], where), lacking))
        return found

    def _rows(self, role: str, lacking: str, where: str) -> SideRows:
        if role not in self._read:
            side: SideTable = getattr(self._schema, role)
            fix = f"name a file with {option(role)}, or add the column to {where}"
            if side.frame is None and not side.path:
                raise DataError(f"{where} has no column '{lacking}', and the model knows no table of {role}: {fix}")
            alone = self._schema.model_copy(update={other: None for other in ROLES if other != role})
            rows, problems = read_sides(alone)
            if side.frame is None and not any(file.is_file() for file in side_files(alone)):
                raise DataError(
                    f"{where} has no column '{lacking}', and there is no table of {role} at {side.path}: {fix}"
                )
            refuse(problems)
            self._read[role] = replace(rows[0], may_match_nothing=True)
        return self._read[role]


def with_tables(schema: TableSchema, **tables: Any) -> TableSchema:
    """The schema with other tables of `users` or `items`, if any are given: paths or frames."""
    found = {}
    for role, table in tables.items():
        side: SideTable | None = getattr(schema, role)
        if table is None:
            continue
        if side is None:
            raise ConfigError(f"the schema of the model has no table of {role}: leave out {option(role)}")
        is_file = isinstance(table, str | Path)
        found[role] = side.model_copy(update={"path": str(table), "frame": None} if is_file else {"frame": table})
    return schema.model_copy(update=found)


def _place(where: str, first: int) -> Place:
    return lambda row: (where, first + row + 1)
