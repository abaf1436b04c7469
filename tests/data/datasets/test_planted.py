"""The planted world has the probabilities that it says it has."""

import numpy as np
import polars as pl
import pytest
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import chi2, norm
from sklearn.metrics import roc_auc_score

from resus.data.datasets.planted import PlantedWorld, draw_events, draw_world, mean_sigmoid, planted_log, sigmoid


@pytest.fixture(scope="module")
def events() -> pl.DataFrame:
    return draw_events(PlantedWorld(users=1500, items=50, events_per_user=30))


@pytest.mark.parametrize("truth", ["truth", "crowd"])
def test_clicks_come_as_often_as_the_truths_say(events: pl.DataFrame, truth: str) -> None:
    """In tenths of the predicted chance; the crowd's errors are shared by a user's events, so it gets more room."""
    tenths = (
        events.with_columns(tenth=(pl.col(truth) * 10).floor())
        .group_by("tenth")
        .agg(pl.len().alias("n"), gap=(pl.col("click") - pl.col(truth)).mean(), chance=pl.col(truth).mean())
        .filter(pl.col("n") > 100)
    )
    error = (tenths["chance"] * (1 - tenths["chance"]) / tenths["n"]).sqrt()
    room = 4.0 if truth == "truth" else 12.0
    assert events[truth].is_between(0, 1, closed="none").all()
    assert tenths.height >= 8
    assert ((tenths["gap"] / error).abs() < room).all()


@pytest.mark.parametrize(("taste", "bias"), [(1.2, 0.6), (0.0, 2.0), (2.0, 0.0)])
def test_the_crowd_is_the_mean_over_fresh_users_of_the_same_group(taste: float, bias: float) -> None:
    """Many users meet the same few items: their own truths are draws of which the crowd's is the mean."""
    sizes = {"users": 20_000, "items": 2, "events_per_user": 4, "categories": 2, "brands": 2}
    events = draw_events(PlantedWorld(**sizes, base=-1.5, taste_spread=taste, bias_spread=bias, seed=2))
    cell = ["item", "age", "gender", "daypart", "device"]
    by_user = events.group_by([*cell, "user"]).agg(pl.col("truth").first(), pl.col("crowd").first())
    cells = by_user.group_by(cell).agg(
        pl.len().alias("users"),
        pl.col("truth").mean().alias("mean"),
        (pl.col("truth").std() / pl.len().sqrt()).alias("error"),
        pl.col("crowd").first(),
        (pl.col("crowd").max() - pl.col("crowd").min()).alias("disagreement"),
    )
    assert cells["users"].min() > 50  # type: ignore[operator]
    assert cells["disagreement"].max() == 0
    z = ((cells["mean"] - cells["crowd"]) / cells["error"]).to_numpy()
    assert np.abs(z).max() < norm.isf(1e-4 / len(z))
    assert abs(z.mean()) * np.sqrt(len(z)) < 5
    assert (z**2).sum() < chi2.isf(1e-4, len(z)) * 1.5  # cells share users


def test_knowing_the_user_ranks_better_than_knowing_the_crowd(events: pl.DataFrame) -> None:
    oracle, crowd = (roc_auc_score(events["click"], events[truth]) for truth in ("truth", "crowd"))
    assert oracle > crowd + 0.02
    assert crowd > 0.55


def test_without_spread_there_is_nothing_personal() -> None:
    events = draw_events(PlantedWorld(users=50, items=10, events_per_user=5, taste_spread=0, bias_spread=0))
    assert np.allclose(events["truth"], events["crowd"], rtol=0, atol=1e-9)


def test_the_seed_is_the_world() -> None:
    first, again, other = (
        planted_log(PlantedWorld(users=40, items=10, events_per_user=5, seed=seed)) for seed in (1, 1, 2)
    )
    assert first.content_hash == again.content_hash
    assert first.truth is not None
    assert again.truth is not None
    assert np.array_equal(first.truth, again.truth)
    assert first.content_hash != other.content_hash


def test_the_log_holds_the_events_in_their_order(events: pl.DataFrame) -> None:
    log = planted_log(PlantedWorld(users=1500, items=50, events_per_user=30))
    assert log.ordered
    assert log.n_users == 1500
    assert log.lengths.min() >= 2
    assert np.array_equal(log.labels, events["click"].to_numpy())
    assert log.truth is not None
    assert log.crowd is not None
    assert np.array_equal(log.truth, events["truth"].to_numpy().astype(np.float32))
    assert np.array_equal(log.crowd, events["crowd"].to_numpy().astype(np.float32))
    hidden = {"user", "time", "click", "truth", "crowd"}
    assert {field.name for field in log.features.fields} == set(events.columns) - hidden


def test_what_is_hidden_explains_both_truths() -> None:
    """What a user adds to the known logit is a plane over the items' traits; the crowd's mean is over the prior."""
    world = PlantedWorld(users=30, items=40, events_per_user=40, seed=5)
    drawn = draw_world(world)
    events, traits = drawn.events, drawn.traits[drawn.events["item"].to_numpy()]
    truth, users = events["truth"].to_numpy(), events["user"].to_numpy()
    personal = np.log(truth) - np.log1p(-truth) - drawn.known
    design = np.column_stack([np.ones(len(traits)), traits])
    for user in range(world.users):
        own = users == user
        plane = np.linalg.lstsq(design[own], personal[own], rcond=None)[0]
        assert np.allclose(design[own] @ plane, personal[own], rtol=0, atol=1e-8)
    variance = design**2 @ np.array([world.bias_spread**2] + [world.taste_spread**2] * world.traits)
    assert np.allclose(events["crowd"], mean_sigmoid(drawn.known, variance), rtol=0, atol=1e-12)
    assert events.equals(draw_events(world))


def test_the_mean_over_a_gaussian_is_the_integral() -> None:
    means, variances = (grid.ravel() for grid in np.meshgrid([-4.0, -1.0, 0.0, 2.5], [0.01, 0.5, 1.2, 3.0]))
    for mean, variance, found in zip(means, variances, mean_sigmoid(means, variances), strict=True):
        density = norm(mean, np.sqrt(variance)).pdf
        expected, _ = quad(lambda z, density=density: expit(z) * density(z), mean - 30, mean + 30, points=[mean])
        assert abs(found - expected) < 1e-5
    assert np.allclose(sigmoid(means), expit(means))
