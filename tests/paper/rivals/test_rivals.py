"""Methods by name beside a run: fitted when asked, on the run's own Ψ where they stand on one."""

import numpy as np
import pytest
from planted_models import TINY, events, log_of

from resus.baselines.method import Task
from resus.baselines.shared_predictor import shared_predictor
from resus.config.resolve import resolve
from resus.data.log.log import InteractionLog
from resus.episodes.prefixes import OrderedUsers
from resus.errors import ConfigError
from resus.model.predictors.base import Predictor
from resus.paper.rivals.rivals import rivals
from resus.training.train import train_predictor


@pytest.fixture(scope="module")
def log() -> InteractionLog:
    return log_of(events())


@pytest.fixture(scope="module")
def predictor(log: InteractionLog) -> Predictor:
    return train_predictor(resolve(TINY | {"predictor.kind": "fm"}), log).predictor


def task(log: InteractionLog, predictor: Predictor | None, told: list[str]) -> Task:
    config = resolve(TINY | {"predictor.kind": "fm"})
    return Task(log, config, predictor=predictor, progress=lambda name, *_: told.append(name))


def test_the_quick_ones_stand_on_the_given_predictor_and_train_none(log: InteractionLog, predictor: Predictor) -> None:
    told: list[str] = []
    given = task(log, predictor, told)
    ordered = OrderedUsers.of(log, given.split.test, seed=1)
    found = rivals(["user-bias", "history-trees"], given)
    assert list(found) == ["user bias", "LightGBM with history"]
    assert told == [], "nothing is fitted before it is asked"
    answers = found["user bias"](ordered, (0, 3))
    np.testing.assert_array_equal(answers[:, 0], predictor.logits_of_rows(log, ordered.rows))
    assert answers.shape == found["LightGBM with history"](ordered, (0, 3)).shape
    assert not [name for name in told if name.startswith("predictor")]


def test_a_predictor_of_another_kind_is_trained(log: InteractionLog, predictor: Predictor) -> None:
    told: list[str] = []
    given = task(log, predictor, told)
    assert shared_predictor(given, "fm")[0] is predictor
    other, history = shared_predictor(given, "lr")
    assert other is not predictor
    assert {line.stage for line in history} == {"predictor"}


def test_a_wrong_name_is_said_at_once(log: InteractionLog) -> None:
    with pytest.raises(ConfigError, match="no method 'user-bais': did you mean 'user-bias'"):
        rivals(["user-bais"], task(log, None, []))
    with pytest.raises(ConfigError, match="named twice"):
        rivals(["melu", "melu"], task(log, None, []))
