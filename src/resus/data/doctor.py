"""All problems of an input at once."""

import tempfile
from pathlib import Path
from typing import NamedTuple

from resus.data.options import PrepareOptions
from resus.data.problems import Problem
from resus.data.schema import TableSchema
from resus.data.sources import source_at
from resus.data.stream.blocks import Events
from resus.data.stream.log import sort_events
from resus.progress import silent


class Diagnosis(NamedTuple):
    """The problems of an input, and what is no mistake but good to know."""

    problems: list[Problem]
    notices: list[str]


def diagnose(path: Path, schema: TableSchema | None = None, options: PrepareOptions | None = None) -> list[Problem]:
    """Every problem of a file or folder; an empty list means that `prepare` takes it with the same options."""
    return examine(path, schema, options).problems


def examine(path: Path, schema: TableSchema | None = None, options: PrepareOptions | None = None) -> Diagnosis:
    """The same, with notices."""
    options = options or PrepareOptions()
    source = source_at(path, schema)
    if isinstance(source, Problem):
        return Diagnosis([source], [])
    events = source.events(options) if source.events else None
    if events is not None:
        return _streamed(events, options)
    table = source.read(options)
    return Diagnosis(table.check(options.build_options(table.defaults)), table.notices)


def _streamed(events: Events, options: PrepareOptions) -> Diagnosis:
    with tempfile.TemporaryDirectory(prefix="resus-") as folder:
        found = sort_events(events, options.build_options(events.defaults), Path(folder), silent)
    return Diagnosis(found.problems, found.notices)
