"""The causes that a learner names, against the logistic regression written out column by column."""

import numpy as np
import pytest
import torch
from plus_oracle import (
    Scales,
    choices_term,
    context_term,
    design_of,
    draw_rows,
    layout_of,
    newton,
    plus_learner,
    rows_of,
    size_term,
)

from resus.model.fusion import NUMBER_OF_EVENTS, Fusion
from resus.model.learners.base import Answer, Explanation

LAYOUT = layout_of(3)
PARTS = ("bias", "matches", "taste", "choices", "context", "sizes", "trust")
CAUSES = {  # → part of the prior
    "generosity": "bias",
    "this very item": "item",
    "same genre": "genre",
    "same tags": "tags",
    "same price": "price",
    "taste": "taste",
}


@pytest.mark.parametrize("events", [0, 1, 5, 40])
@pytest.mark.parametrize("off", [None, *PARTS])
def test_each_part_of_plus_is_a_cause(events: int, off: str | None) -> None:
    draw, random = np.random.default_rng(events), torch.Generator().manual_seed(events)
    learner = plus_learner(LAYOUT, **{part: part != off for part in PARTS}).requires_grad_(False)
    support, query = draw_rows((events,), LAYOUT, random), draw_rows((6,), LAYOUT, random)
    labels, basis = draw.integers(2, size=events).astype(float), draw.normal(size=events)
    state = learner.live_state(LAYOUT.width)
    state.fill(support, learner.outcomes(torch.from_numpy(labels), torch.from_numpy(basis)).float())
    answer = state.answer(query, explain=True)
    assert answer.explanation is not None
    causes = dict(answer.explanation.causes)
    torch.testing.assert_close(torch.stack([*causes.values()]).sum(dim=0), answer.residual)

    scales, known, asked = Scales.of(learner), *(rows_of(rows.numpy(), LAYOUT) for rows in (support, query))
    choices, context = causes.pop("choice of items", None), causes.pop("same context", None)
    assert ((choices is None), (context is None)) == (off == "choices", off == "context")
    if choices is not None:
        expected = [choices_term(known, row, scales) for row in asked]
        np.testing.assert_allclose(choices, expected, rtol=1e-4, atol=1e-6)
    if context is not None:
        expected = [context_term(known, labels, row, scales) for row in asked]
        np.testing.assert_allclose(context, expected, rtol=1e-4, atol=1e-6)
    sizes = causes.pop(NUMBER_OF_EVENTS, None)
    assert (sizes is None) == (off == "sizes")
    if sizes is not None:
        np.testing.assert_allclose(sizes, [size_term(known, row, scales) for row in asked], rtol=1e-4, atol=1e-6)
    scale_of = {"bias": scales.bias, "taste": scales.taste, **scales.matches}
    assert set(causes) == {cause for cause, part in CAUSES.items() if scale_of[part]}
    weights, _ = newton(design_of([*known, *asked], scales)[:events], labels, basis, scales.trust_in(labels))
    for cause, found in causes.items():
        columns = design_of([*known, *asked], scales.only(CAUSES[cause]))[events:]
        np.testing.assert_allclose(found, columns @ weights, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("bias", [False, True])
def test_causes_still_sum_to_the_residual_after_fusion(bias: bool) -> None:
    fusion = Fusion(max_size=3, scale=0.5, per_size=True, bias=bias)
    with torch.no_grad():
        for parameter in fusion.parameters():
            parameter.add_(0.25)
        parts = torch.tensor([[1.0, 2.0], [-0.5, 0.25]])
        causes = {"taste": torch.tensor([2.0, -1.0]), "same colour": torch.tensor([1.0, 0.75])}
        answer = fusion.of_answer(Answer(parts.sum(dim=1), None, Explanation(parts, causes)), events=2)
    assert answer.explanation is not None
    found = answer.explanation.causes
    assert found["taste"].tolist() == [1.5, -0.75]
    assert (NUMBER_OF_EVENTS in found) == bias
    torch.testing.assert_close(torch.stack([*found.values()]).sum(dim=0), answer.residual)
    torch.testing.assert_close(answer.explanation.parts.sum(dim=1), answer.residual)
