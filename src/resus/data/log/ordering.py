"""The order of rows by one whole number and then by another; ties keep their order."""

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]


def order_by(first: Integers, second: Integers) -> Integers:
    """Row numbers in order. Both numbers and the row mostly fit into one of 63 bits, which sorts fastest."""
    if not len(first):
        return np.empty(0, np.int64)
    low, bits = [], []
    for column in (first, second):
        low.append(int(column.min()))
        bits.append((int(column.max()) - low[-1]).bit_length())
    row_bits = len(first).bit_length()
    if sum(bits) + row_bits > 63:
        return np.lexsort((second, first))
    key = (first - low[0]) << (bits[1] + row_bits)
    key |= (second - low[1]) << row_bits
    key |= np.arange(len(first))
    key.sort()
    return key & ((1 << row_bits) - 1)
