"""The exact posterior's answers against an integral over a fine grid, and the crowd's where nothing is known."""

from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit

from benchmarks.planted import (
    CELLS,
    EXACT,
    PLUS,
    PlannedWorld,
    WorldCell,
    exact_answers,
    missing,
    share_closed,
)
from resus.data.datasets.planted import mean_sigmoid
from resus.paper.cells.records import append_record

PRIOR = np.array([0.4, 1.5])
LENGTHS = np.array([9, 4, 12, 5, 30])


@pytest.mark.parametrize("size", [1, 4, 8])
def test_answers_are_those_of_a_fine_grid(size: int) -> None:
    random = np.random.default_rng(size)
    rows = int(LENGTHS.sum())
    known, trait = random.normal(size=(2, rows))
    design = np.column_stack([np.ones(rows), 2 * trait])
    labels = (random.random(rows) < 0.4).astype(np.float64)
    answers, counting = exact_answers(known, design, labels, LENGTHS, PRIOR, size)
    axis = np.linspace(-7, 7, 301)
    grid = np.stack(np.meshgrid(*(axis * np.sqrt(PRIOR)[:, None]), indexing="ij")).reshape(2, -1)
    density = -0.5 * (grid**2 / PRIOR[:, None]).sum(axis=0)
    starts = np.cumsum(LENGTHS) - LENGTHS
    for start, length in zip(starts, LENGTHS, strict=True):
        support, queries = np.split(np.arange(start, start + length), [size])
        assert np.isnan(answers[support]).all()
        signs = 2 * labels[support] - 1
        logits = known[support, None] + design[support] @ grid
        weights = np.exp(density - np.logaddexp(0, -signs[:, None] * logits).sum(axis=0))
        chances = expit(known[queries, None] + design[queries] @ grid) @ (weights / weights.sum())
        np.testing.assert_allclose(answers[queries], chances, atol=2e-4)
    assert len(counting) == np.count_nonzero(np.greater(LENGTHS, size))
    assert counting.min() > 0.5


def test_without_an_event_the_answer_is_the_crowds() -> None:
    random = np.random.default_rng(3)
    known, trait = random.normal(size=(2, 20))
    design = np.column_stack([np.ones(20), trait])
    answers, _ = exact_answers(known, design, np.zeros(20), np.array([20]), PRIOR, 0)
    np.testing.assert_allclose(answers, mean_sigmoid(known, (design**2) @ PRIOR), atol=1e-3)


def world(seed: int, **aucs: float) -> WorldCell:
    bounds = {"crowd": 0.6, "oracle": 0.8}
    named = {{"plus": PLUS, "exact": EXACT}[name]: value for name, value in aucs.items()}
    return WorldCell(
        users=500, seed=seed, effective=0.9, aucs={name: {30: value} for name, value in {**bounds, **named}.items()}
    )


def test_the_closed_share_is_that_of_the_means_over_seeds() -> None:
    worlds = [world(1, plus=0.7, exact=0.75), world(2, plus=0.65, exact=0.7)]
    assert worlds[0].closed(PLUS, 30) == pytest.approx(0.5)
    assert share_closed(worlds, 30) == pytest.approx(0.375 / 0.625)


def test_only_missing_worlds_run(tmp_path: Path) -> None:
    append_record(tmp_path / CELLS, world(1, plus=0.7, exact=0.75))
    planned = [PlannedWorld(tmp_path, users, seed, threads=1) for users in (500, 2000) for seed in (1, 2)]
    assert [(cell.users, cell.seed) for cell in missing(planned)] == [(500, 2), (2000, 1), (2000, 2)]
