"""History features against a loop over rows; trees that find what a user's history gives away."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from planted_models import TINY
from torch import Tensor

from resus.baselines.base import Task
from resus.baselines.history_trees import FOLDS, ITEM_PRIOR, NEW_USER, SHRINKAGE, Histories, HistoryTrees, ItemClicks
from resus.baselines.shared_model import SharedModel
from resus.config.resolve import resolve
from resus.data.datasets.planted import PlantedWorld, planted_log
from resus.data.log.log import InteractionLog
from resus.episodes.batch import EpisodeBatch, Features
from resus.episodes.prefixes import OrderedUsers
from resus.evaluation.metrics import logloss
from resus.model.predictors.base import NoPredictor


def values_of(log: InteractionLog, field: int, row: int) -> set[tuple[int, float]]:
    """The known values of a row's field; a number is identified by its weight."""
    column, encoded = sum(log.features.column_counts[:field]), log.features.fields[field]
    ids = log.ids[row, column : column + encoded.columns]
    weights = log.weights[row, column : column + encoded.columns] if log.weights is not None else np.ones(len(ids))
    known = ids != log.features.first_ids[field]
    return {
        (int(number), float(weight) if encoded.kind == "numeric" else 1.0)
        for number, weight in zip(ids[known], weights[known], strict=True)
    }


def test_features_equal_a_loop_over_rows(log: InteractionLog) -> None:
    users = np.arange(8)
    lengths, rows = log.lengths[users], log.rows_of(users)
    basis = np.random.default_rng(1).normal(size=len(rows)).astype(np.float32)
    batch = EpisodeBatch(rows, lengths, np.minimum(lengths, 5))
    fields = range(len(log.features.fields))
    wanted = np.array([0, 2, 5])
    found = Histories(log, batch, basis, fields).features(
        np.arange(len(rows)), np.broadcast_to(wanted, (len(rows), len(wanted)))
    )
    assert found[..., 5::2].max(axis=(0, 1)).min() > 0, "every field is shared somewhere, or this shows nothing"
    starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
    for place, start in enumerate(starts):
        for column, size in enumerate(wanted):
            if place - start < size:
                continue  # a row of the support is never asked about
            residuals = {s: log.labels[rows[s]] - 1 / (1 + np.exp(-basis[s])) for s in range(start, start + size)}
            total = sum(residuals.values())
            expected = [basis[place], size, total, total / (size + SHRINKAGE)]
            for field in fields:
                own = values_of(log, field, rows[place])
                same = [r for s, r in residuals.items() if own & values_of(log, field, rows[s])]
                expected += [sum(same) / (len(same) + SHRINKAGE), len(same)]
            np.testing.assert_allclose(found[place, column], expected, rtol=1e-5, atol=1e-6)


def test_unknown_values_are_never_shared(log: InteractionLog) -> None:
    ids = log.ids.copy()
    ids[:, 0] = log.features.first_ids[0]
    unknown = replace(log, ids=ids)
    rows = log.rows_of(np.arange(1))
    batch = EpisodeBatch(rows, np.array([len(rows)]), np.array([3]))
    histories = Histories(unknown, batch, np.zeros(len(rows), dtype=np.float32), (0,))
    assert (histories.features(np.arange(3, len(rows)), np.full((len(rows) - 3, 1), 3))[..., 4:] == 0).all()


def test_item_clicks_equal_a_loop_over_other_users(log: InteractionLog) -> None:
    users = np.arange(0, 50, 2)
    items = ItemClicks.count(log, users)
    asked = log.rows_of(users[:3])
    owners = np.repeat(users[:3], log.lengths[users[:3]])
    for folds in (owners % FOLDS, np.full(len(asked), NEW_USER)):
        found = items.features(log, asked, folds)
        for place, (row, fold) in enumerate(zip(asked, folds, strict=True)):
            others = log.rows_of(users[users % FOLDS != fold])
            same = others[log.ids[others, 0] == log.ids[row, 0]]
            scale = 1 if fold == NEW_USER else FOLDS / (FOLDS - 1)
            count, clicks = scale * len(same), scale * log.labels[same].sum()
            rate = (clicks + ITEM_PRIOR * log.labels[others].mean()) / (count + ITEM_PRIOR)
            np.testing.assert_allclose(found[place], [rate, count], rtol=1e-6)


def test_a_training_row_does_not_see_its_own_label(log: InteractionLog) -> None:
    users, row = np.arange(40), int(log.offsets[7])
    labels = log.labels.copy()
    labels[row] = 1 - labels[row]
    flipped = replace(log, labels=labels)
    before, after = (
        ItemClicks.count(each, users).features(each, np.array([row]), np.array([7 % FOLDS])) for each in (log, flipped)
    )
    np.testing.assert_array_equal(before, after)


@pytest.fixture(scope="module")
def task() -> Task:
    world = PlantedWorld(users=200, items=20, events_per_user=20, bias_spread=1.5, seed=5)
    return Task(planted_log(world), resolve(TINY))


@pytest.fixture(scope="module")
def fitted(task: Task) -> HistoryTrees:
    method = HistoryTrees(rounds=40, num_leaves=7)
    method.fit(task)
    return method


def test_trees_beat_the_shared_model_where_users_differ(task: Task, fitted: HistoryTrees) -> None:
    shared = SharedModel()
    shared.predictor = fitted.predictor
    of_shared, of_trees = (task.validation_auc(partial(method.score_prefixes, task.log)) for method in (shared, fitted))
    assert of_trees > of_shared + 0.02


class SurePredictor(NoPredictor):
    """Sure of every row, and often wrong."""

    def logits(self, features: Features) -> Tensor:
        return torch.where(features.ids.sum(dim=1) % 2 == 0, 12.0, -12.0)


def test_trees_stay_modest_where_the_shared_model_is_too_sure(task: Task) -> None:
    """Rows of which Ψ is sure have no curvature, so a leaf of them could take any value."""
    method, sure = HistoryTrees(), SurePredictor()
    method.fit(Task(task.log, resolve(TINY | {"predictor.kind": "none"}), predictor=sure))
    ordered = OrderedUsers.of(task.log, task.split.test, seed=1)
    labels, queries = task.log.labels[ordered.rows], ordered.positions >= 6
    logits = method.score_prefixes(task.log, ordered, [6])[queries, 0]
    assert logloss(labels[queries], logits) < 0.75
    assert np.abs(logits).max() < 12


def test_fields_of_the_user_are_left_out(task: Task, fitted: HistoryTrees) -> None:
    names = [field.name for field in task.log.features.fields]
    assert [names[number] for number in fitted.fields] == [name for name in names if name not in ("age", "gender")]


def test_tiles_do_not_show(task: Task, fitted: HistoryTrees, monkeypatch: pytest.MonkeyPatch) -> None:
    ordered = OrderedUsers.of(task.log, task.split.test, seed=1)
    batch = EpisodeBatch(ordered.rows, ordered.lengths, np.minimum(ordered.lengths - 1, 3))
    whole = fitted.score_prefixes(task.log, ordered, (0, 3)), fitted.score(task.log, batch)
    monkeypatch.setattr("resus.baselines.history_trees.TILE_ROWS", 7)
    again = fitted.score_prefixes(task.log, ordered, (0, 3)), fitted.score(task.log, batch)
    for expected, found in zip(whole, again, strict=True):
        np.testing.assert_array_equal(found, expected)
