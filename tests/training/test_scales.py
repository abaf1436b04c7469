"""The scales of RESUS+: learned on validation users in a bounded number of ever smaller steps."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from planted_models import TINY, small_log

from resus.arrays import Floats
from resus.config.resolve import resolve
from resus.data.log.log import InteractionLog
from resus.episodes.batch import EpisodeBatch, Features
from resus.model.build import build_personalizer
from resus.model.learners.plus.factors import FactorEncoder
from resus.model.personalizer import Personalizer
from resus.training import episodes, scales
from resus.training.rowwise_adam import adam_of
from resus.training.run import Run
from resus.training.scales import COOLING, ROUNDS, learn_scales

STEPS = 3


@pytest.fixture(autouse=True)
def _few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scales, "STEPS", STEPS)


def run_of(log: InteractionLog, **changes: Any) -> Run:
    return Run(resolve(TINY | {"learner.kind": "plus", "training.batch_size": 100, **changes}), log)


def started(run: Run) -> Personalizer:
    """A model whose encoder has a context and knows what is common to all users."""
    torch.manual_seed(2)
    model = build_personalizer(run.config, run.log.features)
    encoder = FactorEncoder.of(model.encoder)
    with torch.no_grad():
        encoder.embedding.table.normal_(std=0.3)
        encoder.context[encoder.layout.names.index("tags")] = 1.0
    return model


def logits_of(log: InteractionLog) -> Floats:
    return np.random.default_rng(1).normal(size=log.n_rows).astype(np.float32)


class Watched:
    """A model that notes the batches it answers, and the learning rate at each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.batches: list[EpisodeBatch] = []
        self.rates: list[float] = []
        self.optimizer: Any = None
        forward = Personalizer.forward

        def make(*arguments: Any, **options: Any) -> Any:
            self.optimizer = adam_of(*arguments, **options)
            return self.optimizer

        def answer(model: Personalizer, batch: EpisodeBatch, features: Features, *outcomes: Any) -> Any:
            if torch.is_grad_enabled():
                self.batches.append(batch)
                self.rates.append(self.optimizer.param_groups[-1]["lr"])
            return forward(model, batch, features, *outcomes)

        monkeypatch.setattr(episodes, "adam_of", make)
        monkeypatch.setattr(Personalizer, "forward", answer)


def test_steps_are_bounded_cool_down_and_the_last_round_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    run, watched = run_of(small_log()), Watched(monkeypatch)
    model = started(run)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    last: dict[str, torch.Tensor] = {}
    falling = itertools.count(0, -1)

    def validate() -> float:
        last.update({name: tensor.clone() for name, tensor in model.state_dict().items()})
        return float(next(falling))

    model.fusion.requires_grad_(False)
    learn_scales(run, model, logits_of(run.log), validate, "scales")
    assert len(watched.batches) == ROUNDS * STEPS
    assert [record.epoch for record in run.history] == list(range(1, ROUNDS + 1))
    start = run.config.training.scalar_learning_rate
    assert watched.rates == pytest.approx([start * COOLING**round_ for round_ in range(ROUNDS) for _ in range(STEPS)])
    after = model.state_dict()
    assert all(torch.equal(after[name], last[name]) for name in after), "although the first round was the best"
    moved = {name for name in after if not torch.equal(after[name], before[name])}
    assert moved == {f"learner.{name}" for name, _ in model.learner.named_parameters()}
    assert all(parameter.requires_grad for parameter in model.encoder.parameters())


def test_rounds_go_through_the_episodes_of_validation_users(monkeypatch: pytest.MonkeyPatch) -> None:
    run, watched = run_of(small_log()), Watched(monkeypatch)
    learn_scales(run, started(run), logits_of(run.log), lambda: 0.5, "scales")
    stream = (batch for epoch in itertools.count() for batch in run.episodes.epoch(epoch))
    for mine, expected in zip(watched.batches, stream, strict=False):
        assert np.array_equal(mine.rows, expected.rows)
        assert np.array_equal(mine.support_sizes, expected.support_sizes)
    owners = np.unique(np.concatenate([run.log.owners_of(batch.rows) for batch in watched.batches]))
    assert np.array_equal(owners, np.sort(run.split.validation))


def test_scales_lower_the_logloss_of_validation_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scales, "STEPS", 15)
    run = run_of(small_log())
    model, logits = started(run), logits_of(run.log)
    losses = []
    for _ in range(2):
        losses.append(run.validation.logloss_of_model(model, logits, [1, 3]))
        learn_scales(run, model, logits, lambda: 0.5, "scales")
    assert losses[1] < losses[0]
