"""A user's history in two vectors, the mean Φ(x) of its negatives and of its positives (Vartak et al. 2017).

A classifier that rests on them is a module with two steps, so that a user's part is computed once for all its queries:

    of_user(means)             [U, T, 2, K] → [U, T, X]    what the histories set, T histories per user
    forward(query, of_user)    [U, P, K], [U, T, X] → [U, P, T]    logits of P queries per user
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from resus.baselines.method import Floats, Task
from resus.data.log.log import InteractionLog
from resus.episodes.batch import EpisodeBatch
from resus.episodes.prefixes import OrderedUsers
from resus.episodes.tensors import Features, features_of, labels_of
from resus.history import History
from resus.paper.rivals.episodic import learn_from_episodes


def class_means(support: Tensor, labels: Tensor, masks: Tensor) -> Tensor:
    """`[U, S, K]`, `[U, S]` and T histories as masks `[U, T, S]` → R₀ and R₁ `[U, T, 2, K]`, 0 for an absent class."""
    users, _, width = support.shape
    classes = torch.stack([1 - labels, labels], dim=1)
    weights = masks.unsqueeze(2) * classes.unsqueeze(1)  # [U, T, 2, S]
    weights = weights / weights.sum(dim=-1, keepdim=True).clamp(min=1)
    return (weights.flatten(1, 2) @ support).view(users, masks.shape[1], 2, width)


class ClassMeansNetwork(nn.Module):
    """Φ and a classifier whose parameters come in part from R₀ and R₁."""

    def __init__(self, encoder: nn.Module, classifier: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder
        self.classifier = classifier

    def forward(self, batch: EpisodeBatch, features: Features, labels: Tensor) -> Tensor:
        """All rows of a batch and their labels `[N]` → logits of its queries `[Q]`; each row is encoded once."""
        encoded = self.encoder(features)
        users, slots = batch.support.shape
        places = batch.support.flatten()
        support = encoded.index_select(0, places).view(users, slots, encoded.shape[1])
        means = class_means(support, labels.index_select(0, places).view(users, slots), batch.mask.unsqueeze(1))
        of_user = self.classifier.of_user(means).index_select(0, batch.query_user)  # type: ignore[operator]
        logits: Tensor = self.classifier(encoded.index_select(0, batch.query).unsqueeze(1), of_user)
        return logits.flatten()

    def fit(self, task: Task) -> History:
        def loss(batch: EpisodeBatch) -> Tensor:
            labels = labels_of(task.log, batch.rows)
            logits = self(batch, features_of(task.log, batch.rows), labels)
            return functional.binary_cross_entropy_with_logits(logits, labels.index_select(0, batch.query))

        return learn_from_episodes(
            task,
            self,
            loss=loss,
            score_prefixes=lambda ordered, sizes: self.score_prefixes(task.log, ordered, sizes),
            learning_rate=task.config.training.learning_rate,
        )

    @torch.no_grad()
    def score(self, log: InteractionLog, batch: EpisodeBatch) -> Floats:
        logits: Floats = self(batch, features_of(log, batch.rows), labels_of(log, batch.rows)).numpy()
        return logits

    @torch.no_grad()
    def score_prefixes(self, log: InteractionLog, ordered: OrderedUsers, sizes: Sequence[int]) -> Floats:
        logits = np.empty((len(ordered.rows), len(sizes)), dtype=np.float32)
        for tile in ordered.tiles(slots=max(sizes)):
            rows = ordered.rows[tile.places]
            encoded = tile.pad(self.encoder(features_of(log, rows)))
            support = encoded[:, : max(sizes)]
            users, slots, _ = support.shape
            # A user with fewer rows than a size has no query there, so its empty slots need no mask of their own.
            masks = (torch.arange(slots) < torch.tensor(list(sizes)).unsqueeze(1)).expand(users, -1, -1)
            means = class_means(support, tile.pad(labels_of(log, rows))[:, :slots], masks)
            answers = self.classifier(encoded, self.classifier.of_user(means))  # type: ignore[operator]
            logits[tile.places] = answers[tile.filled].numpy()
        return logits
