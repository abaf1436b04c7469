"""The parts of a trained model that runs without torch. Each is made by the settings of the part that it stands for."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from resus.arrays import Array, Doubles, Floats, Ids, Integers

Weights = Mapping[str, Array]  # the weights of a part, by the names that its torch module gives them
Crowd = tuple[Floats, Floats]  # of N rows: the crowd's logits `[N]`, and the rows as the learner sees them `[N, K]`
SMALL = 64  # rows; a triangle of so few is not worth halving


class Rows(NamedTuple):
    """What a model sees of N rows: `[N, C]` ids into one embedding table, and their weights (None: all 1)."""

    ids: Ids
    weights: Floats | None

    @property
    def length(self) -> int:
        return len(self.ids)

    def take(self, places: Integers | slice) -> "Rows":
        """Some of the rows."""
        return Rows(self.ids[places], None if self.weights is None else self.weights[places])

    def one(self, place: int) -> "Rows":
        """A copy of one row."""
        return self.take(np.array([place]))


class RowPredictor(Protocol):
    """Ψ."""

    def __call__(self, rows: Rows) -> Floats:
        """N rows → logits `[N]`; RowError where a row has none."""

    def check(self, rows: Rows) -> None:
        """Raise RowError for the first row that has no logit."""


class RowEncoder(Protocol):
    """Φ."""

    width: int

    def __call__(self, rows: Rows) -> Floats:
        """N rows → `[N, K]`."""


class AdditiveEncoder(RowEncoder, Protocol):
    """Φ whose codes are sums: what some columns of a row give, plus what the others give."""

    def adds_up(self, columns: Array) -> bool:
        """Whether the part of these columns `[C]` and the part of all others sum to the whole code."""

    def part(self, rows: Rows, columns: Array) -> Floats:
        """What these columns give, `[N, K]`."""


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why each of N residuals is what it is, by event and by cause: see `resus.model.learners.base.Explanation`."""

    parts: Floats  # [N, k], the oldest event first
    causes: Mapping[str, Floats] = field(default_factory=dict)  # [N] each
    leave_one_out: bool = False

    def events_of(self, candidate: int, own: Sequence[bool]) -> list[tuple[int, float]]:
        """Events with their parts: first those of the candidate's own item, as `own` says, then the largest part."""
        parts = enumerate(self.parts[candidate].tolist())
        return sorted(parts, key=lambda event: (not own[event[0]], -abs(event[1])))

    def causes_of(self, candidate: int) -> dict[str, float]:
        """The causes that add something, the largest first."""
        found = {cause: float(values[candidate]) for cause, values in self.causes.items()}
        return {cause: found[cause] for cause in sorted(found, key=lambda cause: -abs(found[cause])) if found[cause]}


@dataclass(frozen=True, eq=False)
class Answer:
    """What a user's k events say about N candidates. `deviation` and `explanation` are there if they are asked for.

    `deviation` is the standard deviation of the residual; None if the learner does not know how sure it is.
    """

    residual: Floats  # [N]
    deviation: Floats | None = None  # [N]
    explanation: Explanation | None = None

    @classmethod
    def without_events(cls, candidates: int, *, explain: bool) -> "Answer":
        nothing = Explanation(np.zeros((candidates, 0), dtype=np.float32)) if explain else None
        return cls(np.zeros(candidates, dtype=np.float32), None, nothing)


Sample = Callable[[Floats], Floats]  # candidates `[N, K]` → what each of r draws adds to their residuals `[N, r]`


class Spread(ABC):
    """How far a user's true residuals may be from the answer, for all candidates together. It never changes."""

    @abstractmethod
    def deviation(self, encoded: Floats) -> Floats:
        """The standard deviation of the residual of each candidate `[N, K]`, `[N]`."""

    @abstractmethod
    def sample(self, seed: int, draws: int) -> Sample:
        """Draws of the user's whole function: one draw fits all candidates, however they are asked for."""


class LiveState(ABC):
    """The events of one user as a learner keeps them, the oldest first, while events come in."""

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """The memory that its arrays take."""

    @abstractmethod
    def fill(self, encoded: Floats, labels: Doubles, basis: Doubles) -> None:
        """Replace all events: `[k, K]`, their labels and the crowd's logits `[k]`."""

    @abstractmethod
    def insert(self, place: int, encoded: Floats, label: float, basis: float) -> None:
        """Add an event, `[K]`, before the one at `place`; `len(self)` appends it."""

    @abstractmethod
    def correct(self, place: int, label: float) -> None:
        """Replace the label of an event."""

    @abstractmethod
    def remove(self, place: int) -> None:
        """Forget an event."""

    def settle(self) -> None:  # noqa: B027  # most learners have nothing to do before they are asked
        """Compute now what all answers share until the next change."""

    @abstractmethod
    def answer(self, encoded: Floats, *, deviation: bool = True, explain: bool = False) -> Answer:
        """For candidates `[N, K]`, before fusion."""

    def spread(self) -> Spread | None:
        """None if the learner cannot draw from a posterior."""
        return None

    def answer_all(self, prepared: Any, shared: Floats | None) -> Floats:
        """The residuals of a whole catalogue, as the learner prepared it; `shared` `[K]` is added to each code."""
        encoded: Floats = prepared if shared is None else prepared + shared
        return self.answer(encoded, deviation=False).residual


class LiveLearner(ABC):
    """Λ, trained. A learner that `has_posterior` knows how sure it is even for a user without events."""

    has_posterior: ClassVar[bool] = False

    def crowd(self, basis: Floats, encoded: Floats) -> Floats:  # noqa: ARG002  # most learners leave Ψ as it is
        """What it expects of a user without events: Ψ's logits `[N]` and encoded rows `[N, K]` → logits `[N]`."""
        return basis

    def prepare(self, encoded: Floats) -> Any:
        """A catalogue `[N, K]` in the form in which its states answer for all items at once."""
        return encoded

    @abstractmethod
    def state(self) -> LiveState:
        """A user without events."""


class EventRows:
    """Events of one user in arrays: encoded rows, labels and the crowd's logits."""

    def __init__(self, width: int) -> None:
        self.encoded = np.empty((0, width), dtype=np.float32)
        self.labels = np.empty(0)
        self.basis = np.empty(0)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def nbytes(self) -> int:
        return self.encoded.nbytes + self.labels.nbytes + self.basis.nbytes

    @property
    def residuals(self) -> Doubles:
        """Δy = y − σ(Ψ(x)), what the paper's learners take from an event."""
        return self.labels - sigmoid(self.basis)

    def fill(self, encoded: Floats, labels: Doubles, basis: Doubles) -> None:
        self.encoded, self.labels, self.basis = encoded, labels, basis

    def insert(self, place: int, encoded: Floats, label: float, basis: float) -> None:
        self.encoded = with_entry(self.encoded, place, encoded)
        self.labels, self.basis = with_entry(self.labels, place, label), with_entry(self.basis, place, basis)

    def correct(self, place: int, label: float) -> None:
        self.labels = self.labels.copy()
        self.labels[place] = label

    def remove(self, place: int) -> None:
        self.encoded = without_entry(self.encoded, place)
        self.labels, self.basis = without_entry(self.labels, place), without_entry(self.basis, place)


def sigmoid(logits: Array) -> Array:
    """Without overflow at either end."""
    small = np.exp(-np.abs(logits))
    chances: Array = np.where(logits >= 0, 1, small) / (1 + small)
    return chances


def with_entry(values: Array, place: int, entry: Any) -> Array:
    """A copy with one more entry along the first axis, before the one at `place`."""
    larger = np.empty((len(values) + 1, *values.shape[1:]), dtype=values.dtype)
    larger[:place], larger[place], larger[place + 1 :] = values[:place], entry, values[place:]
    return larger


def without_entry(values: Array, place: int) -> Array:
    """A copy without one entry along the first axis."""
    return np.concatenate([values[:place], values[place + 1 :]])


def with_pair(matrix: Doubles, place: int, line: Array) -> Doubles:
    """A copy of a symmetric matrix `[k, k]` with one more row and column, both `line` `[k + 1]`."""
    larger = np.empty((len(matrix) + 1, len(matrix) + 1))
    larger[:place, :place], larger[:place, place + 1 :] = matrix[:place, :place], matrix[:place, place:]
    larger[place + 1 :, :place], larger[place + 1 :, place + 1 :] = matrix[place:, :place], matrix[place:, place:]
    larger[place] = larger[:, place] = line
    return larger


def without_pair(matrix: Doubles, place: int) -> Doubles:
    """A copy of a matrix without the row and the column of one entry."""
    smaller = np.empty((len(matrix) - 1, len(matrix) - 1))
    smaller[:place, :place], smaller[:place, place:] = matrix[:place, :place], matrix[:place, place + 1 :]
    smaller[place:, :place], smaller[place:, place:] = matrix[place + 1 :, :place], matrix[place + 1 :, place + 1 :]
    return smaller


def inverse_of(matrix: Doubles) -> Doubles:
    """LinAlgError if there is none."""
    return np.linalg.inv(matrix).astype(np.float64, copy=False)


def inverse_of_lower(factor: Doubles) -> Doubles:
    """The inverse of a lower triangular matrix, in half the time of `inverse_of` if it is large."""
    half = len(factor) // 2
    if len(factor) <= SMALL:
        return inverse_of(factor)
    found = np.zeros_like(factor)
    first, last = inverse_of_lower(factor[:half, :half]), inverse_of_lower(factor[half:, half:])
    found[:half, :half], found[half:, half:] = first, last
    found[half:, :half] = last @ (factor[half:, :half] @ -first)
    return found
