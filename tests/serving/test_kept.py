"""Rows of numbers per item, kept for several threads."""

import numpy as np

from resus.arrays import Floats, Integers
from resus.serving.kept import KeptRows

ITEMS, UNKNOWN = 3, 3  # the row after those of all items stands for an unknown one


def numbers(places: Integers) -> Floats:
    return places[:, None].astype(np.float32)


def test_an_unknown_item_keeps_its_row_while_the_whole_catalogue_is_ranked() -> None:
    kept = KeptRows(ITEMS + 1, 1)
    kept.take(np.array([UNKNOWN]), numbers)

    def ranked_meanwhile(places: Integers) -> Floats:
        assert kept.whole(ITEMS, numbers)[:, 0].tolist() == [0, 1, 2]
        return numbers(places)

    assert kept.take(np.array([0, UNKNOWN]), ranked_meanwhile)[:, 0].tolist() == [0, UNKNOWN]
    assert kept.take(np.array([UNKNOWN, 2, 1]), numbers)[:, 0].tolist() == [UNKNOWN, 2, 1]
    assert kept.whole(ITEMS, numbers)[:, 0].tolist() == [0, 1, 2]
