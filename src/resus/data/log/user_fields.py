"""Which fields describe the user rather than the event: methods that start from who the user is need to know."""

import numpy as np
import numpy.typing as npt

from resus.data.log.log import InteractionLog

STEADY = 0.75


def user_fields(log: InteractionLog, users: npt.NDArray[np.int64]) -> tuple[int, ...]:
    """Numbers of the fields whose rows agree with the user's first event far more than with another user's.

    Agreement is counted above chance, as Cohen's kappa does: a field that is nearly the same everywhere says nothing of
    the user. A log does not say which fields are the user's: in MovieLens these are gender, age and occupation, which
    never change; in Frappe country and city, which change with a journey and still say where the user is from.
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


def _agree(
    log: InteractionLog, block: slice, rows: npt.NDArray[np.int64], others: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    same = log.ids[rows, block] == log.ids[others, block]
    if log.weights is not None:
        same &= log.weights[rows, block] == log.weights[others, block]
    agreed: npt.NDArray[np.bool_] = same.all(axis=1)
    return agreed
