"""What is counted about two models, by all workers together, and what it comes to."""

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Histogram, Summary
from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Sample

from resus.arrays import Array, Doubles, Floats
from resus.model.inference.parts import sigmoid
from resus.serving.experiment.agreement import EDGES, auc_of, rank_correlation
from resus.serving.experiment.predictions import Seen
from resus.serving.messages import ExperimentAnswer, ModelFigures

PREFIX = "resus_experiment_"
PAIR = ["first", "second"]  # versions of the models; after a reload, others are counted
FIRST, SECOND = "first", "second"


class Pair:
    """The figures of two models."""

    def __init__(self, figures: "Figures", first: str, second: str) -> None:
        self.first, self.second = first, second
        self._figures, self._labels = figures, {"first": first, "second": second}

    def compared(self, one: Floats, other: Floats, *, same_best: bool, by_second: bool) -> None:
        """A request whose candidates both models have scored: log-odds `[N]` of each."""
        of = self._figures
        of.compared.labels(**self._labels, answered_by=SECOND if by_second else FIRST).inc()
        of.same_best.labels(**self._labels).inc(same_best)
        correlation = rank_correlation(one, other) if len(one) > 1 else None
        if correlation is not None:
            of.correlation.labels(**self._labels).observe(correlation)
        of.difference.labels(**self._labels).observe(float(np.abs(sigmoid(one) - sigmoid(other)).mean()))

    def left_out(self, reason: str) -> None:
        """A request that was answered but not compared."""
        self._figures.left_out.labels(**self._labels, reason=reason).inc()

    def joined(self, seen: Seen, label: float) -> None:
        """An event whose user and item both models have scored."""
        of, clicked = self._figures, str(int(label))
        of.events.labels(**self._labels, answered_by=SECOND if seen.by_second else FIRST, label=clicked).inc()
        for model, logit in ((FIRST, seen.first), (SECOND, seen.second)):
            of.logits.labels(**self._labels, model=model, label=clicked).observe(logit)
            of.logloss.labels(**self._labels, model=model).observe(_loss(logit, label))

    def answer(self, metrics: Iterable[Metric], split: float | None) -> ExperimentAnswer:
        """What the metrics of all workers say about this pair."""
        read = _Read(metrics, self._labels)
        compared = read.total("compared_total")
        joined = read.total("events_total")
        left_out = {labels["reason"]: int(value) for labels, value in read.all("left_out_total")}
        return ExperimentAnswer(
            first=self._of_model(read, FIRST, self.first),
            second=self._of_model(read, SECOND, self.second),
            split=split,
            compared=int(compared),
            same_best=_mean(read.total("same_best_total"), compared),
            rank_correlation=_mean(read.total("rank_correlation_sum"), read.total("rank_correlation_count")),
            difference=_mean(read.total("difference_sum"), read.total("difference_count")),
            joined=int(joined),
            left_out=left_out,
        )

    def _of_model(self, read: "_Read", model: str, version: str) -> ModelFigures:
        clicks, events = (
            read.total("events_total", answered_by=model, label="1"),
            read.total("events_total", answered_by=model),
        )
        found = auc_of(*(read.bins(model, label) for label in ("0", "1")))
        losses = read.total("logloss_sum", model=model), read.total("logloss_count", model=model)
        return ModelFigures(
            version=version,
            answered=int(read.total("compared_total", answered_by=model)),
            events=int(events),
            positive=_mean(clicks, events),
            auc=found[0] if found else None,
            auc_error=found[1] if found else None,
            logloss=_mean(*losses),
        )


class Figures:
    """The counts, in a registry of metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def made(kind: Any, name: str, says: str, *labels: str, **options: Any) -> Any:
            return kind(f"{PREFIX}{name}", says, [*PAIR, *labels], registry=registry, **options)

        self.compared = made(Counter, "compared", "Requests that both models scored", "answered_by")
        self.same_best = made(Counter, "same_best", "Of these, those with the same best candidate")
        self.correlation = made(Summary, "rank_correlation", "Rank correlation of the scores of a request")
        self.difference = made(Summary, "difference", "Mean absolute difference of the probabilities of a request")
        self.left_out = made(Counter, "left_out", "Requests that were not compared", "reason")
        self.events = made(Counter, "events", "Events after a prediction of both models", "answered_by", "label")
        self.logits = made(Histogram, "logit", "Log-odds of these events", "model", "label", buckets=EDGES)
        self.logloss = made(Summary, "logloss", "Logloss of these events", "model")


class _Read:
    """The samples of one pair."""

    def __init__(self, metrics: Iterable[Metric], pair: dict[str, str]) -> None:
        self._samples: dict[str, list[Sample]] = {}
        for metric in metrics:
            for sample in metric.samples:
                if pair.items() <= sample.labels.items():
                    self._samples.setdefault(sample.name.removeprefix(PREFIX), []).append(sample)

    def all(self, name: str) -> list[tuple[dict[str, str], float]]:
        return [(sample.labels, sample.value) for sample in self._samples.get(name, [])]

    def total(self, name: str, **labels: str) -> float:
        return sum(value for found, value in self.all(name) if labels.items() <= found.items())

    def bins(self, model: str, label: str) -> Doubles:
        """How many scores of events with this label lie in each bin."""
        wanted = {"model": model, "label": label}
        upto: dict[float, float] = defaultdict(float)
        for found, value in self.all("logit_bucket"):
            if wanted.items() <= found.items():
                upto[float(found["le"])] += value
        counts: Array = np.array([upto[edge] for edge in (*EDGES, math.inf)])
        return np.diff(counts, prepend=0.0)


def _mean(total: float, count: float) -> float | None:
    return total / count if count else None


def _loss(logit: float, label: float) -> float:
    return float(np.logaddexp(0, -logit if label else logit))
