"""φ from everyone's tastes: `Ψ(x) + b_u + p_u·φ(x)` over the training users, whose b and p are then thrown away.

What stays of them is how far they spread: the prior of a new user. Ψ's logits of a training user must come from a Ψ
that has not seen that user, or the residuals are smaller than a stranger's.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from resus.data.log.column_files import row_blocks
from resus.data.log.log import InteractionLog
from resus.data.log.user_fields import user_fields
from resus.episodes.tensors import Features, Rows, features_of, labels_of
from resus.model.encoders.embedding import FieldEmbedding
from resus.model.learners.plus.factors import FactorEncoder
from resus.model.learners.plus.learner import PlusLearner
from resus.model.personalizer import Personalizer
from resus.randomness import Purpose, generator
from resus.training.checkpoint import StageState
from resus.training.loop import Schedule, run_stage
from resus.training.rowwise_adam import adam_of
from resus.training.shares import no_loss, own_rows, users_of

BATCH_ROWS = 4096
SEEN_AT_ONCE = 1 << 16
LEARNING_RATE = 5e-3
DECAY_OF_BIAS, DECAY_OF_TASTE, DECAY_OF_FACTORS = 3e-3, 1e-2, 3e-3  # chosen on validation users, as all of these
START = {"bias": 3.0, "taste": 2.0}  # prior variances, over what the user vectors show: they were shrunk by the decay
START_OF_REPEAT = 1.0


def factorize(
    model: Personalizer,
    basis: npt.NDArray[np.float32],
    log: InteractionLog,
    users: npt.NDArray[np.int64],
    schedule: Schedule,
    *,
    seed: int,
) -> StageState:
    """Learn the encoder's factors and the prior variances that the learner starts from; `basis` is Ψ of every row."""
    together = _Together(model, len(users))
    rows = log.rows_of(users)
    together.encoder.kept.copy_(_kept_fields(log, users))
    _forget_unseen(together.encoder.embedding, log, rows)
    place = np.zeros(log.n_users, dtype=np.int32)
    place[users] = np.arange(len(users), dtype=np.int32)

    def batches(epoch: int) -> Sequence[Rows]:
        shuffled = generator(Purpose.FACTOR_BATCHES, seed, epoch).permutation(rows)
        return np.split(shuffled, range(BATCH_ROWS, len(shuffled), BATCH_ROWS))

    def loss(batch: Rows) -> Tensor:
        own = own_rows(schedule.crew, log, batch)
        if not len(own):
            return no_loss()
        people = torch.from_numpy(place[users_of(log, own)])
        value: Tensor = together(features_of(log, own), people, torch.from_numpy(basis[own]), labels_of(log, own))
        return value * (len(own) / len(batch))

    def validate() -> float:
        together.take_prior()
        return schedule.validate()

    parameters = [*together.encoder.parameters(), *together.people.parameters()]
    return run_stage(
        "factors",
        together,
        adam_of(together, [{"params": parameters, "lr": LEARNING_RATE}], table_rate=LEARNING_RATE),
        replace(schedule, validate=validate),
        batches=batches,
        loss=loss,
        rows=len(rows),
    )


class _Together(nn.Module):
    """The model, and a bias and a taste for each training user."""

    def __init__(self, model: Personalizer, n_users: int) -> None:
        super().__init__()
        assert isinstance(model.encoder, FactorEncoder)
        self.model = model
        self.people = FieldEmbedding(n_users, (1,), model.encoder.width, std=0.1)
        with torch.no_grad():
            self.people.table[:, 0] = 0.0

    @property
    def encoder(self) -> FactorEncoder:
        return self.model.encoder  # type: ignore[return-value]

    def forward(self, features: Features, people: Tensor, basis: Tensor, labels: Tensor) -> Tensor:
        """Mean cross-entropy and decay of the rows."""
        own = self.people(Features(people.unsqueeze(1), None)).squeeze(1)
        bias, taste = own[:, 0], own[:, 1:]
        factors = self.encoder.factors(features)
        logits = basis + bias + (taste * factors).sum(dim=1)
        decay = DECAY_OF_BIAS * bias.square()
        decay = decay + DECAY_OF_TASTE * taste.square().sum(dim=1)
        decay = decay + DECAY_OF_FACTORS * factors.square().sum(dim=1)
        loss: Tensor = functional.binary_cross_entropy_with_logits(logits, labels) + decay.mean()
        return loss

    @torch.no_grad()
    def take_prior(self) -> None:
        """The users' second moments become the factors' scale and the learner's variances."""
        people = self.people.table.double()
        moments = people.T @ people / len(people)
        taste = moments[1:, 1:]
        ground = 1e-6 * taste.diagonal().mean() * torch.eye(len(taste), dtype=taste.dtype)
        self.encoder.spread.copy_(torch.linalg.cholesky(taste + ground))
        learner = self.model.learner
        assert isinstance(learner, PlusLearner)
        bias = max(float(moments[0, 0]), 1e-6)
        learner.start_from(bias=START["bias"] * bias, taste=START["taste"], repeat=START_OF_REPEAT)


def _kept_fields(log: InteractionLog, users: npt.NDArray[np.int64]) -> Tensor:
    kept = torch.ones(len(log.features.fields))
    kept[list(user_fields(log, users))] = 0.0
    kept[[field.name == log.features.item for field in log.features.fields].index(True)] = 1.0
    return kept


@torch.no_grad()
def _forget_unseen(embedding: FieldEmbedding, log: InteractionLog, rows: Rows) -> None:
    """A value that no training row has would keep the vector it was drawn with: it is to say nothing."""
    seen = np.zeros(len(embedding.table), dtype=np.bool_)
    for block in row_blocks(rows, SEEN_AT_ONCE):
        seen[log.ids[block]] = True
    embedding.table[torch.from_numpy(~seen)] = 0.0
