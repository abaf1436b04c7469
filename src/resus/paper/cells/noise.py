"""Supports that are less and less relevant to the query (section 5.5, figure 4)."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import nn

from resus.arrays import Array, Floats, Integers
from resus.baselines.base import Method
from resus.data.log.log import InteractionLog
from resus.episodes.batch import EpisodeBatch, features_of
from resus.episodes.prefixes import OrderedUsers
from resus.evaluation.metrics import auc, gauc, logloss
from resus.paper.cells.records import NoiseLevel

LEVELS = 5
QUERIES_AT_ONCE = 512


def noise_levels(
    method: Method, log: InteractionLog, ordered: OrderedUsers, encoder: nn.Module, support: int
) -> list[NoiseLevel]:
    """Sort a user's first `support` events by their distance to the query, and cut them into five supports.

    The queries are all later events, the same at every level. So the levels differ in relevance only.
    """
    users, rows, distances = [], [], []
    logits: list[list[Floats]] = [[] for _ in range(LEVELS)]
    for user, queries, sorted_rows, sorted_distances in _by_distance(log, ordered, encoder, support):
        users.append(np.full(len(queries), user))
        rows.append(queries)
        distances.append(_fifths(sorted_distances).mean(axis=2))
        for level, supports in enumerate(_fifths(sorted_rows).swapaxes(0, 1)):
            logits[level].append(_answers(method, log, supports, queries))
    if not rows:
        return []
    asked, owners = np.concatenate(rows), np.concatenate(users)
    mean_distances = np.concatenate(distances).mean(axis=0)
    labels = log.labels[asked]
    found = []
    for level, parts in enumerate(logits):
        own = np.concatenate(parts)
        found.append(
            NoiseLevel(
                distance=float(mean_distances[level]),
                auc=auc(labels, own),
                gauc=gauc(labels, own, owners),
                logloss=logloss(labels, own),
            )
        )
    return found


def _fifths(values: Array) -> Array:
    """`[Q, S]`, sorted by distance → `[Q, LEVELS, S / LEVELS]`; a remainder at the far end is left out."""
    size = values.shape[1] // LEVELS
    return values[:, : size * LEVELS].reshape(len(values), LEVELS, size)


def _answers(method: Method, log: InteractionLog, supports: Integers, queries: Integers) -> Floats:
    """Logits of the queries. Each query counts as a separate user with its own support."""
    size = supports.shape[1]
    batch = EpisodeBatch(
        rows=np.column_stack([supports, queries]).ravel(),
        lengths=np.full(len(queries), size + 1),
        support_sizes=np.full(len(queries), size),
    )
    return method.score(log, batch)


@torch.no_grad()
def _by_distance(
    log: InteractionLog, ordered: OrderedUsers, encoder: nn.Module, support: int
) -> Iterator[tuple[int, Integers, Integers, Floats]]:
    """User, queries `[Q]`, support rows from near to far `[Q, S]`, their distances. A long user comes in parts."""
    starts = np.cumsum(ordered.lengths) - ordered.lengths
    for user, start, length in zip(ordered.users, starts, ordered.lengths, strict=True):
        own = ordered.rows[start : start + length]
        for first in range(support, length, QUERIES_AT_ONCE):
            queries = own[first : first + QUERIES_AT_ONCE]
            encoded = encoder(features_of(log, np.concatenate([own[:support], queries])))
            distances = torch.cdist(encoded[support:], encoded[:support]).numpy()
            order = np.argsort(distances, axis=1, kind="stable")
            yield int(user), queries, own[:support][order], np.take_along_axis(distances, order, axis=1)
