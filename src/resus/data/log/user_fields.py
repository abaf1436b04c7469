"""Which fields describe the user and not the event. A log does not say so, but its rows show it."""

import numpy as np

from resus.arrays import Booleans, Integers
from resus.data.log.log import InteractionLog

STEADY = 0.75


def user_fields(log: InteractionLog, users: Integers) -> tuple[int, ...]:
    """Numbers of the fields whose rows agree with the user's first event far more than with another user's.

    Agreement is counted above chance, as in Cohen's kappa: a field that is nearly the same everywhere says nothing
    about the user. In MovieLens these are gender, age and occupation, which never change; in Frappe country and city,
    which change when users travel.
    """
    rows = log.rows_of(users)
    own = np.repeat(log.offsets[users], log.lengths[users])
    others = np.repeat(np.roll(log.offsets[users], 1), log.lengths[users])
    steady = []
    for number, block in enumerate(log.features.blocks):
        agreed, chance = (_agree(log, block.columns, rows, first).mean() for first in (own, others))
        if agreed - chance >= STEADY * (1 - chance) > 0:
            steady.append(number)
    return tuple(steady)


def _agree(log: InteractionLog, block: slice, rows: Integers, others: Integers) -> Booleans:
    same = log.ids[rows, block] == log.ids[others, block]
    if log.weights is not None:
        same &= log.weights[rows, block] == log.weights[others, block]
    agreed: Booleans = same.all(axis=1)
    return agreed
