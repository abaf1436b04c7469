"""Requests and answers of the service, as JSON."""

from typing import Annotated, Any, Literal, Self
from urllib.parse import unquote

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from resus.data.fields.values import seconds_of
from resus.evaluation.metrics import METRICS, Metric
from resus.evaluation.results import Results
from resus.serving.limits import (
    FIELD_VALUES_SCHEMA,
    FILTER_SCHEMA,
    MAX_CANDIDATES,
    MAX_EVENTS,
    MAX_EXPLAINED,
    MAX_ID,
    MAX_TEXT,
    BadValueError,
    checked_field_values,
)
from resus.serving.store import EventStatus

_ID_SCHEMA: dict[str, Any] = {
    "anyOf": [{"type": "string", "minLength": 1, "maxLength": MAX_ID}, {"type": "integer"}],
}


def _id_as_text(given: Any) -> Any:
    """A whole number is the id that a table with this number has."""
    return str(given) if type(given) is int and -(2**63) <= given < 2**63 else given


def _ids_as_text(given: Any) -> Any:
    """All at once: most lists hold no number."""
    return list(map(_id_as_text, given)) if isinstance(given, list) and int in set(map(type, given)) else given


_Text = Annotated[str, Field(min_length=1, max_length=MAX_ID)]
Id = Annotated[_Text, BeforeValidator(_id_as_text), WithJsonSchema(_ID_SCHEMA)]
Ids = Annotated[
    list[_Text],
    BeforeValidator(_ids_as_text),
    WithJsonSchema({"type": "array", "items": _ID_SCHEMA, "minItems": 1, "maxItems": MAX_CANDIDATES}),
]
IdInPath = Annotated[str, BeforeValidator(unquote), Field(min_length=1, max_length=MAX_ID)]


def _field_values(given: Any) -> Any:
    """At most one error, which names the field: pydantic would make one for each value and each alternative."""
    try:
        return checked_field_values(given)
    except BadValueError as error:
        raise PydanticCustomError("field_value", "{reason}", {"reason": str(error), "field": error.field}) from None


def _candidate(given: Any) -> Any:
    if isinstance(given, dict) and isinstance(given.get("features"), dict):
        reason = "put the fields directly into the candidate, without 'features' around them"
        raise PydanticCustomError("field_value", "{reason}", {"reason": reason, "field": "features"})
    return _field_values(given)


FieldValues = Annotated[dict[str, Any], BeforeValidator(_field_values), WithJsonSchema(FIELD_VALUES_SCHEMA)]
Candidate = Annotated[dict[str, Any], BeforeValidator(_candidate), WithJsonSchema(FIELD_VALUES_SCHEMA)]


def _filter(given: Any) -> Any:
    """Ranges of numbers apart, the values follow the rules of all fields."""
    if isinstance(given, dict):
        for name, wanted in given.items():
            if isinstance(wanted, dict) and (not wanted or wanted.keys() - {"at_least", "at_most"}):
                reason = 'a range of numbers is {"at_least": 1, "at_most": 5}, or one of the two'
                raise PydanticCustomError("field_value", "{reason}", {"reason": reason, "field": name})
        flat = {name: list(wanted.values()) if isinstance(wanted, dict) else wanted for name, wanted in given.items()}
        _field_values(flat)
        return given
    return _field_values(given)


Filter = Annotated[dict[str, Any], BeforeValidator(_filter), WithJsonSchema(FILTER_SCHEMA)]


def _zero_or_one(value: float) -> float:
    if value not in (0, 1):
        raise ValueError("a label is 0 or 1")
    return value


def _boolean_as_number(given: Any) -> Any:
    return float(given) if isinstance(given, bool) else given


Label = Annotated[
    float,
    BeforeValidator(_boolean_as_number),
    AfterValidator(_zero_or_one),
    WithJsonSchema({"enum": [0, 1, False, True]}),
]


def _time_as_seconds(given: Any) -> Any:
    if not isinstance(given, str):
        return given
    seconds = seconds_of(given)
    if seconds is None:
        raise PydanticCustomError("time", "give seconds since 1970, or a time such as 2024-01-31T10:00:00Z")
    return seconds


Time = Annotated[
    float,
    BeforeValidator(_time_as_seconds),
    WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "string", "format": "date-time"}]}),
]


class Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class InlineEvent(Message):
    """What a user did. Without a `time`, events count in the order given. The model ignores values it has never seen.

    The catalogue fills in missing fields of an `item` that it knows.
    """

    id: Id | None = None
    time: Time | None = None
    label: Label
    item: Id | None = None
    features: FieldValues = Field(default_factory=dict)


class PostedEvent(InlineEvent):
    """One event of one user. The same user and id again is the same event; it corrects label and time.

    `time` is an ISO time or in seconds since 1970, at most a day ahead, or a smaller number that grows.
    """

    id: Id
    user: Id
    time: Time


class EventsRequest(Message):
    events: list[PostedEvent] = Field(min_length=1, max_length=MAX_EVENTS)


class EventResult(Message):
    id: str
    status: EventStatus


class EventsAnswer(Message):
    """One result per event, in order, after all events are stored durably.

    `warnings` says what the events hold that the model does not know; without such, there are none.
    """

    results: list[EventResult]
    warnings: list[str] | None = None


class PredictRequest(Message):
    """Candidates to score for a stored `user`, for a user described by inline `events`, or for a user with no events.

    A candidate holds its fields directly; `item` is always the item's id, whatever its field is called. `context` holds
    the fields that all candidates share. With `top`, the answer holds the best candidates, best first. Without it, the
    answer holds all candidates in the order of the request. With `deviation`, it says how sure the model is, and with
    `explain`, why it thinks so; both take time.
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
    it is null if it was not asked for, for nearest neighbour, and for ridge before the first event.
    """

    candidate: int
    item: str | None = None
    probability: float
    basis: float
    residual: float
    deviation: float | None
    because: list[Reason] | None = None
    causes: list[Cause] | None = None


class PredictAnswer(Message):
    """`support` is the number of events behind the answers.

    `parts` says how to read the parts of events: "shares" sum to the residual; "leave-one-out" is the residual minus
    what it would be without the event, and these need not sum to the residual. `warnings` says what the request holds
    that the model does not know; without such, there are none.
    """

    user: str | None
    support: int
    model: str
    parts: KindOfParts | None = None
    answers: list[ScoredCandidate]
    warnings: list[str] | None = None


class RecommendRequest(Message):
    """The best items of the catalogue for a stored `user`, for a user described by inline `events`, or for no user.

    `context` holds the fields that describe the situation. `filter` maps fields of the items to the values that are
    wanted: one value, a list of values of which one must hold, or for a number `{"at_least": 1, "at_most": 5}`.
    With `exclude_seen`, items of the user's events are left out.
    """

    user: Id | None = None
    events: list[InlineEvent] | None = Field(default=None, max_length=MAX_EVENTS)
    top: int = Field(default=10, ge=1, le=MAX_CANDIDATES)
    exclude_seen: bool = True
    context: FieldValues = Field(default_factory=dict)
    filter: Filter = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_user(self) -> Self:
        if self.user is not None and self.events is not None:
            raise ValueError("give a user or inline events, not both")
        if len({event.id is None for event in self.events or []}) > 1:
            raise ValueError("give every inline event an id, or none of them")
        return self


class Recommended(Message):
    """P(click) = σ(basis + residual)."""

    item: str
    title: str | None
    probability: float
    basis: float
    residual: float


class RecommendAnswer(Message):
    """The best items first. `ranked` is the number of items that were left after the filter and the seen ones."""

    user: str | None
    support: int
    model: str
    ranked: int
    answers: list[Recommended]
    warnings: list[str] | None = None


class StoredEvent(Message):
    id: str
    time: float
    label: float
    item: str | None
    features: dict[str, Any]


class UserAnswer(Message):
    """`stage` is "new", a cold-start stage of the evaluation ("I", "II", "III"), or "warm".

    `profile` holds the fields that describe the user: those that are stored, then those of the export.
    """

    user: str
    profile: dict[str, Any]
    support: int
    stage: str
    events: list[StoredEvent]


class ProfileRequest(Message):
    """The fields that describe a user. They replace those that are stored; without any, the stored profile is deleted.

    A null hides a value of the exported profile.
    """

    fields: FieldValues


class ProfileAnswer(Message):
    """The profile as it now counts: what is stored, and the other fields of the exported profile.

    `warnings` names fields and values that the model does not know; they do not count.
    """

    user: str
    profile: dict[str, Any]
    warnings: list[str] = Field(default_factory=list)


class Deleted(Message):
    deleted: bool


Role = Literal["item", "user", "context"]


class FieldAnswer(Message):
    """A field that the model reads; `values` are the most frequent ones.

    The catalogue fills in fields with the role "item", a profile those with the role "user".
    """

    name: str
    kind: str
    role: Role
    values: list[str]


class Bounds(Message):
    request_bytes: int
    candidates: int
    events: int
    events_per_user: int
    explained: int
    id_length: int


class ModelAnswer(Message):
    """The loaded model. `support_sizes` is the largest number of events per user in training.

    `score` names the field in which each event and candidate must bring the shared model's score; else it is null.
    """

    name: str
    predictor: str
    learner: str
    protocol: str
    item: str
    score: str | None
    fields: list[FieldAnswer]
    support_sizes: int
    stages: dict[str, list[int]]
    bounds: Bounds
    sha256: str
    catalogue: int


class CatalogueItem(Message):
    item: str
    title: str | None
    count: int
    mean: float | None


class ItemRequest(Message):
    """What is new about an item. Fields that are left out stay as they are; of a new item they are unknown."""

    title: str | None = Field(default=None, max_length=MAX_TEXT)
    fields: FieldValues = Field(default_factory=dict)


class Changed(Message):
    item: str
    status: Literal["stored", "removed"]


class CatalogueAnswer(Message):
    items: list[CatalogueItem]
    size: int


class PastEvent(Message):
    """An event of a test user. `context` holds the fields that are not the item's own."""

    item: str
    context: dict[str, Any]
    label: float
    title: str | None = None


class UserHistory(Message):
    """What a real test user did, oldest event first."""

    events: list[PastEvent]


class MetricAnswer(Message):
    """How to show a metric. `shown` holds its value as text, by model and number of events."""

    name: str
    title: str
    meaning: str
    direction: str
    shown: dict[str, dict[int, str]]

    @classmethod
    def of(cls, metric: Metric, results: Results) -> Self:
        shown = {
            model: {size: metric.show(values.metrics.get(metric.name)) for size, values in measured.sizes.items()}
            for model, measured in results.models.items()
        }
        return cls(
            name=metric.name, title=metric.title, meaning=metric.meaning, direction=metric.direction, shown=shown
        )


class ResultsAnswer(Results):
    """The evaluation, and how to show each registered metric that it holds."""

    metrics: list[MetricAnswer]

    @classmethod
    def of(cls, results: Results) -> Self:
        measured = [values.metrics for model in results.models.values() for values in model.sizes.values()]
        held = [metric for name, metric in METRICS.items() if any(values.get(name) is not None for values in measured)]
        return cls(**dict(results), metrics=[MetricAnswer.of(metric, results) for metric in held])


class Reloaded(Message):
    name: str
    sha256: str


class Health(Message):
    status: Literal["ok"]


class Refusal(Message):
    """One sentence: what is wrong, and what to do."""

    error: str
