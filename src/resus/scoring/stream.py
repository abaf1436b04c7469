"""Parquet in, Parquet out: score a query of any size block by block, and resume after a kill."""

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from resus.data.readers.files import files_at
from resus.data.readers.frames import as_frame
from resus.data.readers.tables import check_out
from resus.errors import ArtifactError, DataError, StorageError
from resus.files import atomic_path, locked, read_json, write_json
from resus.progress import Progress, silent
from resus.scoring.blocks import Blocks, ParquetBlocks, open_blocks
from resus.scoring.scorer import QUERY, SUPPORT, Scorer
from resus.scoring.spill import open_spill, spill_support, spilled_unknown
from resus.version import __version__
from resus.wording import option

BLOCK_ROWS = 1 << 17
CLAIM, LOCK, SPILL = "claim.json", "lock", "support"
UNKNOWN = b"resus.unknown"  # in a part's metadata: for each field, the number of rows with an unknown value


@dataclass(frozen=True)
class Scored:
    """Numbers of rows and events, and for each field the number of rows with a value that the model does not know.

    `of_support` says the same of the support, in sentences; `of_sides` names users and items without a row.
    """

    rows: int
    events: int
    unknown: dict[str, int]
    of_support: tuple[str, ...] = ()
    of_sides: tuple[str, ...] = ()


def predict_file(
    scorer: Scorer,
    support: Path,
    query: Path,
    out: Path,
    *,
    model: str,
    resume: bool = False,
    block_rows: int = BLOCK_ROWS,
    progress: Progress = silent,
) -> Scored:
    """Score one Parquet file into another. Memory depends on the support's users and `block_rows`, not on the rows.

    `model` identifies the model. Finished blocks stay in a folder next to `out` until all are done; `resume` continues
    from there.
    """
    check_out(out, support, query, *scorer.sides.files())
    known, asked = open_blocks(support, scorer.schema), ParquetBlocks(query)
    of_sides = tuple(scorer.notices({SUPPORT: known, QUERY: asked}))
    claim = {
        "resus": __version__,
        "model": model,
        "support": [_identity(file) for file in files_at(support)],
        "query": _identity(query),
        "sides": [_identity(file) for file in scorer.sides.files()],
        "block_rows": block_rows,
    }
    with _claimed(out, claim, resume) as folder:
        parts = _Parts(scorer, asked, folder, block_rows, progress)
        parts.answer(known)
        of_support = spilled_unknown(folder / SPILL, known.rows)
        return Scored(asked.rows, known.rows, parts.join(out), of_support, of_sides)


@contextmanager
def _claimed(out: Path, claim: dict[str, Any], resume: bool) -> Iterator[Path]:
    """The folder of unfinished work, locked by this process. It is deleted once the work is done or useless."""
    folder = out.with_name(f".{out.name}.parts")
    with locked(folder / LOCK, wait=False) as alone:
        if not alone:
            raise ArtifactError(f"another process is writing {out}: wait for it, or choose another file")
        try:
            _start_or_resume(folder, claim, resume)
            yield folder
        except DataError:  # once corrected, the files differ: nothing done so far fits them
            shutil.rmtree(folder)
            raise
        except StorageError:
            if not (folder / SPILL).is_dir():
                shutil.rmtree(folder)
            raise
        shutil.rmtree(folder)


def _start_or_resume(folder: Path, claim: dict[str, Any], resume: bool) -> None:
    path = folder / CLAIM
    if not path.is_file():
        write_json(path, claim)
    elif not resume:
        raise ArtifactError(
            f"{folder} holds unfinished scores: add {option('resume')} to continue, delete it, or choose another file"
        )
    elif read_json(path) != claim:
        raise ArtifactError(
            f"{folder} holds unfinished scores of another model, other files or another {option('block_rows')}: "
            "use the same ones, delete it, or choose another file"
        )


@dataclass(frozen=True)
class _Parts:
    """File n holds the scores of block n. A file that exists is complete."""

    scorer: Scorer
    query: ParquetBlocks
    folder: Path
    block_rows: int
    progress: Progress

    @property
    def count(self) -> int:
        """At least one: the part of an empty query holds the columns of the answer."""
        return max(1, -(-self.query.rows // self.block_rows))

    def path(self, number: int) -> Path:
        return self.folder / f"part-{number:07}.parquet"

    def answer(self, support: Blocks) -> None:
        """Write the missing parts."""
        done = next((number for number in range(self.count) if not self.path(number).is_file()), self.count)
        if done == self.count:
            return
        if not (self.folder / SPILL).is_dir():
            spill_support(self.scorer, support, self.folder / SPILL, self.block_rows, self.progress)
        spill = open_spill(self.scorer, self.folder / SPILL)
        row = done * self.block_rows
        self.progress("score", row, self.query.rows, unit="rows")
        for number, table in enumerate(self.query.tables(self.block_rows, start=row), start=done):
            frame = as_frame(table.select(self.scorer.query_columns(self.query.columns)), QUERY)
            prediction, unknown = self.scorer.answer(spill.index(), frame, row)
            answered = with_columns(table, prediction.columns)
            with atomic_path(self.path(number)) as aside:
                pq.write_table(answered.replace_schema_metadata({UNKNOWN: json.dumps(unknown)}), aside)
            row += table.num_rows
            self.progress("score", row, self.query.rows, unit="rows")

    def join(self, out: Path) -> dict[str, int]:
        """Write all parts into one file, one row group each, and add up their counts of unknown values."""
        unknown: Counter[str] = Counter()
        done = 0
        schema = pq.read_schema(self.path(0)).remove_metadata()
        with atomic_path(out) as aside, pq.ParquetWriter(aside, schema) as writer:
            for number in range(self.count):
                part = pq.read_table(self.path(number))
                unknown.update(json.loads(part.schema.metadata[UNKNOWN]))
                writer.write_table(part.replace_schema_metadata(None))
                done += part.num_rows
                self.progress("join the scores", done, self.query.rows, unit="rows")
        return {field.name: unknown[field.name] for field in self.scorer.features.fields if unknown[field.name]}


def with_columns(table: pa.Table, columns: dict[str, Any]) -> pa.Table:
    """Add columns to a table; they replace columns of the same name."""
    for name, values in columns.items():
        place = table.schema.get_field_index(name)
        column = pa.array(values)
        table = table.append_column(name, column) if place < 0 else table.set_column(place, name, column)
    return table


def _identity(path: Path) -> dict[str, Any]:
    facts = path.stat()
    return {"path": str(path.resolve()), "bytes": facts.st_size, "changed": facts.st_mtime_ns}
