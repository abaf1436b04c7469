"""What an experiment counts, next to the same numbers from scikit-learn and scipy."""

import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from scipy.stats import spearmanr
from sklearn.metrics import log_loss, roc_auc_score

from resus.errors import ConfigError
from resus.model.inference.parts import sigmoid
from resus.serving.experiment import predictions as module
from resus.serving.experiment.agreement import auc_of, rank_correlation
from resus.serving.experiment.figures import Figures, Pair
from resus.serving.experiment.predictions import Predictions, Seen, shared_memory
from resus.serving.experiment.split import Split

USERS = [f"user {number}" for number in range(20_000)]


def test_a_split_takes_its_share_of_the_users_and_a_larger_one_takes_the_same_and_more() -> None:
    tenth, half = Split(0.1), Split(0.5)
    chosen = [user for user in USERS if tenth.has(user)]
    assert len(chosen) / len(USERS) == pytest.approx(0.1, abs=0.01)
    assert all(half.has(user) for user in chosen)
    others = {user for user in USERS if Split(0.1, "another").has(user)}
    assert len(others & set(chosen)) / len(USERS) == pytest.approx(0.01, abs=0.005)


def test_a_split_is_the_same_everywhere() -> None:
    """Written down, because a later version must not move the users of a running experiment."""
    assert [user for user in USERS[:30] if Split(0.1).has(user)] == ["user 10", "user 17", "user 21"]


@pytest.mark.parametrize("share", [0, 1, -0.1, 1.5, float("nan")])
def test_a_share_is_between_0_and_1(share: float) -> None:
    with pytest.raises(ConfigError, match=r"--split is .*more than 0 and less than 1"):
        Split(share)


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=2, max_size=30))
def test_the_rank_correlation_is_spearmans(pairs: list[tuple[int, int]]) -> None:
    one, other = np.array(pairs, dtype=np.float32).T
    found = rank_correlation(one, other)
    if len(set(one)) == 1 or len(set(other)) == 1:
        assert found is None
    else:
        assert found == pytest.approx(spearmanr(one, other)[0], abs=1e-9)


def told(pair: Pair, registry: CollectorRegistry) -> Any:
    return pair.answer(registry.collect(), None)


@pytest.mark.parametrize("seed", range(4))
def test_auc_and_logloss_are_those_of_scikit_learn(seed: int) -> None:
    random = np.random.default_rng(seed)
    registry = CollectorRegistry()
    pair = Pair(Figures(registry), "a", "b")
    labels = (random.random(2000) < 0.2).astype(float)
    logits = random.normal(-1.5, 1.5, (2, 2000)) + labels * [[1.0], [2.0]]
    for one, other, label in zip(*logits, labels, strict=True):
        pair.joined(Seen(one, other, by_second=False), label)
    found = told(pair, registry)
    for figures, scores in ((found.first, logits[0]), (found.second, logits[1])):
        exact = roc_auc_score(labels, scores)
        assert abs(figures.auc - exact) <= figures.auc_error + 1e-9
        assert figures.auc == pytest.approx(exact, abs=1e-3)
        assert figures.auc_error < 0.03
        assert figures.logloss == pytest.approx(log_loss(labels, sigmoid(scores)), abs=1e-9)
    assert (found.joined, found.first.events, found.second.events) == (2000, 2000, 0)
    assert found.first.positive == pytest.approx(labels.mean())


def test_scores_beyond_the_bins_still_count() -> None:
    registry = CollectorRegistry()
    pair = Pair(Figures(registry), "a", "b")
    for logit, label in ((-50.0, 0), (50.0, 1)):
        pair.joined(Seen(logit, -logit, by_second=True), label)
    found = told(pair, registry)
    assert (found.first.auc, found.second.auc, found.second.events) == (1.0, 0.0, 2)


def test_there_is_no_auc_without_both_labels() -> None:
    assert auc_of(np.zeros(3), np.ones(3)) is None


def test_figures_are_of_one_pair_of_models() -> None:
    registry = CollectorRegistry()
    figures = Figures(registry)
    scores = np.array([1, 2, 3], dtype=np.float32)
    for pair in (Pair(figures, "a", "b"), Pair(figures, "a", "c")):
        pair.compared(scores, -scores, same_best=False, by_second=True)
        pair.left_out("queue full")
    found = told(Pair(figures, "a", "c"), registry)
    assert (found.compared, found.second.answered, found.same_best, found.rank_correlation) == (1, 1, 0.0, -1.0)
    assert found.left_out == {"queue full": 1}
    assert found.difference == pytest.approx(np.abs(sigmoid(scores) - sigmoid(-scores)).mean())


def noted(predictions: Predictions, user: str, *items: str, value: float = 1.0) -> None:
    scores = np.arange(len(items), dtype=np.float32) + np.float32(value)
    predictions.note(user, items, scores, -scores, by_second=False)


def test_the_last_scores_of_a_user_and_an_item_are_found_once() -> None:
    memory = shared_memory(12)
    one, other = Predictions(memory, "a b"), Predictions(memory, "a b")
    noted(one, "u", "1", "2")
    noted(one, "u", "1", value=7)
    assert Predictions(memory, "a c").take("u", "1") is None
    assert other.take("v", "1") is None
    assert other.take("u", "1") == Seen(7.0, -7.0, by_second=False)
    assert other.take("u", "1") is None
    assert other.take("u", "2") == Seen(2.0, -2.0, by_second=False)


def test_scores_are_forgotten_with_their_user_and_after_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = shared_memory(12)
    predictions = Predictions(memory, "a b")
    noted(predictions, "u", "1")
    noted(predictions, "v", "1", "2")
    predictions.forget("u")
    assert predictions.take("u", "1") is None
    assert predictions.take("v", "1") is not None
    noted(predictions, "w", "1")
    other = Predictions(memory, "a c")
    other.clear()
    assert predictions.take("w", "1") is None
    noted(predictions, "v", "1", "2")
    now = module._now()
    monkeypatch.setattr(module, "_now", lambda: now + module.WINDOW_SECONDS + 2)
    assert predictions.take("v", "2") is None


def test_a_full_table_keeps_most_of_the_newest_scores_and_never_a_wrong_one() -> None:
    predictions = Predictions(shared_memory(10), "a b")
    for number in range(5000):
        score = np.array([number], dtype=np.float32)
        predictions.note("u", [f"{number}"], score, -score, by_second=bool(number % 2))
    found = [predictions.take("u", f"{number}") for number in range(5000)]
    kept = {number: seen for number, seen in enumerate(found) if seen}
    assert all(seen == Seen(number, -number, bool(number % 2)) for number, seen in kept.items())
    assert sum(number >= 4800 for number in kept) > 150


def test_threads_that_write_at_the_same_time_leave_no_false_score() -> None:
    predictions = Predictions(shared_memory(4), "a b")
    wrong: list[Seen] = []

    def work(user: int) -> None:
        for _ in range(300):
            items = [f"{user}-{item}" for item in range(40)]
            scores = np.full(40, user, dtype=np.float32)
            predictions.note(f"{user}", items, scores, -scores, by_second=False)
            wrong.extend(seen for item in items if (seen := predictions.take(f"{user}", item)) and seen.first != user)

    threads = [threading.Thread(target=work, args=(user,)) for user in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
