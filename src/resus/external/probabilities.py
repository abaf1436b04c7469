"""From probabilities to finite logits."""

from collections.abc import Collection
from typing import Any

import numpy as np

from resus.errors import ConfigError
from resus.external.scoring_model import Floats, RowError

NO_AND_YES = (("0", "1"), ("0.0", "1.0"), ("False", "True"), ("-1", "1"), ("-1.0", "1.0"))
SURE = 1e-6  # a probability nearer to 0 or 1 than this is taken for this


def logits_of(probabilities: Floats, name: str) -> Floats:
    """`[N]` logits; what is no probability is refused, `name` says whose it is."""
    bad = np.flatnonzero(~((probabilities >= 0) & (probabilities <= 1)))
    if len(bad):
        what = f"{name} says {probabilities[bad[0]]:g}, which is no probability"
        raise RowError(int(bad[0]), None, what, "see what is odd about the row, or mend the model")
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
