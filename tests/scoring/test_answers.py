"""Scoring many users at once gives the same scores as one user at a time."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planted_models import events, log_of, tiny

from resus import Resus
from resus.scoring import answers

EVENTS = events()
ROWS = st.lists(st.integers(0, EVENTS.height - 1), max_size=40)


@pytest.fixture(scope="module", params=["ridge", "nearest"])
def model(request: pytest.FixtureRequest) -> Resus:
    return tiny(learner=request.param).fit(log_of(EVENTS))


def table(rows: list[int], users: list[int]) -> pl.DataFrame:
    """Some events, assigned to the given users."""
    return EVENTS[rows].with_columns(user=pl.Series(users[: len(rows)], dtype=pl.Int64))


@given(
    support=ROWS,
    query=ROWS,
    owners=st.lists(st.integers(0, 6), min_size=40, max_size=40),
    askers=st.lists(st.integers(0, 8), min_size=40, max_size=40),
    tile_cells=st.sampled_from([1, 5000, 1 << 24]),
    tile_rows=st.sampled_from([1, 7, 8192]),
)
@settings(max_examples=40, deadline=None)
def test_many_users_are_scored_like_each_alone(
    model: Resus,
    support: list[int],
    query: list[int],
    owners: list[int],
    askers: list[int],
    tile_cells: int,
    tile_rows: int,
) -> None:
    known, asked = table(support, owners), table(query, askers).drop("click")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answers, "TILE_CELLS", tile_cells)
        patch.setattr(answers, "TILE_ROWS", tile_rows)
        together = model.predict(known, asked)
    assert together["user"].equals(asked["user"])
    for user in set(askers[: len(query)]):
        own = pl.col("user") == user
        alone = model.predict(known.filter(own), asked.filter(own))
        same = together.filter(own)
        assert alone["support"].equals(same["support"])
        for column in ("probability", "basis", "residual"):
            np.testing.assert_allclose(same[column].to_numpy(), alone[column].to_numpy(), atol=1e-5)


@given(st.lists(st.integers(0, EVENTS.height - 1), min_size=1, max_size=30))
@settings(max_examples=20, deadline=None)
def test_the_order_of_the_events_does_not_matter(model: Resus, rows: list[int]) -> None:
    known, asked = table(rows, [1] * 30), table([0, 1, 2], [1, 1, 2])
    shuffled = known.sample(fraction=1, shuffle=True, seed=len(rows))
    one, other = model.predict(known, asked), model.predict(shuffled, asked)
    np.testing.assert_allclose(one["residual"].to_numpy(), other["residual"].to_numpy(), atol=1e-5)


def test_more_events_than_in_training_are_fine(model: Resus) -> None:
    rows = list(range(300))
    answer = model.predict(table(rows, [1] * 300), table([5, 6], [1, 1]))
    assert answer["support"].to_list() == [300, 300]
    assert answer["probability"].is_between(0, 1).all()


def test_events_need_no_time(model: Resus) -> None:
    known, asked = table(list(range(10)), [1] * 10), table([30, 31], [1, 1])
    with_time, without = model.predict(known, asked), model.predict(known.drop("time"), asked)
    np.testing.assert_allclose(with_time["residual"].to_numpy(), without["residual"].to_numpy(), atol=1e-5)


def test_a_long_history_is_fitted_once_for_all_its_candidates(model: Resus, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = model._fitted().model.learner
    calls: list[int] = []
    learner.register_forward_pre_hook(lambda _, inputs: calls.append(inputs[0].shape[0]))
    monkeypatch.setattr(answers, "TILE_ROWS", 10)
    model.predict(table(list(range(200)), [1] * 200), table(list(range(40)), [1] * 40))
    assert calls == [1]
