"""Made-up cells whose numbers follow from a few that a test chooses, so that the right verdict is known."""

from collections.abc import Iterable, Mapping
from typing import Any

from resus.evaluation.results import FixedPopulation, ModelResults, SizeMetrics, StageMetrics
from resus.paper.cells.records import Cell, NoiseLevel, Seconds, TrainedEpoch, Trial
from resus.paper.cells.summary import Summary
from resus.paper.claims import CLAIMS
from resus.paper.claims.judging import Ruling, Verdict, rule
from resus.paper.comparisons import Comparison
from resus.paper.published import paper
from resus.paper.questions import ARCHITECTURES, BOOSTED, QUESTIONS, resus_on

STAGES = {"I": [1, 2], "II": [3, 4], "III": [5, 6]}
USERS, QUERIES, LONG_USERS, LONG_QUERIES = 90, 1000, 40, 300

# AUC in stage I: RESUS-RR leads, then RESUS-NN, then the rivals in an order without ties
LEVELS = {
    method: 0.70 + 0.002 * place
    for place, method in enumerate(
        ["mus", "lwa", "nlba", "jtcn", "deepfm", "user-bias", "history-trees", "melu", "mamo", "meta-embedding"]
    )
} | {"resus-nn-joint": 0.722, "resus-rr-joint": 0.723, "resus-nn": 0.724, "resus-rr": 0.726}

# by architecture, what table 5 compares RESUS with
OVER_PREDICTOR = {kind: kind for kind in ARCHITECTURES}
OVER_BOOSTING = {kind: f"boosted-{kind}" for kind in BOOSTED}


def planted_cell(
    method: str = "resus-rr",
    *,
    data_set: str = "ml-1m",
    seed: int = 1,
    auc: float | None = None,
    gauc: float = 0.65,
    logloss: float = 0.4,
    rise: float = 0.003,
    falls: float | None = None,
    seconds: float = 100.0,
    alone: bool = True,
    epochs: int = 3,
) -> Cell:
    """AUC is `auc` in stage I and `rise` more in each later stage. GAUC, Logloss and AUC at a size follow.

    `falls` is how much AUC falls from the nearest support to the farthest.
    """
    first = LEVELS.get(method, 0.7) if auc is None else auc
    of_stage = {stage: place * rise for place, stage in enumerate(STAGES)}
    metrics = {
        stage: {
            "auc": first + more,
            "gauc": gauc + more,
            "logloss": logloss - more,
            "calibration_error": 0.02,
            "rela_impr": None,
            "gap_closed": None,
        }
        for stage, more in of_stage.items()
    }
    stages = {stage: StageMetrics.model_validate(metrics[stage] | {"sizes": STAGES[stage]}) for stage in STAGES}
    sizes = {
        size: SizeMetrics.model_validate(
            metrics[stage] | {"users": USERS - size, "queries": QUERIES - 10 * size, "gauc_users": USERS - size}
        )
        for stage in STAGES
        for size in STAGES[stage]
    }
    return Cell(
        data_set=data_set,
        method=method,
        seed=seed,
        mark="0f0f0f0f0f0f",
        hyperparameters={},
        results=ModelResults(
            stages=stages,
            sizes=sizes,
            fixed_population=FixedPopulation(users=LONG_USERS, queries=LONG_QUERIES, stages=stages, sizes=sizes),
        ),
        epochs=[
            TrainedEpoch(stage="predictor", epoch=1, validation_auc=0.6, seconds=1.0),
            *(
                TrainedEpoch(
                    stage="episodes", epoch=epoch, validation_auc=first - 0.02 / epoch, seconds=seconds / epochs
                )
                for epoch in range(1, epochs + 1)
            ),
        ],
        seconds=Seconds(pretraining=5.0, training=seconds, scoring=seconds / 100),
        threads=2,
        alone=alone,
        noise=None
        if falls is None
        else [
            NoiseLevel(distance=1.0 + level, auc=first - falls * level / 4, gauc=gauc, logloss=logloss)
            for level in range(5)
        ],
    )


def cells_of(
    aucs: Mapping[str, float], *, data_set: str = "ml-1m", seeds: Iterable[int] = (1, 2), rise: float = 0.003
) -> list[Cell]:
    """One cell per method and seed. Each seed has 0.001 more AUC than the one before, for all methods."""
    return [
        planted_cell(method, data_set=data_set, seed=seed, auc=auc + 0.001 * seed, rise=rise)
        for method, auc in aucs.items()
        for seed in seeds
    ]


def every_cell(data_set: str = "ml-1m", seeds: Iterable[int] = (1, 2, 3)) -> list[Cell]:
    """All methods of all questions."""
    methods = dict.fromkeys(method for question in QUESTIONS.values() for method in question.methods)
    return [
        planted_cell(
            method,
            data_set=data_set,
            seed=seed,
            auc=LEVELS.get(method, 0.705) + 0.0007 * seed,
            gauc=0.62 + 0.01 * ("resus" in method) + 0.0005 * seed,
            falls=0.01 if method in QUESTIONS["rq4"].methods else None,
            seconds=50.0 + 7 * place,
        )
        for place, method in enumerate(methods)
        for seed in seeds
    ]


def trial(rate: float, validation_auc: float) -> Trial:
    """One point that was tried for MeLU."""
    return Trial(data_set="ml-1m", method="melu", point={"rate": rate}, validation_auc=validation_auc, seconds=9.6)


def without_auc(cell: Cell) -> Cell:
    """As on a data set of one class: no AUC and no GAUC anywhere."""
    gone = {"auc": None, "gauc": None}
    stages = {name: stage.model_copy(update=gone) for name, stage in cell.results.stages.items()}
    sizes = {size: at_size.model_copy(update=gone) for size, at_size in cell.results.sizes.items()}
    changed = {"stages": stages, "sizes": sizes, "fixed_population": None}
    return cell.model_copy(update={"results": cell.results.model_copy(update=changed)})


def comparison(
    method: str = "resus-rr",
    against: str = "meta-embedding",
    *,
    data_set: str = "ml-1m",
    stage: str = "I",
    metric: str = "auc",
    seeds: tuple[int, ...] = (1, 2, 3),
    difference: float = 0.008,
    p_bootstrap: float | None = 0.004,
    p_ttest: float | None = 0.02,
) -> Comparison:
    return Comparison.model_validate(
        {
            "data_set": data_set,
            "method": method,
            "against": against,
            "stage": stage,
            "metric": metric,
            "seeds": seeds,
            "difference": difference,
            "low": difference - 0.003,
            "high": difference + 0.003,
            "p_bootstrap": p_bootstrap,
            "p_ttest": p_ttest,
            "replicates": 200 if p_bootstrap is not None else 0,
        }
    )


def compared_on(rivals: Mapping[str, str], **changes: Any) -> list[Comparison]:
    """RESUS with both learners against a rival on each architecture, in every stage, with the same numbers."""
    return [
        comparison(resus_on(learner, kind), rival, stage=stage, **changes)
        for kind, rival in rivals.items()
        for learner in ("nn", "rr")
        for stage in STAGES
    ]


def rulings(
    cells: list[Cell], comparisons: list[Comparison] | None = None, data_set: str = "ml-1m"
) -> dict[str, Ruling]:
    found = rule(CLAIMS, Summary(cells), paper(), [data_set], comparisons or [], {}, {"taobao": "no data"})
    return {ruling.claim.words: ruling for ruling in found}


def verdict(
    start: str, cells: list[Cell], comparisons: list[Comparison] | None = None, data_set: str = "ml-1m"
) -> Verdict:
    """The verdict on the one claim that starts like this."""
    (found,) = (
        ruling.verdicts[data_set]
        for words, ruling in rulings(cells, comparisons, data_set).items()
        if words.startswith(start)
    )
    return found
