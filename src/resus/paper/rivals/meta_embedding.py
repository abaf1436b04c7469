"""Meta-Embedding (Pan et al., SIGIR 2019: "Warm Up Cold-start Advertisements"), for users instead of advertisements."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import grad, grad_and_value
from torch.nn import functional

from resus.arrays import Integers
from resus.baselines.base import Task
from resus.data.log.log import InteractionLog
from resus.data.log.user_fields import user_fields
from resus.episodes.batch import EpisodeBatch, features_of, labels_of
from resus.history import History, best_epoch
from resus.model.encoders import DeepFMSettings
from resus.model.encoders.base import FieldEmbedding, pairwise_interactions, perceptron
from resus.model.predictors import GradientSettings
from resus.paper.rivals.episodic import EpisodicMethod, field_embedding
from resus.randomness import Purpose, generator
from resus.training.loop import Schedule, run_stage


class UserDeepFM(nn.Module):
    """DeepFM with one more field, the user. The user's vector φ is an argument: a new user has none in the table."""

    def __init__(self, embedding: FieldEmbedding, n_users: int, *, std: float, hidden_units: Sequence[int]) -> None:
        super().__init__()
        dim = embedding.table.shape[1]
        self.embedding = embedding
        self.users = nn.Parameter(std * torch.randn(n_users, dim))
        self.deep = perceptron((embedding.n_fields + 1) * dim, hidden_units)
        self.output = nn.Linear(dim + hidden_units[-1], 1)

    def forward(self, vectors: Tensor, users: Tensor) -> Tensor:
        """Field vectors `[N, F, E]` and each row's φ `[N, E]` → `[N]` logits."""
        vectors = torch.cat([vectors, users.unsqueeze(1)], dim=1)
        encoded = torch.cat([pairwise_interactions(vectors), self.deep(vectors.flatten(1))], dim=1)
        return self.output(encoded).squeeze(1)  # type: ignore[no-any-return]


class Generator(nn.Module):
    """φ_init = m + γ·tanh(W v + b) of a row's user fields v. It starts from m, the mean vector of the training users.

    Without user fields v is empty, and φ_init is one learned constant.
    """

    def __init__(self, fields: Sequence[int], embedding_dim: int, *, scale: float) -> None:
        super().__init__()
        self.fields = list(fields)
        self.scale = scale
        self.weight = nn.Parameter(torch.zeros(embedding_dim, len(fields) * embedding_dim))
        self.bias = nn.Parameter(torch.zeros(embedding_dim))
        self.register_buffer("mean", torch.zeros(embedding_dim))
        self.mean: Tensor

    def forward(self, vectors: Tensor) -> Tensor:
        """Field vectors `[N, F, E]` → `[N, E]`."""
        described = vectors[:, self.fields].flatten(1)
        return self.mean + self.scale * functional.linear(described, self.weight, self.bias).tanh()


@dataclass(eq=False, kw_only=True)
class MetaEmbedding(EpisodicMethod):
    """A new user's vector is generated from its user fields, then moved by gradient steps on the support.

    With ℓ_a the mean loss of a user's support and ℓ_b that of the queries:
    φ′ = φ_init − a·∇ℓ_a(φ_init), and the generator learns from α·ℓ_a(φ_init) + (1 − α)·ℓ_b(φ′), through the step.
    The frozen base model sees user ids of training users; no other method does. New users have no vector of their own
    in it, so its epochs are chosen with validation users who start from the mean vector.
    User fields may change within a user, so a row's vector is φ_init of the row plus the step of its user.
    """

    inner_rate: float = 0.05
    inner_steps: int = 1
    cold_weight: float = 0.1
    scale: float = 0.2
    base: UserDeepFM = field(init=False)
    network: Generator = field(init=False)

    def build(self, task: Task) -> Generator:
        """The generator; the base model is built along with it."""
        shape = DeepFMSettings.sharing(task.config.predictor)
        self.base = UserDeepFM(
            field_embedding(shape, task.log.features),
            len(task.split.train),
            std=shape.embedding_std,
            hidden_units=shape.hidden_units,
        )
        return Generator(user_fields(task.log, task.split.train), shape.embedding_dim, scale=self.scale)

    def fit(self, task: Task) -> History:
        torch.manual_seed(task.config.seed)
        self.network = self.build(task)
        history = self._pretrain(task)
        self.base.requires_grad_(False)
        reached = best_epoch(history).validation_auc
        return history + self.learn_from_episodes(task, self.network, start=reached)

    def logits(self, log: InteractionLog, batch: EpisodeBatch) -> Tensor:
        return self._answer(log, batch)[1]

    def loss(self, log: InteractionLog, batch: EpisodeBatch) -> Tensor:
        """α·ℓ_a + (1 − α)·ℓ_b, where ℓ_a is the mean over users and ℓ_b the mean over all queries."""
        cold, logits = self._answer(log, batch)
        labels = labels_of(log, batch.rows[batch.query.numpy()])
        warm = functional.binary_cross_entropy_with_logits(logits, labels)
        return self.cold_weight * cold / batch.n_users + (1 - self.cold_weight) * warm

    def _pretrain(self, task: Task) -> History:
        """Train the base model on the rows of the training users, each with the vector of its user."""
        log, base, chosen = task.log, self.base, GradientSettings.sharing(task.config.predictor)
        rows = log.rows_of(task.split.train)
        number = np.full(log.n_rows, -1)
        number[rows] = np.repeat(np.arange(len(task.split.train)), log.lengths[task.split.train])

        def batches(epoch: int) -> Sequence[Integers]:
            shuffled = generator(Purpose.META_EMBEDDING_BATCHES, task.config.seed, epoch).permutation(rows)
            return np.split(shuffled, range(chosen.batch_size, len(shuffled), chosen.batch_size))

        def loss(batch: Integers) -> Tensor:
            users = functional.embedding(torch.from_numpy(number[batch]), base.users)
            logits = base(base.embedding(features_of(log, batch)), users)
            return functional.binary_cross_entropy_with_logits(logits, labels_of(log, batch))

        def validate() -> float:
            self._start_from_mean()
            return task.validation_auc(partial(self.score_prefixes, log))

        state = run_stage(
            base,
            torch.optim.Adam(base.parameters(), lr=chosen.learning_rate, fused=True),
            Schedule(
                "predictor",
                validate=validate,
                epochs=chosen.epochs,
                patience=chosen.patience,
                checkpoint=task.checkpoint("predictor"),
                progress=task.progress,
            ),
            batches=batches,
            loss=loss,
        )
        self._start_from_mean()
        return state.history

    @torch.no_grad()
    def _start_from_mean(self) -> None:
        self.network.mean.copy_(self.base.users.mean(dim=0))

    def _answer(self, log: InteractionLog, batch: EpisodeBatch) -> tuple[Tensor, Tensor]:
        """Σ_u ℓ_a(φ_init), and the queries' logits with φ′ `[Q]`."""
        vectors = self.base.embedding(features_of(log, batch.rows))
        initial = self.network(vectors)
        places = batch.support[batch.mask]
        owner, _ = batch.mask.nonzero(as_tuple=True)
        cold, moves = self._adapt(
            vectors.index_select(0, places),
            initial.index_select(0, places),
            labels_of(log, batch.rows[places.numpy()]),
            owner,
            batch.sizes,
        )
        users = initial.index_select(0, batch.query) + moves.index_select(0, batch.query_user)
        return cold, self.base(vectors.index_select(0, batch.query), users)

    def _adapt(
        self, vectors: Tensor, initial: Tensor, labels: Tensor, owner: Tensor, sizes: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Support rows with their φ_init, label and user → Σ_u ℓ_a(φ_init), and each user's φ′ − φ_init `[U, E]`."""
        share = 1.0 / sizes.index_select(0, owner)

        def cold_loss(moves: Tensor) -> Tensor:
            logits = self.base(vectors, initial + moves.index_select(0, owner))
            return functional.binary_cross_entropy_with_logits(logits, labels, weight=share, reduction="sum")

        # Users are independent, so the gradient of the summed losses holds each user's own gradient.
        slopes, cold = grad_and_value(cold_loss)(initial.new_zeros(len(sizes), initial.shape[1]))
        moves = -self.inner_rate * slopes
        for _ in range(self.inner_steps - 1):
            moves = moves - self.inner_rate * grad(cold_loss)(moves)
        return cold, moves
