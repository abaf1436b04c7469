"""Finished cells in one view: means over seeds, and pairs of methods over the seeds that both have."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from resus.evaluation.metrics import rela_impr
from resus.evaluation.results import MetricValue
from resus.paper.cells.records import Cell, first_of_each
from resus.paper.published import Times

PRETRAINING = "predictor"  # the stage of Ψ, or of a model that a method starts from


@dataclass(frozen=True)
class Spread:
    """A mean over seeds; one seed has no deviation."""

    mean: float
    deviation: float | None
    seeds: int


@dataclass(frozen=True)
class Noise:
    """One fifth of the support, by distance to the query. Means over seeds."""

    distance: float
    auc: float
    gauc: float | None
    logloss: float


@dataclass(frozen=True)
class Timing:
    """Means over the cells that ran alone, or over all cells if none did."""

    times: Times
    alone: bool
    threads: tuple[int, ...]


@dataclass(frozen=True)
class Population:
    """The smallest and the largest number over the seeds, whose test users differ."""

    size: int
    users: tuple[int, int]
    queries: tuple[int, int]


class Numbers(Protocol):
    """What a claim is judged by: our cells, or the tables of the paper. None where a number does not exist."""

    def value(self, data_set: str, method: str, stage: str, metric: str) -> float | None: ...

    def pair(self, data_set: str, method: str, against: str, stage: str, metric: str) -> tuple[float, float] | None: ...

    def times(self, data_set: str, method: str) -> Times | None: ...


class Summary:
    """Finished cells by data set and method. Of cells with the same key the first counts, except for times."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self._all = cells
        self._cells: dict[tuple[str, str], dict[int, Cell]] = {}
        for (data_set, method, seed), cell in sorted(first_of_each(cells).items()):
            self._cells.setdefault((data_set, method), {})[seed] = cell

    @property
    def data_sets(self) -> list[str]:
        return list(dict.fromkeys(data_set for data_set, _ in self._cells))

    def methods(self, data_set: str) -> list[str]:
        return [method for of, method in self._cells if of == data_set]

    def seeds(self, data_set: str, method: str) -> list[int]:
        return list(self._of(data_set, method))

    def stage(self, data_set: str, method: str, stage: str, metric: str) -> Spread | None:
        return _spread(self._stage_values(data_set, method, stage, metric).values())

    def fixed(self, data_set: str, method: str, stage: str, metric: str) -> Spread | None:
        """The same for the users that have a query at every size."""
        populations = [cell.results.fixed_population for cell in self._of(data_set, method).values()]
        found = [p.stages[stage] for p in populations if p is not None and stage in p.stages]
        return _spread(value for each in found if (value := getattr(each, metric)) is not None)

    def shared_seeds(self, data_set: str, methods: Iterable[str]) -> list[int]:
        """The seeds that all methods have, methods without any cell left aside."""
        run = [set(found) for method in methods if (found := self.seeds(data_set, method))]
        return sorted(set.intersection(*run)) if run else []

    def size(self, data_set: str, method: str, size: int, metric: str, seeds: Sequence[int]) -> float | None:
        """The mean over some seeds at one support size."""
        cells = [cell for seed, cell in self._of(data_set, method).items() if seed in seeds]
        return _mean(getattr(cell.results.sizes[size], metric) for cell in cells if size in cell.results.sizes)

    def sizes(self, data_set: str) -> list[int]:
        """Every support size above 0 at which some cell was scored."""
        return sorted({size for cell in self._of_any_method(data_set) for size in cell.results.sizes} - {0})

    def stage_sizes(self, data_set: str) -> dict[str, list[int]]:
        cells = self._of_any_method(data_set)
        return {name: stage.sizes for name, stage in cells[0].results.stages.items()} if cells else {}

    def value(self, data_set: str, method: str, stage: str, metric: str) -> float | None:
        found = self.stage(data_set, method, stage, metric)
        return found.mean if found else None

    def pair(self, data_set: str, method: str, against: str, stage: str, metric: str) -> tuple[float, float] | None:
        """The means of two methods over the seeds that both have, since each seed draws its own test users."""
        own, other = (self._stage_values(data_set, name, stage, metric) for name in (method, against))
        seeds = own.keys() & other.keys()
        if not seeds:
            return None
        return statistics.fmean(own[seed] for seed in seeds), statistics.fmean(other[seed] for seed in seeds)

    def rela_impr(self, data_set: str, method: str, stage: str, base: str) -> float | None:
        """RelaImpr of the mean AUCs of such a pair. None if the base is no better than chance."""
        pair = self.pair(data_set, method, base, stage, "auc")
        return rela_impr(*pair) if pair and pair[1] > 0.5 else None

    def noise(self, data_set: str, method: str) -> list[Noise]:
        """From the nearest fifth to the farthest. Empty if it was not run."""
        runs = [cell.noise for cell in self._of(data_set, method).values() if cell.noise]
        found = []
        for levels in zip(*runs, strict=True):
            auc, logloss = (_mean(getattr(level, metric) for level in levels) for metric in ("auc", "logloss"))
            if auc is None or logloss is None:
                return []
            distance = statistics.fmean(level.distance for level in levels)
            found.append(Noise(distance, auc, _mean(level.gauc for level in levels), logloss))
        return found

    def timing(self, data_set: str, method: str) -> Timing | None:
        cells = [cell for cell in self._all if (cell.data_set, cell.method) == (data_set, method)]
        chosen = [cell for cell in cells if cell.alone] or cells
        if not chosen:
            return None
        return Timing(
            Times(
                epochs=statistics.fmean(len(trained_epochs(cell)) for cell in chosen),
                training=statistics.fmean(cell.seconds.training for cell in chosen),
                pretraining=statistics.fmean(cell.seconds.pretraining for cell in chosen),
                test=statistics.fmean(cell.seconds.scoring for cell in chosen),
            ),
            alone=chosen[0].alone,
            threads=tuple(sorted({cell.threads for cell in chosen})),
        )

    def times(self, data_set: str, method: str) -> Times | None:
        """Only from cells that ran alone: other times say little about a method."""
        found = self.timing(data_set, method)
        return found.times if found and found.alone else None

    def convergence(self, data_set: str, method: str) -> list[float]:
        """Validation AUC after each epoch of the first seed, without pretraining."""
        for cell in self._of(data_set, method).values():
            return trained_epochs(cell)
        return []

    def populations(self, data_set: str) -> list[Population]:
        """At the first and at the last support size that has queries."""
        sizes = [size for size in self.sizes(data_set) if self._population(data_set, size).queries[1]]
        return [self._population(data_set, size) for size in dict.fromkeys([*sizes[:1], *sizes[-1:]])]

    def fixed_population(self, data_set: str) -> Population | None:
        sizes = self.sizes(data_set)
        found = [cell.results.fixed_population for cell in self._of_any_method(data_set)]
        present = [population for population in found if population is not None]
        if not present:
            return None
        return Population(sizes[-1], _ends(p.users for p in present), _ends(p.queries for p in present))

    def _population(self, data_set: str, size: int) -> Population:
        found = [cell.results.sizes[size] for cell in self._of_any_method(data_set) if size in cell.results.sizes]
        return Population(size, _ends(each.users for each in found), _ends(each.queries for each in found))

    def _of(self, data_set: str, method: str) -> dict[int, Cell]:
        return self._cells.get((data_set, method), {})

    def _of_any_method(self, data_set: str) -> list[Cell]:
        return [cell for (of, _), cells in self._cells.items() if of == data_set for cell in cells.values()]

    def _stage_values(self, data_set: str, method: str, stage: str, metric: str) -> dict[int, float]:
        return {
            seed: value
            for seed, cell in self._of(data_set, method).items()
            if stage in cell.results.stages and (value := getattr(cell.results.stages[stage], metric)) is not None
        }


def trained_epochs(cell: Cell) -> list[float]:
    """Validation AUC of the epochs after pretraining. For Ψ itself, pretraining is all there is."""
    own = [epoch for epoch in cell.epochs if not epoch.stage.startswith(PRETRAINING)] or cell.epochs
    return [epoch.validation_auc for epoch in own]


def _spread(values: Iterable[float]) -> Spread | None:
    found = list(values)
    if not found:
        return None
    return Spread(statistics.fmean(found), statistics.stdev(found) if len(found) > 1 else None, len(found))


def _mean(values: Iterable[MetricValue]) -> float | None:
    found = [value for value in values if value is not None]
    return statistics.fmean(found) if found else None


def _ends(values: Iterable[int]) -> tuple[int, int]:
    found = list(values)
    return min(found), max(found)
