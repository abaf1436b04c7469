"""Learn φ, the factors of RESUS+, from the training users' tastes.

`learn_factors` fits `Ψ(x) + b_u + p_u·φ(x)` to all training users and then drops their b and p. What stays of them is
how far they spread: the prior of a new user. `refine_factors` improves φ under this prior by the evidence, which needs
no user vector and so cannot overfit one. Ψ's logits of a training user must come from a Ψ that has not seen this user,
else the residuals are smaller than those of a new user.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from resus.arrays import Floats, Integers
from resus.data.log.column_files import row_blocks
from resus.data.log.log import InteractionLog
from resus.data.log.user_fields import user_fields
from resus.episodes.batch import EpisodeBatch, Features, features_of, labels_of, padded
from resus.episodes.sampling import Epoch
from resus.model.encoders.base import FieldEmbedding
from resus.model.learners.plus.factors import FactorEncoder
from resus.model.learners.plus.learner import PlusLearner
from resus.model.personalizer import Personalizer
from resus.randomness import Purpose, generator
from resus.training.checkpoint import StageState
from resus.training.loop import Schedule, run_stage
from resus.training.rowwise_adam import adam_of
from resus.training.workers import no_loss, own_episodes, own_rows

BATCH_ROWS = 4096
BLOCK_ROWS = 1 << 16
LEARNING_RATE = 5e-3
DECAY_OF_BIAS, DECAY_OF_TASTE, DECAY_OF_FACTORS = 3e-3, 1e-2, 3e-3  # chosen on validation users, as all here
BIAS_FACTOR = 3.0  # the user vectors are shrunk by the decay: the prior starts from a larger variance than they show
START_OF_TASTE, START_OF_REPEAT = 2.0, 1.0  # prior variances
EVENTS_PER_USER = 64  # the most that the evidence takes of one user in an epoch


def learn_factors(
    model: Personalizer,
    basis: Floats,
    log: InteractionLog,
    users: Integers,
    schedule: Schedule,
    *,
    seed: int,
) -> StageState:
    """Learn the encoder's factors, and set the prior variances from which the learner starts."""
    joint = _WithUserVectors(model, len(users))
    rows = log.rows_of(users)
    joint.encoder.kept.copy_(_kept_fields(log, users))
    _clear_unseen(joint.encoder.embedding, log, rows)
    vector_of = np.zeros(log.n_users, dtype=np.int32)
    vector_of[users] = np.arange(len(users), dtype=np.int32)

    def batches(epoch: int) -> Sequence[Integers]:
        shuffled = generator(Purpose.FACTOR_BATCHES, seed, epoch).permutation(rows)
        return np.split(shuffled, range(BATCH_ROWS, len(shuffled), BATCH_ROWS))

    def loss(batch: Integers) -> Tensor:
        own = own_rows(schedule.workers, log, batch)
        if not len(own):
            return no_loss()
        vectors = torch.from_numpy(vector_of[log.owners_of(own)])
        value: Tensor = joint(features_of(log, own), vectors, torch.from_numpy(basis[own]), labels_of(log, own))
        return value * (len(own) / len(batch))

    def validate() -> float:
        joint.set_prior()
        return schedule.validate()

    parameters = [*joint.encoder.parameters(), *joint.users.parameters()]
    optimizer = adam_of(joint, [{"params": parameters, "lr": LEARNING_RATE}], table_rate=LEARNING_RATE)
    judged = replace(schedule, validate=validate)
    return run_stage(joint, optimizer, judged, batches=batches, loss=loss, rows=len(rows))


def refine_factors(
    model: Personalizer,
    basis: Floats,
    log: InteractionLog,
    users: Integers,
    schedule: Schedule,
    *,
    seed: int,
) -> StageState:
    """Improve the encoder's factors by the evidence of the training users' events; the prior stays unchanged."""
    learner = PlusLearner.of(model.learner)

    def batches(epoch: int) -> Epoch:
        return _events_of_each(log, users, generator(Purpose.EVIDENCE_BATCHES, seed, epoch))

    def loss(whole: EpisodeBatch) -> Tensor:
        batch = own_episodes(schedule.workers, log, whole)
        if not batch.n_users:
            return no_loss()
        rows = batch.rows[batch.support[batch.mask].numpy()]
        support = padded(model.encoder(features_of(log, rows)), batch.mask)
        outcomes = padded(learner.outcomes(labels_of(log, rows), torch.from_numpy(basis[rows])), batch.mask)
        evidence = learner.evidence(support, batch.mask, outcomes).sum()
        return -evidence.float() / float(whole.support_sizes.sum())  # float32, as the losses of all workers

    parameters = [{"params": list(model.encoder.parameters()), "lr": LEARNING_RATE}]
    optimizer = adam_of(model, parameters, table_rate=LEARNING_RATE)
    rows = int(np.minimum(log.lengths[users], EVENTS_PER_USER).sum())
    return run_stage(model, optimizer, schedule, batches=batches, loss=loss, rows=rows)


class _WithUserVectors(nn.Module):
    """The model with a bias and a taste for each training user."""

    def __init__(self, model: Personalizer, n_users: int) -> None:
        super().__init__()
        self.model = model
        self.users = FieldEmbedding(n_users, (1,), model.encoder.width, std=0.1)
        with torch.no_grad():
            self.users.table[:, 0] = 0.0

    @property
    def encoder(self) -> FactorEncoder:
        return FactorEncoder.of(self.model.encoder)

    def forward(self, features: Features, users: Tensor, basis: Tensor, labels: Tensor) -> Tensor:
        """Mean cross-entropy of the rows, plus the decay of the vectors they use."""
        vectors = self.users(Features(users.unsqueeze(1), None)).squeeze(1)
        bias, taste = vectors[:, 0], vectors[:, 1:]
        factors = self.encoder.factors(features)
        logits = basis + bias + (taste * factors).sum(dim=1)
        decay = DECAY_OF_BIAS * bias.square()
        decay = decay + DECAY_OF_TASTE * taste.square().sum(dim=1)
        decay = decay + DECAY_OF_FACTORS * factors.square().sum(dim=1)
        loss: Tensor = functional.binary_cross_entropy_with_logits(logits, labels) + decay.mean()
        return loss

    @torch.no_grad()
    def set_prior(self) -> None:
        """Scale the factors and set the learner's variances by the second moments of the user vectors."""
        vectors = self.users.table.double()
        moments = vectors.T @ vectors / len(vectors)
        taste = moments[1:, 1:]
        ground = 1e-6 * taste.diagonal().mean() * torch.eye(len(taste), dtype=taste.dtype)
        self.encoder.spread.copy_(torch.linalg.cholesky(taste + ground))
        learner = PlusLearner.of(self.model.learner)
        bias = max(float(moments[0, 0]), 1e-6)
        learner.start_from(bias=BIAS_FACTOR * bias, taste=START_OF_TASTE, repeat=START_OF_REPEAT)


def _kept_fields(log: InteractionLog, users: Integers) -> Tensor:
    """1 for each field that describes the row, 0 for each that describes the user; the item always counts."""
    kept = torch.ones(len(log.features.fields))
    kept[list(user_fields(log, users))] = 0.0
    kept[[field.name == log.features.item for field in log.features.fields].index(True)] = 1.0
    return kept


@torch.no_grad()
def _clear_unseen(embedding: FieldEmbedding, log: InteractionLog, rows: Integers) -> None:
    """Set the vector of each value that no training row has to 0, else it would stay random."""
    seen = np.zeros(len(embedding.table), dtype=np.bool_)
    for block in row_blocks(rows, BLOCK_ROWS):
        seen[log.ids[block]] = True
    embedding.table[torch.from_numpy(~seen)] = 0.0


def _events_of_each(log: InteractionLog, users: Integers, random: np.random.Generator) -> Epoch:
    """The events of each user in random order as a support; of a user with many, a random part."""
    users = random.permutation(users)
    lengths = log.lengths[users]
    shuffled = log.rows_of(users)[np.lexsort((random.random(lengths.sum()), np.repeat(np.arange(len(users)), lengths)))]
    places = np.arange(len(shuffled)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    kept = np.minimum(lengths, EVENTS_PER_USER)
    batch_of_user = (np.cumsum(kept) - kept) // BATCH_ROWS
    edges = np.append(np.flatnonzero(np.diff(batch_of_user, prepend=-1)), len(users))
    return Epoch(shuffled[places < EVENTS_PER_USER], kept, kept, edges)
