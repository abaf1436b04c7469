"""A stage that is killed after any epoch and goes on from its checkpoint ends exactly as one that was not."""

import shutil
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from resus.config.resolve import resolve
from resus.config.settings import Config
from resus.data.datasets.planted import PlantedWorld, planted_log
from resus.data.log.log import InteractionLog
from resus.episodes.prefixes import OrderedUsers
from resus.episodes.sampling import EpisodeSampler
from resus.evaluation.metrics import auc
from resus.model.build import build_personalizer, build_predictor
from resus.model.personalizer import Personalizer
from resus.model.predictors.neural import NeuralPredictor
from resus.training.checkpoint import StageState
from resus.training.loop import Keeper, Report, Schedule
from resus.training.stages.metatrain import metatrain
from resus.training.stages.pretrain import pretrain

TRAIN, HELD_OUT = np.arange(40), np.arange(40, 60)
EPOCHS = 4
SMALL: dict[str, Any] = {
    "predictor.hidden_units": (8,),
    "predictor.embedding_dim": 3,
    "encoder.hidden_units": (8,),
    "encoder.embedding_dim": 3,
    "evaluation.max_size": 5,
}
Stage = Callable[[InteractionLog, Keeper | None, Report | None], tuple[StageState, dict[str, Tensor]]]


def parts(config: Config, log: InteractionLog) -> tuple[NeuralPredictor, Personalizer]:
    predictor = build_predictor(config, log.features)
    assert isinstance(predictor, NeuralPredictor)
    return predictor, build_personalizer(config, log.features, predictor)


def pretraining(log: InteractionLog, keeper: Keeper | None, report: Report | None) -> Any:
    predictor, _ = parts(resolve(SMALL), log)
    held_out = log.rows_of(HELD_OUT)
    state = pretrain(
        predictor,
        log,
        log.rows_of(TRAIN),
        Schedule(
            validate=lambda: auc(log.labels[held_out], predictor.logits_of_rows(log, held_out)),
            epochs=EPOCHS,
            patience=EPOCHS,
            keeper=keeper,
            report=report,
        ),
        learning_rate=0.01,
        batch_size=64,
        seed=5,
    )
    return state, predictor.state_dict()


def metatraining(joint: bool, **settings: Any) -> Stage:
    def stage(log: InteractionLog, keeper: Keeper | None, report: Report | None) -> Any:
        config = resolve(SMALL | settings)
        predictor, model = parts(config, log)
        ordered = OrderedUsers.of(log, HELD_OUT, 1)
        fixed = np.random.default_rng(1).normal(size=log.n_rows).astype(np.float32)
        asked = ordered.positions >= 5

        def validate() -> float:
            basis = None if joint else fixed[ordered.rows]
            logits = model.score_prefixes(log, ordered, [5], basis=basis)
            return auc(log.labels[ordered.rows][asked], logits[asked, 0])

        before = deepcopy(nn.ModuleDict({"predictor": predictor, "model": model}))
        state = metatrain(
            model,
            None if joint else fixed,
            log,
            EpisodeSampler(log, TRAIN, max_size=5, batch_size=64, sizes="uniform", seed=5),
            Schedule(validate=validate, epochs=EPOCHS, patience=EPOCHS, keeper=keeper, report=report),
            learning_rate=0.01,
            scalar_learning_rate=0.05,
        )
        for part, learns in ((predictor, joint), (model, True)):
            start = before["predictor" if part is predictor else "model"].state_dict()
            assert any(not torch.equal(start[name], tensor) for name, tensor in part.state_dict().items()) == learns
        return state, model.state_dict() | predictor.state_dict(prefix="predictor.") if joint else model.state_dict()

    return stage


STAGES: dict[str, Stage] = {
    "pretrain": pretraining,
    "frozen, ridge": metatraining(False),
    "frozen, ridge, fixed λ": metatraining(False, **{"learner.learn_ridge": False, "fusion.bias": True}),
    "frozen, nearest": metatraining(False, **{"learner.kind": "nearest"}),
    "joint, ridge": metatraining(True),
    "joint, nearest": metatraining(True, **{"learner.kind": "nearest"}),
}


@pytest.fixture(scope="module")
def log() -> InteractionLog:
    return planted_log(PlantedWorld(users=60, items=20, events_per_user=12))


def without_seconds(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in line.items() if key != "seconds"} for line in history]


@pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)
def test_a_run_that_goes_on_after_any_epoch_ends_as_one_undisturbed(
    stage: Stage, log: InteractionLog, tmp_path: Path
) -> None:
    torch.manual_seed(1)
    expected, weights = stage(log, None, None)
    torch.manual_seed(1)
    running = Keeper(tmp_path / "running", "mine")
    kept: list[Keeper] = []

    def keep(history: list[dict[str, Any]]) -> None:
        kept.append(Keeper(tmp_path / f"killed after {len(history)}", "mine"))
        shutil.copy(running.path, kept[-1].path)

    stage(log, running, keep)
    assert len(kept) == EPOCHS
    for epoch, keeper in enumerate(kept, start=1):
        torch.manual_seed(100 + epoch)  # another start, so whatever the checkpoint forgot would show
        state, found = stage(log, keeper, None) if epoch < EPOCHS else resumed_at_the_end(stage, log, keeper)
        assert without_seconds(state.history) == without_seconds(expected.history)
        assert (state.epoch, state.best_epoch, state.best_auc) == (EPOCHS, expected.best_epoch, expected.best_auc)
        assert found.keys() == weights.keys()
        assert all(torch.equal(found[name], tensor) for name, tensor in weights.items())


def resumed_at_the_end(stage: Stage, log: InteractionLog, keeper: Keeper) -> tuple[StageState, dict[str, Tensor]]:
    def unexpected(history: list[dict[str, Any]]) -> None:
        pytest.fail("a finished stage ran again")

    return stage(log, keeper, unexpected)


@pytest.mark.parametrize("stage", ["pretrain", "joint, ridge", "joint, nearest"])
def test_training_lowers_the_loss(stage: str, log: InteractionLog) -> None:
    torch.manual_seed(2)
    state, _ = STAGES[stage](log, None, None)
    losses = [line["loss"] for line in state.history]
    assert losses[-1] < losses[0]
