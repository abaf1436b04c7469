"""Means over seeds against numpy, pairs over shared seeds, and what is missing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from planted_cells import LONG_QUERIES, LONG_USERS, QUERIES, USERS, planted_cell, without_auc

from resus.paper.cells.records import Cell, TrainedEpoch
from resus.paper.cells.summary import Summary

aucs = st.dictionaries(st.integers(1, 6), st.floats(0.51, 0.99), min_size=1)


def cells(method: str, by_seed: dict[int, float]) -> list[Cell]:
    return [planted_cell(method, seed=seed, auc=auc) for seed, auc in by_seed.items()]


@given(by_seed=aucs)
def test_mean_and_deviation_over_seeds(by_seed: dict[int, float]) -> None:
    spread = Summary(cells("melu", by_seed)).stage("ml-1m", "melu", "I", "auc")
    assert spread is not None
    assert spread.seeds == len(by_seed)
    assert spread.mean == pytest.approx(np.mean(list(by_seed.values())))
    if len(by_seed) == 1:
        assert spread.deviation is None
    else:
        assert spread.deviation == pytest.approx(np.std(list(by_seed.values()), ddof=1), abs=1e-12)


@given(own=aucs, other=aucs)
def test_a_pair_counts_the_seeds_of_both_only(own: dict[int, float], other: dict[int, float]) -> None:
    summary = Summary([*cells("resus-rr", own), *cells("deepfm", other)])
    pair = summary.pair("ml-1m", "resus-rr", "deepfm", "I", "auc")
    shared = own.keys() & other.keys()
    if not shared:
        assert pair is None
        assert summary.rela_impr("ml-1m", "resus-rr", "I", "deepfm") is None
    else:
        means = [np.mean([of[seed] for seed in shared]) for of in (own, other)]
        assert pair == pytest.approx(means)
        expected = ((means[0] - 0.5) / (means[1] - 0.5) - 1) * 100
        assert summary.rela_impr("ml-1m", "resus-rr", "I", "deepfm") == pytest.approx(expected)


def test_a_base_without_skill_gives_no_rela_impr() -> None:
    summary = Summary([planted_cell("resus-rr"), planted_cell("deepfm", auc=0.5, rise=0)])
    assert summary.rela_impr("ml-1m", "resus-rr", "I", "deepfm") is None


def test_of_equal_cells_the_first_counts_but_times_are_of_cells_that_ran_alone() -> None:
    beside = planted_cell("melu", auc=0.71, seconds=500, alone=False)
    alone = planted_cell("melu", auc=0.79, seconds=100)
    summary = Summary([beside, alone])
    assert summary.value("ml-1m", "melu", "I", "auc") == 0.71
    timing = summary.timing("ml-1m", "melu")
    assert timing is not None
    assert (timing.alone, timing.times.training, timing.threads) == (True, 100, (2,))
    only_beside = Summary([beside]).timing("ml-1m", "melu")
    assert only_beside is not None
    assert (only_beside.alone, only_beside.times.training) == (False, 500)
    assert Summary([beside]).times("ml-1m", "melu") is None


def test_epochs_leave_pretraining_out_except_for_a_predictor() -> None:
    trained = planted_cell("melu", epochs=4)
    predictor = planted_cell("deepfm", epochs=2)
    own = [TrainedEpoch(stage="predictor", epoch=epoch, validation_auc=0.7, seconds=1.0) for epoch in (1, 2, 3)]
    summary = Summary([trained, predictor.model_copy(update={"epochs": own})])
    assert len(summary.convergence("ml-1m", "melu")) == 4
    assert summary.convergence("ml-1m", "deepfm") == [0.7] * 3
    assert [times.epochs for name in ("melu", "deepfm") if (times := summary.times("ml-1m", name))] == [4, 3]


def test_populations_at_both_ends_and_of_long_users() -> None:
    summary = Summary([planted_cell("melu"), planted_cell("mamo")])
    first, last = summary.populations("ml-1m")
    assert (first.size, first.users, first.queries) == (1, (USERS - 1,) * 2, (QUERIES - 10,) * 2)
    assert (last.size, last.users, last.queries) == (6, (USERS - 6,) * 2, (QUERIES - 60,) * 2)
    fixed = summary.fixed_population("ml-1m")
    assert fixed is not None
    assert (fixed.users, fixed.queries) == ((LONG_USERS,) * 2, (LONG_QUERIES,) * 2)
    assert Summary([]).populations("ml-1m") == []
    assert Summary([]).fixed_population("ml-1m") is None


def test_sizes_without_queries_are_no_end_of_the_population() -> None:
    cell = planted_cell()
    empty = cell.results.sizes | {6: cell.results.sizes[6].model_copy(update={"users": 0, "queries": 0})}
    results = cell.results.model_copy(update={"sizes": empty, "fixed_population": None})
    summary = Summary([cell.model_copy(update={"results": results})])
    assert [population.size for population in summary.populations("ml-1m")] == [1, 5]
    assert summary.fixed_population("ml-1m") is None
    assert summary.fixed("ml-1m", "resus-rr", "I", "auc") is None


def test_a_metric_that_does_not_exist_is_none() -> None:
    summary = Summary([without_auc(planted_cell("melu", seed=1)), planted_cell("melu", seed=2, auc=0.8)])
    assert summary.value("ml-1m", "melu", "I", "auc") == 0.8
    assert summary.size("ml-1m", "melu", 1, "auc", [1, 2]) == 0.8
    assert Summary([without_auc(planted_cell("melu"))]).stage("ml-1m", "melu", "I", "auc") is None
    assert summary.stage("frappe", "melu", "I", "auc") is None


def test_noise_is_the_mean_of_the_seeds_level_by_level() -> None:
    cells = [planted_cell("mus", seed=seed, auc=auc, falls=0.04) for seed, auc in ((1, 0.70), (2, 0.80))]
    levels = Summary(cells).noise("ml-1m", "mus")
    assert [level.distance for level in levels] == [1, 2, 3, 4, 5]
    assert [level.auc for level in levels] == pytest.approx([0.75, 0.74, 0.73, 0.72, 0.71])
    assert Summary([planted_cell("mus")]).noise("ml-1m", "mus") == []


def test_shared_seeds_are_of_the_methods_that_were_run() -> None:
    summary = Summary([*cells("melu", {1: 0.7, 2: 0.7, 3: 0.7}), *cells("mamo", {2: 0.7, 3: 0.7, 4: 0.7})])
    assert summary.shared_seeds("ml-1m", ["melu", "mamo", "lwa"]) == [2, 3]
    assert summary.shared_seeds("ml-1m", ["lwa"]) == []
    assert summary.size("ml-1m", "melu", 1, "auc", [4]) is None
