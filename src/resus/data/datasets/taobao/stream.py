"""Taobao's impressions in blocks, with the ads and the profiles as side tables."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from resus.data.datasets.base import PUBLISHED_DEFAULTS
from resus.data.datasets.taobao import layout
from resus.data.log.column_files import ColumnReader
from resus.data.options import PrepareOptions
from resus.data.problems import Findings, Problem
from resus.data.readers.delimited import read_delimited_blocks
from resus.data.readers.side_tables import SideRows, side_of
from resus.data.stream.blocks import BLOCK_BYTES, Block, Events


def events_of(folder: Path, options: PrepareOptions, *, block_bytes: int = BLOCK_BYTES) -> Events:
    """The impressions in the order of the file. An impression of an ad that is not listed is a problem."""
    schema, truth = layout.schema_of(options), layout.read_truth(folder)
    assert schema.users is not None
    assert schema.items is not None
    found: list[SideRows] = []
    problems = [truth] if isinstance(truth, Problem) else []
    for role, column, side, read, unlisted in (
        ("items", schema.item, schema.items, layout.read_ads(folder), "impressions"),
        ("users", schema.user, schema.users, layout.read_profiles(folder), None),
    ):
        checked = side_of(role, column, side, read, unlisted=unlisted)
        problems += checked if isinstance(checked, list) else []
        found += [replace(checked, may_match_nothing=role == "users")] if isinstance(checked, SideRows) else []
    path = folder / layout.IMPRESSIONS_FILE
    known = truth is not None and not isinstance(truth, Problem)

    def read_blocks(findings: Findings) -> Iterator[Block]:
        with ColumnReader(folder / layout.TRUTH_FILE, np.float32) if known else contextlib.nullcontext() as truths:
            yield from _impressions(path, options, findings, truths, block_bytes)

    return Events(
        name=layout.NAME if truth is None else layout.PLANTED_NAME,
        where=str(path),
        schema=schema,
        read=read_blocks,
        sides=found,
        problems=problems,
        defaults=PUBLISHED_DEFAULTS,
        truth=layout.TRUTHS if known else None,
    )


def _impressions(
    path: Path, options: PrepareOptions, findings: Findings, truths: ColumnReader | None, block_bytes: int
) -> Iterator[Block]:
    size, taken = max(path.stat().st_size if path.is_file() else 1, 1), [0]
    blocks = read_delimited_blocks(
        path,
        findings,
        separator=",",
        wanted=layout.EVENTS,
        block_bytes=block_bytes,
        progress=lambda done: taken.__setitem__(0, done),
    )
    rows = 0
    for text, lines in blocks:
        frame = text.rename(str.strip)
        absent = [name for name in layout.EVENTS if name not in frame.columns]
        for name in absent:
            what = f"there is no such column among {', '.join(frame.columns)}"
            findings.stop(Problem(str(path), 1, name, what, "use the file as it is published"))
        if absent:
            return
        frame = frame.select(layout.EVENTS)
        if options.user_field:
            frame = frame.with_columns(pl.col("user").alias(layout.USER_FIELD))
        rows += frame.height
        if truths is not None:
            both = truths.take(frame.height)
            if len(both) < frame.height:
                findings.stop(layout.wrong_truth(path.parent))
                return
            frame = frame.with_columns(pl.Series(name, both[:, n]) for n, name in enumerate(layout.TRUTHS))
        yield Block(str(path), frame, lines, taken[0] / size)
    if truths is not None and not findings.problems() and len(truths.take(1)):
        findings.stop(layout.wrong_truth(path.parent))
