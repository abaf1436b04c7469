"""A log whose users have the given numbers of rows; where it is ordered, row number i is the event of time i."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from resus.data.fields.categorical import CategoricalField
from resus.data.fields.feature_map import FeatureMap
from resus.data.log.log import InteractionLog

ITEM = CategoricalField("item", tuple("abcd"))


def log_of(lengths: Sequence[int], *, ordered: bool = True) -> InteractionLog:
    random = np.random.default_rng(len(lengths))
    rows = sum(lengths)
    return InteractionLog(
        features=FeatureMap((ITEM,), item="item"),
        ids=random.integers(5, size=(rows, 1), dtype=np.int32),
        weights=None,
        labels=random.integers(2, size=rows).astype(np.float32),
        offsets=np.cumsum([0, *lengths]),
        user_ids=pa.array([str(user) for user in range(len(lengths))]),
        ordered=ordered,
    )
