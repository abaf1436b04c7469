"""Batch prediction on a cluster, through Ray Data.

The rows of both tables are encoded and grouped by user, so that a worker has all rows of its users. The answers come
back with their row numbers and are written next to the columns of the query, in its order. Every worker must see the
tables and the run folder.
"""

import contextlib
import functools
import json
import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import torch

from resus.arrays import Array, Booleans
from resus.cluster import cluster
from resus.data.readers.frames import as_frame
from resus.data.readers.tables import check_out
from resus.episodes.batch import Features
from resus.errors import ArtifactError, ConfigError, DataError
from resus.estimator import Resus
from resus.files import atomic_path
from resus.progress import Progress, silent
from resus.scoring.answers import answer
from resus.scoring.blocks import ParquetBlocks
from resus.scoring.scorer import QUERY, SUPPORT, Scorer
from resus.scoring.stream import BLOCK_ROWS, Scored, predict_file, with_columns
from resus.scoring.support_index import SupportIndex

RayBatch = dict[str, Array]
GROUPS_PER_WORKER = 4
ANSWERS = ("probability", "basis", "residual", "support")
UNKNOWN, REFUSED = "unknown", "refused"


def predict_on_ray(
    run: Path,
    support: Path,
    query: Path,
    out: Path,
    *,
    workers: int,
    block_rows: int = BLOCK_ROWS,
    score_with: Path | None = None,
    users: Path | None = None,
    items: Path | None = None,
    progress: Progress = silent,
) -> Scored:
    """`predict_file` on the workers of a cluster. All tables, and a model that writes a score column, are files."""
    check_out(out, support, query, users, items)
    known, asked = ParquetBlocks(support), ParquetBlocks(query)
    model = _Model(str(run.resolve()), *(str(file.resolve()) if file else None for file in (score_with, users, items)))
    scorer = _scorer(model)
    check_out(out, *scorer.sides.files())
    of_sides = tuple(scorer.notices({SUPPORT: known, QUERY: asked}))
    if not asked.rows:
        return predict_file(scorer, support, query, out, model=str(run))
    with cluster(workers):
        answers = _answers(model, known, asked, block_rows, workers)
        unknown = _write(asked, answers, out, block_rows, progress)
        return Scored(asked.rows, known.rows, unknown, of_sides=of_sides)


class _Model(NamedTuple):
    """Where the workers find the run, the model that writes its score column, and other side tables."""

    run: str
    score_with: str | None
    users: str | None
    items: str | None


def _answers(
    model: _Model, support: ParquetBlocks, query: ParquetBlocks, block_rows: int, workers: int
) -> Iterator[RayBatch]:
    """Batches of answers in the order of the query."""
    import ray.data
    from ray.exceptions import RayError

    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    groups = max(workers * GROUPS_PER_WORKER, -(-(support.rows + query.rows) // block_rows))  # each fits into memory
    blocks = [
        {"path": str(table.path.resolve()), "is_query": is_query, "first": first}
        for table, is_query in ((support, False), (query, True))
        for first in range(0, table.rows, block_rows)
    ]
    rows = ray.data.from_items(blocks, override_num_blocks=max(1, len(blocks))).map_batches(
        functools.partial(_encoded, model=model, block_rows=block_rows, groups=groups), batch_size=1
    )
    answered = rows.groupby("group").map_groups(functools.partial(_answered, model=model), batch_format="numpy")
    try:
        yield from answered.sort("row").iter_batches(batch_size=block_rows, batch_format="numpy")
    except RayError as error:
        reason = " ".join(str(error).split())[-300:]
        raise ArtifactError(
            f"a worker failed (… {reason}): check that every worker can read the run folder and the tables"
        ) from None


@functools.cache
def _scorer(model: _Model) -> Scorer:
    loaded = Resus.load(model.run, predictor=Path(model.score_with) if model.score_with else None)
    return loaded.scorer.with_sides(users=model.users, items=model.items)


def _encoded(block: RayBatch, *, model: _Model, block_rows: int, groups: int) -> RayBatch:
    """The rows of one block of a table: user, group of the user, ids, weights, and the label if the row is an event."""
    try:
        path, first, is_query = (block[name][0] for name in ("path", "first", "is_query"))
        return _encoded_rows(_scorer(model), Path(str(path)), int(first), bool(is_query), block_rows, groups)
    except (ConfigError, DataError) as error:  # as a row that sorts first, because Ray hides the kind of an exception
        return _refusal(_scorer(model), str(error))


def _encoded_rows(scorer: Scorer, path: Path, first: int, is_query: bool, block_rows: int, groups: int) -> RayBatch:
    blocks = ParquetBlocks(path)
    columns = scorer.query_columns(blocks.columns) if is_query else scorer.support_columns(blocks.columns)
    table = next(iter(blocks.tables(block_rows, start=first, columns=columns)))
    where = QUERY if is_query else SUPPORT
    frame = as_frame(table, where)
    users = scorer.users(frame, where, first)
    labels = np.full(frame.height, np.nan, dtype=np.float32) if is_query else scorer.labels(frame, first)
    frame = scorer.sides.of(frame, where)
    ids, weights = scorer.encode(frame, where, first)
    encoded = {
        "group": (users.hash(seed=0) % groups).to_numpy().astype(np.int64),
        "user": users.to_numpy(),
        "row": np.arange(first, first + frame.height),
        "is_query": np.full(frame.height, is_query),
        "label": labels,
        "ids": ids,
        UNKNOWN: np.full(frame.height, "", dtype=object),
        REFUSED: np.full(frame.height, "", dtype=object),
    }
    if is_query and frame.height:
        encoded[UNKNOWN][0] = json.dumps(scorer.features.count_unknown(frame, ids, weights))  # one count for all rows
    return encoded if weights is None else encoded | {"weights": weights}


def _refusal(scorer: Scorer, reason: str) -> RayBatch:
    columns = scorer.features.n_columns
    row = {
        "group": np.zeros(1, dtype=np.int64),
        "user": np.array([""], dtype=object),
        "row": np.array([-1]),
        "is_query": np.array([True]),
        "label": np.array([np.nan], dtype=np.float32),
        "ids": np.zeros((1, columns), dtype=np.int32),
        UNKNOWN: np.array([""], dtype=object),
        REFUSED: np.array([reason], dtype=object),
    }
    return row | ({"weights": np.zeros((1, columns), dtype=np.float32)} if scorer.features.weighted else {})


def _answered(group: RayBatch, *, model: _Model) -> RayBatch:
    """All rows of some users → the answers to their queries."""
    torch.set_num_threads(1)
    scorer = _scorer(model)
    in_order = np.argsort(group["row"], kind="stable")
    group = {name: values[in_order] for name, values in group.items()}
    events, asked = (_part(group, group["is_query"] == flag) for flag in (False, True))
    index = SupportIndex.of(_users(events), events["ids"], events.get("weights"), events["label"])
    asked_rows = Features.of(asked["ids"], asked.get("weights"))
    found = answer(scorer.model, index, _users(asked), asked_rows, scorer.negatives)
    return {"row": asked["row"], **found.columns, UNKNOWN: asked[UNKNOWN], REFUSED: asked[REFUSED]}


def _part(group: RayBatch, chosen: Booleans) -> RayBatch:
    return {name: np.ascontiguousarray(values[chosen]) for name, values in group.items()}


def _users(rows: RayBatch) -> pl.Series:
    return pl.Series("user", list(rows["user"]), dtype=pl.String)


def _write(
    query: ParquetBlocks, answers: Iterator[RayBatch], out: Path, block_rows: int, progress: Progress
) -> dict[str, int]:
    """Write the query with its answers; return, by field, how many rows have a value never seen in training."""
    unknown: Counter[str] = Counter()
    done = 0
    with atomic_path(out) as aside, contextlib.ExitStack() as opened:
        writer = None
        for table, found in zip(query.tables(block_rows), answers, strict=True):
            if found["row"][0] < 0:
                raise DataError(str(found[REFUSED][0]))
            assert np.array_equal(found["row"], np.arange(done, done + table.num_rows)), "every query has one answer"
            for text in filter(None, found.pop(UNKNOWN)):
                unknown.update(json.loads(text))
            answered = with_columns(table, {name: found[name] for name in ANSWERS})
            writer = writer or opened.enter_context(pq.ParquetWriter(aside, answered.schema))
            writer.write_table(answered)
            done += table.num_rows
            progress("scores", done, query.rows, "rows")
    return dict(unknown)
