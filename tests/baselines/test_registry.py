"""Baselines by name: they learn when they are asked for scores, on the run's own Ψ if they need one."""

import numpy as np
import pytest
from planted_models import TINY

from resus.baselines import BASELINES
from resus.baselines.base import LazyMethod, MethodSpec, Task, find_methods
from resus.baselines.shelf import shared_predictor
from resus.baselines.user_bias import UserBias
from resus.config.resolve import resolve
from resus.data.log.log import InteractionLog
from resus.episodes.prefixes import OrderedUsers
from resus.errors import ConfigError
from resus.model.predictors.base import Predictor
from resus.paper.rivals import METHODS
from resus.training.train import train_predictor


@pytest.fixture(scope="module")
def predictor(log: InteractionLog) -> Predictor:
    return train_predictor(resolve(TINY | {"predictor.kind": "fm"}), log).predictor


def task(log: InteractionLog, predictor: Predictor | None, told: list[str]) -> Task:
    config = resolve(TINY | {"predictor.kind": "fm"})
    return Task(log, config, predictor=predictor, progress=lambda name, *_: told.append(name))


def test_baselines_use_the_given_predictor(log: InteractionLog, predictor: Predictor) -> None:
    told: list[str] = []
    given = task(log, predictor, told)
    ordered = OrderedUsers.of(log, given.split.test, seed=1)
    bias, trees, din = (LazyMethod(BASELINES[name], given) for name in ("user-bias", "history-trees", "din"))
    assert told == [], "nothing learns before it is asked"
    for method in (bias, din):
        answers = method(ordered, (0, 3))
        np.testing.assert_array_equal(answers[:, 0], predictor.logits_of_rows(log, ordered.rows))
    assert answers.shape == trees(ordered, (0, 3)).shape
    of_predictors = {name.partition(",")[0] for name in told if name.startswith("predictor")}
    assert of_predictors == {f"predictor without fold {fold} of 4" for fold in (1, 2, 3, 4)}, "Ψ itself is given"


def test_a_predictor_of_another_kind_is_trained(log: InteractionLog, predictor: Predictor) -> None:
    told: list[str] = []
    given = task(log, predictor, told)
    assert shared_predictor(given, "fm")[0] is predictor
    other, history = shared_predictor(given, "lr")
    assert other is not predictor
    assert {line.stage for line in history} == {"predictor"}


def test_a_wrong_name_is_an_error_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match="no method 'user-bais': did you mean 'user-bias'"):
        find_methods(["user-bais"], BASELINES)
    with pytest.raises(ConfigError, match="'lr' is named twice"):
        find_methods(["lr", "user-bias", "lr"], BASELINES)


def test_a_baseline_registered_at_run_time_is_a_method_of_every_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = MethodSpec("mine", UserBias)
    monkeypatch.setitem(BASELINES, "mine", spec)
    assert find_methods(["mine", "lr"], METHODS) == {"mine": spec, "lr": BASELINES["lr"]}
