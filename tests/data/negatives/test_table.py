from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resus import build_log
from resus.data.doctor import diagnose
from resus.data.log.log import InteractionLog
from resus.data.negatives.drawing import draw_items
from resus.data.negatives.settings import NegativeSettings
from resus.data.negatives.table import belongs_to_item, with_negatives
from resus.data.options import BuildOptions, PrepareOptions
from resus.data.prepare import prepare_log
from resus.data.schema import TableSchema
from resus.errors import ConfigError, DataError

EVENTS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.integers(0, 1), st.sampled_from("ab")), min_size=1)
COLUMNS = ["user", "item", "place", "mood"]


def drawn_for(logs: pl.DataFrame, seed: int = 0, times: pl.Series | None = None, **settings: Any) -> pl.DataFrame:
    """The negatives, in the order of their events."""
    whole, _ = with_negatives(
        logs.with_columns(label=1),
        NegativeSettings.model_validate(settings),
        user="user",
        item="item",
        label="label",
        of_item=(),
        may_be_of_item=(),
        seed=seed,
        times=times,
    )
    assert whole.filter(label=1).drop("label").equals(logs)
    return whole.filter(label=0).drop("label")


def test_with_times_a_negative_was_not_had_so_far_and_says_nothing_of_later_events() -> None:
    """Users take 20 of 40 items in random order: as many of the drawn items are taken later as of all others."""
    random = np.random.default_rng(3)
    taken = np.array([random.permutation(40)[:20] for _ in range(300)])
    users, moments = np.repeat(np.arange(300), 20), np.tile(np.arange(20), 300)
    logs = pl.DataFrame({"user": users, "item": taken.ravel(), "moment": moments})
    drawn = drawn_for(logs, times=logs["moment"], per_event=2)
    rank = np.full((300, 40), 99)
    np.put_along_axis(rank, taken, np.arange(20)[None, :], axis=1)
    when = rank[drawn["user"].to_numpy(), drawn["item"].to_numpy()]
    now = drawn["moment"].to_numpy()
    assert (when > now).all()
    expected = (19 - moments) / (39 - moments)  # of the items not had so far, these are taken later
    assert abs((when < 99).mean() - expected.mean()) < 0.02


def test_an_item_that_nobody_has_had_blocks_nothing() -> None:
    drawn = draw_items(
        np.zeros(3, dtype=np.int64),
        np.empty(0, dtype=np.int64),
        np.full(4, 0.25),
        lambda _, pending: np.zeros(len(pending), dtype=np.int64),
        lambda pending: np.zeros(len(pending)),
    )
    assert drawn.tolist() == [0, 0, 0]


@given(
    events=EVENTS,
    per_event=st.integers(1, 3),
    seed=st.integers(0, 2**32),
    by=st.sampled_from(["uniform", "popularity"]),
)
def test_a_negative_is_an_item_the_user_never_had_in_that_context(
    events: list[tuple[int, int, int, str]], per_event: int, seed: int, by: str
) -> None:
    logs = pl.DataFrame(events, schema=COLUMNS, orient="row")
    items = {item for _, item, _, _ in events}
    used = {(user, place, mood): set[int]() for user, _, place, mood in events}
    for user, item, place, mood in events:
        used[user, place, mood].add(item)
    chosen: dict[str, Any] = {"context": ["place", "mood"], "per_event": per_event, "by": by}
    possible = [(user, place, mood) for user, _, place, mood in events if len(used[user, place, mood]) < len(items)]
    if not possible:
        with pytest.raises(DataError, match="no negative can be drawn"):
            drawn_for(logs, seed, **chosen)
        return
    drawn = drawn_for(logs, seed, **chosen)
    assert drawn.drop("item").rows() == [place for place in possible for _ in range(per_event)]
    assert all(item in items - used[user, place, mood] for user, item, place, mood in drawn.rows())
    assert drawn.equals(drawn_for(logs, seed, **chosen))


def test_negatives_are_drawn_uniformly_from_what_qualifies() -> None:
    """Four of six items qualify for user 0, however popular they are with user 1."""
    logs = pl.DataFrame({"user": [0, 0, 1, 1, 1, 1, 1], "item": [0, 1, 2, 2, 3, 4, 5]})
    drawn = pl.concat([drawn_for(logs, seed, per_event=100) for seed in range(40)])
    counts = Counter(drawn.filter(user=0)["item"])
    expected = 8000 / 4
    assert set(counts) == {2, 3, 4, 5}
    assert sum((count - expected) ** 2 / expected for count in counts.values()) < 21.1  # chi-square, 3 df, p = 1e-4


CLICKS = pl.DataFrame(
    {
        "who": ["a", "a", "b", "b", "c", "c"],
        "what": ["x", "y", "y", "z", "z", "w"],
        "genre": ["X", "Y", "Y", "Z", "Z", "W"],
        "age": [20, 20, 30, 30, 40, 40],
        "device": ["tv", "pc", "tv", "pc", "pc", "tv"],
        "at": [1, 2, 1, 2, 1, 2],
    }
)
FIELDS = {"genre": "categorical", "age": "numeric", "device": "categorical"}


def schema_of(**more: Any) -> TableSchema:
    chosen = {"user": "who", "item": "what", "time": "at", "fields": FIELDS, "negatives": 2}
    return TableSchema.model_validate(chosen | more)


def rows_of(log: InteractionLog) -> pl.DataFrame:
    values = [log.features.decode(log.ids[row], log.weights[row]) for row in range(log.n_rows)]  # type: ignore[index]
    owners = np.repeat(log.user_ids.to_pylist(), log.lengths)
    return pl.DataFrame(values).with_columns(who=pl.Series(owners), label=pl.Series(log.labels))


def test_a_drawn_item_brings_its_own_fields_and_takes_the_rest_from_the_event() -> None:
    log = build_log(CLICKS, schema_of())
    facts = log.manifest.negatives
    assert facts is not None
    assert facts.item_fields == ("genre",)
    assert (facts.events, facts.rows) == (6, 12)
    rows = rows_of(log)
    assert rows["label"].to_list() == [1, 0, 0] * 6  # each event is followed by its negatives
    assert (rows["genre"] == rows["what"].str.to_uppercase()).all()
    events = rows.filter(label=1)
    for column in ("who", "age", "device"):
        assert rows[column].to_list() == [value for value in events[column] for _ in range(3)]
    for place, row in enumerate(rows.iter_rows(named=True)):
        so_far = rows[: place + 1].filter(label=1, who=row["who"])["what"]
        assert row["label"] == 1 or row["what"] not in so_far


def test_fields_of_items_are_found_although_a_user_returns_to_an_item() -> None:
    frame = pl.DataFrame(
        {
            "user": ["a"] * 6 + ["b"] * 6,
            "item": list("xxxyyy") * 2,
            "age": [1] * 6 + [2] * 6,
            "kind": list("KKKLLL") * 2,
        }
    )
    assert belongs_to_item(frame, "kind", user="user", item="item")
    assert not belongs_to_item(frame, "age", user="user", item="item")


def test_only_users_without_a_label_of_0_get_negatives() -> None:
    mixed = CLICKS.with_columns(liked=pl.Series([1, 1, 1, 0, 1, 1]))
    rows = rows_of(build_log(mixed, schema_of(label="liked")))
    assert {who: len(part) for (who,), part in rows.group_by("who")} == {"a": 6, "b": 2, "c": 6}
    assert rows.filter(who="b")["label"].to_list() == [1, 0]


def test_the_seed_and_the_number_can_be_chosen_from_outside(tmp_path: Path) -> None:
    CLICKS.write_csv(tmp_path / "clicks.csv")
    (tmp_path / "schema.yaml").write_text(
        "{user: who, item: what, negatives: {by: popularity}, fields: {age: numeric}}"
    )
    logs = [
        prepare_log(str(tmp_path / "clicks.csv"), tmp_path / str(n), schema=tmp_path / "schema.yaml", options=options)
        for n, options in enumerate(
            (PrepareOptions(), PrepareOptions(seed=0), PrepareOptions(seed=1), PrepareOptions(negatives=3))
        )
    ]
    assert [log.n_rows for log in logs] == [18, 18, 18, 24]
    assert logs[0].content_hash == logs[1].content_hash != logs[2].content_hash
    kept = InteractionLog.open(tmp_path / "2").manifest
    assert kept.negatives is not None
    assert kept.options is not None
    assert (kept.negatives.seed, kept.negatives.by, kept.options.negatives) == (1, "popularity", 2)
    assert "seed 1" in kept.negatives.sentence


def test_a_table_of_clicks_gets_the_advice_to_draw_negatives(tmp_path: Path) -> None:
    path = tmp_path / "clicks.csv"
    CLICKS.with_columns(clicked=1).write_csv(path)
    schema = TableSchema.model_validate({"user": "who", "item": "what", "label": "clicked"})
    (problem,) = diagnose(path, schema)
    assert "every label is 1" in problem.what
    assert "negatives: 2" in problem.fix
    assert diagnose(path, schema, PrepareOptions(negatives=2)) == []
    (tmp_path / "schema.yaml").write_text("{user: who, item: what}")
    with pytest.raises(ConfigError, match=r"there is no label.*'negatives: 2'"):
        TableSchema.read(tmp_path / "schema.yaml")


@pytest.mark.parametrize(
    ("negatives", "said"),
    [
        ({"per_event": 0}, "per_event"),
        (0, "per_event"),
        ({"by": "rank"}, "by"),
        ({"context": ["hour"]}, "context names 'hour'"),
        ({"item_fields": ["what"]}, "item_fields names 'what'"),
        ({"per_evnt": 1}, "per_evnt"),
    ],
)
def test_a_wrong_rule_is_named(tmp_path: Path, negatives: Any, said: str) -> None:
    path = tmp_path / "schema.yaml"
    path.write_text(str({"user": "who", "item": "what", "negatives": negatives}))
    with pytest.raises(ConfigError, match=said):
        TableSchema.read(path)


def test_a_single_item_leaves_nothing_to_draw() -> None:
    with pytest.raises(DataError, match="a single item leaves no negative"):
        build_log(CLICKS.with_columns(what=pl.lit("x")), schema_of(), BuildOptions(duplicates="keep"))


def test_options_in_the_schema_are_defaults(tmp_path: Path) -> None:
    path = tmp_path / "clicks.csv"
    pl.concat([CLICKS, CLICKS.head(1)]).with_columns(liked=pl.Series([1, 0] * 3 + [1])).write_csv(path)
    roles: dict[str, Any] = {"user": "who", "item": "what", "time": "at", "label": "liked"}
    assert [problem.what[:8] for problem in diagnose(path, TableSchema.model_validate(roles))] == ["the same"]
    kept = TableSchema.model_validate(roles | {"duplicates": "first"})
    assert diagnose(path, kept) == []
    assert len(diagnose(path, kept, PrepareOptions(duplicates="error"))) == 1
