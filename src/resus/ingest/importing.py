"""A whole table of events into a store: first every row is checked, then all are stored; a killed import resumes."""

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from resus.artifact import Artifact
from resus.checked_folder import CheckedFolder
from resus.data.problems import Findings, Problem, refuse
from resus.data.readers.files import find_parts, unusable_file
from resus.data.schema import TableSchema
from resus.data.stream.blocks import blocks_of_parts
from resus.errors import ArtifactError, DataError
from resus.files import locked, read_json, storage_errors, write_json
from resus.ingest.rows import Refusal, Rows
from resus.ingest.sorted_parts import Part, PartWriter, about_rows, part_of
from resus.progress import Progress, silent
from resus.serving.engine import Engine
from resus.serving.items import ItemChanges
from resus.serving.loaded import LoadedModel
from resus.serving.store import EventStatus, add_bulk, bulk_order, is_address, open_store
from resus.version import __version__
from resus.wording import option

CLAIM, LOCK = "claim.json", "lock"
SHOWN = 5  # rows that are skipped and named
BLOCK_BYTES = 1 << 24


class Imported(BaseModel):
    """What became of the rows of a table. `events` are those that the store took or had."""

    model_config = ConfigDict(extra="forbid")

    rows: int = 0
    skipped: int = 0
    first_skipped: list[str] = []
    events: dict[EventStatus, int] = dict.fromkeys(get_args(EventStatus), 0)
    users: int = 0
    parts: int = 0
    done: int = 0  # parts that are stored
    seconds: float = 0.0

    @property
    def handled(self) -> int:
        return sum(self.events.values())

    def count(self, status: EventStatus, events: int) -> None:
        self.events[status] += events


class _Claim(BaseModel):
    """What an import has begun with, and how far it has come."""

    model_config = ConfigDict(extra="forbid")

    of: dict[str, Any]
    so_far: Imported


def open_engine(run: Path, place: str, *, capacity: int) -> Engine:
    """The model of a folder on a store, with the items as a service of this folder has changed them."""
    engine = Engine(LoadedModel.load(run), open_store(place, capacity=capacity), capacity=capacity)
    engine.follow(ItemChanges(run.with_name(f"{run.name}.items.jsonl")))
    return engine


def schema_of(run: Path) -> TableSchema:
    """What the columns of the table mean on which a run was trained."""
    schema = Artifact.of(CheckedFolder.open(run)).log.table
    if schema is None:
        raise ArtifactError(f"{run} does not say what the columns of a table mean: train it on a table with a schema")
    return schema


def import_events(
    run: Path,
    table: Path,
    place: str,
    *,
    capacity: int,
    id_column: str | None = None,
    skip_bad: bool = False,
    progress: Progress = silent,
) -> Imported:
    """Store the events of a table. Nothing is stored before all rows are checked.

    A table that cannot be read, or a row that is no event, is a DataError; `skip_bad` counts such rows instead. What is
    done is kept in a folder beside the store until the end, so the same call goes on after a kill.
    """
    schema, parts = schema_of(run), find_parts(table)
    refuse([parts] if isinstance(parts, Problem) else [])
    assert not isinstance(parts, Problem)
    refuse([problem for part in parts if (problem := unusable_file(part)) is not None])  # before there is a store
    engine = open_engine(run, place, capacity=capacity)
    work = _Work(engine, Rows(schema, engine, id_column), parts, progress)
    asked = {"id": id_column, "skip_bad": skip_bad, "remember": capacity}
    with closing(engine.store), _claimed(place, work.claim(asked)) as (folder, claim):
        if not claim.so_far.parts:
            work.stage(folder, claim, skip_bad=skip_bad)
        work.store(folder, claim, capacity=capacity)
        return claim.so_far


@contextmanager
def _claimed(place: str, of: dict[str, Any]) -> Iterator[tuple[Path, _Claim]]:
    """The folder of unfinished work, locked by this process, and what is in it. It is deleted once all is stored."""
    folder = _folder_beside(place)
    with storage_errors(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # only the owner reads what users did
    with locked(folder / LOCK, wait=False) as alone:
        if not alone:
            raise ArtifactError(f"another process imports into this store (it holds {folder}): wait for it")
        claim = _claim_in(folder)
        if claim is None or claim.of != of:
            for file in folder.iterdir():
                if file.name != LOCK:
                    file.unlink()
            claim = _Claim(of=of, so_far=Imported())
        try:
            yield folder, claim
        except DataError:  # once corrected, the table is another one
            shutil.rmtree(folder)
            raise
        shutil.rmtree(folder)


def _folder_beside(place: str) -> Path:
    """Beside a SQLite file; for a store elsewhere, in the current folder, by the hash of its address."""
    if is_address(place):
        return Path(f".{sha256(place.encode()).hexdigest()[:12]}.import")
    path = Path(place.removeprefix("sqlite:"))
    return path.with_name(f".{path.name}.import")


def _claim_in(folder: Path) -> _Claim | None:
    try:
        return _Claim.model_validate(read_json(folder / CLAIM))
    except (OSError, ArtifactError, ValidationError):
        return None


@dataclass
class _Work:
    engine: Engine
    rows: Rows
    files: Sequence[Path]
    progress: Progress

    def claim(self, asked: dict[str, Any]) -> dict[str, Any]:
        """What must be the same for an import to go on."""
        of_files = [[str(file.absolute()), *_size_and_time(file)] for file in self.files]
        return {"resus": __version__, "model": self.engine.loaded.sha256, "files": of_files, **asked}

    def stage(self, folder: Path, claim: _Claim, *, skip_bad: bool) -> None:
        """Check all rows, and deal them out to files by their user."""
        began, findings, found = time.monotonic(), Findings(), claim.so_far
        rows = self.rows
        blocks = blocks_of_parts(self.files, rows.schema, findings, block_bytes=BLOCK_BYTES, more=rows.columns)
        with storage_errors(folder), PartWriter(folder, about_rows(self.files)) as writer:
            for block in blocks:
                events, refusals = rows.read(block)
                if refusals and not skip_bad:
                    raise DataError(
                        f"{_sentence(refusals[0])}; correct it, or skip such rows with {option('skip_bad')}"
                    )
                found.first_skipped += map(_sentence, refusals[: SHOWN - len(found.first_skipped)])
                found.skipped += len(refusals)
                found.rows += block.frame.height
                writer.add(events)
                self.progress("checking", found.rows, int(found.rows / block.share) if block.share else None, "rows")
        refuse(findings.problems())
        if not found.rows:
            raise DataError(f"{self.files[0]}: there is no row of data; check that the file is complete")
        found.parts, found.seconds = writer.count, time.monotonic() - began
        write_json(folder / CLAIM, claim.model_dump())

    def store(self, folder: Path, claim: _Claim, *, capacity: int) -> None:
        """Store file by file. After a kill, at most one of them is stored again; the store knows its events."""
        found, total = claim.so_far, claim.so_far.rows - claim.so_far.skipped
        self.progress("storing", found.handled, total, "events")
        for number in range(found.done, found.parts):
            began = time.monotonic()
            order = partial(bulk_order, self.engine.store)
            part = Part(part_of(folder, number), capacity=capacity, order=order)
            found.count("known", part.repeated - part.corrected)
            found.count("corrected", part.corrected)
            found.count("too old", part.too_old)
            found.users += part.users
            for bulk in part.bulks():
                for status, events in add_bulk(self.engine.store, bulk).items():
                    found.count(status, events)
                self.progress("storing", found.handled, total, "events")
            found.done, found.seconds = number + 1, found.seconds + time.monotonic() - began
            write_json(folder / CLAIM, claim.model_dump())
            part_of(folder, number).unlink()


def _size_and_time(file: Path) -> tuple[int, int]:
    try:
        found = file.stat()
    except OSError:
        return 0, 0  # reading it says what is wrong
    return found.st_size, found.st_mtime_ns


def _sentence(refusal: Refusal) -> str:
    where, row, reason = refusal
    return f"{where}, row {row}, {reason}"
