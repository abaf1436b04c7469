"""Train a method, score the test users at every support size, and take the time of each."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from resus.baselines.base import Method, MethodSpec, Task
from resus.baselines.shelf import shared_predictor
from resus.episodes.prefixes import OrderedUsers
from resus.evaluation.population import ScoredQueries
from resus.history import History
from resus.paper.cells.records import Seconds


@dataclass(frozen=True, eq=False)
class Measurement:
    """A trained method, the scores of the test users under the method's name, and how long it took.

    The history leaves out a Ψ that methods share, unless the method is that Ψ.
    """

    method: Method
    history: History
    seconds: Seconds
    ordered: OrderedUsers
    scored: ScoredQueries


def measure(name: str, spec: MethodSpec, task: Task, hyperparameters: Mapping[str, Any]) -> Measurement:
    pretraining: History = shared_predictor(task, spec.predictor)[1] if spec.predictor else []
    method = spec.build(**hyperparameters)
    began = time.perf_counter()
    history = method.fit(task)
    training = time.perf_counter() - began
    if name == spec.predictor:  # Ψ itself came from the shelf: its pretraining is its training
        pretraining = []
    else:
        history = [line for line in history if line not in pretraining]
    training = max(training, _seconds(history))  # a resumed cell took longer than this process saw
    own = [] if spec.predictor else [line for line in history if line.stage == "predictor"]

    log, sizes = task.log, task.config.evaluation.sizes
    ordered = OrderedUsers.of(log, task.split.test, task.config.seed)
    began = time.perf_counter()
    logits = method.score_prefixes(log, ordered, sizes)
    scoring = time.perf_counter() - began
    scored = ScoredQueries(
        labels=log.labels[ordered.rows],
        users=np.repeat(ordered.users, ordered.lengths),
        positions=ordered.positions,
        sizes=sizes,
        logits={name: logits},
    )
    seconds = Seconds(
        pretraining=round(_seconds(pretraining) + _seconds(own), 2),
        training=round(training - _seconds(own), 2),
        scoring=round(scoring, 2),
    )
    return Measurement(method, history, seconds, ordered, scored)


def _seconds(history: History) -> float:
    return float(sum(epoch.seconds for epoch in history))
