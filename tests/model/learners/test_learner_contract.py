"""Every base-learner against its equation in float64, one user at a time, and what all of them must keep."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from plus_oracle import answers_of, crowd_of, draw_rows, layout_of, plus_learner
from torch import Tensor

from resus.arrays import Doubles
from resus.model.encoders.base import Encoder
from resus.model.learners import LEARNERS
from resus.model.learners.base import Learner, residuals_of
from resus.model.learners.nearest import LearnedSimilarity, NearestLearner
from resus.model.learners.plus.learner import PlusLearner
from resus.model.learners.ridge import RidgeLearner

Oracle = Callable[[Any, Doubles, Doubles, Doubles, Doubles], Doubles]


class MeanLearner(Learner):
    """No more than a learner must have: the mean residual, shrunk."""

    def outcomes(self, labels: Tensor, basis: Tensor) -> Tensor:
        return residuals_of(labels, basis)

    def forward(self, support: Tensor, mask: Tensor, outcomes: Tensor, query: Tensor, query_user: Tensor) -> Tensor:
        means = torch.where(mask, outcomes, 0.0).sum(dim=1) / (mask.sum(dim=1) + 1)
        return means.index_select(0, query_user) + 0 * (query.sum(dim=1) + support.sum() * 0)


def residuals(labels: Doubles, basis: Doubles) -> Doubles:
    found: Doubles = labels - 1 / (1 + np.exp(-basis))
    return found


def shrunk_mean(_: MeanLearner, support: Doubles, labels: Doubles, basis: Doubles, query: Doubles) -> Doubles:
    return np.full(len(query), residuals(labels, basis).sum() / (len(support) + 1))


def normal_equations(
    learner: RidgeLearner, support: Doubles, labels: Doubles, basis: Doubles, query: Doubles
) -> Doubles:
    """Equation 12, the K × K system, with the bias as a column of ones."""
    if learner.constant:
        support, query = (np.column_stack([rows, np.ones(len(rows))]) for rows in (support, query))
    system = support.T @ support + learner.ridge.item() * np.eye(support.shape[1])
    found: Doubles = query @ np.linalg.solve(system, support.T @ residuals(labels, basis))
    return found


def weighted_neighbours(
    learner: NearestLearner, support: Doubles, labels: Doubles, basis: Doubles, query: Doubles
) -> Doubles:
    """Equations 8 and 9."""
    if isinstance(learner.similarity, LearnedSimilarity):
        similarity = np.abs(query[:, None] - support) @ learner.similarity.weight.detach().double().numpy()
    else:
        similarity = query @ support.T / np.linalg.norm(query, axis=1)[:, None] / np.linalg.norm(support, axis=1)
    weights = np.exp(similarity)
    found: Doubles = weights @ residuals(labels, basis) / weights.sum(axis=1)
    return found


def posterior_mode(learner: PlusLearner, support: Doubles, labels: Doubles, basis: Doubles, query: Doubles) -> Doubles:
    """A logistic regression, and loops over the user's other items."""
    return answers_of(learner, support, labels, crowd_of(learner, support, basis), query)


def normal(shape: Sequence[int], width: int, random: torch.Generator) -> Tensor:
    return torch.randn(*shape, width, generator=random)


def coded(shape: Sequence[int], width: int, random: torch.Generator) -> Tensor:
    return draw_rows(shape, layout_of(width), random)


@dataclass(frozen=True)
class Case:
    build: Callable[[int], Learner]
    oracle: Oracle
    rows: Callable[[Sequence[int], int, torch.Generator], Tensor] = normal
    tolerance: float = 1e-5


def chosen(**values: Any) -> Callable[[int], Learner]:
    def build(width: int) -> Learner:
        encoder = Encoder()
        encoder.width = width
        learner: Learner = LEARNERS.chosen(values).build_learner(encoder)
        return learner

    return build


CASES = {
    "ridge": Case(chosen(kind="ridge", ridge=0.7), normal_equations),
    "ridge with bias": Case(chosen(kind="ridge", ridge=0.7, bias=True), normal_equations),
    "nearest": Case(chosen(kind="nearest"), weighted_neighbours),
    "nearest by cosine": Case(chosen(kind="nearest", similarity="cosine"), weighted_neighbours),
    "plus": Case(lambda width: plus_learner(layout_of(width)), posterior_mode, coded, tolerance=3e-5),
    "only what a learner must have": Case(lambda _: MeanLearner(), shrunk_mean),
}
BESIDE_THE_FIT = (
    "choice of items",
    "same context",
    "number of events",
)  # causes that the parts of the events leave out
every_learner = pytest.mark.parametrize("kind", CASES)


def test_every_registered_learner_is_here() -> None:
    assert set(LEARNERS) <= {kind.partition(" ")[0] for kind in CASES}


@dataclass(frozen=True)
class Episodes:
    support: Tensor
    mask: Tensor
    labels: Tensor
    basis: Tensor
    query: Tensor
    query_user: Tensor

    def answers(self, learner: Learner) -> Tensor:
        answers: Tensor = learner(self.support, self.mask, self.outcomes(learner), self.query, self.query_user)
        return answers

    def outcomes(self, learner: Learner) -> Tensor:
        return learner.outcomes(self.labels, learner.crowd(self.basis, self.support))

    def prefixes(self, learner: Learner, query: Tensor, sizes: Sequence[int] | None = None) -> Tensor:
        """Of every size, if none are given."""
        sizes = range(1, self.mask.shape[1] + 1) if sizes is None else sizes
        with torch.no_grad():
            return learner.prefixes(self.support, self.mask, self.outcomes(learner), query, sizes)

    def slots(self, chosen: Any) -> "Episodes":
        """Only some slots of the supports."""
        parts = {name: getattr(self, name)[:, chosen] for name in ("support", "mask", "labels", "basis")}
        return replace(self, **parts)


def drawn(kind: str, sizes: list[int], *, queries: int, width: int, seed: int, spare: int = 0) -> Episodes:
    """Episodes with the given support sizes; slots without an event hold large numbers."""
    random = torch.Generator().manual_seed(seed)
    slots = max(sizes) + spare
    mask = torch.arange(slots) < torch.tensor(sizes).unsqueeze(1)
    support = CASES[kind].rows((len(sizes), slots), width, random)
    query = CASES[kind].rows((queries,), width, random)
    labels = torch.randint(2, (len(sizes), slots), generator=random).float()
    basis = torch.randn(len(sizes), slots, generator=random)
    return Episodes(
        support=torch.where(mask.unsqueeze(-1), support, 100 * support),
        mask=mask,
        labels=torch.where(mask, labels, 100.0),
        basis=torch.where(mask, basis, 100 * basis),
        query=query,
        query_user=torch.randint(len(sizes), (queries,), generator=random),
    )


def built(kind: str, width: int) -> Learner:
    torch.manual_seed(width)
    return CASES[kind].build(width)


def one_by_one(kind: str, learner: Learner, episodes: Episodes) -> Tensor:
    answers = torch.zeros(len(episodes.query), dtype=torch.float64)
    for user in set(episodes.query_user.tolist()):
        known, asked = episodes.mask[user], episodes.query_user == user
        if not known.any():
            continue
        parts = (getattr(episodes, name)[user][known] for name in ("support", "labels", "basis"))
        rows = (values.double().numpy() for values in (*parts, episodes.query[asked]))
        answers[asked] = torch.from_numpy(CASES[kind].oracle(learner, *rows))
    return answers


def close(found: Tensor, expected: Tensor, tolerance: float = 1e-5) -> bool:
    return found.shape == expected.shape and bool(((found - expected).abs() <= tolerance * (1 + expected.abs())).all())


@every_learner
@settings(deadline=None, max_examples=40)
@given(
    sizes=st.lists(st.integers(0, 7), min_size=1, max_size=5),
    queries=st.integers(1, 12),
    width=st.integers(1, 6),
    spare=st.integers(0, 2),
    seed=st.integers(0, 2**16),
)
def test_a_batch_answers_as_the_equations_do_one_by_one(
    kind: str, sizes: list[int], queries: int, width: int, spare: int, seed: int
) -> None:
    episodes = drawn(kind, sizes, queries=queries, width=width, seed=seed, spare=spare)
    learner = built(kind, width)
    assert close(episodes.answers(learner), one_by_one(kind, learner, episodes), CASES[kind].tolerance)


@every_learner
@pytest.mark.parametrize(("sizes", "width"), [([30, 30, 2], 16), ([9, 4, 0, 1], 5), ([1], 1), ([150], 160)])
def test_prefixes_answer_as_each_size_on_its_own(kind: str, sizes: list[int], width: int) -> None:
    places = 5
    episodes = drawn(kind, sizes, queries=places * len(sizes), width=width, seed=len(sizes))
    episodes = replace(episodes, query_user=torch.arange(len(sizes)).repeat_interleave(places))
    learner = built(kind, width)
    found = episodes.prefixes(learner, episodes.query.view(len(sizes), places, -1))
    assert found.shape == (len(sizes), places, max(sizes))
    for k in {*range(1, max(sizes) + 1, 1 + max(sizes) // 30), max(sizes)}:
        alone = episodes.slots(slice(k))
        assert close(found[..., k - 1].flatten(), one_by_one(kind, learner, alone), CASES[kind].tolerance)
        assert close(found[..., k - 1].flatten(), alone.answers(learner).detach(), CASES[kind].tolerance)


@every_learner
def test_sizes_come_as_they_are_asked_for(kind: str) -> None:
    episodes = drawn(kind, [9, 4], queries=10, width=5, seed=6)
    learner, query = built(kind, 5), episodes.query.view(2, 5, -1)
    every, some = episodes.prefixes(learner, query), episodes.prefixes(learner, query, [7, 2, 7])
    assert close(some, every[..., [6, 1, 6]], CASES[kind].tolerance)


@every_learner
@pytest.mark.parametrize("slots", [0, 3])
def test_an_empty_support_answers_exactly_zero(kind: str, slots: int) -> None:
    episodes = drawn(kind, [0, 0], queries=6, width=4, seed=1, spare=slots)
    learner = built(kind, 4)
    assert torch.equal(episodes.answers(learner), torch.zeros(6))
    assert torch.equal(episodes.prefixes(learner, episodes.query.view(2, 3, -1)), torch.zeros(2, 3, slots))


@every_learner
def test_what_empty_slots_hold_does_not_matter(kind: str) -> None:
    episodes = drawn(kind, [3, 0, 5], queries=18, width=4, seed=2)
    learner = built(kind, 4)
    spoiled = replace(
        episodes,
        support=torch.where(episodes.mask.unsqueeze(-1), episodes.support, -7e3),
        labels=torch.where(episodes.mask, episodes.labels, 9e5),
        basis=torch.where(episodes.mask, episodes.basis, -50.0),
    )
    assert torch.equal(episodes.answers(learner), spoiled.answers(learner))
    query = episodes.query.view(3, 6, -1)
    assert torch.equal(episodes.prefixes(learner, query), spoiled.prefixes(learner, query))


@every_learner
def test_the_order_of_the_support_does_not_matter(kind: str) -> None:
    episodes = drawn(kind, [8, 8], queries=10, width=5, seed=3)
    learner = built(kind, 5)
    shuffled = episodes.slots(torch.randperm(8, generator=torch.Generator().manual_seed(4)))
    assert close(shuffled.answers(learner), episodes.answers(learner).detach())


@every_learner
def test_gradients_are_those_of_float64_and_empty_slots_get_none(kind: str) -> None:
    episodes = drawn(kind, [6, 0, 1, 4], queries=15, width=5, seed=5)
    gradients = []
    for dtype in (torch.float32, torch.float64):
        learner = built(kind, 5).to(dtype)
        names = ("support", "basis", "query")
        leaves = {name: getattr(episodes, name).to(dtype).requires_grad_() for name in names}
        answers = replace(episodes, labels=episodes.labels.to(dtype), **leaves).answers(learner)
        gradients.append(torch.autograd.grad(answers.square().sum(), [*leaves.values(), *learner.parameters()]))
    for narrow, wide in zip(*gradients, strict=True):
        assert close(narrow, wide)
        assert bool((wide != 0).any()) or kind not in LEARNERS
    for gradient in gradients[0][:2]:
        assert not gradient[~episodes.mask].any()


@every_learner
@settings(max_examples=15)
@given(steps=st.lists(st.tuples(st.sampled_from(["insert", "insert", "correct", "remove"]), st.integers(0, 99))))
def test_a_live_user_answers_as_the_learner_does_for_the_same_support(kind: str, steps: list[tuple[str, int]]) -> None:
    width = 4
    learner = built(kind, width).requires_grad_(False)
    query = drawn(kind, [1], queries=6, width=width, seed=77).query
    state, known = learner.live_state(query.shape[1]), list[tuple[Tensor, Tensor]]()
    for number, (verb, place) in enumerate(steps):
        event = drawn(kind, [1], queries=6, width=width, seed=number)
        outcome = event.outcomes(learner)[0, 0]
        if verb == "insert":
            state.insert(place % (len(known) + 1), event.support[0, 0], outcome)
            known.insert(place % (len(known) + 1), (event.support[0, 0], outcome))
        elif known and verb == "correct":
            state.correct(place % len(known), outcome)
            known[place % len(known)] = (known[place % len(known)][0], outcome)
        elif known:
            state.remove(place % len(known))
            del known[place % len(known)]
    answer = state.answer(query, explain=True)
    assert torch.equal(state.answer(query).residual, answer.residual)
    assert state.answer(query).explanation is None
    explained = answer.explanation
    assert explained is not None
    assert len(state) == len(known) == explained.parts.shape[1]
    assert (answer.deviation is not None) == (learner.has_posterior or (bool(known) and "ridge" in kind))

    def answered(events: list[tuple[Tensor, Tensor]]) -> Tensor:
        if not events:
            return torch.zeros(6)
        support, outcomes = (torch.stack(values).unsqueeze(0) for values in zip(*events, strict=True))
        filled = torch.ones(1, len(events), dtype=torch.bool)
        answers: Tensor = learner(support, filled, outcomes, query, torch.zeros(6, dtype=torch.int64))
        again = learner.live_state(query.shape[1])
        again.fill(support[0], outcomes[0])
        assert close(again.answer(query).residual, answers, 1e-4)
        return answers

    expected = answered(known)
    assert close(answer.residual, expected, 1e-4)
    if explained.leave_one_out:
        for place in range(len(known)):
            without = answered(known[:place] + known[place + 1 :])
            assert close(answer.residual - explained.parts[:, place], without, 1e-4)
    else:
        fitted = answer.residual - sum(explained.causes.get(cause, 0.0) for cause in BESIDE_THE_FIT)
        assert close(explained.parts.sum(dim=1), fitted, 1e-4)
    if explained.causes:
        assert close(torch.stack([*explained.causes.values()]).sum(dim=0), answer.residual, 1e-4)
