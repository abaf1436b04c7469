"""A user's history in two vectors, the mean Φ(x) of its negatives and of its positives (Vartak et al. 2017)."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from resus.episodes.batch import EpisodeBatch, Features
from resus.episodes.prefixes import Tile
from resus.paper.rivals.episodic import PrefixNetwork
from resus.paper.rivals.fast_weights import take


def class_means(support: Tensor, labels: Tensor, masks: Tensor) -> Tensor:
    """`[U, S, K]`, `[U, S]` and T histories as masks `[U, T, S]` → R₀ and R₁ `[U, T, 2, K]`, 0 for an absent class."""
    users, _, width = support.shape
    classes = torch.stack([1 - labels, labels], dim=1)
    weights = masks.unsqueeze(2) * classes.unsqueeze(1)  # [U, T, 2, S]
    weights = weights / weights.sum(dim=-1, keepdim=True).clamp(min=1)
    return (weights.flatten(1, 2) @ support).view(users, masks.shape[1], 2, width)


class UserClassifier(nn.Module, ABC):
    """A classifier in two steps, so that the user's part is computed once for all of the user's queries."""

    @abstractmethod
    def of_user(self, means: Tensor) -> Tensor:
        """R₀ and R₁ of T histories per user `[U, T, 2, K]` → the user's own parameters `[U, T, X]`."""

    @abstractmethod
    def forward(self, query: Tensor, own: Tensor) -> Tensor:
        """`[U, P, K]`, `[U, T, X]` → logits of P queries per user `[U, P, T]`."""


class ClassMeansNetwork(PrefixNetwork):
    """Φ, and a classifier whose parameters come in part from R₀ and R₁."""

    def __init__(self, encoder: nn.Module, classifier: UserClassifier) -> None:
        super().__init__()
        self.encoder = encoder
        self.classifier = classifier

    def forward(self, batch: EpisodeBatch, features: Features, labels: Tensor) -> Tensor:
        """Each row is encoded once."""
        encoded = self.encoder(features)
        means = class_means(take(encoded, batch.support), labels[batch.support], batch.mask.unsqueeze(1))
        own = self.classifier.of_user(means).index_select(0, batch.query_user)
        logits: Tensor = self.classifier(encoded.index_select(0, batch.query).unsqueeze(1), own)
        return logits.flatten()

    def prefixes(self, tile: Tile, features: Features, labels: Tensor, masks: Tensor) -> Tensor:
        encoded = tile.pad(self.encoder(features))
        means = class_means(encoded[:, : labels.shape[1]], labels, masks)
        logits: Tensor = self.classifier(encoded, self.classifier.of_user(means))
        return logits[tile.filled]
