"""What the service takes and answers.

Written by scripts/generate_client.py from the OpenAPI description of the service: change that, not this.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, NotRequired, TypedDict

from pydantic import BaseModel, ConfigDict

Fields = Mapping[str, Any]  # from field to value: text, number, boolean, null, or a list of them


class Answer(BaseModel):
    """An answer of the service. What a newer service adds is ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True, protected_namespaces=())


class InlineEvent(TypedDict):
    """What a user did. Without a `time`, events count in the order given. The model ignores values it has never seen.

    The catalogue fills in missing fields of an `item` that it knows.
    """

    id: NotRequired[str | int | None]
    time: NotRequired[float | str | datetime | None]
    label: bool | int | float
    item: NotRequired[str | int | None]
    features: NotRequired[Fields]


class PostedEvent(TypedDict):
    """One event of one user. The same user and id again is the same event; it corrects label and time.

    `time` is an ISO time or in seconds since 1970, at most a day ahead, or a smaller number that grows.
    """

    id: NotRequired[str | int]
    time: NotRequired[float | str | datetime]
    label: bool | int | float
    item: NotRequired[str | int | None]
    features: NotRequired[Fields]
    user: str | int


class Bounds(Answer):
    request_bytes: int
    candidates: int
    events: int
    events_per_user: int
    explained: int
    id_length: int


class CatalogueItem(Answer):
    item: str
    title: str | None
    count: int
    mean: float | None


class Cause(Answer):
    """What one cause, such as "taste" or "same authors", adds to the residual."""

    cause: str
    part: float


class Changed(Answer):
    item: str
    status: Literal["stored", "removed"]


class Deleted(Answer):
    deleted: bool


class EventResult(Answer):
    id: str
    status: Literal["added", "known", "corrected", "too old"]


class ExplorationOfCandidates(Answer):
    """`greedy` are the first candidates, by their place in the request, as they would be ranked without exploring."""

    rule: Literal["thompson", "ucb"]
    seed: int
    width: float
    draws: int
    greedy: list[int]


class ExplorationOfItems(Answer):
    """`greedy` are the items that these places would have without exploring."""

    rule: Literal["thompson", "ucb"]
    seed: int
    width: float
    draws: int
    greedy: list[str]


class FieldAnswer(Answer):
    """A field that the model reads; `values` are the most frequent ones.

    The catalogue fills in fields with the role "item", a profile those with the role "user".
    """

    name: str
    kind: str
    role: Literal["item", "user", "context"]
    values: list[str]


class SizeMetrics(Answer):
    """One model on all queries at one support size. Without a query (`queries` is 0) every metric is null.

    `gauc_users` counts the users with both labels, on whom GAUC rests.
    """

    users: int
    queries: int
    gauc_users: int


class StageMetrics(Answer):
    """Unweighted means over the sizes of the stage that have queries (`sizes`).

    Relative measures are those of the mean AUCs, as in the paper's tables.
    """

    sizes: list[int]


class Gain(Answer):
    """A model's metric minus the base's. The middle 95 % of the draws of users lie from `low` to `high`.

    `draws` counts the draws in which the metric exists. With too few users or draws, `low` and `high` are null.
    """

    difference: float | None
    low: float | None
    high: float | None
    draws: int


class Health(Answer):
    status: Literal["ok"]


class LogFacts(Answer):
    """Which log was evaluated."""

    name: str
    hash: str
    rows: int
    users: int
    negatives: str = ""


class MetricAnswer(Answer):
    """How to show a metric. `shown` holds its value as text, by model and number of events."""

    name: str
    title: str
    meaning: str
    direction: str
    shown: dict[str, dict[str, str]]


class StageCoverage(Answer):
    """Shares of users whose number of clicks lies within an interval; unweighted means over the sizes of the stage.

    `clicks`: the model's own interval. `coins`: the interval if the model were certain about the user, so that only the
    labels are random. `predictor`: the same for the shared model; null if there is none. `true_logits`: share of
    queries whose true logit lies within the model's interval; null if the truth is unknown.
    """

    clicks: float | None
    coins: float | None
    predictor: float | None
    true_logits: float | None


class News(Answer):
    """Counts of a log's users and values. `new_values` holds, by field, the values that the model does not know."""

    users: int
    new_users: int
    tested_users: int
    validated_users: int
    trained_users: int
    items: int
    new_items: int
    new_values: dict[str, int]


class PastEvent(Answer):
    """An event of a test user. `context` holds the fields that are not the item's own, `fields` those that are."""

    item: str
    context: dict[str, Any]
    label: float
    title: str | None = None
    fields: dict[str, Any] | None = None


class ProfileAnswer(Answer):
    """The profile as it now counts: what is stored, and the other fields of the exported profile.

    `warnings` names fields and values that the model does not know; they do not count.
    """

    user: str
    profile: dict[str, Any]
    warnings: list[str] | None = None


class Reason(Answer):
    """How much one event moved a score, on the scale of the residual. `parts` of the answer says how to read it."""

    event: str
    item: str | None = None
    part: float


class Recommended(Answer):
    """P(click) = σ(basis + residual).

    With `describe`: `rank` is its place among all items that were ranked, from 1; `rank_without_events` is the place
    that the shared model alone would give it; `fields` describe the item. With `explore`, `ranked_by` is the logit by
    which the rule ranks it, `propensity` the probability that the rule puts it at this place, and `rank` its place
    without exploring.
    """

    item: str
    title: str | None
    probability: float
    basis: float
    residual: float
    rank: int | None = None
    rank_without_events: int | None = None
    fields: dict[str, Any] | None = None
    ranked_by: float | None = None
    propensity: float | None = None


class Reloaded(Answer):
    name: str
    sha256: str


class WrongWay(Answer):
    """Events that move the score of their own item the wrong way, among the `events` up to the largest support size.

    `likes`: the share of likes that lower it. `dislikes`: the share of dislikes that raise it. Null if there are none.
    """

    likes: float | None
    dislikes: float | None
    events: int


class StoredEvent(Answer):
    id: str
    time: float
    label: float
    item: str | None
    features: dict[str, Any]


class CatalogueAnswer(Answer):
    items: list[CatalogueItem]
    size: int


class EventsAnswer(Answer):
    """One result per event, in order, after all events are stored durably.

    `warnings` says what the events hold that the model does not know; without such, there are none.
    """

    results: list[EventResult]
    warnings: list[str] | None = None


class ModelAnswer(Answer):
    """The loaded model. `support_sizes` is the largest number of events per user in training.

    `score` names the field in which each event and candidate must bring the shared model's score; else it is null.
    `recommends` says whether `/v1/recommend` can rank the catalogue.
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
    recommends: bool


class FixedPopulation(Answer):
    """The same model with the same queries at every size: rows from k_max on, of users with more than k_max rows."""

    users: int
    queries: int
    stages: dict[str, StageMetrics]
    sizes: dict[str, SizeMetrics]


class StageGains(Answer):
    """One model in one stage: a gain by metric, which is an attribute too. An improved Logloss is a gain below 0."""


class ModelCoverage(Answer):
    """One model by stage. `predictor` names its shared model."""

    predictor: str | None
    stages: dict[str, StageCoverage]


class UserHistory(Answer):
    """What a real test user did, oldest event first."""

    events: list[PastEvent]


class ScoredCandidate(Answer):
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


class RecommendAnswer(Answer):
    """The best items first. `ranked` is the number of items that were left after the filter and the seen ones.

    With `search`, `found` is the number of them that contain the text. `exploration` is there if the request explores.
    """

    user: str | None
    support: int
    model: str
    ranked: int
    found: int | None = None
    answers: list[Recommended]
    exploration: ExplorationOfItems | None = None
    warnings: list[str] | None = None


class UserAnswer(Answer):
    """`stage` is "new", a cold-start stage of the evaluation ("I", "II", "III"), or "warm".

    `profile` holds the fields that describe the user: those that are stored, then those of the export.
    """

    user: str
    profile: dict[str, Any]
    support: int
    stage: str
    events: list[StoredEvent]


class ModelResults(Answer):
    """One model. `fixed_population` is null if no user has more than k_max rows."""

    stages: dict[str, StageMetrics]
    sizes: dict[str, SizeMetrics]
    fixed_population: FixedPopulation | None = None


class Gains(Answer):
    """What every model but the base gains over the base, by stage. All models share the draws."""

    draws: int
    models: dict[str, dict[str, StageGains]]


class Coverage(Answer):
    """How often intervals of this `level` hold the outcome, for the models that give intervals."""

    level: float
    models: dict[str, ModelCoverage]


class PredictAnswer(Answer):
    """`support` is the number of events behind the answers.

    `parts` says how to read the parts of events: "shares" sum to the residual; "leave-one-out" is the residual minus
    what it would be without the event, and these need not sum to the residual. `warnings` says what the request holds
    that the model does not know; without such, there are none. `exploration` is there if the request explores.
    """

    user: str | None
    support: int
    model: str
    parts: Literal["shares", "leave-one-out"] | None = None
    answers: list[ScoredCandidate]
    exploration: ExplorationOfCandidates | None = None
    warnings: list[str] | None = None


class ResultsAnswer(Answer):
    """The evaluation, and how to show each registered metric that it holds."""

    format: bool | int | float = 1
    log: LogFacts
    protocol: str
    seed: int
    part: Literal["test", "validation"]
    base: str
    oracle: str | None = None
    crowd: str | None = None
    tuned_on_validation: list[str] | None = None
    models: dict[str, ModelResults]
    sizes: list[int]
    stages: dict[str, list[int]]
    gains: Gains | None = None
    coverage: Coverage | None = None
    wrong_way: dict[str, WrongWay] | None = None
    news: dict[str, News] | None = None
    metrics: list[MetricAnswer]
