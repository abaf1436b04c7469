"""RESUS+ against every other row: differences, their intervals and p-values over draws of users, and who wins."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.proving.cells import ProvedCell, read_draws
from benchmarks.proving.draws import METRICS
from benchmarks.proving.methods import is_part
from resus.arrays import Doubles
from resus.evaluation.intervals import Differences, StageDraws, differences
from resus.evaluation.metrics import METRICS as ALL_METRICS
from resus.evaluation.results import MetricValue, Record
from resus.paper.questions import PLUS

COMPARISONS = "comparisons.jsonl"
CERTAIN = 0.05


class Comparison(Record):
    """RESUS+ minus another row in one stage by one metric, as a mean over the seeds that both have.

    `p` is of the bootstrap over users, `p_holm` is corrected for all comparisons of one data set and metric.
    """

    data_set: str
    training_users: int | None
    against: str
    stage: str
    metric: str
    seeds: tuple[int, ...]
    difference: float
    low: MetricValue
    high: MetricValue
    p: MetricValue
    p_holm: MetricValue = None

    @property
    def table(self) -> tuple[str, int | None, str]:
        return self.data_set, self.training_users, self.metric

    @property
    def wins(self) -> bool:
        return self.difference > 0 if ALL_METRICS[self.metric].higher_is_better else self.difference < 0

    @property
    def certain(self) -> bool:
        return self.p_holm is not None and self.p_holm < CERTAIN


@dataclass(frozen=True)
class Share:
    """Of the data sets × stages in which RESUS+ and a row were compared by a metric, how many RESUS+ wins and loses."""

    compared: int
    won: int
    certainly_won: int
    certainly_lost: int


def compare_all(folder: Path, cells: Sequence[ProvedCell]) -> list[Comparison]:
    """RESUS+ against every other row of each data set, corrected table by table."""
    found: list[Comparison] = []
    for data_set, training_users in dict.fromkeys((cell.data_set, cell.training_users) for cell in cells):
        own = [cell for cell in cells if (cell.data_set, cell.training_users) == (data_set, training_users)]
        draws = {(cell.method, cell.seed): read_draws(folder, cell) for cell in own}
        for against in dict.fromkeys(cell.method for cell in own):
            if against != PLUS:
                found += _compared(own, draws, against)
    return corrected(found)


def _compared(
    cells: Sequence[ProvedCell], draws: Mapping[tuple[str, int], StageDraws | None], against: str
) -> list[Comparison]:
    by_seed = {
        method: {cell.seed: cell for cell in cells if cell.method == method and draws[method, cell.seed] is not None}
        for method in (PLUS, against)
    }
    seeds = tuple(sorted(by_seed[PLUS].keys() & by_seed[against].keys()))
    if not seeds:
        return []
    found = []
    compared = over_seeds([(draws[PLUS, seed], draws[against, seed]) for seed in seeds])  # type: ignore[misc]
    first = by_seed[PLUS][seeds[0]]
    for (stage, metric), drawn in compared.items():
        exact = [[getattr(by_seed[method][seed].stages[stage], metric) for seed in seeds] for method in (PLUS, against)]
        if any(value is None for values in exact for value in values):
            continue
        low, high = drawn.interval()
        found.append(
            Comparison(
                data_set=first.data_set,
                training_users=first.training_users,
                against=against,
                stage=stage,
                metric=metric,
                seeds=seeds,
                difference=float(np.mean(exact[0]) - np.mean(exact[1])),
                low=low,
                high=high,
                p=drawn.p_value(),
            )
        )
    return found


def over_seeds(pairs: Sequence[tuple[StageDraws, StageDraws]]) -> dict[tuple[str, str], Differences]:
    """By stage and metric, ours minus theirs. A draw of users is the same in every seed; its value is the mean."""
    by_seed = [differences(ours, theirs) for ours, theirs in pairs]
    return {
        key: Differences(
            float(np.mean([of_seed[key].observed for of_seed in by_seed])),
            np.mean([of_seed[key].draws for of_seed in by_seed], axis=0),
        )
        for key in by_seed[0]
    }


def corrected(comparisons: Iterable[Comparison]) -> list[Comparison]:
    """With Holm's correction over all comparisons of a table."""
    found = list(comparisons)
    for table in dict.fromkeys(each.table for each in found):
        places = [place for place, each in enumerate(found) if each.table == table and each.p is not None]
        adjusted = holm(np.array([found[place].p for place in places], dtype=np.float64))
        for place, value in zip(places, adjusted, strict=True):
            found[place] = found[place].model_copy(update={"p_holm": float(value)})
    return found


def holm(p_values: Doubles) -> Doubles:
    """Holm's correction: the smallest of m p-values counts m times, the next m − 1 times, and so on, never falling."""
    order = np.argsort(p_values)
    steps = np.maximum.accumulate(p_values[order] * np.arange(len(order), 0, -1)).clip(max=1.0)
    adjusted = np.empty_like(steps)
    adjusted[order] = steps
    return adjusted


def shares(comparisons: Sequence[Comparison]) -> dict[tuple[str, str], Share]:
    """By row and metric, over data sets and stages."""
    found = {}
    for against, metric in dict.fromkeys((each.against, each.metric) for each in comparisons):
        own = [each for each in comparisons if (each.against, each.metric) == (against, metric)]
        found[against, metric] = Share(
            compared=len(own),
            won=sum(each.wins for each in own),
            certainly_won=sum(each.wins and each.certain for each in own),
            certainly_lost=sum(not each.wins and each.certain for each in own),
        )
    return found


def best_shares(cells: Sequence[ProvedCell]) -> dict[tuple[str, str], tuple[int, int]]:
    """By row and metric: in how many data sets × stages the row has the best mean over seeds, and of how many.

    RESUS+ without a part does not compete. Rows with the same mean are both best.
    """
    competing = [cell for cell in cells if not is_part(cell.method)]
    methods = list(dict.fromkeys(cell.method for cell in competing))
    won = dict.fromkeys(((method, metric) for method in methods for metric in METRICS), 0)
    asked = dict.fromkeys(METRICS, 0)
    for data_set in dict.fromkeys(cell.data_set for cell in competing):
        own = with_shared_seeds([cell for cell in competing if cell.data_set == data_set])
        for stage in own[0].stages:
            for metric in METRICS:
                means = means_over_seeds(own, stage, metric)
                if len(means) < 2:
                    continue
                asked[metric] += 1
                top = (max if ALL_METRICS[metric].higher_is_better else min)(means.values())
                for method, value in means.items():
                    won[method, metric] += value == top
    return {(method, metric): (count, asked[metric]) for (method, metric), count in won.items()}


def with_shared_seeds(cells: Sequence[ProvedCell]) -> list[ProvedCell]:
    """The cells of one data set whose seeds all rows have, or all cells if there is no such seed."""
    seeds: dict[str, set[int]] = {}
    for cell in cells:
        seeds.setdefault(cell.method, set()).add(cell.seed)
    shared = set.intersection(*seeds.values()) if seeds else set()
    return [cell for cell in cells if cell.seed in shared] or list(cells)


def means_over_seeds(cells: Sequence[ProvedCell], stage: str, metric: str) -> dict[str, float]:
    """By row. A row that lacks the metric with some seed is left out."""
    found = {}
    for method in dict.fromkeys(cell.method for cell in cells):
        values = [getattr(cell.stages[stage], metric) for cell in cells if cell.method == method]
        if None not in values:
            found[method] = float(np.mean(values))
    return found
