"""Parquet to Parquet in blocks gives the same scores as whole tables, even after an interruption."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planted_models import events, log_of, tiny

from resus.errors import ArtifactError, DataError
from resus.files import locked
from resus.scoring import spill
from resus.scoring.scorer import Scorer
from resus.scoring.stream import Scored, predict_file

EVENTS = events().with_columns(pl.col("user").cast(pl.String))
ANSWER = ["probability", "basis", "residual", "support"]


@pytest.fixture(scope="module", params=["ridge", "nearest"])
def scorer(request: pytest.FixtureRequest) -> Scorer:
    return tiny(learner=request.param).fit(log_of(EVENTS)).scorer


@pytest.fixture(scope="module")
def ridge() -> Scorer:
    return tiny().fit(log_of(EVENTS)).scorer


class Folder:
    """A support and a query as files, scored into a third."""

    def __init__(self, path: Path, support: pl.DataFrame, query: pl.DataFrame, row_group: int = 1000) -> None:
        self.path, self.out = path, path / "scores.parquet"
        pq.write_table(support.to_arrow(), path / "support.parquet", row_group_size=row_group)
        pq.write_table(query.to_arrow(), path / "query.parquet", row_group_size=row_group)

    def score(self, scorer: Scorer, **options: Any) -> Scored:
        chosen: dict[str, Any] = {"model": "mine", "block_rows": 7, **options}
        return predict_file(scorer, self.path / "support.parquet", self.path / "query.parquet", self.out, **chosen)

    @property
    def names(self) -> list[str]:
        return sorted(path.name for path in self.path.iterdir())


WHOLE = ["query.parquet", "scores.parquet", "support.parquet"]
UNFINISHED = [".scores.parquet.parts", "query.parquet", "support.parquet"]


def asked_of(rows: list[int], users: list[int]) -> pl.DataFrame:
    names = pl.Series([f"u{user}" for user in users[: len(rows)]], dtype=pl.String)
    return EVENTS[rows].with_columns(user=names).drop("click")


def close_to(scores: pl.DataFrame, scorer: Scorer, support: pl.DataFrame, query: pl.DataFrame) -> None:
    wanted, _ = scorer.predict(support, query)
    assert scores["support"].to_list() == wanted.support.tolist()
    for name in ANSWER[:3]:
        np.testing.assert_allclose(scores[name].to_numpy(), wanted.columns[name], atol=1e-5)


ROWS = st.lists(st.integers(0, EVENTS.height - 1), max_size=40)


@given(
    support=ROWS,
    query=ROWS,
    owners=st.lists(st.integers(0, 6), min_size=40, max_size=40),
    askers=st.lists(st.integers(0, 8), min_size=40, max_size=40),
    block_rows=st.sampled_from([1, 3, 11, 1000]),
    row_group=st.sampled_from([1, 5, 1000]),
    bucket_rows=st.sampled_from([1, 6, 1000]),
)
@settings(max_examples=12, deadline=None)
def test_blocks_are_scored_like_whole_tables(
    scorer: Scorer,
    tmp_path_factory: pytest.TempPathFactory,
    support: list[int],
    query: list[int],
    owners: list[int],
    askers: list[int],
    block_rows: int,
    row_group: int,
    bucket_rows: int,
) -> None:
    known = EVENTS[support].with_columns(
        user=pl.Series([f"u{user}" for user in owners[: len(support)]], dtype=pl.String)
    )
    asked = asked_of(query, askers)
    folder = Folder(tmp_path_factory.mktemp("scored"), known, asked, row_group)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spill, "BUCKET_ROWS", bucket_rows)
        scored = folder.score(scorer, block_rows=block_rows)
    scores = pl.read_parquet(folder.out)
    assert (scored.rows, scored.events) == (asked.height, known.height)
    assert scores.columns == [*asked.columns, *ANSWER]
    assert scores.select(asked.columns).equals(asked)
    close_to(scores, scorer, known, asked)
    assert folder.names == WHOLE


def test_a_long_history_with_candidates_in_many_blocks(scorer: Scorer, tmp_path: Path) -> None:
    known = EVENTS.head(400).with_columns(user=pl.Series(["a", "b"] * 200))
    asked = EVENTS.tail(40).with_columns(user=pl.Series(["b", "a", "nobody", "a"] * 10))
    folder = Folder(tmp_path, known, asked)
    folder.score(scorer)
    scores = pl.read_parquet(folder.out)
    close_to(scores, scorer, known, asked)
    assert set(scores["support"]) == {200, 0}


class Stop:
    """Progress that stops the work at its n-th call; `tasks` maps each task to where it began."""

    def __init__(self, calls: int | None = None) -> None:
        self.left, self.tasks = calls, dict[str, int]()

    def __call__(self, task: str, done: int, total: int | None, unit: str = "") -> None:
        assert unit == "rows"
        assert total is not None
        assert done <= total
        self.tasks.setdefault(task, done)
        if self.left is not None:
            self.left -= 1
            if not self.left:
                raise KeyboardInterrupt


def test_work_stopped_at_any_moment_resumes_to_the_same_file(
    ridge: Scorer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spill, "BUCKET_ROWS", 20)
    folder = Folder(tmp_path, EVENTS.head(40), EVENTS.tail(40).with_columns(category=pl.lit("new")))
    calm = folder.score(ridge, block_rows=16)
    expected = folder.out.read_bytes()
    stops = 0
    while True:
        folder.out.unlink()
        stops += 1
        try:
            folder.score(ridge, block_rows=16, progress=Stop(stops))
            break
        except KeyboardInterrupt:
            assert folder.names == UNFINISHED
        assert folder.score(ridge, block_rows=16, resume=True) == calm
        assert folder.out.read_bytes() == expected
        assert folder.names == WHOLE
    assert stops > 10


def test_what_is_done_is_not_done_again(ridge: Scorer, tmp_path: Path) -> None:
    folder = Folder(tmp_path, EVENTS.head(20), EVENTS.tail(40))
    watch = Stop()
    folder.score(ridge, block_rows=10, progress=watch)
    first, *others, joined = watch.tasks
    assert others[-1] == "score"
    with pytest.raises(KeyboardInterrupt):  # 2 + 2 + 1 for the support, 1 as scoring begins, 3 blocks
        folder.score(ridge, block_rows=10, progress=Stop(9))
    watch = Stop()
    folder.score(ridge, block_rows=10, progress=watch, resume=True)
    assert watch.tasks == {"score": 30, joined: 10}
    assert first not in watch.tasks


def test_unfinished_scores_are_never_mixed_with_others(ridge: Scorer, tmp_path: Path) -> None:
    folder = Folder(tmp_path, EVENTS.head(20), EVENTS.tail(40))
    with pytest.raises(KeyboardInterrupt):
        folder.score(ridge, progress=Stop(9))
    place = tmp_path / ".scores.parquet.parts"
    with pytest.raises(ArtifactError, match=f"{place} holds unfinished scores: .*resume="):
        folder.score(ridge)
    others = f"{place} holds unfinished scores of another model, other files or another block_rows="
    for options in ({"model": "another"}, {"block_rows": 8}):
        with pytest.raises(ArtifactError, match=others):
            folder.score(ridge, resume=True, **options)
    with locked(place / "lock"), pytest.raises(ArtifactError, match="another process is writing"):
        folder.score(ridge, resume=True)
    Folder(tmp_path, EVENTS.head(20), EVENTS.tail(39))
    with pytest.raises(ArtifactError, match=others):
        folder.score(ridge, resume=True)
    assert folder.names == UNFINISHED
    shutil.rmtree(place)
    assert folder.score(ridge).rows == 39


def test_a_part_of_the_support_that_changed_is_noticed(ridge: Scorer, tmp_path: Path) -> None:
    folder = Folder(tmp_path, EVENTS.head(20), EVENTS.tail(40))
    parts = tmp_path / "parts"
    parts.mkdir()
    for number, part in enumerate(EVENTS.head(20).iter_slices(12)):
        part.write_csv(parts / f"{number}.csv")
    options: dict[str, Any] = {"model": "mine", "block_rows": 7}
    for support in (parts, parts / "*.csv"):
        with pytest.raises(KeyboardInterrupt):
            predict_file(ridge, support, tmp_path / "query.parquet", folder.out, progress=Stop(9), **options)
        (parts / "0.csv").write_text((parts / "0.csv").read_text().replace("\n", "\n\n", 1))
        with pytest.raises(ArtifactError, match="holds unfinished scores of another model, other files"):
            predict_file(ridge, support, tmp_path / "query.parquet", folder.out, resume=True, **options)
        shutil.rmtree(tmp_path / ".scores.parquet.parts")


def test_resume_without_anything_unfinished_starts_and_an_old_file_is_replaced(ridge: Scorer, tmp_path: Path) -> None:
    folder = Folder(tmp_path, EVENTS.head(20), EVENTS.tail(40))
    folder.out.write_text("old")
    assert folder.score(ridge, resume=True).rows == 40
    assert pl.read_parquet(folder.out).height == 40


def spoiled(column: str, row: int, value: Any) -> pl.DataFrame:
    """The first 30 events with one value changed; the first row is 1."""
    values = EVENTS.head(30)[column].to_list()
    values[row - 1] = value
    return EVENTS.head(30).with_columns(pl.Series(column, values, dtype=None if value is None else pl.String))


@pytest.mark.parametrize(
    ("support", "query", "sentence"),
    [
        (spoiled("user", 23, None), EVENTS, "the support, column 'user', row 23: the user is empty"),
        (spoiled("user", 23, ""), EVENTS, "the support, column 'user', row 23: the user is empty"),
        (EVENTS.head(30), spoiled("user", 29, None), "the query, column 'user', row 29: the user is empty"),
        (
            EVENTS.head(30).with_columns(click=pl.Series([1] * 25 + [2] * 5)),
            EVENTS,
            "the support, column 'click', row 26: 2 is not 0 or 1",
        ),
        (
            EVENTS.head(30).with_columns(price=pl.Series(["1"] * 20 + ["dear"] * 10)),
            EVENTS,
            "the support, row 21, column 'price': 'dear' is not a number",
        ),
        (
            EVENTS.head(30),
            EVENTS.head(30).with_columns(price=pl.Series(["1"] * 20 + ["dear"] * 10)),
            "the query, row 21, column 'price': 'dear' is not a number",
        ),
        (EVENTS.drop("click"), EVENTS, "the support has no column 'click'"),
        (EVENTS.drop("user"), EVENTS, "the support has no column 'user'"),
        (EVENTS.drop("tags"), EVENTS, "the support has no column 'tags'"),
        (EVENTS, EVENTS.drop("user"), "the query has no column 'user'"),
        (EVENTS, EVENTS.drop("price"), "the query has no column 'price'"),
    ],
)
def test_an_error_names_the_row_of_the_file_and_leaves_no_files(
    ridge: Scorer, tmp_path: Path, support: pl.DataFrame, query: pl.DataFrame, sentence: str
) -> None:
    folder = Folder(tmp_path, support, query)
    with pytest.raises(DataError, match=sentence):
        folder.score(ridge)
    assert folder.names == ["query.parquet", "support.parquet"]


@pytest.mark.parametrize("file", ["support", "query"])
def test_a_damaged_file_is_named_and_leaves_no_files(ridge: Scorer, tmp_path: Path, file: str) -> None:
    folder = Folder(tmp_path, EVENTS, EVENTS.drop("click"), row_group=100)
    path = tmp_path / f"{file}.parquet"
    whole = path.read_bytes()
    middle = len(whole) // 2
    for content in (whole[:middle], whole[:middle] + b"\xff" * 2000 + whole[middle + 2000 :]):
        path.write_bytes(content)
        with pytest.raises(DataError, match=rf"{file}\.parquet: it is not a whole Parquet file"):
            folder.score(ridge, block_rows=100)
        assert folder.names == ["query.parquet", "support.parquet"]


def test_empty_tables_are_fine(ridge: Scorer, tmp_path: Path) -> None:
    folder = Folder(tmp_path, EVENTS.clear(), EVENTS)
    assert folder.score(ridge, block_rows=500).events == 0
    scores = pl.read_parquet(folder.out)
    assert scores["residual"].unique().to_list() == [0.0]
    columns = scores.schema
    folder = Folder(tmp_path, EVENTS, EVENTS.clear())
    assert folder.score(ridge) == Scored(0, EVENTS.height, {})
    scores = pl.read_parquet(folder.out)
    assert scores.is_empty()
    assert scores.schema == columns


def test_the_query_comes_back_unchanged_and_scores_replace_columns_of_their_names(
    ridge: Scorer, tmp_path: Path
) -> None:
    folder = Folder(tmp_path, EVENTS, EVENTS)
    asked = EVENTS.head(20).to_arrow()
    asked = asked.append_column("word", pa.array([f"w{row % 3}" for row in range(20)]).dictionary_encode())
    asked = asked.append_column("at", pa.array(range(20), pa.timestamp("ms", "UTC")))
    asked = asked.append_column("basis", pa.array(["mine"] * 20)).append_column("a.b", pa.array(range(20), pa.int8()))
    pq.write_table(asked, tmp_path / "query.parquet", row_group_size=6)
    folder.score(ridge)
    scores = pq.read_table(folder.out)
    assert scores.column_names == [*asked.column_names, "probability", "residual", "support"]
    kept = [name for name in asked.column_names if name != "basis"]
    assert scores.select(kept).schema.equals(
        pq.read_schema(tmp_path / "query.parquet").remove_metadata().remove(asked.schema.get_field_index("basis"))
    )
    assert scores.select(kept).to_pylist() == asked.select(kept).to_pylist()
    assert scores.schema.field("basis").type == pa.float32()
    assert not scores.schema.metadata
