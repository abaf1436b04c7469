"""Scores of candidates."""

from typing import Literal, Self

from pydantic import Field, model_validator

from resus.serving.limits import MAX_CANDIDATES, MAX_EVENTS, MAX_EXPLAINED
from resus.serving.messages.events import InlineEvent
from resus.serving.messages.explore import Exploration, ExploringRequest
from resus.serving.messages.values import Candidate, FieldValues, Id, Ids, Message


class PredictRequest(ExploringRequest):
    """Candidates to score for a stored `user`, for a user described by inline `events`, or for a user with no events.

    A candidate holds its fields directly; `item` is always the item's id, whatever its field is called. `context` holds
    the fields that all candidates share. With `top`, the answer holds the best candidates, best first. Without it, the
    answer holds all candidates in the order of the request. With `deviation`, it says how sure the model is, and with
    `explain`, why it thinks so; both take time. `explore` ranks by "thompson", a draw from the posterior, or "ucb", an
    upper bound, with `seed`, `width` and `draws`; the answer is then in the order of this rule, also without `top`.
    """

    user: Id | None = None
    events: list[InlineEvent] | None = Field(default=None, max_length=MAX_EVENTS)
    context: FieldValues = Field(default_factory=dict)
    items: Ids | None = Field(default=None, min_length=1, max_length=MAX_CANDIDATES)
    candidates: list[Candidate] | None = Field(default=None, min_length=1, max_length=MAX_CANDIDATES)
    deviation: bool = False
    explain: bool = False
    top: int | None = Field(default=None, ge=1, le=MAX_CANDIDATES)

    @model_validator(mode="after")
    def _one_way_of_asking(self) -> Self:
        if self.user is not None and self.events is not None:
            raise ValueError("give a user or inline events, not both")
        if len({event.id is None for event in self.events or []}) > 1:
            raise ValueError("give every inline event an id, or none of them")
        if (self.items is None) == (self.candidates is None):
            raise ValueError("give either items or candidates")
        asked = len(self.items or self.candidates or [])
        if self.explain and min(asked, self.top or asked) > MAX_EXPLAINED:
            raise ValueError(f"explain takes at most {MAX_EXPLAINED} answers: set top, or ask for fewer candidates")
        return self


KindOfParts = Literal["shares", "leave-one-out"]


class Reason(Message):
    """How much one event moved a score, on the scale of the residual. `parts` of the answer says how to read it."""

    event: str
    item: str | None = None
    part: float


class Cause(Message):
    """What one cause, such as "taste" or "same authors", adds to the residual."""

    cause: str
    part: float


class ScoredCandidate(Message):
    """P(click) = σ(basis + residual). With `explain`, `because` says what each event did.

    Events with the candidate's own item come first, then the largest part. The parts of `causes`, largest first, sum to
    the residual; a cause that adds nothing is left out. Only learners that know causes give `causes`.

    `candidate` is the candidate's place in the request, from 0. `deviation` is the standard deviation of the residual;
    it is null if it was not asked for, for nearest neighbour, and for ridge before the first event. With `explore`,
    `ranked_by` is the logit by which the rule ranks it, and `propensity` the probability that the rule puts it at this
    place.
    """

    candidate: int
    item: str | None = None
    probability: float
    basis: float
    residual: float
    deviation: float | None
    because: list[Reason] | None = None
    causes: list[Cause] | None = None
    ranked_by: float | None = None
    propensity: float | None = None


class ExplorationOfCandidates(Exploration):
    """`greedy` are the first candidates, by their place in the request, as they would be ranked without exploring."""

    greedy: list[int]


class PredictAnswer(Message):
    """`support` is the number of events behind the answers.

    `parts` says how to read the parts of events: "shares" sum to the residual; "leave-one-out" is the residual minus
    what it would be without the event, and these need not sum to the residual. `warnings` says what the request holds
    that the model does not know; without such, there are none. `exploration` is there if the request explores.
    """

    user: str | None
    support: int
    model: str
    parts: KindOfParts | None = None
    answers: list[ScoredCandidate]
    exploration: ExplorationOfCandidates | None = None
    warnings: list[str] | None = None
