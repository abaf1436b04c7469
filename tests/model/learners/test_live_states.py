"""A live user's algebra against the learner on the same support, after any changes of the events."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from plus_oracle import draw_rows, layout_of, plus_learner
from torch import Tensor

from resus.model.learners import ridge as ridge_module
from resus.model.learners.base import LiveState
from resus.model.learners.plus.learner import PlusLearner
from resus.model.learners.ridge import RidgeLearner

WIDTH = 3  # the border is at four events
LAYOUT = layout_of(WIDTH)  # of RESUS+
CANDIDATES = torch.randn(6, WIDTH, generator=torch.Generator().manual_seed(8))
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["append", "append", "insert", "insert", "correct", "remove", "remove"]), st.integers(0, 99)
    ),
    max_size=40,
)


def ridge(bias: bool = True, value: float = 0.7) -> RidgeLearner:
    return RidgeLearner(ridge=value, learn_ridge=True, bias=bias)


def one_user(encoded: Tensor, outcomes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return encoded.unsqueeze(0), torch.ones(1, len(encoded), dtype=torch.bool), outcomes.unsqueeze(0)


class Followed:
    """A live state and the plain list of events that it must stand for."""

    def __init__(self, state: LiveState, seed: int = 0, learner: PlusLearner | None = None) -> None:
        self.state, self.learner = state, learner
        self.events: list[tuple[Tensor, Tensor]] = []
        self.random = np.random.default_rng(seed)

    def drawn(self) -> tuple[Tensor, Tensor]:
        code, outcome = self.random.normal(size=WIDTH), self.random.uniform(-1, 1)
        if self.learner is None:
            return torch.from_numpy(code).float(), torch.tensor(outcome, dtype=torch.float32)
        row = draw_rows((), LAYOUT, torch.Generator().manual_seed(int(self.random.integers(1 << 16))))
        label = float(self.random.integers(2))
        crowd = self.learner.crowd(torch.tensor(3 * outcome), row)
        return row, self.learner.outcomes(torch.tensor(label), crowd)

    def do(self, verb: str, number: int = 0) -> None:
        count = len(self.events)
        code, outcome = self.drawn()
        if verb == "append":
            self.state.insert(count, code, outcome)
            self.events.append((code, outcome))
        elif verb == "insert":
            place = number % (count + 1)
            self.state.insert(place, code, outcome)
            self.events.insert(place, (code, outcome))
        elif count and verb == "correct":
            place = number % count
            self.state.correct(place, outcome)
            self.events[place] = (self.events[place][0], outcome)
        elif count:
            self.state.remove(number % count)
            del self.events[number % count]

    @property
    def support(self) -> tuple[Tensor, Tensor]:
        codes, outcomes = zip(*self.events, strict=True)
        return torch.stack(codes), torch.stack(outcomes)


def all_but_one(count: int) -> list[Tensor]:
    """The places of all events but one, for each of them."""
    return [torch.tensor([other for other in range(count) if other != one], dtype=torch.int64) for one in range(count)]


def check_ridge(followed: Followed, learner: RidgeLearner) -> None:
    state = followed.state
    assert len(state) == len(followed.events)
    if not followed.events:
        return
    codes, residuals = followed.support
    with torch.no_grad():
        expected = learner(*one_user(codes, residuals), CANDIDATES, torch.zeros(len(CANDIDATES), dtype=torch.int64))
    answer = state.answer(CANDIDATES, explain=True)
    torch.testing.assert_close(answer.residual, expected, rtol=1e-5, atol=1e-5)
    known, asked = codes.double(), CANDIDATES.double()
    covariance = known @ known.T + learner.constant
    across = asked @ known.T + learner.constant
    strength = float(learner.ridge.detach())

    def solved(among: Tensor, residuals: Tensor) -> Tensor:
        system = among + strength * torch.eye(len(among), dtype=torch.float64)
        found: Tensor = torch.linalg.solve(system, residuals.double())
        return found

    inverse = torch.linalg.inv(covariance + strength * torch.eye(len(known), dtype=torch.float64))
    variance = (asked * asked).sum(dim=1) + learner.constant - (across @ inverse * across).sum(dim=1)
    assert answer.deviation is not None
    torch.testing.assert_close(answer.deviation.double(), variance.clamp(min=0).sqrt(), rtol=1e-4, atol=1e-5)
    assert answer.explanation is not None
    assert answer.explanation.leave_one_out
    weights = [across[:, kept] @ solved(covariance[kept][:, kept], residuals[kept]) for kept in all_but_one(len(known))]
    parts = (across @ solved(covariance, residuals)).unsqueeze(1) - torch.stack(weights, dim=1)
    torch.testing.assert_close(answer.explanation.parts.double(), parts, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("bias", [False, True])
@settings(max_examples=40)
@given(steps=STEPS, seed=st.integers(0, 2**16))
def test_ridge_is_that_of_the_support_after_any_changes(bias: bool, steps: list[tuple[str, int]], seed: int) -> None:
    learner = ridge(bias)
    followed = Followed(learner.live_state(WIDTH), seed)
    for verb, number in steps:
        followed.do(verb, number)
    check_ridge(followed, learner)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("value", [1e-6, 0.7, 50.0])
def test_the_border_is_crossed_up_and_down_and_the_user_may_be_emptied(bias: bool, value: float) -> None:
    learner = ridge(bias, value)
    followed = Followed(learner.live_state(WIDTH))
    for verb in ["append"] * 7 + ["remove"] * 5 + ["insert"] * 6 + ["remove"] * 8 + ["append"] * 6:
        followed.do(verb, len(followed.events) // 2)
        if value >= 0.1 or len(followed.events) > WIDTH + 1:  # fewer events than numbers, and nothing to hold them
            check_ridge(followed, learner)
    assert len(followed.events) == 6


@pytest.mark.parametrize("every", [1, 7, 10_000])
def test_rounding_does_not_add_up(every: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ridge_module, "CHANGES", every)
    learner = ridge()
    followed = Followed(learner.live_state(WIDTH))
    for _ in range(20):
        followed.do("append")
    for number in range(600):
        followed.do(("append", "remove", "insert", "correct", "remove")[number % 5], number)
        assert len(followed.events) >= 19
    check_ridge(followed, learner)


@settings(max_examples=40)
@given(steps=STEPS, seed=st.integers(0, 2**16))
def test_the_posterior_is_that_of_the_support_after_any_changes(steps: list[tuple[str, int]], seed: int) -> None:
    learner = plus_learner(LAYOUT, steps=4).requires_grad_(False)
    followed = Followed(learner.live_state(LAYOUT.width), seed, learner)
    candidates = draw_rows((6,), LAYOUT, torch.Generator().manual_seed(8))
    for verb, number in steps:
        followed.do(verb, number)
        followed.state.answer(candidates[:1])  # so that an answer kept too long would show
    answer = followed.state.answer(candidates, explain=True)
    assert len(followed.state) == len(followed.events)
    if not followed.events:
        torch.testing.assert_close(answer.deviation, learner.prior.variance(LAYOUT.unpack(candidates)).sqrt().float())
        assert not answer.residual.any()
        return
    support = one_user(*followed.support)
    expected = learner(*support, candidates, torch.zeros(len(candidates), dtype=torch.int64))
    torch.testing.assert_close(answer.residual, expected, rtol=1e-5, atol=1e-5)
    assert answer.explanation is not None
    causes = answer.explanation.causes
    fitted = answer.residual - sum(causes[cause] for cause in ("choice of items", "same context", "number of events"))
    torch.testing.assert_close(answer.explanation.parts.sum(dim=1), fitted, rtol=1e-4, atol=1e-5)
    (posterior,) = learner.posteriors(*support, [len(followed.events)])
    variance = posterior.variance(candidates.unsqueeze(0))
    torch.testing.assert_close(answer.deviation, variance.squeeze(0).sqrt().float(), rtol=1e-5, atol=1e-6)
