"""What the model knows of one user while events come in: a base-learner's state that grows by a row per event.

Only the latest `capacity` events count, so memory and time per event are bounded; a support larger than any seen in
training is fused like the largest one seen.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from resus.fusion import Fusion
from resus.learners.nearest import NearestLearner
from resus.learners.ridge import RidgeLearner
from resus.model import ResidualModel


@dataclass(frozen=True, eq=False)
class Answer:
    """What a user's events add to Ψ's logits of N candidates, and how sure that is.

    `parts` holds how much each event moved each score; they sum to `residual`. `deviation` is the standard deviation
    of the residual read as a Gaussian process, which nearest neighbour does not have.
    """

    residual: Tensor  # [N]
    parts: Tensor  # [N, k], the oldest event first
    deviation: Tensor | None  # [N]


class LiveState(Protocol):
    """A user's events as the learner keeps them, the oldest first."""

    def __len__(self) -> int: ...

    def fill(self, encoded: Tensor, residuals: Tensor) -> None:
        """All events at once, `[k, K]` and `[k]`, in place of what was there."""

    def append(self, encoded: Tensor, residual: float) -> None:
        """One more event: its Φ(x) `[K]` and its label minus Ψ's probability."""

    def insert(self, place: int, encoded: Tensor, residual: float) -> None:
        """An event that came late."""

    def correct(self, place: int, residual: float) -> None:
        """Another label for an event."""

    def remove(self, place: int) -> None:
        """As if the event had never been."""

    def answer(self, encoded: Tensor) -> Answer:
        """Candidates `[N, K]`, before fusion."""


class LiveRidge:
    """(ΦΦᵀ + λI) = LLᵀ and c = L⁻¹Δy, in float64; an event appends one row to L and one entry to c, in O(k² + kK)."""

    def __init__(self, learner: RidgeLearner, width: int) -> None:
        self._constant = learner.constant
        self._ridge = float(learner.ridge.detach())
        self._encoded = torch.empty(0, width)
        self._gram = torch.empty(0, 0, dtype=torch.float64)
        self._factor = torch.empty(0, 0, dtype=torch.float64)
        self._residuals = torch.empty(0, dtype=torch.float64)
        self._whitened = torch.empty(0, dtype=torch.float64)  # c

    def __len__(self) -> int:
        return len(self._residuals)

    def fill(self, encoded: Tensor, residuals: Tensor) -> None:
        self._encoded, self._residuals = encoded, residuals.double()
        self._gram = (encoded @ encoded.T).double() + self._constant
        self._keep(list(range(len(residuals))))

    def append(self, encoded: Tensor, residual: float) -> None:
        inner = (self._encoded @ encoded).double() + self._constant
        own = float(encoded @ encoded) + self._constant
        row = _solve_lower(self._factor, inner)
        pivot = max(own + self._ridge - float(row @ row), self._ridge) ** 0.5
        self._whitened = torch.cat([self._whitened, ((residual - row @ self._whitened) / pivot).view(1)])
        self._gram = _bordered(self._gram, inner, inner, own)
        self._factor = _bordered(self._factor, row, torch.zeros_like(row), pivot)
        self._encoded = torch.cat([self._encoded, encoded.unsqueeze(0)])
        self._residuals = torch.cat([self._residuals, torch.tensor([residual], dtype=torch.float64)])

    def insert(self, place: int, encoded: Tensor, residual: float) -> None:
        self.append(encoded, residual)
        last = len(self) - 1
        self._keep([*range(place), last, *range(place, last)])

    def correct(self, place: int, residual: float) -> None:
        self._residuals[place] = residual
        self._whitened = _solve_lower(self._factor, self._residuals)

    def remove(self, place: int) -> None:
        self._keep([other for other in range(len(self)) if other != place])

    def answer(self, encoded: Tensor) -> Answer:
        inner = (self._encoded @ encoded.T).double() + self._constant  # [k, N]
        dual = torch.linalg.solve_triangular(self._factor.T, self._whitened.unsqueeze(1), upper=True)
        parts = (inner * dual).T
        whitened = torch.linalg.solve_triangular(self._factor, inner, upper=False)
        prior = (encoded * encoded).sum(dim=1).double() + self._constant
        variance = (prior - (whitened * whitened).sum(dim=0)).clamp(min=0)
        return Answer(parts.sum(dim=1).float(), parts.float(), variance.sqrt().float())

    def _keep(self, order: list[int]) -> None:
        """Other events or another order need another factor: k³ / 3 operations, from the inner products at hand."""
        places = torch.tensor(order, dtype=torch.int64)
        self._encoded, self._residuals = self._encoded[places], self._residuals[places]
        self._gram = self._gram[places][:, places]
        self._factor = torch.linalg.cholesky(self._gram + self._ridge * torch.eye(len(order), dtype=torch.float64))
        self._whitened = _solve_lower(self._factor, self._residuals)


class LiveNearest:
    """The support's encodings and residuals; the softmax over them is taken anew for each candidate."""

    def __init__(self, learner: NearestLearner, width: int) -> None:
        self._similarity = learner.similarity
        self._encoded = torch.empty(0, width)
        self._residuals = torch.empty(0)

    def __len__(self) -> int:
        return len(self._residuals)

    def fill(self, encoded: Tensor, residuals: Tensor) -> None:
        self._encoded, self._residuals = encoded, residuals

    def append(self, encoded: Tensor, residual: float) -> None:
        self.insert(len(self), encoded, residual)

    def insert(self, place: int, encoded: Tensor, residual: float) -> None:
        self._encoded = torch.cat([self._encoded[:place], encoded.unsqueeze(0), self._encoded[place:]])
        new = torch.tensor([residual], dtype=self._residuals.dtype)
        self._residuals = torch.cat([self._residuals[:place], new, self._residuals[place:]])

    def correct(self, place: int, residual: float) -> None:
        self._residuals[place] = residual

    def remove(self, place: int) -> None:
        self._encoded = torch.cat([self._encoded[:place], self._encoded[place + 1 :]])
        self._residuals = torch.cat([self._residuals[:place], self._residuals[place + 1 :]])

    def answer(self, encoded: Tensor) -> Answer:
        if not len(self):
            return Answer(encoded.new_zeros(len(encoded)), encoded.new_zeros(len(encoded), 0), None)
        mask = torch.ones(1, len(self), dtype=torch.bool)
        owner = torch.zeros(len(encoded), dtype=torch.int64)
        weights = self._similarity(encoded, self._encoded.unsqueeze(0), mask, owner).softmax(dim=1)
        parts = weights * self._residuals
        return Answer(parts.sum(dim=1), parts, None)


def live_state(model: ResidualModel, width: int) -> LiveState:
    """An empty state for a model's learner; `width` is K."""
    if isinstance(model.learner, RidgeLearner):
        return LiveRidge(model.learner, width)
    assert isinstance(model.learner, NearestLearner)
    return LiveNearest(model.learner, width)


def fused(fusion: Fusion, answer: Answer, size: int) -> Answer:
    """β on all parts; what fusion adds by itself at a size is shared by the events alike, so that they still sum."""
    if not size:
        return answer
    sizes = torch.tensor(size)
    constant = fusion(torch.zeros(()), sizes)
    scale = fusion(torch.ones(()), sizes) - constant
    return Answer(
        answer.residual * scale + constant,
        answer.parts * scale + constant / size,
        None if answer.deviation is None else answer.deviation * scale.abs(),
    )


def _solve_lower(factor: Tensor, values: Tensor) -> Tensor:
    solved: Tensor = torch.linalg.solve_triangular(factor, values.unsqueeze(1), upper=False)
    return solved.squeeze(1)


def _bordered(matrix: Tensor, row: Tensor, column: Tensor, corner: float) -> Tensor:
    """The matrix with one more row below and one more column to the right."""
    size = len(row)
    larger = matrix.new_empty(size + 1, size + 1)
    larger[:size, :size] = matrix
    larger[size, :size] = row
    larger[:size, size] = column
    larger[size, size] = corner
    return larger
