"""What holds for every method of the comparison, whatever it does inside."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import numpy.typing as npt
import pytest
import torch
from planted_models import TINY, small_log

from resus.arrays import Floats
from resus.baselines.base import Method, Task
from resus.config.resolve import resolve
from resus.data.log.log import InteractionLog
from resus.episodes.batch import EpisodeBatch
from resus.episodes.prefixes import OrderedUsers
from resus.paper.questions import ABLATIONS, FEW_SHOT, OPTIMISATION, PLUS, PRACTICE
from resus.paper.rivals import METHODS
from resus.paper.rivals.melu import MeLU
from resus.paper.rivals.meta_embedding import MetaEmbedding

SIZES = (0, 1, 2, 4, 6)
FITTED_TO_ALL_SUPPORTS = {name for name in METHODS if name.startswith("boosted-")}


def task() -> Task:
    return Task(small_log(), resolve(TINY))


@cache
def fitted(name: str) -> Method:
    method = METHODS[name].build()
    method.fit(task())
    return method


def episodes(size: int, users: int = 4) -> EpisodeBatch:
    """The first test users with `size` events known."""
    ordered = new_users(users)
    sizes = np.full(users, size)
    return EpisodeBatch(ordered.rows, ordered.lengths, sizes)


def new_users(users: int = 4) -> OrderedUsers:
    test = task().split.test
    return OrderedUsers.of(small_log(), test[small_log().lengths[test] > max(SIZES)][:users], seed=1)


def test_plus_and_what_it_is_without_are_methods() -> None:
    assert METHODS.keys() >= {PLUS, *ABLATIONS}
    assert [METHODS[name].label for name in (PLUS, ABLATIONS[0])] == ["RESUS+", "RESUS+ without bias"]
    full = METHODS[PLUS].build().settings  # type: ignore[attr-defined]
    for name in ABLATIONS:
        own = METHODS[name].build().settings  # type: ignore[attr-defined]
        assert len([key for key in own if own[key] != full.get(key)]) == 1, f"{name} differs in one thing"


@pytest.mark.parametrize("name", METHODS)
def test_no_event_is_a_normal_case(name: str) -> None:
    batch = episodes(0)
    answers = fitted(name).score(small_log(), batch)
    assert answers.shape == (len(batch.rows),)
    assert answers.dtype == np.float32
    assert np.isfinite(answers).all()


@pytest.mark.parametrize("size", [0, 3])
@pytest.mark.parametrize("name", sorted(set(METHODS) - FITTED_TO_ALL_SUPPORTS))
def test_one_query_alone_gets_the_answer_it_gets_among_others(name: str, size: int) -> None:
    batch = episodes(size)
    together = fitted(name).score(small_log(), batch)
    starts = np.cumsum(batch.lengths) - batch.lengths
    place = 0
    for start, length in zip(starts, batch.lengths, strict=True):
        query = start + length - 1
        alone = EpisodeBatch(
            np.append(batch.rows[start : start + size], batch.rows[query]), np.array([size + 1]), np.array([size])
        )
        place += length - size
        np.testing.assert_allclose(fitted(name).score(small_log(), alone)[0], together[place - 1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", METHODS)
def test_the_order_of_the_support_says_nothing(name: str) -> None:
    batch = episodes(5)
    starts = np.cumsum(batch.lengths) - batch.lengths
    rows = batch.rows.copy()
    for start in starts:
        rows[start : start + 5] = rows[start : start + 5][[3, 0, 4, 2, 1]]
    shuffled = EpisodeBatch(rows, batch.lengths, batch.support_sizes)
    np.testing.assert_allclose(
        fitted(name).score(small_log(), shuffled), fitted(name).score(small_log(), batch), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("name", METHODS)
def test_labels_of_queries_are_not_read(name: str) -> None:
    batch = episodes(4)
    hidden = with_labels(lambda labels: labels * 0 + 1, batch.rows[batch.query.numpy()])
    np.testing.assert_array_equal(fitted(name).score(hidden, batch), fitted(name).score(small_log(), batch))


@pytest.mark.parametrize("name", METHODS)
def test_prefix_scores_read_no_label_after_the_prefix(name: str) -> None:
    ordered = new_users()
    later = ordered.rows[ordered.positions >= max(SIZES)]
    hidden = with_labels(lambda labels: 1 - labels, later)
    queries = ordered.positions >= max(SIZES)
    expected = fitted(name).score_prefixes(small_log(), ordered, SIZES)[queries]
    np.testing.assert_allclose(
        fitted(name).score_prefixes(hidden, ordered, SIZES)[queries], expected, rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("name", METHODS)
def test_prefix_scores_equal_scores_size_by_size(name: str) -> None:
    ordered = new_users()
    answers = fitted(name).score_prefixes(small_log(), ordered, SIZES)
    assert answers.shape == (len(ordered.rows), len(SIZES))
    for column, size in enumerate(SIZES):
        one_by_one = fitted(name).score(small_log(), episodes(size))
        np.testing.assert_allclose(answers[ordered.positions >= size, column], one_by_one, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", sorted(set(METHODS) - {"deepfm", "lr", "fm", "wide-deep", "xdeepfm", "lightgbm"}))
def test_the_support_matters(name: str) -> None:
    batch = episodes(6)
    support = np.setdiff1d(batch.rows, batch.rows[batch.query.numpy()])
    flipped = with_labels(lambda labels: 1 - labels, support)
    assert np.abs(fitted(name).score(flipped, batch) - fitted(name).score(small_log(), batch)).max() > 1e-5


@pytest.mark.parametrize(
    "method", [MeLU(inner_rate=0.1), MetaEmbedding(inner_rate=0.1)], ids=["melu", "meta-embedding"]
)
def test_a_click_raises_the_answer_to_the_same_event(method: Method) -> None:
    """One step of gradient descent on one event moves its own logit towards its label."""
    method.fit(task())
    first = small_log().offsets[:8]
    twice = EpisodeBatch(np.repeat(first, 2), np.full(8, 2), np.ones(8, dtype=np.int64))
    alone = EpisodeBatch(first, np.ones(8, dtype=np.int64), np.zeros(8, dtype=np.int64))
    moved = method.score(small_log(), twice) - method.score(small_log(), alone)
    assert set(small_log().labels[first]) == {0.0, 1.0}
    np.testing.assert_array_equal(moved > 0, small_log().labels[first] == 1)


@pytest.mark.parametrize("name", [*FEW_SHOT, *OPTIMISATION, *PRACTICE, "din", "resus-rr-refit", PLUS])
def test_the_same_seed_gives_the_same_numbers(name: str) -> None:
    torch.manual_seed(99)
    again = METHODS[name].build()
    again.fit(task())
    np.testing.assert_array_equal(again.score(small_log(), episodes(4)), fitted(name).score(small_log(), episodes(4)))


def with_labels(change: Callable[[Floats], Floats], rows: npt.NDArray[np.int64]) -> InteractionLog:
    """The log with some rows' labels changed."""
    labels = small_log().labels.copy()
    labels[rows] = change(labels[rows])
    return replace(small_log(), labels=labels)
