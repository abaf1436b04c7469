"""Comparisons as they are kept, against scipy, and against bootstraps done seed by seed."""

from pathlib import Path

import numpy as np
import pytest
import torch
from planted_cells import comparison, every_cell
from scipy import stats

from resus.errors import ArtifactError
from resus.evaluation.intervals import differences, drawn_users, resamplers_of, stage_draws
from resus.evaluation.population import ScoredQueries, staged_results
from resus.paper import comparisons
from resus.paper.cells.records import Cell, Seconds, append_record, scores_path
from resus.paper.comparisons import (
    COMPARED_METRICS,
    COMPARISONS,
    Comparison,
    best_rivals,
    compare,
    pairs_of,
    read_comparisons,
)
from resus.paper.questions import ABLATIONS, PLUS, PRACTICE
from resus.randomness import Purpose, generator
from resus.tensor_files import load_tensors, save_tensors

SUBJECT = ("data_set", "method", "against", "stage")
ONE = comparison(difference=0.1 + 0.2, p_bootstrap=1 / 201, p_ttest=None)


@pytest.mark.parametrize("changed", [*({field: "other"} for field in SUBJECT), {"metric": "gauc", "low": None}])
def test_comparisons_of_other_subjects_are_read_as_they_were_written(tmp_path: Path, changed: dict[str, str]) -> None:
    other = ONE.model_copy(update=changed)
    assert read_comparisons(tmp_path) == []
    for each in (ONE, other):
        append_record(tmp_path / COMPARISONS, each)
    assert read_comparisons(tmp_path) == [ONE, other]


def test_of_one_subject_the_last_counts(tmp_path: Path) -> None:
    more = ONE.model_copy(update={"seeds": (1, 2, 3, 4), "difference": 0.2, "replicates": 1000})
    for each in (ONE, more):
        append_record(tmp_path / COMPARISONS, each)
    assert read_comparisons(tmp_path) == [more]


def test_a_foreign_line_is_refused_with_its_number(tmp_path: Path) -> None:
    append_record(tmp_path / COMPARISONS, ONE)
    path = tmp_path / COMPARISONS
    path.write_text(path.read_text() + path.read_text().replace("p_ttest", "p_test"))
    with pytest.raises(ArtifactError, match=r"line 2 .*did you mean 'p_ttest'.*delete the line"):
        read_comparisons(tmp_path)


SIZES = (0, 1, 2, 3)
STAGES = {"I": [1, 2], "II": [3]}
QUALITY = {"resus-rr": 1.0, "melu": 0.6, "lwa": 0.2}
REPLICATES = 20


def planted(seed: int, *, length: int = 8) -> ScoredQueries:
    """Every method knows the item; the better it is, the more of the user it adds with each event."""
    rng = np.random.default_rng(seed)
    users, rows = 40, 40 * length
    item = rng.normal(0, 1, rows)
    bias = np.repeat(rng.normal(0, 1, users), length)
    logits = {
        name: item[:, None] + quality * bias[:, None] * np.array(SIZES) / 3 + rng.normal(0, 0.5, (rows, 1))
        for name, quality in QUALITY.items()
    }
    logits["deepfm"] = item[:, None]
    positions = np.tile(np.arange(length), users)
    for values in logits.values():
        if values.shape[1] > 1:
            values[positions[:, None] < np.array(SIZES)] = np.nan  # a support row has no score
    return ScoredQueries(
        labels=(rng.random(rows) < 1 / (1 + np.exp(-item - bias))).astype(np.float32),
        users=np.repeat(np.arange(users), length),
        positions=positions,
        sizes=SIZES,
        logits={name: values.astype(np.float32) for name, values in logits.items()},
    )


def keep(folder: Path, scored: ScoredQueries, method: str, seed: int) -> Cell:
    """The cell of one method, with its scores in the folder."""
    rows = {"labels": scored.labels, "users": scored.users, "positions": scored.positions}
    tensors = {"logits": scored.logits[method]} | rows
    cell = Cell(
        data_set="mine",
        method=method,
        seed=seed,
        mark="0f",
        hyperparameters={},
        results=staged_results(scored, stages=STAGES, base="deepfm")[method],
        epochs=[],
        seconds=Seconds(pretraining=0, training=0, scoring=0),
        threads=1,
        alone=False,
    )
    save_tensors(
        scores_path(folder, cell.key),
        {name: torch.from_numpy(values) for name, values in tensors.items()},
        {"sizes": list(SIZES), "stages": STAGES},
    )
    return cell


def cells_of(folder: Path, seeds: dict[str, list[int]]) -> list[Cell]:
    return [keep(folder, planted(seed), method, seed) for method, of_method in seeds.items() for seed in of_method]


def against_melu(folder: Path, cells: list[Cell], replicates: int = REPLICATES) -> list[Comparison]:
    return compare(folder, cells, "mine", "resus-rr", "melu", replicates=replicates)


def stage_values(cells: list[Cell], method: str, seeds: list[int], stage: str, metric: str) -> list[float]:
    found = {cell.seed: cell.results.stages[stage] for cell in cells if cell.method == method}
    return [getattr(found[seed], metric) for seed in seeds]


def test_the_t_test_is_scipys_paired_one_over_the_seeds_of_both(tmp_path: Path) -> None:
    cells = cells_of(tmp_path, {"resus-rr": [3, 1, 2, 9], "melu": [2, 1, 3, 7]})
    found = against_melu(tmp_path, cells)
    assert [(one.stage, one.metric) for one in found] == [
        (stage, metric) for stage in STAGES for metric in COMPARED_METRICS
    ]
    for one in found:
        ours, theirs = (
            stage_values(cells, method, [1, 2, 3], one.stage, one.metric) for method in ("resus-rr", "melu")
        )
        assert one.seeds == (1, 2, 3)
        assert one.difference == pytest.approx(np.mean(ours) - np.mean(theirs))
        assert one.p_ttest == pytest.approx(stats.ttest_rel(ours, theirs).pvalue)


def test_a_replicate_is_the_mean_over_seeds_of_one_draw_of_users(tmp_path: Path) -> None:
    found = against_melu(tmp_path, cells_of(tmp_path, {"resus-rr": [1, 2], "melu": [1, 2]}))
    worlds = [planted(seed) for seed in (1, 2)]
    users = [world.users[world.positions == 0] for world in worlds]
    assert set(users[0]) & set(users[1]), "the seeds share users"
    everyone = sorted({*users[0], *users[1]})
    weights = drawn_users(len(everyone), REPLICATES, generator(Purpose.METHOD_BOOTSTRAP, 2))
    drawn = [
        stage_draws(
            world,
            ["resus-rr", "melu"],
            stages=STAGES,
            weights=weights[:, [everyone.index(user) for user in own]],
            resamplers=resamplers_of(COMPARED_METRICS),
        )
        for world, own in zip(worlds, users, strict=True)
    ]
    by_seed = [differences(of_seed["resus-rr"], of_seed["melu"]) for of_seed in drawn]
    for one in found:
        draws = sum(of_seed[one.stage, one.metric].draws for of_seed in by_seed) / 2
        farther = np.abs(draws - one.difference) >= abs(one.difference)
        assert (one.low, one.high) == pytest.approx(tuple(np.quantile(draws, [0.025, 0.975])))
        assert one.p_bootstrap == pytest.approx((1 + farther.sum()) / (1 + REPLICATES))
        assert one.replicates == REPLICATES


def test_a_method_that_ignores_the_support_is_compared_like_any_other(tmp_path: Path) -> None:
    cells = cells_of(tmp_path, {"resus-rr": [1], "deepfm": [1]})
    found = compare(tmp_path, cells, "mine", "resus-rr", "deepfm", replicates=REPLICATES)
    assert {one.p_bootstrap is None for one in found} == {False}


def test_one_seed_has_a_bootstrap_and_no_t_test(tmp_path: Path) -> None:
    found = against_melu(tmp_path, cells_of(tmp_path, {"resus-rr": [1], "melu": [1]}))
    assert all(one.p_ttest is None and one.p_bootstrap is not None for one in found)


def test_runs_without_spread_have_no_t_test(tmp_path: Path) -> None:
    cells = cells_of(tmp_path, {"melu": [1, 2]})
    found = compare(tmp_path, cells, "mine", "melu", "melu", replicates=REPLICATES)
    assert {(one.difference, one.p_ttest, one.p_bootstrap) for one in found} == {(0, None, 1)}


def test_methods_without_a_common_seed_are_not_compared(tmp_path: Path) -> None:
    assert against_melu(tmp_path, cells_of(tmp_path, {"resus-rr": [1], "melu": [2]})) == []
    assert not (tmp_path / COMPARISONS).exists()


def test_a_stage_without_queries_is_not_compared(tmp_path: Path) -> None:
    cells = [keep(tmp_path, planted(1, length=3), method, 1) for method in ("resus-rr", "melu")]
    assert {one.stage for one in against_melu(tmp_path, cells)} == {"I"}


def test_without_scores_the_t_test_stands_alone_until_they_come(tmp_path: Path) -> None:
    cells = cells_of(tmp_path, {"resus-rr": [1, 2], "melu": [1, 2]})
    path = scores_path(tmp_path, ("mine", "melu", 2))
    path.rename(aside := tmp_path / "aside")
    bare = against_melu(tmp_path, cells)
    assert all(one.p_ttest is not None for one in bare)
    assert {(one.low, one.high, one.p_bootstrap, one.replicates) for one in bare} == {(None, None, None, 0)}
    aside.rename(path)
    whole = against_melu(tmp_path, cells)
    assert all(one.p_bootstrap is not None for one in whole)
    path.unlink()
    assert against_melu(tmp_path, cells) == whole == read_comparisons(tmp_path)


@pytest.mark.parametrize("order", [(0, REPLICATES), (REPLICATES, 0)])
def test_a_bootstrap_once_made_outlives_a_wish_for_none(tmp_path: Path, order: tuple[int, int]) -> None:
    cells = cells_of(tmp_path, {"resus-rr": [1, 2], "melu": [1, 2]})
    for replicates in order:
        found = against_melu(tmp_path, cells, replicates)
    assert {one.replicates for one in found} == {REPLICATES}
    assert read_comparisons(tmp_path) == found


def test_no_replicates_make_a_t_test_without_reading_scores(tmp_path: Path) -> None:
    cells = cells_of(tmp_path, {"resus-rr": [1, 2], "melu": [1, 2]})
    scores_path(tmp_path, ("mine", "melu", 1)).write_bytes(b"not read")
    found = against_melu(tmp_path, cells, 0)
    assert all(one.p_ttest is not None and one.p_bootstrap is None and one.replicates == 0 for one in found)


def test_what_the_folder_holds_is_not_computed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    computed = []

    def counted(path: Path) -> object:
        computed.append(path)
        return load_tensors(path)

    monkeypatch.setattr(comparisons, "load_tensors", counted)
    cells = cells_of(tmp_path, {"resus-rr": [1, 2], "melu": [1, 2]})
    first = against_melu(tmp_path, cells)
    written = (tmp_path / COMPARISONS).read_bytes()
    assert len(computed) == 4
    assert against_melu(tmp_path, cells) == first
    assert len(computed) == 4
    assert (tmp_path / COMPARISONS).read_bytes() == written
    against_melu(tmp_path, cells, replicates=REPLICATES + 1)
    assert len(computed) == 8
    fewer = [cell for cell in cells if cell.seed == 1]
    assert {one.seeds for one in against_melu(tmp_path, fewer)} == {(1,)}
    assert len(computed) == 10


def test_cells_that_were_run_anew_are_compared_anew(tmp_path: Path) -> None:
    against_melu(tmp_path, cells_of(tmp_path, {"resus-rr": [1], "melu": [1]}))
    anew = [keep(tmp_path, planted(5), method, 1) for method in ("resus-rr", "melu")]
    found = against_melu(tmp_path, anew)
    ours, theirs = (stage_values(anew, method, [1], "I", "auc")[0] for method in ("resus-rr", "melu"))
    assert found[0].difference == pytest.approx(ours - theirs)
    assert read_comparisons(tmp_path) == found


def test_more_seeds_are_compared_anew_though_the_difference_is_the_same(tmp_path: Path) -> None:
    cells = cells_of(tmp_path, {"melu": [1, 2]})
    for seeds in [(1,), (1, 2)]:
        asked = [cell for cell in cells if cell.seed in seeds]
        found = compare(tmp_path, asked, "mine", "melu", "melu", replicates=REPLICATES)
        assert {one.seeds for one in found} == {seeds}
        assert read_comparisons(tmp_path) == found


@pytest.mark.parametrize("name", ["labels", "users", "positions", "sizes"])
def test_scores_of_other_rows_are_refused_with_both_files(tmp_path: Path, name: str) -> None:
    cells = cells_of(tmp_path, {"resus-rr": [1], "melu": [1]})
    path = scores_path(tmp_path, ("mine", "melu", 1))
    tensors, facts = load_tensors(path)
    if name in tensors:
        tensors[name] = tensors[name].flip(0)
    else:
        facts["sizes"] = facts["sizes"][1:]
    save_tensors(path, tensors, facts)
    with pytest.raises(ArtifactError, match=r"resus-rr-1\.safetensors and .*melu-1\.safetensors do not score the same"):
        against_melu(tmp_path, cells)
    assert not (tmp_path / COMPARISONS).exists()


def test_scores_that_are_not_those_of_the_cell_are_refused(tmp_path: Path) -> None:
    cells = cells_of(tmp_path, {"resus-rr": [1], "melu": [1]})
    path = scores_path(tmp_path, ("mine", "melu", 1))
    tensors, facts = load_tensors(path)
    save_tensors(path, tensors | {"logits": -tensors["logits"]}, facts)
    with pytest.raises(ArtifactError, match="does not belong to its cell"):
        against_melu(tmp_path, cells)


def test_the_best_rivals_are_best_somewhere(tmp_path: Path) -> None:
    cells = cells_of(tmp_path, {"lwa": [1, 2, 3], "melu": [1, 2, 3], "resus-rr": [1]})
    expected = set()
    for stage in STAGES:
        for metric in ("auc", "gauc"):
            means = {name: np.mean(stage_values(cells, name, [1, 2, 3], stage, metric)) for name in ("lwa", "melu")}
            expected.add(max(means, key=lambda name: means[name]))
    assert set(best_rivals(cells, "mine", ["lwa", "melu", "mamo"])) == expected
    assert best_rivals(cells, "mine", ["mamo", "lwa"]) == ["lwa"]
    assert best_rivals(cells, "other", ["lwa"]) == []


def test_every_rival_of_resus_plus_is_drawn_against_and_its_parts_are_compared() -> None:
    pairs = pairs_of(every_cell(), ["beyond"])
    drawn = {pair.against for pair in pairs if pair.bootstrap}
    assert drawn == {*PRACTICE, "deepfm", "resus-nn", "resus-rr"}
    assert {pair.against for pair in pairs if not pair.bootstrap} == set(ABLATIONS)
    assert {pair.method for pair in pairs} == {PLUS}
