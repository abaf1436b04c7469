"""A table that is streamed gives the log, bit for bit, that the same table gives in memory."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from resus.checking import checked
from resus.data.given import build_log
from resus.data.log.log import InteractionLog
from resus.data.options import BuildOptions
from resus.data.problems import Findings
from resus.data.readers.side_tables import read_sides
from resus.data.schema import TableSchema
from resus.data.stream.blocks import Block, Events
from resus.data.stream.log import Sizes, log_rows, sort_events
from resus.errors import DataError
from resus.progress import silent

FIELDS = {
    "device": "categorical",
    "tags": {"kind": "multi", "max_values": 2},
    "price": "numeric",
    "seen": {"kind": "multi"},
}
KINDS: dict[Any, Any] = {"seen": pl.List(pl.String), "device": pl.String, "tags": pl.String}
OPTIONS = st.builds(
    BuildOptions,
    min_item_count=st.integers(1, 4),
    min_count=st.integers(1, 3),
    duplicates=st.sampled_from(["keep", "first", "last", "error"]),
    single_events=st.sampled_from(["keep", "drop", "error"]),
)
TIMES = range(9)
SPELLED = {  # the same order of times in other spellings, the same moments twice
    "numbers": ["1", "1.0", "2", "3", "3.5", "4e0", "20", "5", "6"],
    "dates": [
        "2024-01-31",
        "2024-01-31 00:00",
        "2024-01-31T10:00:00.5",
        "2024-01-31 11:00:00.500+01",
        "01/02/2024",
        "2024/02/01 10:00:00",
        "2024-02-01T10:00Z",
        "2024-02-03",
        "2024-02-04",
    ],
    "dates and something else": ["2024-01-31", "2024-01-30", "2024-02-01", "2024-02-02", "17", "x"]
    + 3 * ["2024-02-03"],
}
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["7", "7.0", "07", "10", "9", "11"]),
        st.sampled_from(["a", "b", "3.0", "3", "True"]),
        st.integers(0, 1),
        st.sampled_from(TIMES),
        st.sampled_from(["x", "y", None, "True", "true"]),
        st.sampled_from(["p|q", "p", "q|r|s", None, "3.0|3"]),
        st.floats(-1e3, 1e3, width=32),
        st.lists(st.sampled_from(["u", "v", None, "1.0"]), max_size=3),
    ),
    min_size=2,
    max_size=40,
)


def streamed(
    frame: pl.DataFrame, schema: TableSchema, build: BuildOptions, folder: Path, cut: int, *, on_disk: bool
) -> InteractionLog:
    def read(findings: Findings) -> Iterator[Block]:
        for part in frame.iter_slices(cut):
            yield Block("the table", part, None)

    sides, problems = read_sides(schema)
    events = Events("log", "the table", schema, read, sides, problems)
    sizes = Sizes(in_memory=0 if on_disk else 1 << 30, block_rows=cut)
    found = sort_events(events, build, folder, silent, sizes)
    rows = log_rows(found, folder, silent)
    (folder / "log").mkdir()
    rows.write(folder / "log")
    return InteractionLog.open(folder / "log")


def outcome(make: Any) -> InteractionLog | list[str]:
    """The log, or why there is none."""
    try:
        log: InteractionLog = make()
    except DataError as error:
        return list(map(str, error.problems)) or [str(error)]
    return log


@settings(deadline=None, max_examples=100, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(
    rows=ROWS,
    build=OPTIONS,
    cut=st.sampled_from([1, 3, 100]),
    timed=st.booleans(),
    as_text=st.booleans(),
    times=st.sampled_from([None, *SPELLED]),
    named=st.booleans(),
    with_sides=st.booleans(),
    on_disk=st.booleans(),
)
def test_streamed_is_in_memory(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[Any],
    build: BuildOptions,
    cut: int,
    timed: bool,
    as_text: bool,
    times: str | None,
    named: bool,
    with_sides: bool,
    on_disk: bool,
) -> None:
    rows = [*rows, ("7", "a", 0, 5, "x", "p", 0.5, ["u"]), ("7", "a", 1, 6, "y", "q", 1.5, [])]  # both labels
    columns = ["user", "item", "click", "time", "device", "tags", "price", "seen"]
    frame = pl.DataFrame(rows, schema=columns, orient="row").cast(KINDS)
    frame = frame.with_columns(pl.col("click", "time", "price").cast(pl.String)) if as_text else frame
    frame = frame.with_columns(pl.col("user") + "x") if named else frame
    frame = (
        frame.with_columns(time=pl.Series(SPELLED[times]).gather(pl.Series([row[3] for row in rows])))
        if times
        else frame
    )
    roles = {"user": "user", "item": "item", "label": "click", "fields": FIELDS} | ({"time": "time"} if timed else {})
    if with_sides:
        people = (
            pl.DataFrame({"user": frame["user"].replace("7.0", "7").unique().sort(), "age": 0.5})
            .with_row_index("income")
            .head(3)
        )
        things = pl.DataFrame(
            {"item": ["a", "b", "3", "true"], "genres": ["g|h", "h", "i", None], "year": [1, 2, 3, 4]}
        )
        roles["users"] = {"frame": people, "fields": {"age": "categorical", "income": "numeric"}}
        roles["items"] = {
            "frame": things.filter(pl.col("item") != "b"),
            "fields": {"genres": "multi", "year": "numeric"},
        }
    schema = checked(TableSchema, roles)
    expected = outcome(lambda: build_log(frame, schema, build))
    found = outcome(lambda: streamed(frame, schema, build, tmp_path_factory.mktemp("stream"), cut, on_disk=on_disk))
    if isinstance(expected, list) or isinstance(found, list):
        assert isinstance(found, list)
        assert isinstance(expected, list)
        assert found[0] in expected, "further problems are not all looked for once there is one"
        return
    assert found.features == expected.features
    assert found.user_ids.to_pylist() == expected.user_ids.to_pylist()
    for part in ("ids", "weights", "labels", "offsets"):
        assert np.array_equal(getattr(found, part), getattr(expected, part)), part
    assert found.content_hash == expected.content_hash
    assert found.manifest.sides == expected.manifest.sides
