"""User bias: one number per user on top of the shared model, the simplest personal method."""

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from resus.arrays import Doubles, Floats, Integers
from resus.baselines.base import Task
from resus.baselines.shelf import shared_predictor
from resus.data.log.log import InteractionLog
from resus.episodes.batch import EpisodeBatch
from resus.episodes.prefixes import OrderedUsers
from resus.history import EpochRecord, History
from resus.model.predictors.base import Predictor

STRONGEST_PRIOR = 1e4


class UserBias:
    """ŷ = σ(Ψ(x) + γ·Σ_s (y_s − σ(Ψ(x_s))) / (k + c)), a random intercept that c shrinks towards 0.

    γ and c are fitted on the validation users. Ψ has seen the labels of the training users, so their residuals are
    smaller than those of new users. Two numbers do not overfit.
    """

    def __init__(self) -> None:
        self.predictor: Predictor
        self.scale: float  # γ
        self.prior: float  # c, in events

    def fit(self, task: Task) -> History:
        self.predictor, history = shared_predictor(task)
        log, held_out, sizes = task.log, task.validation, np.array(task.config.evaluation.sizes[1:])
        basis = self.predictor.logits_of_rows(log, held_out.rows)
        sums = _sums_by_size(log, held_out, basis, sizes)
        row, column = np.nonzero(held_out.positions[:, None] >= sizes)
        self.scale, self.prior = _fit_scale_and_prior(
            torch.from_numpy(basis[row]),
            torch.from_numpy(sums[row, column].astype(np.float32)),
            torch.from_numpy(sizes[column].astype(np.float32)),
            torch.from_numpy(log.labels[held_out.rows[row]]),
        )
        reached = task.validation_auc(partial(self.score_prefixes, log))
        return [*history, EpochRecord("bias", 1, reached)]

    def score(self, log: InteractionLog, batch: EpisodeBatch) -> Floats:
        basis = self.predictor.logits_of_rows(log, batch.rows)
        sums = support_residuals(log, batch, basis).sum(axis=1)
        added = self.scale * sums / (batch.support_sizes + self.prior)
        logits: Floats = basis[batch.query.numpy()] + added[batch.query_user.numpy()].astype(np.float32)
        return logits

    def score_prefixes(self, log: InteractionLog, ordered: OrderedUsers, sizes: Sequence[int]) -> Floats:
        basis = self.predictor.logits_of_rows(log, ordered.rows)
        wanted = np.array(sizes)
        added = self.scale * _sums_by_size(log, ordered, basis, wanted) / (wanted + self.prior)
        return basis[:, None] + added.astype(np.float32)


def support_residuals(log: InteractionLog, batch: EpisodeBatch, basis: Floats) -> Doubles:
    """`[U, S]`: y − σ(Ψ(x)) of the support rows, 0 in empty slots; `basis` is Ψ of the batch's rows."""
    support = batch.support.numpy()
    chances = torch.from_numpy(basis[support]).sigmoid().numpy()
    labels = log.labels[batch.rows[support]].astype(np.float64)
    return np.where(batch.mask.numpy(), labels - chances, 0.0)


def _sums_by_size(log: InteractionLog, ordered: OrderedUsers, basis: Floats, sizes: Integers) -> Doubles:
    """`[N, len(sizes)]`: for each row, the sum of the residuals of its user's first sizes[j] events."""
    batch = EpisodeBatch(ordered.rows, ordered.lengths, np.minimum(ordered.lengths, sizes.max(initial=0)))
    running = support_residuals(log, batch, basis).cumsum(axis=1)
    running = np.concatenate([np.zeros((batch.n_users, 1)), running], axis=1)
    sums = running[:, np.minimum(sizes, running.shape[1] - 1)]
    return np.repeat(sums, ordered.lengths, axis=0)


def _fit_scale_and_prior(basis: Tensor, sums: Tensor, sizes: Tensor, labels: Tensor) -> tuple[float, float]:
    """The γ and c with the smallest mean cross-entropy. Without personal taste in the log, c would go to infinity."""
    scale = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    log_prior = torch.tensor(math.log(10.0), dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([scale, log_prior], max_iter=50, line_search_fn="strong_wolfe")

    def prior() -> Tensor:
        return log_prior.clamp(max=math.log(STRONGEST_PRIOR)).exp()

    def loss() -> float:
        optimizer.zero_grad()
        value = functional.binary_cross_entropy_with_logits(basis + scale * sums / (sizes + prior()), labels)
        value.backward()  # type: ignore[no-untyped-call]
        return value.item()

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    return scale.item(), prior().item()
