"""What rivals share that learn from episodes: the network they build on, training, and scoring every support size."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from resus.arrays import Floats, Integers
from resus.baselines.base import Task
from resus.checking import Settings
from resus.data.fields.feature_map import FeatureMap
from resus.data.log.log import InteractionLog
from resus.episodes.batch import EpisodeBatch, Features, features_of, labels_of
from resus.episodes.prefixes import OrderedUsers, Tile
from resus.history import History
from resus.model.encoders import DeepFMSettings, EmbeddingSettings
from resus.model.encoders.base import FieldEmbedding
from resus.model.encoders.deepfm import DeepFM
from resus.training.loop import Schedule, run_stage

SCORING_ROWS = 4096


class EpisodicMethod(ABC):
    """A method with one network, trained on episodes of the training users and adapted to each support.

    `network(batch, features, labels)` maps all rows of a batch and their labels `[N]` to logits of its queries `[Q]`.
    """

    network: nn.Module

    @abstractmethod
    def build(self, task: Task) -> nn.Module:
        """The network before training."""

    def fit(self, task: Task) -> History:
        torch.manual_seed(task.config.seed)
        self.network = self.build(task)
        return self.learn_from_episodes(task, self.network)

    @torch.no_grad()
    def score(self, log: InteractionLog, batch: EpisodeBatch) -> Floats:
        logits: Floats = self.logits(log, batch).numpy()
        return logits

    @torch.no_grad()
    def score_prefixes(self, log: InteractionLog, ordered: OrderedUsers, sizes: Sequence[int]) -> Floats:
        """One size after the other. NaN where a row is support."""
        logits = np.full((len(ordered.rows), len(sizes)), np.nan, dtype=np.float32)
        for column, size in enumerate(sizes):
            for places, batch in _batches(ordered, size):
                logits[places, column] = self.logits(log, batch).numpy()
        return logits

    def logits(self, log: InteractionLog, batch: EpisodeBatch) -> Tensor:
        """`[Q]`, with gradients."""
        logits: Tensor = self.network(batch, features_of(log, batch.rows), labels_of(log, batch.rows))
        return logits

    def loss(self, log: InteractionLog, batch: EpisodeBatch) -> Tensor:
        labels = labels_of(log, batch.rows[batch.query.numpy()])
        return functional.binary_cross_entropy_with_logits(self.logits(log, batch), labels)

    def learn_from_episodes(self, task: Task, module: nn.Module, *, start: float = float("-inf")) -> History:
        """Train `module` with Adam and keep the epoch with the best validation AUC.

        `start` is the AUC before the first epoch. If no epoch beats it, the module stays as it was.
        """
        training = task.config.training
        state = run_stage(
            module,
            torch.optim.Adam(module.parameters(), lr=training.learning_rate, fused=True),
            Schedule(
                "episodes",
                validate=lambda: task.validation_auc(partial(self.score_prefixes, task.log)),
                epochs=training.epochs,
                patience=training.patience,
                start=start,
                checkpoint=task.checkpoint("episodes"),
                progress=task.progress,
            ),
            batches=task.sampler.epoch,
            loss=partial(self.loss, task.log),
        )
        return state.history


class PrefixNetwork(nn.Module, ABC):
    """A network that can answer several supports of each user in one pass."""

    @abstractmethod
    def prefixes(self, tile: Tile, features: Features, labels: Tensor, masks: Tensor) -> Tensor:
        """Rows of a tile, labels of the first rows `[U, S]`, T supports as masks `[U, T, S]` → logits `[n, T]`."""


class PrefixMethod(EpisodicMethod):
    """An episodic method whose network is a `PrefixNetwork`: all support sizes cost one pass."""

    network: PrefixNetwork

    @torch.no_grad()
    def score_prefixes(self, log: InteractionLog, ordered: OrderedUsers, sizes: Sequence[int]) -> Floats:
        logits = np.empty((len(ordered.rows), len(sizes)), dtype=np.float32)
        for tile in ordered.tiles(slots=max(sizes)):
            rows = ordered.rows[tile.places]
            labels = tile.pad(labels_of(log, rows))[:, : max(sizes)]
            users, slots = labels.shape
            # A user with fewer rows than a size has no query there, so its empty slots need no mask.
            masks = (torch.arange(slots) < torch.tensor(list(sizes)).unsqueeze(1)).expand(users, -1, -1)
            logits[tile.places] = self.network.prefixes(tile, features_of(log, rows), labels, masks).numpy()
        return logits


def deepfm(settings: Settings, features: FeatureMap) -> DeepFM:
    """A DeepFM with the shape that an encoder or predictor has in the settings."""
    network = DeepFMSettings.sharing(settings).build_encoder(features)
    assert isinstance(network, DeepFM)
    return network


def field_embedding(shape: EmbeddingSettings, features: FeatureMap) -> FieldEmbedding:
    """An embedding in which a value never seen in training starts at zero."""
    embedding = FieldEmbedding(features.n_ids, features.column_counts, shape.embedding_dim, std=shape.embedding_std)
    with torch.no_grad():
        embedding.table[list(features.first_ids)] = 0.0
    return embedding


def _batches(ordered: OrderedUsers, size: int) -> Iterator[tuple[Integers, EpisodeBatch]]:
    """Users with a query left, from short to long, about `SCORING_ROWS` rows at a time, and the places of queries."""
    starts = np.cumsum(ordered.lengths) - ordered.lengths
    chosen = np.flatnonzero(ordered.lengths > size)
    chosen = chosen[np.argsort(ordered.lengths[chosen], kind="stable")]
    lengths = ordered.lengths[chosen]
    part_of_user = (np.cumsum(lengths) - lengths) // SCORING_ROWS
    for members in np.split(chosen, np.flatnonzero(np.diff(part_of_user)) + 1):
        if not len(members):
            continue
        own = ordered.lengths[members]
        within = np.arange(own.sum()) - np.repeat(np.cumsum(own) - own, own)
        places = within + np.repeat(starts[members], own)
        yield places[within >= size], EpisodeBatch(ordered.rows[places], own, np.full(len(members), size))
