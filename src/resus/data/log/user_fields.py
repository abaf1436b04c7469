"""Which fields describe the user, and which the item: those of the side tables, and those whose rows show it."""

import numpy as np

from resus.arrays import Booleans, Integers
from resus.data.log.log import InteractionLog

STEADY = 0.75


def user_fields(log: InteractionLog, users: Integers) -> tuple[int, ...]:
    """Numbers of the fields whose rows agree with the user's first event far more than with another user's.

    In MovieLens these are gender, age and occupation, which never change; in Frappe country and city, which change when
    users travel.
    """
    rows = log.rows_of(users)
    own = np.repeat(log.offsets[users], log.lengths[users])
    others = np.repeat(np.roll(log.offsets[users], 1), log.lengths[users])
    of_user, of_item = _declared(log)
    return _with(of_user, of_item, _steady_fields(log, (rows, own), (rows, others)))


def item_fields(log: InteractionLog, users: Integers) -> tuple[int, ...]:
    """Numbers of the fields in which rows of one item agree far more than rows of different items."""
    rows = log.rows_of(users)
    items = log.ids[rows, log.features.block(log.features.item).columns.start]
    rows, items = rows[np.argsort(items, kind="stable")], np.sort(items)
    same = items[1:] == items[:-1]
    shifted = np.roll(rows, len(rows) // 2)
    of_user, of_item = _declared(log)
    return _with(of_item, of_user, _steady_fields(log, (rows[1:][same], rows[:-1][same]), (rows, shifted)))


def _declared(log: InteractionLog) -> tuple[set[int], set[int]]:
    """Numbers of the fields that come from the table of users, and from that of items."""
    table = log.manifest.table
    names = [field.name for field in log.features.fields]
    listed = (table.of_user, table.of_item) if table else ((), ())
    of_user, of_item = ({names.index(name) for name in side if name in names} for side in listed)
    return of_user, of_item


def _with(own: set[int], foreign: set[int], steady: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(own | (set(steady) - foreign)))


def _steady_fields(
    log: InteractionLog, alike: tuple[Integers, Integers], apart: tuple[Integers, Integers]
) -> tuple[int, ...]:
    """Fields that agree in pairs of rows that are alike, far more than in others.

    Agreement is counted above chance, as in Cohen's kappa: a field that is nearly the same everywhere says nothing.
    """
    steady = []
    for number, block in enumerate(log.features.blocks):
        agreed, chance = (_agree(log, block.columns, *pair).mean() if len(pair[0]) else 0.0 for pair in (alike, apart))
        if agreed - chance >= STEADY * (1 - chance) > 0:
            steady.append(number)
    return tuple(steady)


def _agree(log: InteractionLog, block: slice, rows: Integers, others: Integers) -> Booleans:
    same = log.ids[rows, block] == log.ids[others, block]
    if log.weights is not None:
        same &= log.weights[rows, block] == log.weights[others, block]
    agreed: Booleans = same.all(axis=1)
    return agreed
