"""All problems of an input at once."""

from pathlib import Path

from resus.data.options import PrepareOptions
from resus.data.problems import Problem
from resus.data.schema import TableSchema
from resus.data.sources import source_at


def diagnose(path: Path, schema: TableSchema | None = None, options: PrepareOptions | None = None) -> list[Problem]:
    """Every problem of a file or folder; an empty list means that `prepare` takes it with the same options."""
    options = options or PrepareOptions()
    source = source_at(path, schema)
    if isinstance(source, Problem):
        return [source]
    if source.sound is not None and source.sound(options):
        return []
    table = source.read(options)
    return table.check(options.build_options(table.defaults))
