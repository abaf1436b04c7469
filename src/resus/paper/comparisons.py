"""Whether one method beats another by more than chance: the paper's t-test over runs, and a bootstrap over users."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from scipy import stats

from resus.errors import ArtifactError
from resus.evaluation.intervals import Differences, differences, drawn_users, resamplers_of, stage_draws
from resus.evaluation.metrics import DrawCounts
from resus.evaluation.population import ScoredQueries
from resus.evaluation.results import MetricValue, Record
from resus.paper.cells.records import Cell, append_record, first_of_each, read_records, scores_path
from resus.paper.questions import (
    ABLATIONS,
    ARCHITECTURES,
    BOOSTED,
    JOINT,
    PAPER_RIVALS,
    PLUS,
    PRACTICE,
    PROPOSED,
    QUESTIONS,
    resus_on,
)
from resus.progress import Progress
from resus.randomness import Purpose, generator
from resus.tensor_files import load_tensors

COMPARISONS = "comparisons.jsonl"
COMPARED_METRICS: tuple[Literal["auc", "gauc"], ...] = ("auc", "gauc")
Subject = tuple[str, str, str, str, str]

_ROWS = ("labels", "users", "positions")
_SAME = 1e-9  # two computations of one AUC differ by rounding only


class Comparison(Record):
    """One method against another in one stage by one metric.

    `difference` is the method's metric minus the other's, as a mean over seeds. A number that could not be computed is
    null.
    """

    data_set: str
    method: str
    against: str
    stage: str
    metric: Literal["auc", "gauc"]
    seeds: tuple[int, ...]
    difference: float
    low: MetricValue  # of the bootstrap's 95 % interval
    high: MetricValue
    p_bootstrap: MetricValue
    p_ttest: MetricValue  # paired over seeds, so null for one seed
    replicates: int  # of the bootstrap; 0 without one

    @property
    def subject(self) -> Subject:
        return self.data_set, self.method, self.against, self.stage, self.metric


class Pair(NamedTuple):
    """Two methods to compare. The bootstrap is slow, so it is drawn only if a claim needs it."""

    data_set: str
    method: str
    against: str
    bootstrap: bool


class _Cells(NamedTuple):
    """The cells of two methods with one seed."""

    ours: Cell
    theirs: Cell

    def scores(self, folder: Path) -> tuple[Path, Path]:
        return scores_path(folder, self.ours.key), scores_path(folder, self.theirs.key)

    def difference(self, stage: str, metric: str) -> float:
        """NaN if a method has no such metric in the stage."""
        stages = [cell.results.stages.get(stage) for cell in self]
        ours, theirs = (getattr(of_method, metric, None) for of_method in stages)
        return float("nan") if ours is None or theirs is None else float(ours - theirs)


def read_comparisons(folder: Path) -> list[Comparison]:
    """The comparisons of a folder. Of several with the same subject the last counts."""
    return list({each.subject: each for each in read_records(folder / COMPARISONS, Comparison)}.values())


def compare_all(
    folder: Path, cells: Sequence[Cell], questions: Sequence[str], *, replicates: int, progress: Progress
) -> list[Comparison]:
    """Compare every pair of the questions that has cells."""
    pairs = pairs_of(cells, questions)
    found: list[Comparison] = []
    for done, pair in enumerate(pairs):
        progress("comparing methods user by user", done, len(pairs))
        drawn = replicates if pair.bootstrap else 0
        found += compare(folder, cells, pair.data_set, pair.method, pair.against, replicates=drawn)
    progress("comparing methods user by user", len(pairs), len(pairs))
    return found


def pairs_of(cells: Sequence[Cell], questions: Sequence[str]) -> list[Pair]:
    """Which methods the questions compare, each pair once."""
    found: list[Pair] = []
    for data_set in dict.fromkeys(cell.data_set for cell in cells):
        run = {cell.method for cell in cells if cell.data_set == data_set}
        hardest = best_rivals(cells, data_set, PAPER_RIVALS)
        found += [
            Pair(data_set, method, against, bootstrap)
            for question in questions
            for method, against, bootstrap in _pairs(question, hardest)
            if method in run and against in run
        ]
    surest = {pair[:3]: pair for pair in sorted(found, key=lambda pair: pair.bootstrap)}
    return list(surest.values())


def _pairs(question: str, hardest: Sequence[str]) -> list[tuple[str, str, bool]]:
    match question:
        case "rq1":
            surely = {*hardest, "deepfm", *PRACTICE}
            others = (*PAPER_RIVALS, "deepfm", *PRACTICE)
            return [(method, against, against in surely) for method in PROPOSED for against in others]
        case "rq2":
            found = [(method, joint, True) for method, joint in JOINT.items()]
            found += [(method, "mus", False) for method in PROPOSED]
            return found + [(resus_on(x, kind), kind, False) for kind in ARCHITECTURES for x in ("nn", "rr")]
        case "rq3":
            return [(resus_on(x, kind), f"boosted-{kind}", kind == "deepfm") for kind in BOOSTED for x in ("nn", "rr")]
        case "beyond":
            return [
                (PLUS, against, against not in ABLATIONS) for against in QUESTIONS["beyond"].methods if against != PLUS
            ]
    return []


def compare(
    folder: Path, cells: Iterable[Cell], data_set: str, method: str, against: str, *, replicates: int = 200
) -> list[Comparison]:
    """One method against another in every stage, by AUC and GAUC, over the seeds that both have.

    Each seed draws its own test users, so seeds count as independent, and a replicate is the mean over seeds. A
    comparison that the folder holds for the same seeds and replicates is not computed again. With 0 replicates, or
    without kept scores, there is only the t-test.
    """
    pairs = _cells_of_both(cells, data_set, method, against)
    seeds = tuple(pair.ours.seed for pair in pairs)
    by_seed = _differences(pairs)
    kept = replicates > 0 and all(path.is_file() for pair in pairs for path in pair.scores(folder))
    drawn = replicates if kept else 0
    known = {comparison.subject: comparison for comparison in read_comparisons(folder)}
    stored = [known.get((data_set, method, against, stage, metric)) for stage, metric in by_seed]
    current = [
        comparison
        for comparison, values in zip(stored, by_seed.values(), strict=True)
        if comparison is not None
        and comparison.seeds == seeds
        and (comparison.replicates == drawn or not drawn)  # without draws to make, stored ones are no worse
        and abs(comparison.difference - np.mean(values)) < _SAME
    ]
    if len(current) == len(by_seed):
        return current
    bootstrap = _bootstrap(folder, pairs, drawn) if drawn else {}
    made = []
    for (stage, metric), values in by_seed.items():
        low, high = bootstrap[stage, metric].interval() if drawn else (None, None)
        comparison = Comparison(
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
        made.append(comparison)
    for comparison in made:
        append_record(folder / COMPARISONS, comparison)
    return made


def best_rivals(cells: Iterable[Cell], data_set: str, rivals: Sequence[str]) -> list[str]:
    """The rivals that are best in some stage by AUC or GAUC, as means over seeds."""
    values: dict[tuple[str, str], dict[str, list[float]]] = {}
    for cell in first_of_each(cells).values():
        if cell.data_set == data_set and cell.method in rivals:
            for stage, metrics in cell.results.stages.items():
                for metric in COMPARED_METRICS:
                    if (value := getattr(metrics, metric)) is not None:
                        values.setdefault((stage, metric), {}).setdefault(cell.method, []).append(value)
    best = {max(of_rivals, key=lambda rival: np.mean(of_rivals[rival])) for of_rivals in values.values()}
    return [rival for rival in rivals if rival in best]


def find_comparison(
    comparisons: Iterable[Comparison], data_set: str, method: str, against: str, stage: str, metric: str
) -> Comparison | None:
    """Of several, the one over most seeds."""
    found = [each for each in comparisons if each.subject == (data_set, method, against, stage, metric)]
    return max(found, key=lambda each: (len(each.seeds), each.replicates), default=None)


def _cells_of_both(cells: Iterable[Cell], data_set: str, method: str, against: str) -> list[_Cells]:
    finished = first_of_each(cells)
    seeds = sorted(seed for name, of, seed in finished if (name, of) == (data_set, method))
    return [
        _Cells(finished[data_set, method, seed], finished[data_set, against, seed])
        for seed in seeds
        if (data_set, against, seed) in finished
    ]


def _differences(pairs: Sequence[_Cells]) -> dict[tuple[str, Literal["auc", "gauc"]], list[float]]:
    """By stage and metric, one per seed. Left out if a method lacks the metric with some seed."""
    stages = pairs[0].ours.results.stages if pairs else ()
    found = {
        (stage, metric): [p.difference(stage, metric) for p in pairs] for stage in stages for metric in COMPARED_METRICS
    }
    return {key: values for key, values in found.items() if not np.isnan(values).any()}


def _ttest(differences: Sequence[float]) -> float | None:
    """The paired t-test. None if the runs show no spread."""
    if len(differences) < 2 or np.ptp(differences) < _SAME:
        return None
    return float(stats.ttest_1samp(differences, 0).pvalue)


def _bootstrap(folder: Path, pairs: Sequence[_Cells], replicates: int) -> dict[tuple[str, str], Differences]:
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


def _scored(folder: Path, pair: _Cells) -> tuple[ScoredQueries, dict[str, list[int]]]:
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
    folder: Path, pair: _Cells, scored: ScoredQueries, stages: dict[str, list[int]], weights: DrawCounts
) -> dict[tuple[str, str], Differences]:
    methods = pair.ours.method, pair.theirs.method
    drawn = stage_draws(scored, methods, stages=stages, weights=weights, resamplers=resamplers_of(COMPARED_METRICS))
    found = differences(*(drawn[method] for method in methods))
    for (stage, metric), difference in found.items():
        if abs(difference.observed - pair.difference(stage, metric)) > _SAME:
            ours, theirs = pair.scores(folder)
            raise ArtifactError(
                f"{ours} or {theirs} does not belong to its cell ({metric} of stage {stage} differs): "
                "delete both files and their cells, and run them again"
            )
    return found
