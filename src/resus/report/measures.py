"""What a report shows of results: the measures they hold, the best model in each, and the verdict on each gain."""

from dataclasses import dataclass
from enum import Enum

from resus.evaluation.metrics import METRICS, RELATIVE, Measure, Metric
from resus.evaluation.results import Evaluation, Gain, Measured, Results, WarmUp


@dataclass(frozen=True)
class ShownCell:
    """One value of a table as text, and whether it is the best of the compared models."""

    text: str
    best: bool


class Verdict(Enum):
    """Which side of 0 the interval of a gain lies on, given the direction of the metric."""

    BETTER = "better"
    WORSE = "worse"
    UNDECIDED = "undecided"
    TOO_FEW = "too few users"
    NONE = "no query"

    @property
    def mark(self) -> str:
        return {Verdict.BETTER: "✓", Verdict.WORSE: "✗"}.get(self, "")


@dataclass(frozen=True)
class GainCell:
    """A gain as text: the difference, its interval, and the verdict on them."""

    difference: str
    interval: str
    verdict: Verdict


def metrics_of(evaluation: Results | WarmUp) -> list[Metric]:
    """The metrics that the results hold, in the order of the registry."""
    held = _any_values(evaluation).metrics
    return [metric for metric in METRICS.values() if metric.name in held]


def relative_measures_of(evaluation: Results | WarmUp) -> list[Measure]:
    held = _any_values(evaluation).metrics
    relative = [measure for measure in RELATIVE.values() if measure.name in held]
    return [measure for measure in relative if evaluation.has_truth or not measure.needs_truth]


def cells(evaluation: Evaluation, values: dict[str, Measured], measure: Measure) -> dict[str, ShownCell]:
    """One measure of several models, by name. Only the base and the contenders compete for the best."""
    numbers = {model: of_model.metrics[measure.name] for model, of_model in values.items()}
    rivals = [model for model in (evaluation.base, *evaluation.contenders) if model in numbers]
    best = measure.best(numbers, rivals)
    return {model: ShownCell(measure.show(number), model in best) for model, number in numbers.items()}


def gain_metrics(results: Results) -> list[Metric]:
    """The metrics with gains; none without draws, or without a model to compare."""
    if results.gains is None or not results.contenders:
        return []
    held = next(iter(results.gains.models[results.contenders[0]].values())).metrics
    return [metric for metric in METRICS.values() if metric.name in held]


def gains_of(results: Results, metric: Metric) -> dict[str, dict[str, Gain]]:
    """By model and stage; empty without draws."""
    models = results.gains.models if results.gains is not None else {}
    return {
        model: {stage: gains.metrics[metric.name] for stage, gains in stages.items()}
        for model, stages in models.items()
    }


def verdict(gain: Gain, metric: Measure) -> Verdict:
    if gain.difference is None:
        return Verdict.NONE
    if gain.low is None:
        return Verdict.TOO_FEW
    if not gain.is_certain:
        return Verdict.UNDECIDED
    return Verdict.BETTER if (gain.low > 0) == metric.higher_is_better else Verdict.WORSE


def gain_cell(gain: Gain, metric: Measure) -> GainCell:
    found = verdict(gain, metric)
    if gain.difference is None:
        return GainCell("–", "", found)
    interval = found.value if gain.low is None else f"{gain.low:+.4f} to {gain.high:+.4f}"
    return GainCell(f"{gain.difference:+.4f}", interval, found)


def coverage_rows(results: Results) -> dict[str, list[str]]:
    """What intervals cover: a row per kind of interval, a value per stage."""
    rows: dict[str, list[str]] = {}
    for model, found in (results.coverage.models if results.coverage is not None else {}).items():
        labels = {
            "clicks": f"{model}: clicks of a user",
            "coins": f"{model}, if it were certain about the user: clicks of a user",
            "predictor": f"{found.predictor}: clicks of a user",
            "true_logits": f"{model}: true logits",
        }
        for share, label in labels.items():
            values = [getattr(stage, share) for stage in found.stages.values()]
            if any(value is not None for value in values):
                rows[label] = ["–" if value is None else f"{value:.0%}" for value in values]
    return rows


def _any_values(evaluation: Results | WarmUp) -> Measured:
    """Every model and size holds the same metrics."""
    of_base = evaluation.models[evaluation.base]
    return (of_base if isinstance(of_base, dict) else of_base.sizes)[evaluation.sizes[0]]
