"""`resus explore` in a small planted world, and on choices that were logged in it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from planted_models import tiny
from resus_process import refused_here, resus_here, succeed_here

from resus import PlantedWorld, Resus
from resus.arrays import Doubles, Integers
from resus.cli.arguments import planted_at
from resus.data.datasets.planted import AGES, DAYPARTS, DEVICES, GENDERS, draw_world
from resus.exploration.followed import RULES
from resus.exploration.run import explore_world
from resus.exploration.simulated_users import EncodedWorld, SimulatedUsers
from resus.exploration.simulation import ORACLE, simulate

WORLD = PlantedWorld(users=120, items=40, events_per_user=20, taste_spread=2.0, seed=2)
USERS, EVENTS, SLATE = 120, 8, 4


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the log of a planted world in `log`, a RESUS+ run in `run` and a RESUS-RR run in `ridge`."""
    folder = tmp_path_factory.mktemp("explore")
    planted_at(folder / "log", WORLD)
    tiny(learner="plus").fit(folder / "log", folder=folder / "run")
    tiny(learner="ridge").fit(folder / "log", folder=folder / "ridge")
    _logged().write_csv(folder / "choices.csv")
    return folder


def _users() -> SimulatedUsers:
    return SimulatedUsers.drawn(WORLD, draw_world(WORLD), users=USERS, events=EVENTS, seed=3)


def _truths() -> Doubles:
    """`[U, events, items]`: the probability that a user likes an item in the context of each visit."""
    users = _users()
    everyone = slice(0, USERS)
    return np.stack([users.chances(everyone, users.contexts[:, event]) for event in range(EVENTS)], axis=1)


def _slates() -> tuple[Integers, Doubles]:
    """`[U, events, SLATE]`: random candidates, and the known probabilities with which each was chosen."""
    random = np.random.default_rng(4)
    slates = random.random((USERS, EVENTS, WORLD.items)).argsort(axis=2)[:, :, :SLATE]
    return slates, 0.1 + 0.6 * random.dirichlet(np.ones(SLATE), (USERS, EVENTS))


def _logged() -> pl.DataFrame:
    """Choices of the known random policy: candidates, choice, propensity and reward."""
    random, users, hidden = np.random.default_rng(5), _users(), draw_world(WORLD)
    slates, policy = _slates()
    picked = (random.random((USERS, EVENTS, 1)) > policy.cumsum(axis=2)).sum(axis=2).clip(max=SLATE - 1)[:, :, None]
    items = np.take_along_axis(slates, picked, axis=2)
    chance = np.take_along_axis(_truths(), items, axis=2)
    flat = items.ravel()
    daypart, device = np.divmod(users.contexts.ravel(), len(DEVICES))
    age, gender = np.divmod(users.groups.repeat(EVENTS), len(GENDERS))
    return pl.DataFrame(
        {
            "user": [f"new-{user}" for user in np.arange(USERS).repeat(EVENTS)],
            "time": np.tile(np.arange(EVENTS), USERS),
            "item": flat,
            "category": hidden.category[flat],
            "brand": hidden.brand[flat],
            "age": np.array(AGES)[age],
            "gender": np.array(GENDERS)[gender],
            "daypart": np.array(DAYPARTS)[daypart],
            "device": np.array(DEVICES)[device],
            "click": (random.random(chance.shape) < chance).ravel().astype(np.int8),
            "chance": np.take_along_axis(policy, picked, axis=2).ravel(),
            "offered": ["|".join(map(str, slate)) for slate in slates.reshape(-1, SLATE).tolist()],
        }
    )


def _choices_of_greedy(model: Resus) -> Doubles:
    """The predictions for every slate, `[U, events, SLATE]`, each decision as a user of its own."""
    logged, hidden = _logged(), draw_world(WORLD)
    slates, _ = _slates()
    rows = logged.with_columns(
        decision=pl.Series(np.arange(USERS * EVENTS)), position=pl.Series(np.tile(np.arange(EVENTS), USERS))
    )
    later = rows.select("user", "decision", now="position")
    support = rows.drop("decision").join(later, on="user").filter(pl.col("position") < pl.col("now"))
    support = support.sort("decision", "position").with_columns(user=pl.format("d{}", "decision"))
    asked = rows.with_columns(user=pl.format("d{}", "decision"), item=pl.Series(slates.reshape(-1, SLATE)))
    query = asked.explode("item")
    places = query["item"].to_numpy()
    query = query.with_columns(category=pl.Series(hidden.category[places]), brand=pl.Series(hidden.brand[places]))
    found: Doubles = model.predict(support, query)["probability"].to_numpy().astype(np.float64)
    return found.reshape(USERS, EVENTS, SLATE)


def test_a_simulation_end_to_end(place: Path) -> None:
    words = ["explore", "log", "--run", "run", "--users", 40, "--events", 6, "--out", "out"]
    printed = succeed_here(*words, cwd=place)
    assert "thompson finds" in printed
    assert (place / "out" / "explore.png").read_bytes().startswith(b"\x89PNG")
    found = json.loads((place / "out" / "results.json").read_text())
    assert list(found["rules"]) == [ORACLE, "shared model", "greedy", "thompson", "ucb"]
    for course in found["rules"].values():
        liked = [one["value"] for one in course["liked"]]
        assert len(liked) == 6
        assert liked == sorted(liked)
        assert all(one["low"] <= one["value"] <= one["high"] for one in course["liked"])
    regret = {rule: [one["value"] for one in course["regret"]] for rule, course in found["rules"].items()}
    assert regret.pop(ORACLE) == [0.0] * 6
    assert all(values[-1] > 0 for values in regret.values())
    assert found["pace"].keys() == {"shared model", "thompson", "ucb"}
    assert succeed_here(*words, cwd=place) == printed, "the same seed gives the same users and draws"
    still = json.loads(_out(place, *words[1:8], "--width", 0))
    assert still["rules"]["thompson"] == still["rules"]["ucb"] == still["rules"]["greedy"]


def _out(place: Path, *words: object) -> str:
    succeed_here("explore", *words, cwd=place)
    return (place / "runs" / "explore-log" / "results.json").read_text()


def test_every_rule_finds_every_liked_item_in_the_end(place: Path) -> None:
    """Each item is shown once: in one context, all rules have found the same number after the whole catalogue."""
    model, hidden = Resus.load(place / "run")._fitted(), draw_world(WORLD)
    drawn = SimulatedUsers.drawn(WORLD, hidden, users=10, events=WORLD.items, seed=1)
    users = replace(drawn, contexts=np.zeros_like(drawn.contexts))
    course = simulate(
        model.model, "RESUS+", users, EncodedWorld.of(model.model, model.features, hidden), RULES, width=1.0, seed=1
    )
    chances = users.chances(slice(0, 10), users.contexts[:, 0])
    liked = (users.coins < chances).sum(axis=1)
    for rule, likes in course.likes.items():
        assert (likes.sum(axis=1) == liked).all(), rule
        assert np.allclose(course.regret[rule].sum(axis=1), 0), rule
        assert (course.regret[rule][:, 0] >= 0).all(), rule
    best = users.coins[np.arange(10), chances.argmax(axis=1)] < chances.max(axis=1)
    assert (course.likes[ORACLE][:, 0] == best).all()


def test_all_rules_meet_the_same_world(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {"users": 24, "events": 5, "width": 1.0, "seed": 1, "draws": 40}
    model = Resus.load(place / "run")
    whole = explore_world(place / "log", model, **asked)
    monkeypatch.setattr("resus.exploration.simulation.CANDIDATES", 7 * WORLD.items)
    in_tiles = explore_world(place / "log", model, **asked)
    assert in_tiles == whole


def test_estimates_hold_the_known_value_of_greedy(place: Path) -> None:
    """Against the truth of the world at the choices that `predict` would make, decision by decision."""
    words = ("explore", "choices.csv", "--run", "run", "--propensity", "chance", "--candidates", "offered")
    printed = succeed_here(*words, "--events", EVENTS, "--out", "replayed", cwd=place)
    assert "doubly robust" in printed
    assert (place / "replayed" / "explore.png").is_file()
    found = json.loads((place / "replayed" / "results.json").read_text())
    assert (found["users"], found["decisions"]) == (USERS, USERS * EVENTS)
    best = _choices_of_greedy(Resus.load(place / "run")).argmax(axis=2)[:, :, None]
    slates, policy = _slates()
    item = np.take_along_axis(slates, best, axis=2)
    truth = float(np.take_along_axis(_truths(), item, axis=2).mean())
    told = found["rules"]["greedy"]
    for name in ("ips", "self_normalised", "doubly_robust"):
        assert told[name]["low"] <= truth <= told[name]["high"], (name, truth)
    agreed = (_logged()["item"].to_numpy() == item.ravel()) / np.take_along_axis(policy, best, axis=2).ravel()
    earned = float((agreed * _logged()["click"].to_numpy()).mean())
    assert told["ips"]["value"] == pytest.approx(earned, abs=0.01), "but for ties and rounding"
    assert told["effective"] == pytest.approx(agreed.sum() ** 2 / (agreed**2).sum(), rel=0.02)
    assert found["logged"]["value"] == pytest.approx(_logged()["click"].mean())


def test_a_log_that_says_too_little_is_told(place: Path) -> None:
    """All items as candidates, and few choices of users, two of whom the model knows."""
    trained = Resus.load(place / "run").config.user_split(WORLD.users).train[:2].tolist()
    few = pl.read_csv(place / "choices.csv").head(EVENTS * 3)
    known = dict(zip(("new-0", "new-1"), map(str, trained), strict=True))
    few.with_columns(pl.col("user").replace(known)).write_csv(place / "few.csv")
    done = resus_here("explore", "few.csv", "--run", "run", "--propensity", "chance", "--out", "few", cwd=place)
    assert "too few decisions agree with " in done.stderr
    assert "trained or validated on 2 of the 3 users of few.csv" in done.stderr
    found = json.loads((place / "few" / "results.json").read_text())
    assert not found["rules"]["greedy"]["enough"]


def test_mistakes_are_one_sentence(place: Path) -> None:
    table = pl.read_csv(place / "choices.csv")
    bad = table.with_columns(
        zero=pl.when(pl.col("time") == 3).then(0.0).otherwise(pl.col("chance")),
        words=pl.lit("often"),
        others=pl.lit("1|2"),
        missing=pl.when(pl.col("time") == 1).then(None).otherwise(pl.col("chance")),
    )
    bad.write_csv(place / "bad.csv")
    replayed = ["explore", "bad.csv", "--run", "run", "--out", "refused", "--propensity"]
    for words, told in (
        (
            [*replayed, "chanse"],
            "bad.csv has no column 'chanse' with the propensity of each choice, did you mean 'chance'",
        ),
        ([*replayed, "zero"], "bad.csv, column 'zero', row 4: '0.0' is no propensity; write the probability"),
        ([*replayed, "words"], "bad.csv, column 'words', row 1: 'often' is no propensity"),
        ([*replayed, "missing"], "bad.csv, column 'missing', row 2: a missing value is no propensity"),
        (
            [*replayed, "chance", "--candidates", "others"],
            "row 1: the item that was chosen is not among the candidates",
        ),
        (["explore", "bad.csv", "--propensity", "chance"], "--propensity needs a trained model: name its run folder"),
        (["explore", "log", "--candidates", "offered"], "name the column of its --propensity"),
        (["explore", "log", "--run", "ridge"], "needs the posterior of a RESUS+ model, and RESUS-RR has none"),
        (["explore", "log", "--run", "run", "--events", 41], "41 events need as many items, and the world has 40"),
        (["explore", "log", "--run", "run", "--draws", 3], "3 draws are too few for a 95 % interval"),
    ):
        assert told in refused_here(*words, cwd=place)
    assert not (place / "refused").exists()
