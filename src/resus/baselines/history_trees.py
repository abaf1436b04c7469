"""LightGBM with history features: what an engineer builds who knows trees but no meta-learning."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from resus.arrays import Array, Booleans, Doubles, Floats, Integers
from resus.baselines.base import Task
from resus.baselines.shelf import cross_fitted_predictor
from resus.baselines.user_bias import support_residuals
from resus.data.log.log import InteractionLog
from resus.data.log.user_fields import user_fields
from resus.episodes.batch import EpisodeBatch
from resus.episodes.prefixes import OrderedUsers
from resus.history import EpochRecord, History
from resus.model.predictors.base import Predictor
from resus.randomness import Purpose, generator

if TYPE_CHECKING:
    import lightgbm  # at run time only where it is used: it belongs to an extra

TILE_ROWS = 2048
DRAWS = 4  # support sizes per training user
SHRINKAGE = 5.0  # every mean residual counts this many extra events with residual 0
ITEM_PRIOR = 20.0  # every item's click rate counts this many extra events with the mean click rate
# Rows of which Ψ is sure have almost no curvature. Without these two, a leaf of such rows gets a value without bounds.
SMOOTHING = 10.0  # curvature that is added to each leaf
LARGEST_STEP = 4.0  # of a leaf, before the learning rate
FOLDS = 5
NEW_USER = FOLDS  # the fold of a user whose labels are in no statistic
DECIMALS = 4


@dataclass(eq=False, kw_only=True)
class HistoryTrees:
    """ŷ = σ(Ψ(x) + trees(h)), where h counts and averages Ψ's residuals on the user's support (see `Histories`).

    The trees learn from episodes of the training users, whose residuals come from predictors that never saw them: else
    they would be smaller than those of new users, and the trees too sure. The validation users choose the number of
    rounds, by Logloss.
    """

    learning_rate: float = 0.05
    rounds: int = 1000
    num_leaves: int = 31
    patience: int = 20
    training_rows: int = 300_000
    predictor: Predictor = field(init=False)
    fields: tuple[int, ...] = field(init=False)
    items: "ItemClicks" = field(init=False)
    booster: "lightgbm.Booster" = field(init=False)

    def fit(self, task: Task) -> History:
        import lightgbm

        fitted = cross_fitted_predictor(task)
        self.predictor = fitted.predictor
        log, of_user = task.log, user_fields(task.log, task.split.train)
        self.fields = tuple(number for number in range(len(log.features.fields)) if number not in of_user)
        self.items = ItemClicks.count(log, task.split.train)
        features, labels, basis = self._training_episodes(task, fitted.logits)
        data = lightgbm.Dataset(features, labels, init_score=basis)
        features, labels, basis = self._validation_episodes(task, fitted.logits)
        held_out = data.create_valid(features, labels, init_score=basis)
        parameters: dict[str, Any] = {
            "objective": "binary",
            "metric": "binary_logloss",
            "learning_rate": self.learning_rate,
            "num_leaves": self.num_leaves,
            "lambda_l2": SMOOTHING,
            "max_delta_step": LARGEST_STEP,
            "deterministic": True,
            "force_row_wise": True,
            "num_threads": torch.get_num_threads(),
            "seed": task.config.seed,
            "verbosity": -1,
        }
        task.progress("history, boosting", 0, None)
        self.booster = lightgbm.train(
            parameters,
            data,
            num_boost_round=self.rounds,
            valid_sets=[held_out],
            callbacks=[lightgbm.early_stopping(self.patience, verbose=False)],
        )
        reached = task.validation_auc(partial(self.score_prefixes, log))
        return [*fitted.history, EpochRecord("trees", self.booster.best_iteration, reached)]

    def score(self, log: InteractionLog, batch: EpisodeBatch) -> Floats:
        basis = self.predictor.logits_of_rows(log, batch.rows)
        query, sizes = batch.query.numpy(), batch.support_sizes[batch.query_user.numpy()]
        features = self._matrix(Histories(log, batch, basis, self.fields), query, sizes)
        logits: Floats = basis[query] + self._trees(features)
        return logits

    def score_prefixes(self, log: InteractionLog, ordered: OrderedUsers, sizes: Sequence[int]) -> Floats:
        """NaN where a row is support."""
        basis = self.predictor.logits_of_rows(log, ordered.rows)
        batch = EpisodeBatch(ordered.rows, ordered.lengths, np.minimum(ordered.lengths, max(sizes)))
        histories = Histories(log, batch, basis, self.fields)
        asked = ordered.positions[:, None] >= np.array(sizes)
        added = np.full(asked.shape, np.nan, dtype=np.float32)
        for tile in _tiles(len(basis)):
            places = np.arange(tile.start, tile.stop)
            features = self._features(histories, places, np.broadcast_to(np.array(sizes), asked[tile].shape))
            added[tile][asked[tile]] = self._trees(features[asked[tile]])
        return basis[:, None] + added

    def _features(
        self, histories: "Histories", places: Integers, sizes: Integers, fold: Integers | int = NEW_USER
    ) -> Floats:
        """`[n, J, D]` of rows with J sizes each, rounded so that no tree splits two sums of the same numbers."""
        own = histories.features(places, sizes)
        item = self.items.features(histories.log, histories.rows[places], fold)[:, None, :]
        features = np.concatenate([own, np.broadcast_to(item, (*own.shape[:2], item.shape[-1]))], axis=-1)
        return features.round(DECIMALS).astype(np.float32)

    def _trees(self, features: Floats) -> Floats:
        """`[n]`: what the trees add to Ψ's logit."""
        if not len(features):  # LightGBM refuses an empty matrix
            return np.empty(0, dtype=np.float32)
        return np.asarray(self.booster.predict(features, raw_score=True), dtype=np.float32)

    def _matrix(
        self, histories: "Histories", places: Integers, sizes: Integers, fold: Integers | int = NEW_USER
    ) -> Floats:
        """`[n, D]`: the features of rows with one size each."""
        fold = np.broadcast_to(fold, places.shape)
        tiles = _tiles(len(places))
        parts = [self._features(histories, places[tile], sizes[tile, None], fold[tile])[:, 0] for tile in tiles]
        return np.concatenate(parts)

    def _training_episodes(self, task: Task, basis: Floats) -> tuple[Floats, Floats, Floats]:
        """Features, labels and Ψ's logits of some queries of the training users, at several support sizes."""
        log, random = task.log, generator(Purpose.HISTORY_TREES_TRAINING, task.config.seed)
        features, chosen = [], []
        for draw in range(DRAWS):
            epoch = task.sampler.epoch(draw)
            batch = EpisodeBatch(epoch.rows, epoch.lengths, epoch.support_sizes)
            kept = random.permutation(len(batch.query))[: self.training_rows // DRAWS]
            query, sizes = batch.query.numpy()[kept], batch.support_sizes[batch.query_user.numpy()[kept]]
            chosen.append(batch.rows[query])
            histories = Histories(log, batch, basis[batch.rows], self.fields)
            features.append(self._matrix(histories, query, sizes, _fold_of(log, chosen[-1])))
        rows = np.concatenate(chosen)
        return np.concatenate(features), log.labels[rows], basis[rows]

    def _validation_episodes(self, task: Task, basis: Floats) -> tuple[Floats, Floats, Floats]:
        """The same for all queries of the validation users."""
        log, ordered = task.log, task.validation
        random = generator(Purpose.HISTORY_TREES_VALIDATION, task.config.seed)
        features, chosen = [], []
        for _ in range(DRAWS):
            drawn = random.choice(task.config.evaluation.sizes[1:], len(ordered.users))
            batch = EpisodeBatch(ordered.rows, ordered.lengths, np.minimum(drawn, ordered.lengths - 1))
            query, sizes = batch.query.numpy(), batch.support_sizes[batch.query_user.numpy()]
            chosen.append(batch.rows[query])
            features.append(self._matrix(Histories(log, batch, basis[batch.rows], self.fields), query, sizes))
        rows = np.concatenate(chosen)
        return np.concatenate(features), log.labels[rows], basis[rows]


class Histories:
    """Supports of some users with Ψ's residuals, turned into features of any row of these users."""

    def __init__(self, log: InteractionLog, batch: EpisodeBatch, basis: Floats, fields: Sequence[int]) -> None:
        self.log = log
        self.rows = batch.rows
        self.basis = basis
        self.fields = fields
        self.support = batch.rows[batch.support.numpy()]  # [U, S]
        self.residuals = support_residuals(log, batch, basis)
        self.owner = np.repeat(np.arange(batch.n_users), batch.lengths)

    def features(self, places: Integers, sizes: Integers) -> Doubles:
        """Rows at `places` `[n]`, each with `sizes` `[n, J]` of its user's events → `[n, J, 4 + 2·fields]`.

        Ψ's logit, the size, the sum and the shrunken mean of all residuals. Then for each field: the shrunken mean
        residual of the events that share the row's value, and how many they are.
        """
        owner = self.owner[places]
        residuals, support = self.residuals[owner], self.support[owner]
        total = _first(residuals, sizes)
        logits = np.broadcast_to(self.basis[places, None], sizes.shape)
        columns: list[Array] = [logits, sizes, total, total / (sizes + SHRINKAGE)]
        for number in self.fields:
            shared = shares_value(self.log, number, self.rows[places], support)
            count = _first(shared, sizes)
            columns += [_first(residuals * shared, sizes) / (count + SHRINKAGE), count]
        return np.stack(columns, axis=-1)


@dataclass(frozen=True, eq=False)
class ItemClicks:
    """Clicks and events of each item, counted over all training users and over all but one fold of them.

    The features of a training user come from the other folds, so that they never contain the row's own label.
    """

    column: int
    first_id: int
    clicks: Doubles  # [FOLDS + 1, items]
    counts: Doubles  # [FOLDS + 1, items]

    @classmethod
    def count(cls, log: InteractionLog, users: Integers) -> "ItemClicks":
        item = log.features.block(log.features.item)
        column, first = item.columns.start, item.first
        rows, shape = log.rows_of(users), (FOLDS, item.field.ids)
        cell = np.ravel_multi_index((_fold_of(log, rows), log.ids[rows, column] - first), shape)
        clicks, counts = (
            np.bincount(cell, weights=weights, minlength=FOLDS * shape[1]).reshape(shape).astype(np.float64)
            for weights in (log.labels[rows], None)
        )
        return cls(column, first, _without_each(clicks), _without_each(counts))

    def features(self, log: InteractionLog, rows: Integers, fold: Integers | int) -> Doubles:
        """`[n, 2]`: the shrunken click rate of the row's item, and the number of its events."""
        item = log.ids[rows, self.column] - self.first_id
        mean = self.clicks.sum(axis=1) / np.maximum(self.counts.sum(axis=1), 1)
        clicks, count = self.clicks[fold, item], self.counts[fold, item]
        return np.stack([(clicks + ITEM_PRIOR * mean[fold]) / (count + ITEM_PRIOR), count], axis=-1)


def shares_value(log: InteractionLog, field: int, rows: Integers, support: Integers) -> Booleans:
    """Rows `[n]` and support rows `[n, S]` → `[n, S]`: whether both have a known value of the field in common."""
    encoded, first, columns = log.features.blocks[field]
    asked, known = log.ids[:, columns][rows][:, None, :, None], log.ids[:, columns][support][:, :, None, :]
    same = (asked == known) & (asked != first)  # an empty slot counts as unknown
    if encoded.is_number:
        assert log.weights is not None
        same &= log.weights[:, columns][rows][:, None, :, None] == log.weights[:, columns][support][:, :, None, :]
    shared: Booleans = same.any(axis=(2, 3))
    return shared


def _first(values: Array, sizes: Integers) -> Doubles:
    """`[n, S]` values → `[n, J]`: the sums of the first sizes[n, j] values."""
    running = np.concatenate([np.zeros((len(values), 1)), values.cumsum(axis=1)], axis=1)
    return np.take_along_axis(running, np.minimum(sizes, values.shape[1]), axis=1)


def _without_each(counts: Doubles) -> Doubles:
    """`[FOLDS, items]` → `[FOLDS + 1, items]`: the counts without each fold, scaled to all rows; last, of all folds."""
    total = counts.sum(axis=0, keepdims=True)
    return np.concatenate([(total - counts) * (FOLDS / (FOLDS - 1)), total])


def _fold_of(log: InteractionLog, rows: Integers) -> Integers:
    user: Integers = np.searchsorted(log.offsets, rows, side="right") - 1
    return user % FOLDS


def _tiles(count: int) -> Iterator[slice]:
    for start in range(0, max(count, 1), TILE_ROWS):
        yield slice(start, min(start + TILE_ROWS, count))
