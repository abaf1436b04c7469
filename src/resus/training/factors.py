"""Learn the factors of RESUS+ from the training users, and from their log what its fields describe.

`learn_factors` fits `Ψ(x) + common(x) + b_u + p_u·φ(x) + z_u·χ(x)` to all training users, where z_u sums ψ over some of
the user's other events, whatever their labels. Then it drops the users' own b and p. What stays of them is how far they
spread: the prior of a new user. Ψ's logits of a training user must come from a Ψ that has not seen this user, else the
residuals are smaller than those of a new user; what these predictors get wrong for everybody, the common term takes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from resus.arrays import Floats, Integers
from resus.data.log.column_files import row_blocks
from resus.data.log.log import InteractionLog
from resus.data.log.user_fields import item_fields, user_fields
from resus.episodes.batch import Features, features_of, labels_of
from resus.model.encoders.base import FieldEmbedding
from resus.model.learners.plus.factors import FactorEncoder
from resus.model.learners.plus.learner import PlusLearner
from resus.model.learners.plus.numbers import FEW_CHOICES, KNOTS
from resus.model.personalizer import Personalizer
from resus.randomness import Purpose, generator
from resus.training.checkpoint import StageState
from resus.training.loop import Schedule, run_stage
from resus.training.rowwise_adam import adam_of
from resus.training.workers import no_loss, own_rows

BATCH_ROWS = 4096
BLOCK_ROWS = 1 << 16
LEARNING_RATE = 5e-3
DECAY, DECAY_OF_TASTE = 3e-3, 1e-2  # of all vectors, and of the users' tastes
BIAS_FACTOR = 3.0  # the users' biases are shrunk by the decay: the prior starts from a larger variance than they show
MOST_CHOICES = 30  # events whose choice speaks for one user in an epoch


def learn_factors(
    model: Personalizer,
    basis: Floats,
    log: InteractionLog,
    users: Integers,
    schedule: Schedule,
    *,
    seed: int,
    is_new: Tensor | None = None,
) -> StageState:
    """Learn the encoder's factors, and set the prior variance of the bias from which the learner starts.

    After a warm start, `is_new` marks the ids of new values. What the model knows about fields, the other values and
    its scales is then kept as a start.
    """
    joint = _WithUserVectors(model, len(users))
    rows = log.rows_of(users)
    if is_new is None:
        _describe_fields(joint.encoder, log, users)
    for embedding in (joint.encoder.embedding, joint.encoder.chosen):
        _clear_unseen(embedding, log, rows, is_new)
    vector_of = np.zeros(log.n_users, dtype=np.int32)
    vector_of[users] = np.arange(len(users), dtype=np.int32)
    drawn = _Choices.none(len(users))

    def batches(epoch: int) -> Sequence[Integers]:
        nonlocal drawn
        drawn, left = _Choices.draw(log, users, generator(Purpose.FACTOR_SUPPORTS, seed, epoch))
        shuffled = generator(Purpose.FACTOR_BATCHES, seed, epoch).permutation(left)
        return np.split(shuffled, range(BATCH_ROWS, len(shuffled), BATCH_ROWS))

    def loss(batch: Integers) -> Tensor:
        own = own_rows(schedule.workers, log, batch)
        if not len(own):
            return no_loss()
        vectors = vector_of[log.owners_of(own)]
        outcomes = torch.from_numpy(basis[own]), labels_of(log, own)
        value: Tensor = joint(features_of(log, own), vectors, *outcomes, log, drawn)
        return value * (len(own) / len(batch))

    def validate() -> float:
        joint.set_prior(keep_scales=is_new is not None)
        return schedule.validate()

    parameters = [*joint.encoder.parameters(), *joint.users.parameters()]
    optimizer = adam_of(joint, [{"params": parameters, "lr": LEARNING_RATE}], table_rate=LEARNING_RATE)
    judged = replace(schedule, validate=validate)
    return run_stage(joint, optimizer, judged, batches=batches, loss=loss, rows=len(rows))


@dataclass(frozen=True, eq=False)
class _Choices:
    """Some events of each user, whose choice may speak for the user in one epoch: rows of a log, user by user."""

    rows: Integers
    starts: Integers  # [U + 1]

    @classmethod
    def none(cls, users: int) -> "_Choices":
        return cls(np.empty(0, dtype=np.int64), np.zeros(users + 1, dtype=np.int64))

    @classmethod
    def draw(cls, log: InteractionLog, users: Integers, random: np.random.Generator) -> tuple["_Choices", Integers]:
        """A random number of random events of each user, but never all; and the rows that are left."""
        lengths, rows = log.lengths[users], log.rows_of(users)
        shuffled = rows[np.lexsort((random.random(len(rows)), np.repeat(np.arange(len(users)), lengths)))]
        counts = np.minimum(random.integers(1, MOST_CHOICES + 1, len(users)), lengths - 1)
        places = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        taken = places < np.repeat(counts, lengths)
        return cls(shuffled[taken], np.append(0, np.cumsum(counts))), shuffled[~taken]

    def of(self, users: Integers) -> tuple[Integers, Integers]:
        """The rows of some users, and how many each of them has."""
        counts = self.starts[users + 1] - self.starts[users]
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return self.rows[np.repeat(self.starts[users], counts) + within], counts


class _WithUserVectors(nn.Module):
    """The model with a bias and a taste for each training user."""

    def __init__(self, model: Personalizer, n_users: int) -> None:
        super().__init__()
        self.model = model
        self.users = FieldEmbedding(n_users, (1,), 1 + self.encoder.layout.taste, std=0.1)
        with torch.no_grad():
            self.users.table[:, 0] = 0.0

    @property
    def encoder(self) -> FactorEncoder:
        return FactorEncoder.of(self.model.encoder)

    def forward(
        self,
        features: Features,
        users: Integers,
        basis: Tensor,
        labels: Tensor,
        log: InteractionLog,
        drawn: _Choices,
    ) -> Tensor:
        """Mean cross-entropy of the rows, plus the decay of the vectors they use."""
        vectors = self.users(Features(torch.from_numpy(users).unsqueeze(1), None)).squeeze(1)
        bias, taste = vectors[:, 0], vectors[:, 1:]
        factors, traits, common = self.encoder.factors(features)
        choices = self._choices(users, log, drawn)
        offered = torch.cat([factors, traits], dim=1)
        logits = basis + bias + common + (taste * factors).sum(dim=1) + (choices * offered).sum(dim=1)
        decay = bias.square() + common.square()
        for part in (factors, traits, choices):
            decay = decay + part.square().sum(dim=1)
        decay = DECAY * decay + DECAY_OF_TASTE * taste.square().sum(dim=1)
        loss: Tensor = functional.binary_cross_entropy_with_logits(logits, labels) + decay.mean()
        return loss

    def _choices(self, users: Integers, log: InteractionLog, drawn: _Choices) -> Tensor:
        """z of the user of each row, `[N, D]`."""
        asked, places = np.unique(users, return_inverse=True)
        rows, counts = drawn.of(asked)
        starts = torch.from_numpy(np.cumsum(counts) - counts)
        sums = self.encoder.choices(features_of(log, rows), starts)
        scaled = sums / (torch.from_numpy(counts) + FEW_CHOICES).sqrt().unsqueeze(1)
        return scaled.to(sums.dtype).index_select(0, torch.from_numpy(places))

    @torch.no_grad()
    def set_prior(self, *, keep_scales: bool = False) -> None:
        """Scale the factors and set the learner's variance of the bias by the spread of the user vectors."""
        vectors = self.users.table.double()
        vectors = vectors - vectors.mean(dim=0)
        moments = vectors.T @ vectors / len(vectors)
        taste = moments[1:, 1:]
        ground = 1e-6 * taste.diagonal().mean().clamp(min=1e-12) * torch.eye(len(taste), dtype=taste.dtype)
        self.encoder.spread.copy_(torch.linalg.cholesky(taste + ground))
        if not keep_scales:
            PlusLearner.of(self.model.learner).start_from(bias=BIAS_FACTOR * max(float(moments[0, 0]), 1e-6))


@torch.no_grad()
def _describe_fields(encoder: FactorEncoder, log: InteractionLog, users: Integers) -> None:
    """Tell the encoder which fields describe the user, which the context, and where the knots of numbers are."""
    of_user, of_item = user_fields(log, users), item_fields(log, users)
    rows = log.rows_of(users)
    for number, block in enumerate(log.features.blocks):
        is_item, is_number = block.field.name == log.features.item, block.field.kind == "numeric"
        encoder.kept[number] = float(is_item or number not in of_user)
        encoder.context[number] = float(not (is_item or is_number or number in of_user or number in of_item))
        if not is_number or log.weights is None:
            continue
        known = rows[~block.field.is_unknown(log.ids[rows, block.columns] - np.int32(block.first))]
        if len(known):
            knots = np.unique(np.quantile(log.weights[known, block.columns.start], np.linspace(0, 1, KNOTS)))
            encoder.knots[number] = float("inf")
            encoder.knots[number, : len(knots)] = torch.from_numpy(knots.astype(np.float32))


@torch.no_grad()
def _clear_unseen(embedding: FieldEmbedding, log: InteractionLog, rows: Integers, is_new: Tensor | None) -> None:
    """Set the vector of each (new) value that no training row has to 0, else it would stay random."""
    seen = np.zeros(len(embedding.table), dtype=np.bool_)
    for block in row_blocks(rows, BLOCK_ROWS):
        seen[log.ids[block]] = True
    unseen = torch.from_numpy(~seen)
    embedding.table[unseen if is_new is None else unseen & is_new] = 0.0
