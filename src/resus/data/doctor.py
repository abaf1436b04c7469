"""What is wrong with an input, all of it at once."""

from pathlib import Path

from resus.data.options import PrepareOptions
from resus.data.problems import Problem
from resus.data.schema import TableSchema
from resus.data.sources import source_at


def diagnose(path: Path, schema: TableSchema | None = None) -> list[Problem]:
    """Every problem of a file or folder; an empty list means that `prepare` will take it."""
    source = source_at(path, schema)
    if isinstance(source, Problem):
        return [source]
    table = source.read(PrepareOptions())
    return table.check(table.defaults)
