"""Gains against a bootstrap by hand: a loop over draws that repeats users' rows and counts pairs one by one."""

import math
from pathlib import Path

import numpy as np
import pytest

from resus.errors import ConfigError
from resus.evaluation.intervals import FEWEST_DRAWS, MOST_DRAWS, check_draws, gains_over
from resus.evaluation.population import ScoredQueries, staged_results
from resus.evaluation.results import Gain, Gains, LogFacts, Results
from resus.files import read_json, write_json

SIZES = (0, 1, 2, 3)
STAGES = {"I": [1, 2], "II": [3]}
NAN = float("nan")

Query = tuple[int, float, float, float]  # number of the drawn user, label, the model's logit, the base's


def scored_queries(lengths: list[int], *, clicks: float = 0.5, seed: int = 0) -> ScoredQueries:
    """A model that learns a user's taste, a base and a noise that know nothing; few distinct scores, so ties."""
    rng = np.random.default_rng(seed)
    users = np.repeat(np.arange(len(lengths)), lengths)
    labels = rng.random(len(users)) < clicks
    taste = labels + rng.normal(0, 1, len(users))
    item = rng.normal(0, 1, len(users))
    logits = {
        "base": item[:, None],
        "model": item[:, None] + taste[:, None] * np.array(SIZES) / 4,
        "noise": rng.normal(0, 1, (len(users), len(SIZES))),
    }
    return ScoredQueries(
        labels=labels.astype(np.float32),
        users=users,
        positions=np.concatenate([np.arange(length) for length in lengths]),
        sizes=SIZES,
        logits={name: values.round(1).astype(np.float32) for name, values in logits.items()},
    )


def found_gains(scored: ScoredQueries, *, draws: int = 60, seed: int = 3) -> Gains:
    measured = staged_results(scored, stages=STAGES, base="base")
    return gains_over("base", scored, measured, stages=STAGES, draws=draws, seed=seed)


def results_of(scored: ScoredQueries, gains: Gains | None) -> Results:
    return Results(
        log=LogFacts(name="planted", hash="0f", rows=len(scored.labels), users=len(np.unique(scored.users))),
        protocol="paper",
        seed=3,
        part="test",
        base="base",
        sizes=list(SIZES),
        stages=STAGES,
        models=staged_results(scored, stages=STAGES, base="base"),
        gains=gains,
    )


def pair_share(rows: list[tuple[float, float]]) -> float:
    """AUC of (label, score) by its definition."""
    pairs = [(one, other) for label, one in rows if label for unclicked, other in rows if not unclicked]
    return sum((one > other) + (one == other) / 2 for one, other in pairs) / len(pairs) if pairs else NAN


def by_hand(queries: list[Query]) -> dict[str, float]:
    """Model minus base on these queries."""
    found: dict[str, float] = {}
    for place, sign in ((2, 1), (3, -1)):
        rows = [(query[1], query[place]) for query in queries]
        of_users: dict[int, list[tuple[float, float]]] = {}
        for query in queries:
            of_users.setdefault(query[0], []).append((query[1], query[place]))
        own = [(pair_share(of_user), len(of_user)) for of_user in of_users.values()]
        counted = [(value, rows) for value, rows in own if not math.isnan(value)]
        weight = sum(rows for _, rows in counted)
        losses = [math.log1p(math.exp(-score if label else score)) for label, score in rows]
        values = {
            "auc": pair_share(rows),
            "gauc": sum(value * rows for value, rows in counted) / weight if weight else NAN,
            "logloss": sum(losses) / len(losses) if losses else NAN,
        }
        found = {metric: found.get(metric, 0) + sign * value for metric, value in values.items()}
    return found


def naive_draws(scored: ScoredQueries, model: str, *, draws: int, seed: int) -> dict[tuple[str, str], list[float]]:
    rng = np.random.default_rng([seed, 8])
    users = len(np.unique(scored.users))
    found: dict[tuple[str, str], list[float]] = {}
    for _ in range(draws):
        drawn = np.repeat(np.arange(users), rng.multinomial(users, [1 / users] * users))
        at_sizes = {}
        for column, k in enumerate(SIZES):
            queries: list[Query] = []
            for number, user in enumerate(drawn):
                for row in np.flatnonzero(scored.users == user)[k:]:
                    logits = float(scored.logits[model][row, column]), float(scored.logits["base"][row, 0])
                    queries.append((number, float(scored.labels[row]), *logits))
            at_sizes[k] = by_hand(queries)
        for stage, members in STAGES.items():
            for metric in ("auc", "gauc", "logloss"):
                present = [at_sizes[k][metric] for k in members if not math.isnan(at_sizes[k][metric])]
                found.setdefault((stage, metric), []).append(sum(present) / len(present) if present else NAN)
    return found


def quantile(values: list[float], share: float) -> float:
    """Between the two ordered values around the place."""
    values = sorted(values)
    place = share * (len(values) - 1)
    below = math.floor(place)
    above = min(below + 1, len(values) - 1)
    return values[below] + (place - below) * (values[above] - values[below])


# with a click in a hundred rows or so, many a draw has one class only, and many a user
@pytest.mark.parametrize("clicks", [0.5, 0.04])
def test_intervals_are_those_of_a_loop_that_repeats_the_users_rows(clicks: float) -> None:
    scored = scored_queries([4, 5, 6] * 5, clicks=clicks, seed=1)
    gains = found_gains(scored)
    expected = naive_draws(scored, "model", draws=60, seed=3)
    measured = staged_results(scored, stages=STAGES, base="base")
    absent = 0
    for (stage, metric), draws in expected.items():
        gain: Gain = getattr(gains.models["model"][stage], metric)
        present = [value for value in draws if not math.isnan(value)]
        absent += len(draws) - len(present)
        assert gain.draws == len(present)
        ours, base = (getattr(measured[model].stages[stage], metric) for model in ("model", "base"))
        assert gain.difference == (None if ours is None else pytest.approx(ours - base, abs=1e-9))
        if gain.low is not None:
            assert gain.low == pytest.approx(quantile(present, 0.025), abs=1e-6)
            assert gain.high == pytest.approx(quantile(present, 0.975), abs=1e-6)
    assert (absent > 0) == (clicks < 0.5)
    assert gains.models["model"]["I"].auc.low is not None


def test_the_draws_follow_the_seed_alone() -> None:
    scored = scored_queries([4, 6] * 10)
    assert found_gains(scored) == found_gains(scored)
    assert found_gains(scored, seed=4) != found_gains(scored)
    # another model beside it changes nothing, since all are measured on the same draws
    alone = {name: logits for name, logits in scored.logits.items() if name != "noise"}
    fewer = ScoredQueries(scored.labels, scored.users, scored.positions, SIZES, alone)
    assert found_gains(fewer).models["model"] == found_gains(scored).models["model"]


def test_a_model_that_learns_is_sure_and_an_equal_one_is_not() -> None:
    scored = scored_queries([12] * 80)
    scored.logits["twin"] = scored.logits["base"]
    gains = found_gains(scored)
    assert set(gains.models) == {"model", "noise", "twin"}
    for stage in STAGES:
        assert gains.models["model"][stage].auc.is_certain
        assert gains.models["model"][stage].auc.low > 0  # type: ignore[operator]
        for metric in ("auc", "gauc", "logloss"):
            twin: Gain = getattr(gains.models["twin"][stage], metric)
            assert (twin.difference, twin.low, twin.high, twin.is_certain) == (0, 0, 0, False)
    assert not gains.models["noise"]["I"].logloss.is_certain


def test_few_users_have_a_difference_and_no_interval() -> None:
    """Nine users have a query at the last size: their differences would look surer than they are."""
    gains = found_gains(scored_queries([3] * 30 + [9] * 9))
    assert gains.models["model"]["I"].auc.low is not None
    late = gains.models["model"]["II"].auc
    assert late.difference is not None
    assert (late.low, late.high, late.is_certain) == (None, None, False)


def test_labels_of_one_class_have_a_logloss_only() -> None:
    gains = found_gains(scored_queries([5] * 12, clicks=0)).models["model"]["I"]
    assert gains.auc == gains.gauc == Gain(difference=None, low=None, high=None, draws=0)
    assert gains.logloss.low is not None


def test_a_stage_without_queries_has_no_gain() -> None:
    gains = found_gains(scored_queries([3] * 12)).models["model"]["II"]
    assert gains.auc == gains.gauc == gains.logloss == Gain(difference=None, low=None, high=None, draws=0)


@pytest.mark.parametrize("draws", [-1, 1, FEWEST_DRAWS - 1])
def test_draws_without_a_tail_are_refused(draws: int) -> None:
    with pytest.raises(ConfigError, match=rf"{draws} draws are too few for a 95 % interval.* 40, or 0"):
        check_draws(draws)
    check_draws(0)
    check_draws(FEWEST_DRAWS)


def test_more_draws_than_an_interval_needs_are_refused() -> None:
    check_draws(MOST_DRAWS)
    with pytest.raises(ConfigError, match=r"100,001 draws are more than an interval needs: take at most 100,000"):
        check_draws(MOST_DRAWS + 1)


def test_gains_come_back_from_their_file_and_an_older_file_has_none(tmp_path: Path) -> None:
    scored = scored_queries([3, 5] * 10)
    results = results_of(scored, found_gains(scored))
    results.write(tmp_path / "results.json")
    assert Results.read(tmp_path / "results.json") == results
    older = read_json(tmp_path / "results.json")
    del older["gains"]
    write_json(tmp_path / "older.json", older)
    assert Results.read(tmp_path / "older.json") == results_of(scored, None)
