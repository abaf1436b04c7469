"""Results in a notebook: as a tidy frame, as a figure, and as an HTML table."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Literal, Self

import polars as pl

from resus.checking import nearest_key
from resus.errors import ConfigError
from resus.evaluation import results as measured
from resus.evaluation.metrics import METRICS, RELATIVE, Measure
from resus.extras import need_module
from resus.report.measures import cells, metrics_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Results(measured.Results):
    """Every metric of every model, by stage and by number of events.

    `models["RESUS+"].stages["I"].auc` is one number, `gains` says what each model gains over the base, with intervals.
    `to_frame` has all numbers in one table and `plot` draws them; a notebook shows the stages as a table.
    """

    @classmethod
    def of(cls, results: measured.Results) -> Self:
        """The same results, with these methods."""
        return cls(**{name: getattr(results, name) for name in type(results).model_fields})

    def to_frame(self, by: Literal["stage", "size"] = "stage") -> pl.DataFrame:
        """One row per model, stage and metric; or, by size, per model, number of events and metric.

        `n` counts the users behind a value; for a stage, those of its first size. By stage, `gain` is the difference
        from the base, and `low` and `high` are its 95 % interval; they are null for the base and without draws.
        """
        if by not in ("stage", "size"):
            raise ConfigError(f"to_frame(by={by!r}): choose 'stage' or 'size'")
        if by == "size":
            return _frame_of_sizes({name: model.sizes for name, model in self.models.items()})
        rows = list(self._stage_rows())
        columns = ("model", "stage", "metric", "value", "n", "gain", "low", "high")
        kinds = (pl.String, pl.String, pl.String, pl.Float64, pl.Int64, pl.Float64, pl.Float64, pl.Float64)
        return pl.DataFrame(rows, schema=dict(zip(columns, kinds, strict=True)), orient="row")

    def _stage_rows(self) -> Iterator[tuple[Any, ...]]:
        for name, model in self.models.items():
            gains = self.gains.models.get(name, {}) if self.gains is not None else {}
            for stage, values in model.stages.items():
                users = model.sizes[self.stages[stage][0]].users
                for metric, value in values.metrics.items():
                    gain = gains[stage].metrics.get(metric) if stage in gains else None
                    found = (gain.difference, gain.low, gain.high) if gain is not None else (None, None, None)
                    yield (name, stage, metric, value, users, *found)

    def plot(self, *measures: str) -> "Figure":
        """Curves over the number of events, one panel per measure; by default AUC and GAUC."""
        chosen = _measures(measures or ("auc", "gauc"))
        _need_matplotlib()
        from resus.report.figures import curve_figure

        return curve_figure(self, chosen)

    def _repr_html_(self) -> str:
        """The stages of each model; the best value of a column is bold."""
        shown = metrics_of(self)
        heads = "".join(f'<th colspan="{len(shown)}">stage {escape(stage)}</th>' for stage in self.stages)
        titles = "".join(f"<th>{escape(measure.title)}</th>" for _ in self.stages for measure in shown)
        columns = [
            cells(self, {name: model.stages[stage] for name, model in self.models.items()}, measure)
            for stage in self.stages
            for measure in shown
        ]
        lines = []
        for name in self.models:
            values = "".join(
                f"<td>{'<b>' if column[name].best else ''}{escape(column[name].text)}"
                f"{'</b>' if column[name].best else ''}</td>"
                for column in columns
            )
            lines.append(f"<tr><th>{escape(name)}</th>{values}</tr>")
        return (
            f"<table><caption>{escape(self.log.name)}, {self.part} users, base {escape(self.base)}</caption>"
            f"<thead><tr><th></th>{heads}</tr><tr><th>model</th>{titles}</tr></thead>"
            f"<tbody>{''.join(lines)}</tbody></table>"
        )


class WarmUp(measured.WarmUp):
    """A warm-up curve: every metric of every model after 0 to hundreds of events, for the same queries."""

    @classmethod
    def of(cls, curve: measured.WarmUp) -> Self:
        """The same curve, with these methods."""
        return cls(**{name: getattr(curve, name) for name in type(curve).model_fields})

    def to_frame(self) -> pl.DataFrame:
        """One row per model, number of events and metric; `n` counts the users."""
        return _frame_of_sizes(self.models)

    def plot(self) -> "Figure":
        """AUC and GAUC over the number of events."""
        _need_matplotlib()
        from resus.report.figures import warm_up_figure

        return warm_up_figure(self)


def _frame_of_sizes(models: Mapping[str, Mapping[int, measured.SizeMetrics]]) -> pl.DataFrame:
    rows = [
        (name, size, metric, value, values.users)
        for name, sizes in models.items()
        for size, values in sizes.items()
        for metric, value in values.metrics.items()
    ]
    kinds = {"model": pl.String, "size": pl.Int64, "metric": pl.String, "value": pl.Float64, "n": pl.Int64}
    return pl.DataFrame(rows, schema=kinds, orient="row")


def _measures(names: Sequence[str]) -> list[Measure]:
    known: dict[str, Measure] = {**METRICS, **RELATIVE}
    for name in names:
        if name not in known:
            near = nearest_key(name, known)
            hint = f"did you mean '{near}'?" if near else f"choose from {', '.join(known)}"
            raise ConfigError(f"there is no measure '{name}' to plot: {hint}")
    return [known[name] for name in names]


def _need_matplotlib() -> None:
    need_module("matplotlib", "plot")
