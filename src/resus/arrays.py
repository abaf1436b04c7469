"""The kinds of numpy arrays that functions take and return. Shapes are in the docstrings."""

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float32]  # logits, labels, weights
Doubles = npt.NDArray[np.float64]  # what is summed or divided
Integers = npt.NDArray[np.int64]  # rows of a log, users, positions, counts
Ids = npt.NDArray[np.int32]  # rows of an embedding table
Booleans = npt.NDArray[np.bool_]
