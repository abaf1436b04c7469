import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from resus.data.log.ordering import order_by

NUMBERS = st.one_of(st.integers(0, 3), st.integers(-(2**30), 2**30), st.integers(-(2**62), 2**62))


@given(st.lists(st.tuples(NUMBERS, NUMBERS)))
def test_the_order_is_that_of_pairs_with_ties_as_they_came(pairs: list[tuple[int, int]]) -> None:
    first, second = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    assert order_by(first, second).tolist() == sorted(range(len(pairs)), key=pairs.__getitem__)
