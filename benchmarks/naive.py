"""A straightforward implementation of RESUS: every query carries its own padded copy of its user's support.

It encodes the support again for each query, with Φ and with the frozen Ψ, and scores each support size separately. It
uses our networks and weights, so only the procedure differs.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

from resus import InteractionLog
from resus.arrays import Doubles, Floats, Integers
from resus.episodes.batch import Features
from resus.model.learners.ridge import RidgeLearner
from resus.model.personalizer import Personalizer
from resus.model.predictors.base import NeuralPredictor
from resus.progress import Progress, silent

BATCH_QUERIES = 1024
Sample = tuple[Doubles, Doubles, int]


class QueryDataset(Dataset[Sample]):
    """One sample per query: its event, its user's first events padded to `slots`, and the number of these events.

    `events` is indexed by user and has one dtype, so a user's rows are found by bisection without a copy.
    """

    def __init__(self, events: pd.DataFrame, sizes: pd.Series, slots: int) -> None:
        self.events, self.sizes, self.slots = events, sizes, slots
        places = events.groupby(level="user").cumcount().to_numpy()
        is_query = places >= sizes.loc[events.index].to_numpy()
        self.users, self.places = events.index.to_numpy()[is_query], places[is_query]

    def __len__(self) -> int:
        return len(self.users)

    def __getitem__(self, index: int) -> Sample:
        user = self.users[index]
        history = self.events.loc[user:user].to_numpy()
        size = int(self.sizes.at[user])
        support = np.zeros((self.slots, history.shape[1]))
        support[:size] = history[:size]
        return history[self.places[index]].copy(), support, size


class NaiveResus(nn.Module):
    """ŷ = σ(Ψ(x) + β·Δŷ) for queries that each carry their support."""

    def __init__(self, predictor: NeuralPredictor, model: Personalizer) -> None:
        super().__init__()
        self.predictor = predictor.requires_grad_(False)
        self.model = model

    def forward(self, query: Tensor, support: Tensor, sizes: Tensor) -> Tensor:
        """`[B, 2C + 1]`, `[B, S, 2C + 1]`, `[B]` → logits `[B]`."""
        queries, slots = support.shape[:2]
        mask = torch.arange(slots) < sizes.unsqueeze(1)
        support_features, support_labels = _split(support.flatten(0, 1))
        query_features, _ = _split(query)
        basis = self.predictor.logits(query_features)
        support_basis = self.predictor.logits(support_features)
        residuals = (support_labels - support_basis.sigmoid()).view(queries, slots) * mask
        encoded = self.model.encoder(query_features)
        support_encoded = self.model.encoder(support_features).view(queries, slots, -1)
        if isinstance(self.model.learner, RidgeLearner):
            answer = self._ridge(support_encoded, mask, residuals, encoded)
        else:
            answer = self._nearest(support_encoded, mask, residuals, encoded)
        return basis + self.model.fusion(answer, sizes)  # type: ignore[no-any-return]

    def _ridge(self, support: Tensor, mask: Tensor, residuals: Tensor, query: Tensor) -> Tensor:
        """Equations 12 to 14, with one S × S system per query."""
        support = support * mask.unsqueeze(-1)
        ridge: Tensor = self.model.learner.ridge  # type: ignore[assignment]
        system = support @ support.transpose(1, 2) + ridge * torch.eye(support.shape[1])
        weights: Tensor = support.transpose(1, 2) @ torch.linalg.solve(system, residuals.unsqueeze(-1))
        return (query.unsqueeze(1) @ weights).flatten()

    def _nearest(self, support: Tensor, mask: Tensor, residuals: Tensor, query: Tensor) -> Tensor:
        """Equations 8 and 9."""
        weight: Tensor = self.model.learner.similarity.weight  # type: ignore[union-attr,assignment]
        scores = (query.unsqueeze(1) - support).abs() @ weight
        weights = scores.masked_fill(~mask, -torch.inf).softmax(dim=1)
        return (weights * residuals).sum(dim=1)


def events_of(log: InteractionLog, users: Integers) -> pd.DataFrame:
    """Ids, weights and labels by user, in the order of each user's events."""
    users = np.sort(users)
    rows = log.rows_of(users)
    weights = np.ones_like(log.ids, dtype=np.float32) if log.weights is None else log.weights
    values = np.column_stack([log.ids[rows], weights[rows], log.labels[rows]]).astype(np.float64)
    return pd.DataFrame(values, index=pd.Index(np.repeat(users, log.lengths[users]), name="user"))


def train_epoch(
    naive: NaiveResus,
    events: pd.DataFrame,
    sizes: pd.Series,
    *,
    slots: int,
    learning_rate: float,
    progress: Progress = silent,
) -> None:
    """One pass over the queries of all users in `events`, in random order."""
    trained = [parameter for parameter in naive.model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.Adam(trained, lr=learning_rate)
    loader = DataLoader(QueryDataset(events, sizes, slots), BATCH_QUERIES, shuffle=True)
    for done, (query, support, known) in enumerate(loader, start=1):
        optimizer.zero_grad()
        logits = naive(query, support, known)
        functional.binary_cross_entropy_with_logits(logits, query[:, -1].float()).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        progress("naive epoch", done, len(loader))


def score_sizes(
    naive: NaiveResus, events: pd.DataFrame, sizes: range, *, slots: int, progress: Progress = silent
) -> Iterator[tuple[Floats, float]]:
    """For each support size, the logits of its queries and their AUC."""
    users = events.index.unique()
    for size in sizes:
        progress("naive support sizes", size - sizes.start, len(sizes))
        dataset = QueryDataset(events, pd.Series(size, index=users), slots)
        logits, labels = [], []
        with torch.no_grad():
            for query, support, known in DataLoader(dataset, BATCH_QUERIES):
                logits.append(naive(query, support, known).numpy())
                labels.append(query[:, -1].numpy())
        scores = np.concatenate(logits)
        yield scores, float(roc_auc_score(np.concatenate(labels), scores))
    progress("naive support sizes", len(sizes), len(sizes))


def _split(events: Tensor) -> tuple[Features, Tensor]:
    columns = events.shape[1] // 2
    return Features(events[:, :columns].int(), events[:, columns:-1].float()), events[:, -1].float()
