"""From a data set's name or a file to a prepared log on disk. Asking for the same again is instant."""

import hashlib
import json
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from resus.data.build import assemble_log
from resus.data.datasets.base import Source
from resus.data.log.log import InteractionLog, check_log_folder
from resus.data.log.manifest import FORMAT, FileFacts, Manifest
from resus.data.options import BuildOptions, PrepareOptions
from resus.data.problems import refuse
from resus.data.readers.files import unusable_file
from resus.data.readers.tables import ScoreWriter
from resus.data.schema import SchemaLike, TableSchema
from resus.data.sources import find_source
from resus.data.stream.blocks import Events
from resus.data.stream.log import log_rows, sort_events
from resus.errors import ArtifactError, ConfigError
from resus.files import atomic_folder, sha256_of
from resus.progress import Progress, silent

Describe = Callable[[Manifest], Manifest]


def prepare_log(
    source: str,
    out: Path,
    *,
    path: Path | None = None,
    schema: SchemaLike | None = None,
    options: PrepareOptions | None = None,
    progress: Progress | None = None,
    writer: ScoreWriter | None = None,
) -> InteractionLog:
    """What `resus.prepare` does, with a `writer` that adds the scores of a model to the table."""
    options = options or PrepareOptions()
    check_log_folder(out)
    roles = None if schema is None else TableSchema.of(schema)
    found = find_source(source, path, roles, progress, writer)
    options.refuse_unused(found.options, found.name)
    if writer is not None and found.data_set and found.events is not None:
        raise ConfigError(
            f"'{found.name}' is read in blocks, which no model can score: join its files into a table of your own, "
            "and prepare that"
        )
    refuse([problem for file in found.files if (problem := unusable_file(file)) is not None])
    request = _request_key(found, roles, options, writer)
    in_memory = roles is not None and any(side.frame is not None for side in roles.sides.values())
    ready = _ready(out, request) if not in_memory and (writer is None or writer.facts.sha256) else None
    if ready is not None:
        return ready
    with ThreadPoolExecutor(1) as beside:
        files = beside.submit(_facts_of, found.files)

        def described(manifest: Manifest) -> Manifest:
            """The manifest of a log, with where it comes from."""
            assert manifest.table is not None
            assert manifest.options is not None
            build = manifest.options.model_dump(include=set(BuildOptions.model_fields))
            drawn = manifest.negatives.per_event if manifest.negatives else None
            used = options.model_dump() | build
            used |= {"label_threshold": manifest.table.label_threshold, "negatives": drawn}
            return manifest.model_copy(
                update={
                    "options": PrepareOptions.model_validate(used),
                    "data_set": found.data_set,
                    "protocol": options.protocol if "protocol" in found.options else None,
                    "score": writer.facts if writer else None,
                    "source": source,
                    "files": tuple(files.result()),
                    "request": request,
                }
            )

        log = _streamed(found, options, out, described, progress or silent)
        return log if log is not None else _assembled(found, options, out, described, writer)


def _facts_of(files: Sequence[Path]) -> list[FileFacts]:
    return [FileFacts(path=str(file), bytes=file.stat().st_size, sha256=sha256_of(file)) for file in files]


def _streamed(
    found: Source, options: PrepareOptions, out: Path, described: Describe, progress: Progress
) -> InteractionLog | None:
    """Write the log without holding it in memory; None if the source is not read in blocks."""
    events = found.events(options) if found.events else None
    if events is None:
        return None
    check_log_folder(out, events.name)
    return write_streamed(events, options, out, progress, described)


def write_streamed(
    events: Events, options: PrepareOptions, out: Path, progress: Progress, described: Describe = lambda facts: facts
) -> InteractionLog:
    """Write the log of a table that is read in blocks."""
    build = options.build_options(events.defaults)
    with atomic_folder(out) as aside:
        spill = aside / "spill"
        spill.mkdir()
        rows = log_rows(sort_events(events, build, spill, progress), spill, progress)
        replace(rows, manifest=described(rows.manifest)).write(aside)
        shutil.rmtree(spill)
    return InteractionLog.open(out)


def _assembled(
    found: Source, options: PrepareOptions, out: Path, described: Describe, writer: ScoreWriter | None
) -> InteractionLog:
    """Write the log of a table in memory."""
    table = found.read(options)
    if writer is not None:
        refuse(table.problems)
        table = writer.on_table(table)
    build = options.build_options(table.defaults)
    refuse(table.check(build))
    log = assemble_log(table, build)
    return replace(log, manifest=described(log.manifest)).save(out)


def _request_key(
    source: Source, schema: TableSchema | None, options: PrepareOptions, writer: ScoreWriter | None
) -> str:
    """One hash of all that the log depends on, without reading the data."""
    states = [(file, file.stat()) for file in source.files]
    request = {
        "format": FORMAT,
        "name": source.name,
        "files": [(str(file.resolve()), state.st_size, state.st_mtime_ns) for file, state in states],
        "schema": schema.model_dump(mode="json") if schema else None,
        "options": options.model_dump(),
    } | ({"score": writer.facts.model_dump()} if writer else {})
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()


def _ready(out: Path, request: str) -> InteractionLog | None:
    held = Manifest.found(out)
    if held is None or held.request != request:
        return None
    try:
        return InteractionLog.open(out)
    except ArtifactError:  # damaged: write it again
        return None
