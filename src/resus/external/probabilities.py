"""From probabilities to finite logits."""

from collections.abc import Collection
from typing import Any

import numpy as np

from resus.errors import ConfigError, RowError
from resus.external.scoring_model import Floats

NO_AND_YES = (("0", "1"), ("0.0", "1.0"), ("False", "True"), ("-1", "1"), ("-1.0", "1.0"))
SURE = 1e-6  # a probability nearer to 0 or 1 than this is taken for this


def logits_of(probabilities: Floats, name: str) -> Floats:
    """`[N]` logits of what a model says; `name` says which model."""
    bad = _first_that_is_none(probabilities)
    if bad is not None:
        what = f"{name} says {probabilities[bad]:.7g}, which is no probability"
        raise RowError(bad, None, what, "see what is odd about the row, or mend the model")
    return _sure_logits(probabilities)


def logits_of_column(probabilities: Floats, column: str) -> Floats:
    """`[N]` logits of a table's column."""
    bad = _first_that_is_none(probabilities)
    if bad is not None:
        fix = f"write numbers from 0 to 1, or train with logits:{column} where the column holds logits"
        raise RowError(bad, column, f"{probabilities[bad]:.7g} is no probability", fix)
    return _sure_logits(probabilities)


def _first_that_is_none(probabilities: Floats) -> int | None:
    """The first place where there is no probability, rounding apart."""
    bad = np.flatnonzero(~((probabilities >= -SURE) & (probabilities <= 1 + SURE)))
    return int(bad[0]) if len(bad) else None


def _sure_logits(probabilities: Floats) -> Floats:
    sure = np.clip(probabilities, SURE, 1 - SURE)
    return np.log(sure) - np.log1p(-sure)


def of_the_click(answers: Any, name: str) -> Floats:
    """`[N]` probabilities of the second class from the `[N, 2]` of both."""
    both = np.asarray(answers, dtype=np.float64)
    if both.ndim != 2 or both.shape[1] != 2:
        raise not_binary(name, f"its answers have the shape {list(both.shape)}, not [rows, 2]")
    return both[:, 1]


def refuse_named_classes(classes: Collection[Any], name: str) -> None:
    """Of two classes the second is the click only where they say so."""
    if len(classes) == 2 and tuple(map(str, classes)) not in NO_AND_YES:
        one, other = classes
        raise ConfigError(
            f"{name} tells '{one}' from '{other}', and nothing says which of them is the click: fit it on the labels 0 "
            "and 1, or hand over a function that gives the click's logits"
        )


def not_binary(name: str, why: str) -> ConfigError:
    return ConfigError(
        f"{name} does not say how probable a click is ({why}): give a model of two classes, or a function that makes "
        "logits of what it says"
    )
