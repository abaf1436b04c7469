"""The evaluation, and what test users did."""

from typing import Any, Self

from resus.evaluation.metrics import METRICS, Metric
from resus.evaluation.results import Results
from resus.serving.messages.values import Message


class PastEvent(Message):
    """An event of a test user. `context` holds the fields that are not the item's own, `fields` those that are."""

    item: str
    context: dict[str, Any]
    label: float
    title: str | None = None
    fields: dict[str, Any] | None = None


class UserHistory(Message):
    """What a real test user did, oldest event first."""

    events: list[PastEvent]


class MetricAnswer(Message):
    """How to show a metric. `shown` holds its value as text, by model and number of events."""

    name: str
    title: str
    meaning: str
    direction: str
    shown: dict[str, dict[int, str]]

    @classmethod
    def of(cls, metric: Metric, results: Results) -> Self:
        shown = {
            model: {size: metric.show(values.metrics.get(metric.name)) for size, values in measured.sizes.items()}
            for model, measured in results.models.items()
        }
        return cls(
            name=metric.name, title=metric.title, meaning=metric.meaning, direction=metric.direction, shown=shown
        )


class ResultsAnswer(Results):
    """The evaluation, and how to show each registered metric that it holds."""

    metrics: list[MetricAnswer]

    @classmethod
    def of(cls, results: Results) -> Self:
        measured = [values.metrics for model in results.models.values() for values in model.sizes.values()]
        held = [metric for name, metric in METRICS.items() if any(values.get(name) is not None for values in measured)]
        return cls(**dict(results), metrics=[MetricAnswer.of(metric, results) for metric in held])
