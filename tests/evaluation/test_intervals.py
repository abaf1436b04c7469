"""Resampled metrics against plain ones on repeated rows; bootstrap and gains against a loop that copies rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resus.arrays import Floats, Integers
from resus.errors import ConfigError
from resus.evaluation.intervals import (
    FEWEST_DRAWS,
    MOST_DRAWS,
    Differences,
    check_draws,
    differences,
    drawn_users,
    gains_over,
    resamplers_of,
    stage_draws,
)
from resus.evaluation.metrics import DrawCounts, auc, gauc, logloss, resampled_auc, resampled_gauc, resampled_logloss
from resus.evaluation.population import ScoredQueries, staged_results
from resus.evaluation.results import Gain, Gains
from resus.randomness import Purpose, generator

SIZES = (0, 1, 2, 4)
STAGES = {"I": [1, 2], "II": [4]}
METRICS = ("auc", "gauc", "logloss")
USERS = 5
# few distinct values and both zeros: ties are the rule
SCORES = st.sampled_from([-2.5, -1e-40, -0.0, 0.0, 0.25, 3.0])
ROWS = st.lists(st.tuples(st.integers(0, USERS - 1), st.booleans(), SCORES), min_size=1, max_size=40)
WEIGHTS = st.lists(st.integers(0, 4), min_size=USERS, max_size=USERS)


def arrays(rows: list[tuple[int, bool, float]]) -> tuple[Floats, Floats, Integers]:
    users, labels, scores = zip(*sorted(rows, key=lambda row: row[0]), strict=True)
    return np.array(labels, dtype=np.float32), np.array(scores, dtype=np.float32), np.array(users)


def copied(users: Integers, weights: DrawCounts) -> tuple[Integers, Integers]:
    """Rows with each user's block as often as its weight says, and the number of the block: a copy is a user too."""
    blocks = [np.flatnonzero(users == user) for user in range(len(weights)) for _ in range(int(weights[user]))]
    rows = np.concatenate([*blocks, np.empty(0, dtype=np.int64)])
    return rows.astype(np.int64), np.repeat(np.arange(len(blocks)), [len(block) for block in blocks])


def tasted(lengths: list[int], *, clicks: float = 0.5, seed: int = 0) -> ScoredQueries:
    """A model that learns the taste of a user, a base and a noise that know nothing; few distinct scores, so ties."""
    rng = np.random.default_rng(seed)
    users = np.repeat(np.arange(len(lengths)) * 3 + 5, lengths)
    positions = np.concatenate([np.arange(length) for length in lengths])
    labels = rng.random(len(users)) < clicks
    taste = labels + rng.normal(0, 1, len(users))
    item = rng.normal(0, 1, len(users))
    logits = {
        "base": item[:, None],
        "model": item[:, None] + taste[:, None] * np.array(SIZES) / 4,
        "noise": rng.normal(0, 1, (len(users), len(SIZES))),
    }
    logits["model"][positions[:, None] < np.array(SIZES)] = np.nan  # a support row has no score
    return ScoredQueries(
        labels=labels.astype(np.float32),
        users=users,
        positions=positions,
        sizes=SIZES,
        logits={name: values.round(1).astype(np.float32) for name, values in logits.items()},
    )


def found_gains(scored: ScoredQueries, *, draws: int = 60, seed: int = 3) -> Gains:
    measured = staged_results(scored, stages=STAGES, base="base")
    return gains_over("base", scored, measured, stages=STAGES, draws=draws, seed=seed)


def drawn(users: int, replicates: int) -> DrawCounts:
    return drawn_users(users, replicates, np.random.default_rng(5))


def compared(scored: ScoredQueries, method: str, against: str, draws: DrawCounts) -> dict[tuple[str, str], Differences]:
    of_models = stage_draws(scored, [method, against], stages=STAGES, weights=draws, resamplers=resamplers_of(METRICS))
    return differences(of_models[method], of_models[against])


def by_copying_rows(scored: ScoredQueries, weights: DrawCounts) -> dict[tuple[str, str], float]:
    """The stage means of model minus base on the rows of drawn users, by the plain metrics."""
    everyone = np.unique(scored.users, return_inverse=True)[1]
    rows, copies = copied(everyone, weights)
    found = {}
    for stage, members in STAGES.items():
        values: dict[str, list[float]] = {metric: [] for metric in METRICS}
        for k in members:
            asked = scored.positions[rows] >= k
            queries, users = rows[asked], copies[asked]
            ours, theirs = (scored.logits_at(name, SIZES.index(k), queries) for name in ("model", "base"))
            labels = scored.labels[queries]
            values["auc"].append(auc(labels, ours) - auc(labels, theirs))
            values["gauc"].append(gauc(labels, ours, users) - gauc(labels, theirs, users))
            values["logloss"].append(logloss(labels, ours) - logloss(labels, theirs))
        for metric, of_sizes in values.items():
            present = [value for value in of_sizes if not np.isnan(value)]
            found[stage, metric] = float(np.mean(present)) if present else float("nan")
    return found


@settings(deadline=None)
@given(ROWS, st.lists(WEIGHTS, min_size=1, max_size=3))
def test_a_weight_is_that_many_copies_of_the_user(rows: list[tuple[int, bool, float]], drawn: list[list[int]]) -> None:
    labels, scores, users = arrays(rows)
    weights = np.array(drawn, dtype=np.uint16)
    measures = (resampled_auc, resampled_gauc, resampled_logloss)
    found = np.array([measure(labels, scores, users, weights) for measure in measures])
    for draw, weight in enumerate(weights):
        again, copies = copied(users, weight)
        own = labels[again], scores[again]
        assert list(found[:, draw]) == pytest.approx(
            [auc(*own), gauc(*own, copies), logloss(*own)], abs=1e-12, nan_ok=True
        )


@settings(deadline=None)
@given(st.lists(st.integers(1, 8), min_size=1, max_size=12), st.integers(0, 1000))
def test_the_bootstrap_is_one_that_copies_the_rows_of_the_same_draws(lengths: list[int], seed: int) -> None:
    scored = tasted(lengths, seed=seed)
    draws = drawn_users(len(lengths), 4, np.random.default_rng(seed))
    found = compared(scored, "model", "base", draws)
    for number, weights in enumerate(draws):
        for key, expected in by_copying_rows(scored, weights).items():
            assert found[key].draws[number] == pytest.approx(expected, abs=1e-12, nan_ok=True)
    for key, expected in by_copying_rows(scored, np.ones(len(lengths), dtype=np.uint16)).items():
        assert found[key].observed == pytest.approx(expected, abs=1e-12, nan_ok=True)


def test_swapped_models_have_opposite_differences_on_the_same_draws() -> None:
    scored = tasted([3, 6, 9] * 10)
    there, back = (compared(scored, *names, drawn(30, 20)) for names in (("model", "base"), ("base", "model")))
    for key, found in there.items():
        np.testing.assert_array_equal(found.draws, -back[key].draws)
        assert found.p_value() == back[key].p_value()
        assert found.interval() == pytest.approx([-end for end in reversed(back[key].interval())])


def test_only_the_metrics_asked_for_are_drawn_and_progress_counts_models_and_sizes() -> None:
    scored = tasted([3, 6, 9] * 10)
    told: list[tuple[str, int, int | None]] = []

    def tell(task: str, done: int, total: int | None, unit: str = "") -> None:
        assert unit == ""
        told.append((task, done, total))

    found = stage_draws(
        scored,
        ["model", "base"],
        stages=STAGES,
        weights=drawn(30, 20),
        resamplers=resamplers_of(["logloss"]),
        progress=tell,
        task="drawing",
    )
    assert {key for of_model in found.values() for key in of_model} == {("I", "logloss"), ("II", "logloss")}
    assert told == [("drawing", done, 6) for done in range(7)]


def test_draws_hold_as_many_users_as_there_are() -> None:
    draws = drawn_users(50, 400, np.random.default_rng(2))
    assert draws.shape == (400, 50)
    assert (draws.sum(axis=1) == 50).all()
    # each count is binomial(50, 1/50), so a mean over 400 draws is within 5 of its deviations from 1
    assert np.abs(draws.mean(axis=0) - 1).max() < 5 * np.sqrt(0.98 / 400)


def test_draws_spread_as_the_mean_of_users_does() -> None:
    """With equal rows for each user GAUC is a plain mean over users, whose standard error is known."""
    rng = np.random.default_rng(3)
    users = np.repeat(np.arange(300), 20)
    labels = np.tile([0, 1], 3000).astype(np.float32)
    scores = (labels + rng.normal(0, 2, 6000)).astype(np.float32)
    each = np.array([auc(labels[users == user], scores[users == user]) for user in range(300)])
    drawn = resampled_gauc(labels, scores, users, drawn_users(300, 2000, rng))
    assert drawn.std() == pytest.approx(each.std() / np.sqrt(300), rel=0.1)


def test_interval_and_p_value_of_draws_counted_by_hand() -> None:
    counted = Differences(2.0, np.array([*range(-1, 6), np.nan]))  # -1, 0, 4 and 5 are 2 or more away from 2
    assert counted.p_value() == (1 + 4) / (1 + 7)
    assert counted.interval() == pytest.approx((-1 + 0.025 * 6, 5 - 0.025 * 6))
    nothing = Differences(0.1, np.full(3, np.nan))
    assert np.isnan([*nothing.interval(), nothing.p_value()]).all()


@pytest.mark.parametrize("clicks", [0.5, 0.04])  # with few clicks, many draws and users have one class only
def test_gains_hold_the_middle_of_draws_that_copy_rows(clicks: float) -> None:
    scored = tasted([5, 6, 7] * 5, clicks=clicks, seed=1)
    gains = found_gains(scored).models["model"]
    measured = staged_results(scored, stages=STAGES, base="base")
    draws = [by_copying_rows(scored, drawn) for drawn in drawn_users(15, 60, generator(Purpose.BOOTSTRAP, 3))]
    absent = 0
    for stage, metric in draws[0]:
        gain = gains[stage].metrics[metric]
        present = [value for draw in draws if not np.isnan(value := draw[stage, metric])]
        absent += len(draws) - len(present)
        assert gain.draws == len(present)
        ours, base = (measured[model].stages[stage].metrics[metric] for model in ("model", "base"))
        assert gain.difference == (None if ours is None or base is None else pytest.approx(ours - base, abs=1e-9))
        if gain.low is not None:
            assert (gain.low, gain.high) == pytest.approx(np.quantile(present, [0.025, 0.975]), abs=1e-6)
    assert (absent > 0) == (clicks < 0.5)
    assert gains["I"].auc.low is not None


def test_the_draws_follow_the_seed_alone() -> None:
    scored = tasted([4, 6] * 10)
    assert found_gains(scored) == found_gains(scored)
    assert found_gains(scored, seed=4) != found_gains(scored)
    # another model changes nothing, because all are measured on the same draws
    alone = {name: logits for name, logits in scored.logits.items() if name != "noise"}
    fewer = ScoredQueries(scored.labels, scored.users, scored.positions, scored.sizes, alone)
    assert found_gains(fewer).models["model"] == found_gains(scored).models["model"]


def test_a_model_that_learns_has_a_certain_gain_and_an_equal_one_has_none() -> None:
    scored = tasted([12] * 80)
    scored.logits["twin"] = scored.logits["base"]
    gains = found_gains(scored)
    assert set(gains.models) == {"model", "noise", "twin"}
    for stage in STAGES:
        assert gains.models["model"][stage].auc.is_certain
        assert gains.models["model"][stage].auc.low > 0  # type: ignore[operator]
        for metric in METRICS:
            twin = gains.models["twin"][stage].metrics[metric]
            assert (twin.difference, twin.low, twin.high, twin.is_certain) == (0, 0, 0, False)
    assert not gains.models["noise"]["I"].logloss.is_certain


def test_few_users_have_a_difference_and_no_interval() -> None:
    """Nine users have a query at the last size: their differences would look more certain than they are."""
    gains = found_gains(tasted([3] * 30 + [9] * 9))
    assert gains.models["model"]["I"].auc.low is not None
    late = gains.models["model"]["II"].auc
    assert late.difference is not None
    assert (late.low, late.high, late.is_certain) == (None, None, False)


def test_a_metric_that_does_not_exist_has_no_gain() -> None:
    nothing = Gain(difference=None, low=None, high=None, draws=0)
    one_class = found_gains(tasted([5] * 12, clicks=0)).models["model"]["I"]
    assert one_class.auc == one_class.gauc == nothing
    assert one_class.logloss.low is not None
    without_queries = found_gains(tasted([3] * 12)).models["model"]["II"]
    assert without_queries.auc == without_queries.gauc == without_queries.logloss == nothing


@pytest.mark.parametrize(("draws", "limit"), [(-1, "40"), (1, "40"), (39, "40"), (100_001, "100,000")])
def test_too_few_or_too_many_draws_are_refused(draws: int, limit: str) -> None:
    for allowed in (0, FEWEST_DRAWS, MOST_DRAWS):
        check_draws(allowed)
    with pytest.raises(ConfigError, match=f"^{draws:,} draws .* {limit}"):
        check_draws(draws)
