"""What is drawn for a user depends on the user's own events alone."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from planted_models import events

from resus import build_log
from resus.data.log.log import InteractionLog
from resus.data.negatives.support import Completed, NegativeItems
from resus.data.options import BuildOptions
from resus.data.schema import TableSchema

ROLES = {"user": "user", "item": "item", "time": "time"}
FIELDS = {"category": "categorical", "price": "numeric", "tags": "multi"}
RULES = {
    "uniform": {"per_event": 2},
    "popularity": {"per_event": 3, "by": "popularity"},
    "context": {"per_event": 1, "context": ["category"], "item_fields": []},
}


@cache
def log_of(rule: str) -> InteractionLog:
    schema = TableSchema.model_validate(ROLES | {"fields": FIELDS, "negatives": RULES[rule]})
    return build_log(events().filter(click=1), schema, BuildOptions(seed=3, duplicates="keep"))


@cache
def items_of(rule: str) -> NegativeItems:
    items = NegativeItems.of(log_of(rule))
    assert items is not None
    return items


def positives(rule: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.flatnonzero(log_of(rule).labels == 1)[:40]


def completed(rule: str, rows: list[int], users: list[int], labels: list[float] | None = None) -> Completed:
    log, chosen = log_of(rule), positives(rule)[rows]
    assert log.weights is not None
    said = np.ones(len(rows)) if labels is None else np.array(labels)
    return items_of(rule).complete(log.ids[chosen], log.weights[chosen], said, np.array(users, dtype=np.int64))


def rows_of(whole: Completed, events: list[int]) -> set[tuple[float, ...]]:
    """The rows that belong to some of the events."""
    assert whole.weights is not None
    chosen = np.isin(whole.event, events)
    rows = np.column_stack([whole.ids, whole.weights, whole.labels])[chosen]
    return {tuple(row) for row in rows.tolist()}


@given(
    rule=st.sampled_from([*RULES]),
    people=st.lists(st.lists(st.integers(0, 39), min_size=1, max_size=6), min_size=1, max_size=4),
)
def test_users_in_a_batch_get_what_they_get_alone(rule: str, people: list[list[int]]) -> None:
    users = [user for user, rows in enumerate(people) for _ in rows]
    together = completed(rule, [row for rows in people for row in rows], users)
    for user, rows in enumerate(people):
        alone = completed(rule, rows, [7] * len(rows))
        own = [event for event, owner in enumerate(users) if owner == user]
        assert rows_of(together, own) == rows_of(alone, list(range(len(rows))))


@given(
    rule=st.sampled_from([*RULES]), rows=st.lists(st.integers(0, 39), min_size=1, max_size=8), seed=st.integers(0, 9)
)
def test_the_order_of_events_does_not_matter(rule: str, rows: list[int], seed: int) -> None:
    shuffled = np.random.default_rng(seed).permutation(rows).tolist()
    one, other = (completed(rule, order, [0] * len(rows)) for order in (rows, shuffled))
    everything = list(range(len(rows)))
    assert rows_of(one, everything) == rows_of(other, everything)


@given(rule=st.sampled_from([*RULES]), rows=st.lists(st.integers(0, 39), min_size=1, max_size=8))
def test_no_drawn_item_was_had_and_each_event_keeps_its_own_rows(rule: str, rows: list[int]) -> None:
    items, log = items_of(rule), log_of(rule)
    whole = completed(rule, rows, [0] * len(rows))
    column = log.features.block("item").columns.start
    drawn = whole.item >= 0
    context = [log.features.block(name).columns.start for name in items.facts.context]
    had = {tuple(row) for row in whole.ids[~drawn][:, [column, *context]].tolist()}
    assert not had & {tuple(row) for row in whole.ids[drawn][:, [column, *context]].tolist()}
    assert (whole.labels == ~drawn).all()
    assert (np.diff(whole.event) >= 0).all()
    assert set(np.bincount(whole.event)) == {1 + items.facts.per_event}
    others = [place for place in range(log.features.n_columns) if not items._of_item[place]]
    assert (whole.ids[:, others] == log.ids[positives(rule)[rows]][whole.event][:, others]).all()


def test_a_new_event_leaves_what_was_drawn_before_unless_it_is_its_item() -> None:
    before = completed("uniform", [0, 1, 2], [0] * 3)
    for row in range(3, 40):
        after = completed("uniform", [0, 1, 2, row], [0] * 4)
        column = log_of("uniform").features.block("item").columns.start
        fresh = after.ids[after.event == 3][0, column]
        for event in range(3):
            old, new = (whole.ids[whole.event == event][:, column] for whole in (before, after))
            assert (new[old != fresh] == old[old != fresh]).all()
            assert fresh not in new[1:]


def test_a_dislike_of_the_user_means_that_nothing_is_drawn() -> None:
    whole = completed("uniform", [0, 1, 2, 3], [0, 0, 1, 1], [1, 0, 1, 1])
    assert whole.event.tolist() == [0, 1, *[2] * 3, *[3] * 3]
    assert whole.labels.tolist() == [1, 0, 1, 0, 0, 1, 0, 0]


def test_a_user_with_every_item_gets_none() -> None:
    log = log_of("uniform")
    column = log.features.block("item").columns.start
    _, rows = np.unique(log.ids[:, column], return_index=True)
    assert log.weights is not None
    whole = items_of("uniform").complete(log.ids[rows], log.weights[rows], np.ones(len(rows)), np.zeros_like(rows))
    assert len(whole.event) == len(rows)


@pytest.mark.parametrize("rule", [*RULES])
def test_draws_follow_the_chances(rule: str) -> None:
    """The user has had one item, in many situations, each of which draws anew."""
    items = items_of(rule)
    events = 6000
    row = np.repeat(log_of(rule).ids[:1], events, axis=0)
    weights = np.repeat(items.weights[:1], events, axis=0) if items.weights is not None else None
    whole = items.complete(row, weights, np.ones(events), np.zeros(events, dtype=np.int64))
    own = items._codes(row[:1])[0]
    counts = np.bincount(whole.item[whole.item >= 0], minlength=len(items.chances))
    chances = items.chances.copy()
    chances[own] = 0
    expected = counts.sum() * chances / chances.sum()
    assert counts[own] == 0
    left = expected > 0
    assert ((counts - expected)[left] ** 2 / expected[left]).sum() < 60  # chi-square, at most 19 df, p < 1e-5


def test_what_is_written_is_read(log: InteractionLog) -> None:
    items = items_of("popularity")
    again = NegativeItems.read(items.arrays(), items.facts, items.features)
    rows = positives("popularity")[:5]
    assert items.weights is not None
    both = [
        one.complete(log_of("popularity").ids[rows], items.weights[:5], np.ones(5), np.zeros(5, dtype=np.int64))
        for one in (items, again)
    ]
    assert (both[0].ids == both[1].ids).all()
    assert NegativeItems.of(log) is None
    bent = items.arrays()
    for name, array, said in (
        ("ids", bent["ids"][:, 1:], "items"),
        ("ids", bent["ids"] + 1000, "does not know"),
        ("chances", bent["chances"] * 2, "sum to 1"),
        ("weights", bent["ids"][:3], "weights"),
    ):
        with pytest.raises(ValueError, match=said):
            NegativeItems.read(bent | {name: array}, items.facts, items.features)
