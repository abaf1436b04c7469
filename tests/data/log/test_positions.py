import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from resus.data.log.positions import Positions

SMALL, LARGE = st.integers(-3, 30), st.integers(-(2**62), 2**62)


@given(
    listed=st.one_of(st.lists(SMALL, unique=True), st.lists(st.one_of(SMALL, LARGE), unique=True)),
    others=st.lists(st.one_of(SMALL, LARGE)),
)
def test_positions_are_those_of_the_list(listed: list[int], others: list[int]) -> None:
    asked = [*listed, *others]
    found = Positions(np.array(listed, dtype=np.int64)).find(np.array(asked, dtype=np.int64))
    assert found.tolist() == [listed.index(number) if number in listed else -1 for number in asked]
