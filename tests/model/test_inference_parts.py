"""Small changes of arrays against numpy, and the inverse of a triangle against the general one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resus.model.inference.parts import (
    SMALL,
    inverse_of,
    inverse_of_lower,
    with_entry,
    with_pair,
    without_entry,
    without_pair,
)


@given(size=st.integers(0, 6), at=st.integers(0, 99), seed=st.integers(0, 99))
def test_entries_and_pairs_come_and_go_as_in_numpy(size: int, at: int, seed: int) -> None:
    random, place = np.random.default_rng(seed), at % (size + 1)
    rows, square, line = random.normal(size=(size, 3)), random.normal(size=(size, size)), random.normal(size=size + 1)
    square += square.T
    larger = np.insert(np.insert(square, place, np.delete(line, place), axis=0), place, line, axis=1)
    np.testing.assert_array_equal(with_entry(rows, place, line[0]), np.insert(rows, place, line[0], axis=0))
    np.testing.assert_array_equal(with_pair(square, place, line), larger)
    np.testing.assert_array_equal(without_pair(larger, place), square)
    np.testing.assert_array_equal(without_entry(line, place), np.delete(line, place))


@pytest.mark.parametrize("size", [0, 1, SMALL, SMALL + 1, 3 * SMALL + 5])
def test_the_inverse_of_a_triangle_is_that_of_the_matrix(size: int) -> None:
    half = np.random.default_rng(1).normal(size=(size, size))
    factor = np.linalg.cholesky(half @ half.T + size * np.eye(size)).astype(np.float64)
    np.testing.assert_allclose(inverse_of_lower(factor), inverse_of(factor), atol=1e-12)
