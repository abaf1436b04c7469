"""A metric: how often the model is right about a click, if a probability above one half counts as a click."""

from resus.arrays import Array
from resus.evaluation.metrics import Metric


def accuracy(labels: Array, logits: Array, users: Array) -> float:
    return float(((logits > 0) == (labels > 0)).mean())


ACCURACY = Metric(
    name="accuracy",
    title="Accuracy",
    meaning="share of queries whose label is predicted correctly",
    form="{:.3f}",
    function=accuracy,
)
