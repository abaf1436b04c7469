"""Which fields describe the user rather than the event: methods that start from who the user is need to know."""

import numpy as np
import numpy.typing as npt

from resus.data.log import InteractionLog

STEADY = 0.9


def user_fields(log: InteractionLog, users: npt.NDArray[np.int64]) -> tuple[int, ...]:
    """Numbers of the fields that keep the value of a user's first event in at least nine of ten of its rows.

    A log does not say which fields are the user's. In MovieLens these are gender, age and occupation, which never
    change; in Frappe a user's country changes with a journey, and still says where the user is from.
    """
    rows = log.rows_of(users)
    first = np.repeat(log.offsets[users], log.lengths[users])
    same = log.ids[rows] == log.ids[first]
    if log.weights is not None:
        same &= log.weights[rows] == log.weights[first]
    steady, column = [], 0
    for number, field in enumerate(log.features.fields):
        if same[:, column : column + field.columns].all(axis=1).mean() >= STEADY:
            steady.append(number)
        column += field.columns
    return tuple(steady)
