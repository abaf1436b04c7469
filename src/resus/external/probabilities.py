"""From probabilities to finite logits."""

from collections.abc import Collection
from typing import Any

import numpy as np

from resus.arrays import Doubles
from resus.errors import ConfigError, RowError

NO_AND_YES = (("0", "1"), ("0.0", "1.0"), ("False", "True"), ("-1", "1"), ("-1.0", "1.0"))
SURE = 1e-6  # probabilities stay this far from 0 and 1


def logits_of(probabilities: Doubles, name: str) -> Doubles:
    """`[N]` logits of the probabilities that the model `name` gives."""
    bad = _first_wrong(probabilities)
    if bad is not None:
        what = f"{name} gives {probabilities[bad]:.7g}, which is not a probability"
        raise RowError(bad, None, what, "check the row, or fix the model")
    return _sure_logits(probabilities)


def logits_of_column(probabilities: Doubles, column: str) -> Doubles:
    """`[N]` logits of a table's column."""
    bad = _first_wrong(probabilities)
    if bad is not None:
        fix = f"write numbers from 0 to 1, or train with logits:{column} if the column holds logits"
        raise RowError(bad, column, f"{probabilities[bad]:.7g} is not a probability", fix)
    return _sure_logits(probabilities)


def _first_wrong(probabilities: Doubles) -> int | None:
    """The first number that is not a probability, but for rounding."""
    bad = np.flatnonzero(~((probabilities >= -SURE) & (probabilities <= 1 + SURE)))
    return int(bad[0]) if len(bad) else None


def _sure_logits(probabilities: Doubles) -> Doubles:
    sure = np.clip(probabilities, SURE, 1 - SURE)
    return np.log(sure) - np.log1p(-sure)


def of_the_click(answers: Any, name: str) -> Doubles:
    """`[N]` probabilities of a click from the `[N, 2]` of both classes."""
    both = np.asarray(answers, dtype=np.float64)
    if both.ndim != 2 or both.shape[1] != 2:
        raise not_binary(name, f"its answers have the shape {list(both.shape)}, not [rows, 2]")
    return both[:, 1]


def refuse_named_classes(classes: Collection[Any], name: str) -> None:
    """Refuse two classes unless their names say that the second one is the click."""
    if len(classes) == 2 and tuple(map(str, classes)) not in NO_AND_YES:
        one, other = classes
        raise ConfigError(
            f"{name} has the classes '{one}' and '{other}', and it is not clear which one is the click: fit it on the "
            "labels 0 and 1, or give a function that returns the logits of a click"
        )


def not_binary(name: str, why: str) -> ConfigError:
    return ConfigError(
        f"{name} does not give the probability of a click ({why}): give a model with two classes, or a function that "
        "turns its answers into logits"
    )
