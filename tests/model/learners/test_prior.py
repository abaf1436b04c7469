"""The prior covariance against the inner products of feature vectors."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from plus_oracle import Scales, design_of, draw_rows, layout_of, plus_learner, rows_of
from torch import Tensor

from resus.arrays import Doubles
from resus.model.learners.plus import prior as prior_module
from resus.model.learners.plus.codes import Codes, Layout
from resus.model.learners.plus.in_numpy.codes import CodeColumns
from resus.model.learners.plus.in_numpy.scales import Scales as LiveScales
from resus.model.learners.plus.learner import PlusLearner
from resus.model.learners.plus.prior import Prior

LAYOUT = layout_of(3)


def vectors_of(learner: PlusLearner, rows: Tensor) -> Doubles:
    return design_of(rows_of(rows.numpy(), learner.layout), Scales.of(learner))


@pytest.mark.parametrize("few_values", [0, 2, 9])  # with a product of matrices for all fields, for tags, and for none
@pytest.mark.parametrize("parts", [{}, {"bias": False}, {"matches": False}, {"taste": False}])
def test_covariances_are_inner_products_of_feature_vectors(
    parts: dict[str, bool], few_values: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prior_module, "FEW_VALUES", few_values)
    random, learner = torch.Generator().manual_seed(few_values), plus_learner(LAYOUT, **parts).requires_grad_(False)
    rows, others = draw_rows((2, 30), LAYOUT, random), draw_rows((2, 20), LAYOUT, random)
    covariance = learner.prior.covariance(LAYOUT.unpack(rows), LAYOUT.unpack(others))
    variance = learner.prior.variance(LAYOUT.unpack(rows))
    for user in range(2):
        both = vectors_of(learner, torch.cat([rows[user], others[user]]))
        np.testing.assert_allclose(covariance[user], both[:30] @ both[30:].T, atol=1e-6)
        np.testing.assert_allclose(variance[user], (both[:30] ** 2).sum(axis=1), atol=1e-6)


@pytest.mark.parametrize("parts", [{}, {"bias": False}, {"matches": False}, {"taste": False}])
def test_the_service_has_the_same_covariances_of_many_rows_and_of_one(parts: dict[str, bool]) -> None:
    random, learner = torch.Generator().manual_seed(4), plus_learner(LAYOUT, **parts).requires_grad_(False)
    rows, others = draw_rows((5,), LAYOUT, random), draw_rows((20,), LAYOUT, random)
    expected = learner.prior.covariance(LAYOUT.unpack(rows), LAYOUT.unpack(others))
    columns = CodeColumns(LAYOUT.names, LAYOUT.columns, LAYOUT.item, LAYOUT.taste, LAYOUT.choice)
    scales = LiveScales(columns, {name: value.numpy() for name, value in learner.state_dict().items()})
    known = columns.unpack(others.numpy())
    np.testing.assert_allclose(scales.covariance(columns.unpack(rows.numpy()), known), expected, atol=1e-6)
    singles = [scales.covariance_of_one(columns.unpack(row[None].numpy()), known) for row in rows]
    np.testing.assert_allclose(np.stack(singles), expected, atol=1e-6)


@settings(max_examples=20)
@given(users=st.integers(1, 3), slots=st.integers(1, 8), columns=st.integers(1, 3), seed=st.integers(0, 2**16))
def test_the_product_with_the_covariance_needs_no_matrix(users: int, slots: int, columns: int, seed: int) -> None:
    random, learner = torch.Generator().manual_seed(seed), plus_learner(LAYOUT).requires_grad_(False)
    rows = LAYOUT.unpack(draw_rows((users, slots), LAYOUT, random))
    amounts = torch.randn(users, slots, columns, generator=random, dtype=torch.float64)
    found = learner.prior.times(rows, amounts)
    torch.testing.assert_close(found, learner.prior.covariance(rows, rows) @ amounts, rtol=1e-9, atol=1e-6)


def codes(layout: Layout, values: list[list[float]], shares: list[list[float]]) -> Codes:
    count = len(values)
    none = torch.zeros(count, 0)
    parts = [torch.full((count,), -1.0), torch.tensor(values), torch.tensor(shares), none, none, none]
    return layout.unpack(layout.pack([*parts, torch.zeros(count)], torch.zeros(count, 2)))


def test_matches_are_counted_as_a_reader_would() -> None:
    """One value: equal or not. Several: overlap / √(|A||B|). Numbers: nearer ones match more."""
    layout = Layout(("item", "tags", "price"), (1, 2, 2), item="item", taste=0, choice=0)
    half, thirds = 0.5**0.5, (4 / 5) ** 0.5
    rows = codes(
        layout,
        [[1, 10, 11, 20, 21], [1, 10, 12, 20, 21], [2, 11, 12, 21, 22], [2, 10, 10, 22, 23]],
        [[1, half, half, 1, 0], [1, half, half, thirds, thirds / 2], [1, 1, 0, 1, 0], [0, 1, 0, 1, 0]],
    )
    scale = {"item": 1.0, "tags": 100.0, "price": 10_000.0}
    by_value = torch.tensor(list(scale.values()), dtype=torch.float64)[layout.field_of_value]
    nothing = torch.zeros((), dtype=torch.float64)
    found = Prior(nothing, by_value, nothing, layout.field_of_value).covariance(rows, rows)
    assert found[0, 0].item() == pytest.approx(10_101)
    assert found[0, 1].item() == pytest.approx(1 + 100 / 2 + 10_000 * thirds)
    assert found[0, 2].item() == pytest.approx(100 * half)
    assert found[1, 2].item() == pytest.approx(10_000 * thirds / 2)
    assert found[0, 3].item() == pytest.approx(100 * half), "an unknown item has no share"
    assert found[2, 3].item() == 0
    assert found[3, 3].item() == pytest.approx(10_100)
    assert torch.equal(found, found.T)
