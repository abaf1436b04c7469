"""RESUS+ written out, one user at a time: feature vectors, a numeric optimiser and loops over pairs of rows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from resus.arrays import Doubles
from resus.model.learners.plus.codes import Layout
from resus.model.learners.plus.learner import PlusLearner
from resus.model.learners.plus.numbers import FEW_CHOICES

ITEMS = 4
SMALLEST_ID = {"item": 1, "genre": 11, "tags": 21, "price": 41}  # of the fields' values
MATCHES = {"item": 2.5, "genre": 0.4, "tags": 0.9, "price": 1.3}
BIAS, TASTE, CHOICES, COMMON, SCALE, LIKE, DISLIKE = 0.6, 1.7, 0.8, 0.7, 1.2, 0.5, -0.9
TRUST, BY_SIZE = (1.6, 0.7), (0.4, -0.3)


def layout_of(taste: int) -> Layout:
    """The item, one genre, up to three tags and a number."""
    return Layout(tuple(MATCHES), (1, 1, 3, 2), item="item", taste=taste, choice=2)


@torch.no_grad()
def plus_learner(layout: Layout, *, steps: int = 14, **parts: bool) -> PlusLearner:
    """A learner all of whose numbers differ from those that it starts from."""
    learner = PlusLearner(layout, steps=steps, **parts)
    scalars = {"bias": BIAS, "taste": TASTE, "choices": CHOICES, "common": COMMON, "scale": SCALE}
    for name, value in scalars.items():
        if (parameter := getattr(learner, f"log_{name}")) is not None:
            parameter.fill_(np.log(value))
    if learner.log_matches is not None:
        learner.log_matches.copy_(torch.tensor([MATCHES[name] for name in layout.names]).log())
    if learner.same_context is not None:
        learner.same_context.copy_(torch.tensor([LIKE, DISLIKE]))
    if learner.log_trust is not None:
        learner.log_trust.copy_(torch.tensor(TRUST).log())
    if learner.by_size is not None:
        learner.by_size.copy_(torch.tensor(BY_SIZE))
    return learner


def draw_rows(shape: Sequence[int], layout: Layout, random: torch.Generator) -> Tensor:
    """Encoded rows `[*shape, K]` with few values, so that they match; some values are unknown."""

    def integers(most: int) -> Tensor:
        return torch.randint(most, tuple(shape), generator=random)

    def normal(width: int) -> Tensor:
        return torch.randn(*shape, width, generator=random)

    known_item, known_genre = integers(8) > 0, integers(5) > 0
    item, genre = SMALLEST_ID["item"] + integers(ITEMS), SMALLEST_ID["genre"] + integers(3)
    tags = SMALLEST_ID["tags"] + torch.rand(*shape, 5, generator=random).argsort(dim=-1)[..., :3]
    tagged = (torch.arange(3) < integers(4).unsqueeze(-1)).float()
    knot, above = SMALLEST_ID["price"] + integers(7), torch.rand(tuple(shape), generator=random)
    between = torch.stack([1 - above, above], dim=-1)
    values = torch.cat([torch.stack([item, genre], dim=-1), tags, torch.stack([knot, knot + 1], dim=-1)], dim=-1)
    shares = torch.cat(
        [
            torch.stack([known_item, known_genre], dim=-1).float(),
            tagged / tagged.sum(dim=-1, keepdim=True).clamp(min=1).sqrt(),
            between / between.square().sum(dim=-1, keepdim=True).sqrt(),
        ],
        dim=-1,
    )
    low = integers(3).unsqueeze(-1)
    return torch.cat(
        [
            torch.where(known_item, item, -1).unsqueeze(-1),
            torch.cat([low, 7 * low], dim=-1),
            values,
            shares,
            normal(layout.taste),
            normal(2 * layout.choice),
            normal(1),
        ],
        dim=-1,
    )


@dataclass(frozen=True)
class Row:
    """An encoded row, taken apart by hand."""

    item: int
    context: tuple[int, int]
    shares: dict[str, dict[int, float]]  # of the values of each field
    taste: Doubles
    offered: Doubles
    chosen: Doubles
    common: float

    @classmethod
    def of(cls, encoded: Doubles, layout: Layout) -> "Row":
        left = list(encoded)
        item, low, high = (int(left.pop(0)) for _ in range(3))
        values = [int(left.pop(0)) for _ in range(sum(layout.columns))]
        known = [left.pop(0) for _ in values]
        shares: dict[str, dict[int, float]] = {name: {} for name in layout.names}
        for name, columns in zip(layout.names, layout.columns, strict=True):
            for _ in range(columns):
                value, share = values.pop(0), known.pop(0)
                shares[name][value] = shares[name].get(value, 0.0) + share
        taste, offered, chosen = (
            np.array([left.pop(0) for _ in range(count)]) for count in (layout.taste, layout.choice, layout.choice)
        )
        (common,) = left
        return cls(item, (low, high), shares, taste, offered, chosen, common)

    def is_of(self, other: "Row") -> bool:
        """Whether both are of the same item, as far as one can know: two unknown items may be the same."""
        return self.item == other.item


def rows_of(encoded: Doubles, layout: Layout) -> list[Row]:
    return [Row.of(row, layout) for row in np.asarray(encoded, dtype=np.float64)]


@dataclass(frozen=True)
class Scales:
    """The numbers that a learner has learned, 0 for parts that it lacks."""

    bias: float
    matches: dict[str, float]
    taste: float
    choices: float
    like: float
    dislike: float
    trust: tuple[float, float]  # in a like and in a dislike
    by_size: tuple[float, float]

    @classmethod
    def of(cls, learner: PlusLearner) -> "Scales":
        def scale(name: str) -> float:
            parameter = getattr(learner, f"log_{name}")
            return 0.0 if parameter is None else float(np.exp(parameter.detach().double().item()))

        logarithms = learner.log_matches
        matches = [0.0] * len(learner.layout.names) if logarithms is None else np.exp(logarithms.tolist()).tolist()
        like, dislike = (0.0, 0.0) if learner.same_context is None else learner.same_context.tolist()
        named = dict(zip(learner.layout.names, matches, strict=True))
        trusted = (1.0, 1.0) if learner.log_trust is None else tuple(np.exp(learner.log_trust.tolist()))
        by_size = (0.0, 0.0) if learner.by_size is None else tuple(learner.by_size.tolist())
        return cls(scale("bias"), named, scale("taste"), scale("choices"), like, dislike, trusted, by_size)

    def trust_in(self, labels: Doubles) -> Doubles:
        return np.where(labels > 0, *self.trust)

    def only(self, part: str) -> "Scales":
        """All but one part of the prior, `bias`, `taste` or a field, set to 0."""
        of_fields = {name: value * (name == part) for name, value in self.matches.items()}
        bias, taste = self.bias * (part == "bias"), self.taste * (part == "taste")
        return replace(self, bias=bias, matches=of_fields, taste=taste, choices=0.0, like=0.0, dislike=0.0)


def design_of(rows: Sequence[Row], scales: Scales) -> Doubles:
    """Feature vectors whose inner products are the prior covariance: a constant, a column per value, and φ."""
    columns = sorted({(name, value) for row in rows for name, shares in row.shares.items() for value in shares})
    design = [
        [
            np.sqrt(scales.bias),
            *(np.sqrt(scales.matches[name]) * row.shares[name].get(value, 0.0) for name, value in columns),
            *(np.sqrt(scales.taste) * row.taste),
        ]
        for row in rows
    ]
    return np.array(design)


def newton(design: Doubles, labels: Doubles, basis: Doubles, trust: Doubles | None = None) -> tuple[Doubles, Doubles]:
    """The mode of a logistic regression under a unit prior, and its Hessian there; `trust` weighs the labels."""
    weights, counts = np.zeros(design.shape[1]), np.ones(len(labels)) if trust is None else trust

    def loss(point: Doubles) -> float:
        logits = basis + design @ point
        return float(counts @ (np.logaddexp(0, logits) - labels * logits) + point @ point / 2)

    for _ in range(60):
        chance = 1 / (1 + np.exp(-(basis + design @ weights)))
        hessian = design.T @ (design * (counts * chance * (1 - chance))[:, None]) + np.eye(len(weights))
        step = np.linalg.solve(hessian, design.T @ (counts * (labels - chance)) - weights)
        while loss(weights + step) > loss(weights) + 1e-12:
            step = step / 2
        weights = weights + step
        if np.abs(step).max() < 1e-10:
            break
    return weights, hessian


def choices_term(support: Sequence[Row], query: Row, scales: Scales) -> float:
    """What the user's other items say for this one, whatever the labels."""
    others = [row for row in support if not row.is_of(query)]
    said = sum(float(row.chosen @ query.offered) for row in others)
    return scales.choices * said / float(np.sqrt(len(others) + FEW_CHOICES))


def context_term(support: Sequence[Row], labels: Doubles, query: Row, scales: Scales) -> float:
    """What likes and dislikes of other items in the same context add."""
    said = 0.0
    for row, label in zip(support, labels, strict=True):
        if row.context == query.context != (0, 0) and not row.is_of(query):
            said += scales.like if label else scales.dislike
    return said


def size_term(support: Sequence[Row], query: Row, scales: Scales) -> float:
    """What the number of the user's events of other items adds."""
    others = sum(not row.is_of(query) for row in support)
    soon, late = scales.by_size
    return soon * others / (others + FEW_CHOICES) + late * float(np.log(1 + others / FEW_CHOICES))


def answers_of(learner: PlusLearner, support: Doubles, labels: Doubles, basis: Doubles, query: Doubles) -> Doubles:
    """What the events of one user add to the crowd's logits; `basis` holds those of the events."""
    scales, events, asked = Scales.of(learner), *(rows_of(rows, learner.layout) for rows in (support, query))
    design = design_of([*events, *asked], scales)
    weights, _ = newton(design[: len(events)], labels, basis, scales.trust_in(labels))
    found: Doubles = design[len(events) :] @ weights
    for place, row in enumerate(asked):
        found[place] += choices_term(events, row, scales) + context_term(events, labels, row, scales)
        found[place] += size_term(events, row, scales)
    return found


def crowd_of(learner: PlusLearner, encoded: Doubles, basis: Doubles) -> Doubles:
    """a·Ψ(x) + c·common(x)."""
    found: Doubles = basis.astype(np.float64)
    if learner.log_scale is not None:
        found = np.exp(learner.log_scale.item()) * found
    if learner.log_common is not None:
        said = np.array([row.common for row in rows_of(encoded, learner.layout)])
        found = found + np.exp(learner.log_common.item()) * said
    return found
