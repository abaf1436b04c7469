"""A whole table of events into a store: first every row is checked, then all are stored; a killed import resumes."""

import json
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from resus.artifact import Artifact
from resus.checked_folder import CheckedFolder
from resus.data.problems import Findings, Problem, refuse
from resus.data.readers.files import estimated_bytes, find_parts
from resus.data.schema import TableSchema
from resus.data.stream.blocks import blocks_of_parts
from resus.errors import ArtifactError, DataError
from resus.files import locked, read_json, storage_errors, write_json
from resus.ingest.rows import Refusal, Rows
from resus.ingest.sorted_parts import Part, PartWriter, part_of
from resus.progress import Progress, silent
from resus.serving.engine import Engine
from resus.serving.items import ItemChanges
from resus.serving.loaded import LoadedModel
from resus.serving.store import add_bulk, open_store
from resus.version import __version__

CLAIM, LOCK = "claim.json", "lock"
SHOWN = 5  # rows that are skipped and named
BLOCK_BYTES = 1 << 24


class Imported(BaseModel):
    """What became of the rows of a table. `known` were in the store, or several times in the table."""

    model_config = ConfigDict(extra="forbid")

    rows: int = 0
    skipped: int = 0
    first_skipped: list[str] = []
    added: int = 0
    corrected: int = 0
    known: int = 0
    too_old: int = 0
    users: int = 0
    parts: int = 0
    done: int = 0  # parts that are stored
    seconds: float = 0.0


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
    schema = schema_of(run)
    with closing(_Closable(open_engine(run, place, capacity=capacity))) as opened:
        work = _Work(opened.engine, schema, table, id_column, skip_bad, progress)
        with _folder_of(place) as folder:
            return work.run(folder)


class _Closable:
    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.close = engine.store.close
