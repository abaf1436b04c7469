"""What every base-learner Λ can do: from the outcomes of a user's events to an answer for any candidate."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor, nn


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why each of N residuals is what it is, by event and by cause.

    `parts` says how much the label of each event moved each residual. They are shares, which sum to the residual less
    the causes that are no label's, or, if `leave_one_out`, each is the residual minus what it would be without the
    event; these need not sum to anything.

    `causes` maps words that a person understands ("generosity", "same authors") to what this cause adds to each
    residual. All causes sum to the residual. A learner that knows no causes names none.
    """

    parts: Tensor  # [N, k], the oldest event first
    causes: Mapping[str, Tensor] = field(default_factory=dict)  # [N] each
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
    """What a user's k events say about N candidates.

    `deviation` is the standard deviation of the residual, or None if the learner does not know how sure it is.
    """

    residual: Tensor  # [N]
    deviation: Tensor | None = None  # [N]
    explanation: Explanation | None = None  # if it is asked for

    @classmethod
    def without_events(cls, candidates: int, *, explain: bool) -> "Answer":
        return cls(torch.zeros(candidates), None, Explanation(torch.zeros(candidates, 0)) if explain else None)


class Posterior(ABC):
    """How sure a learner is of its answers for U users after some of their events."""

    @abstractmethod
    def variance(self, query: Tensor) -> Tensor:
        """Of the residual at each query: `[U, P, K]` → `[U, P]`."""

    @abstractmethod
    def variance_of_sum(self, query: Tensor, weights: Tensor) -> Tensor:
        """Of each user's weighted sum of residuals over the queries: `[U, P, K]`, `[U, P]` → `[U]`."""


class LiveState(ABC):
    """The events of one user as a learner keeps them, the oldest first, while events come in."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def fill(self, encoded: Tensor, outcomes: Tensor) -> None:
        """Replace all events, `[k, K]` and `[k, …]`."""

    @abstractmethod
    def insert(self, place: int, encoded: Tensor, outcome: Tensor) -> None:
        """Add an event, `[K]` and `[…]`, before the one at `place`; `len(self)` appends it."""

    @abstractmethod
    def correct(self, place: int, outcome: Tensor) -> None:
        """Replace the outcome of an event."""

    @abstractmethod
    def remove(self, place: int) -> None:
        """Forget an event."""

    @abstractmethod
    def answer(self, encoded: Tensor, *, explain: bool = False) -> Answer:
        """For candidates `[N, K]`, before fusion."""


class Learner(nn.Module, ABC):
    """Fits one user in closed form. `outcomes` and `forward` are enough; override the rest if there is a faster way.

    Answers are exactly 0 where the support is empty. A learner that `has_posterior` knows how sure it is of an answer,
    even for a user without events.
    """

    has_posterior: ClassVar[bool] = False

    def crowd(self, basis: Tensor, encoded: Tensor) -> Tensor:  # noqa: ARG002  # most learners leave Ψ as it is
        """What the learner expects of a user without events: Ψ's logits `[...]` and encoded rows → logits `[...]`."""
        return basis

    def scales(self) -> Iterable[nn.Parameter]:
        """Parameters of one dimension or more that learn as fast as scalars do."""
        return ()

    @abstractmethod
    def outcomes(self, labels: Tensor, basis: Tensor) -> Tensor:
        """What the learner takes from events: labels and the crowd's logits `[...]` → `[...]` or `[..., C]`."""

    @abstractmethod
    def forward(self, support: Tensor, mask: Tensor, outcomes: Tensor, query: Tensor, query_user: Tensor) -> Tensor:
        """`[U, S, K]`, `[U, S]`, `[U, S, …]`, `[Q, K]`, `[Q]` → answers `[Q]`."""

    def prefixes(self, support: Tensor, mask: Tensor, outcomes: Tensor, query: Tensor, sizes: Sequence[int]) -> Tensor:
        """`[U, S, K]`, `[U, S]`, `[U, S, …]`, `[U, P, K]` → answers `[U, P, len(sizes)]`.

        Column j uses the first sizes[j] events, 1 to S.
        """
        users, places, width = query.shape
        flat, owner = query.reshape(-1, width), torch.arange(users, device=query.device).repeat_interleave(places)
        answers = [
            self(support[:, :size], mask[:, :size], outcomes[:, :size], flat, owner).view(users, places)
            for size in sizes
        ]
        return torch.stack(answers, dim=2) if answers else query.new_zeros(users, places, 0)

    def live_state(self, width: int) -> LiveState:
        """An empty state of one live user; `width` is K."""
        return LiveEvents(self, width)

    def posteriors(self, support: Tensor, mask: Tensor, outcomes: Tensor, sizes: Sequence[int]) -> Iterator[Posterior]:
        """How sure it is after the first sizes[j] events of each user, for each j; only where `has_posterior`."""
        raise NotImplementedError(f"{type(self).__name__} has no posterior")


class LiveEvents(LiveState):
    """Keeps the events and asks the learner again each time.

    The part of an event is by how much it moved the answer when it came in, so that all parts sum to the answer.
    """

    def __init__(self, learner: Learner, width: int) -> None:
        self.learner = learner
        self.encoded = torch.empty(0, width)
        self.outcomes = learner.outcomes(torch.empty(0), torch.empty(0))

    def __len__(self) -> int:
        return len(self.outcomes)

    def fill(self, encoded: Tensor, outcomes: Tensor) -> None:
        self.encoded, self.outcomes = encoded, outcomes

    def insert(self, place: int, encoded: Tensor, outcome: Tensor) -> None:
        self.fill(_inserted(self.encoded, place, encoded), _inserted(self.outcomes, place, outcome))

    def correct(self, place: int, outcome: Tensor) -> None:
        outcomes = self.outcomes.clone()
        outcomes[place] = outcome
        self.fill(self.encoded, outcomes)

    def remove(self, place: int) -> None:
        kept = torch.arange(len(self)) != place
        self.fill(self.encoded[kept], self.outcomes[kept])

    @property
    def as_support(self) -> tuple[Tensor, Tensor, Tensor]:
        """Support, mask and outcomes of a batch of this one user."""
        return self.encoded.unsqueeze(0), torch.ones(1, len(self), dtype=torch.bool), self.outcomes.unsqueeze(0)

    def answer(self, encoded: Tensor, *, explain: bool = False) -> Answer:
        if not len(self):
            return Answer.without_events(len(encoded), explain=explain)
        sizes = range(1, len(self) + 1) if explain else [len(self)]
        answers = self.learner.prefixes(*self.as_support, encoded.unsqueeze(0), sizes).squeeze(0)
        parts = answers.diff(dim=1, prepend=torch.zeros_like(answers[:, :1]))
        return Answer(answers[:, -1], None, Explanation(parts) if explain else None)


def residuals_of(labels: Tensor, basis: Tensor) -> Tensor:
    """Δy = y − σ(Ψ(x)), what the paper's learners take from an event."""
    return labels - basis.sigmoid()


def _inserted(values: Tensor, place: int, value: Tensor) -> Tensor:
    return torch.cat([values[:place], value.unsqueeze(0), values[place:]])
