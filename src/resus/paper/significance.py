"""Whether a method beats a rival by more than chance: the paper's t-test over runs, and a bootstrap over users."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import stats

from resus.errors import ArtifactError
from resus.evaluation.intervals import Differences, drawn_users, paired_bootstrap
from resus.evaluation.metrics import Counts
from resus.evaluation.population import ScoredQueries
from resus.paper.cells.cells import Cell, first_of_each, scores_path
from resus.paper.comparisons import Comparison, add_comparison, read_comparisons
from resus.randomness import Purpose, generator
from resus.tensor_files import load_tensors

METRICS = ("auc", "gauc")

_ROWS = ("labels", "users", "positions")
_SAME = 1e-9  # AUCs of two computations that differ by rounding only


class _Pair(NamedTuple):
    """The cells of two methods with one seed."""

    ours: Cell
    theirs: Cell

    def scores(self, folder: Path) -> tuple[Path, Path]:
        return scores_path(folder, self.ours.key), scores_path(folder, self.theirs.key)

    def difference(self, stage: str, metric: str) -> float:
        """nan where a method has no such metric in the stage."""
        stages = [cell.results.stages.get(stage) for cell in self]
        ours, theirs = (getattr(of_method, metric, None) for of_method in stages)
        return float("nan") if ours is None or theirs is None else float(ours - theirs)


def compare(
    folder: Path, cells: Iterable[Cell], data_set: str, method: str, against: str, *, replicates: int = 200
) -> list[Comparison]:
    """A method against a rival in every stage, by AUC and GAUC, over the seeds that both have.

    Seeds count as independent: each draws its own test users anew, and a replicate is the mean over seeds. What the
    folder already holds for the same seeds and replicates is not computed again. With 0 replicates, or where scores
    were not kept, there is only the t-test.
    """
    pairs = _pairs(cells, data_set, method, against)
    seeds = tuple(pair.ours.seed for pair in pairs)
    differences = _differences(pairs)
    kept = replicates > 0 and all(path.is_file() for pair in pairs for path in pair.scores(folder))
    drawn = replicates if kept else 0
    known = {comparison.subject: comparison for comparison in read_comparisons(folder)}
    stored = [known.get((data_set, method, against, stage, metric)) for stage, metric in differences]
    current = [
        comparison
        for comparison, values in zip(stored, differences.values(), strict=True)
        if comparison is not None
        and comparison.seeds == seeds
        and (comparison.replicates == drawn or not drawn)  # with no draws to make, stored ones are no worse
        and abs(comparison.difference - np.mean(values)) < _SAME
    ]
    if len(current) == len(differences):
        return current
    bootstrap = _bootstrap(folder, pairs, drawn) if drawn else {}
    made = []
    for (stage, metric), values in differences.items():
        low, high = bootstrap[stage, metric].interval() if drawn else (None, None)
        made.append(
            Comparison(
                data_set=data_set,
                method=method,
                against=against,
                stage=stage,
                metric=metric,
                seeds=seeds,
                difference=float(np.mean(values)),
                low=low,
                high=high,
                p_bootstrap=bootstrap[stage, metric].p_value() if drawn else None,
                p_ttest=_ttest(values),
                replicates=drawn,
            )
        )
    for comparison in made:
        add_comparison(folder, comparison)
    return made


def best_rivals(cells: Iterable[Cell], data_set: str, rivals: Sequence[str]) -> list[str]:
    """The rivals that are best in some stage by AUC or GAUC, mean over seeds: those that a method must beat."""
    values: dict[tuple[str, str], dict[str, list[float]]] = {}
    for cell in first_of_each(cells).values():
        if cell.data_set == data_set and cell.method in rivals:
            for stage, metrics in cell.results.stages.items():
                for metric in METRICS:
                    if (value := getattr(metrics, metric)) is not None:
                        values.setdefault((stage, metric), {}).setdefault(cell.method, []).append(value)
    best = {max(of_rivals, key=lambda rival: np.mean(of_rivals[rival])) for of_rivals in values.values()}
    return [rival for rival in rivals if rival in best]


def _pairs(cells: Iterable[Cell], data_set: str, method: str, against: str) -> list[_Pair]:
    finished = first_of_each(cells)
    seeds = sorted(seed for name, of, seed in finished if (name, of) == (data_set, method))
    return [
        _Pair(finished[data_set, method, seed], finished[data_set, against, seed])
        for seed in seeds
        if (data_set, against, seed) in finished
    ]


def _differences(pairs: Sequence[_Pair]) -> dict[tuple[str, str], list[float]]:
    """By stage and metric, seed by seed; what a method lacks with some seed is left out."""
    stages = pairs[0].ours.results.stages if pairs else ()
    found = {(stage, metric): [p.difference(stage, metric) for p in pairs] for stage in stages for metric in METRICS}
    return {key: values for key, values in found.items() if not np.isnan(values).any()}


def _ttest(differences: Sequence[float]) -> float | None:
    """None where the runs show no spread to test against."""
    if len(differences) < 2 or np.ptp(differences) < _SAME:
        return None
    return float(stats.ttest_1samp(differences, 0).pvalue)  # the paired t-test is this one, of the differences


def _bootstrap(folder: Path, pairs: Sequence[_Pair], replicates: int) -> dict[tuple[str, str], Differences]:
    scored = [_scored(folder, pair) for pair in pairs]
    users = [of_seed.users[of_seed.positions == 0] for of_seed, _ in scored]
    everyone = np.unique(np.concatenate(users))
    weights = drawn_users(len(everyone), replicates, generator(Purpose.METHOD_BOOTSTRAP, len(pairs)))
    by_seed = [
        _bootstrap_of_seed(folder, pair, of_seed, stages, weights[:, np.searchsorted(everyone, own)])
        for pair, (of_seed, stages), own in zip(pairs, scored, users, strict=True)
    ]
    return {
        key: Differences(
            float(np.mean([of_seed[key].observed for of_seed in by_seed])),
            np.mean([of_seed[key].draws for of_seed in by_seed], axis=0),
        )
        for key in by_seed[0]
    }


def _scored(folder: Path, pair: _Pair) -> tuple[ScoredQueries, dict[str, list[int]]]:
    """Both methods' scores of the same rows, and the stages."""
    paths = pair.scores(folder)
    (ours, facts), (theirs, their_facts) = (load_tensors(path) for path in paths)
    if facts != their_facts or not all(np.array_equal(ours[name], theirs[name]) for name in _ROWS):
        raise ArtifactError(
            f"{paths[0]} and {paths[1]} do not score the same rows: "
            "delete both files and their cells, and run them again"
        )
    scored = ScoredQueries(
        **{name: ours[name].numpy() for name in _ROWS},
        sizes=tuple(facts["sizes"]),
        logits={pair.ours.method: ours["logits"].numpy(), pair.theirs.method: theirs["logits"].numpy()},
    )
    return scored, facts["stages"]


def _bootstrap_of_seed(
    folder: Path, pair: _Pair, scored: ScoredQueries, stages: dict[str, list[int]], weights: Counts
) -> dict[tuple[str, str], Differences]:
    found = paired_bootstrap(
        scored, pair.ours.method, pair.theirs.method, stages=stages, weights=weights, metrics=METRICS
    )
    for (stage, metric), differences in found.items():
        if abs(differences.observed - pair.difference(stage, metric)) > _SAME:
            ours, theirs = pair.scores(folder)
            raise ArtifactError(
                f"{ours} or {theirs} is not what its cell was measured on ({metric} of stage {stage} differs): "
                "delete both files and their cells, and run them again"
            )
    return found
