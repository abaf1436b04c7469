"""`results.json` and `warm-up.json`: every metric of every model at every support size. A missing metric is null."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from resus.checking import sentence_of
from resus.data.log.news import News
from resus.errors import ArtifactError
from resus.files import read_json, write_json

FORMAT: Literal[1] = 1


def _null_for_nan(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


MetricValue = Annotated[float | None, BeforeValidator(_null_for_nan)]


class Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class LogFacts(Record):
    """Which log was evaluated."""

    name: str
    hash: str
    rows: int
    users: int
    negatives: str = ""  # how negatives were drawn, if they were


class Measured(Record):
    """Metrics by name, those of `METRICS` and `RELATIVE`. Each is an attribute too: `.auc`, `.gauc`."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, MetricValue]

    @property
    def metrics(self) -> dict[str, float | None]:
        return self.__pydantic_extra__

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> float | None: ...


class SizeMetrics(Measured):
    """One model on all queries at one support size. Without a query (`queries` is 0) every metric is null.

    `gauc_users` counts the users with both labels, on whom GAUC rests.
    """

    users: int
    queries: int
    gauc_users: int


class StageMetrics(Measured):
    """Unweighted means over the sizes of the stage that have queries (`sizes`).

    Relative measures are those of the mean AUCs, as in the paper's tables.
    """

    sizes: list[int]


class FixedPopulation(Record):
    """The same model with the same queries at every size: rows from k_max on, of users with more than k_max rows."""

    users: int
    queries: int
    stages: dict[str, StageMetrics]
    sizes: dict[int, SizeMetrics]


class ModelResults(Record):
    """One model. `fixed_population` is null if no user has more than k_max rows."""

    stages: dict[str, StageMetrics]
    sizes: dict[int, SizeMetrics]
    fixed_population: FixedPopulation | None = None


class Gain(Record):
    """A model's metric minus the base's. The middle 95 % of the draws of users lie from `low` to `high`.

    `draws` counts the draws in which the metric exists. With too few users or draws, `low` and `high` are null.
    """

    difference: MetricValue
    low: MetricValue
    high: MetricValue
    draws: int

    @property
    def is_certain(self) -> bool:
        """The interval excludes 0."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


class StageGains(Record):
    """One model in one stage: a gain by metric, which is an attribute too. An improved Logloss is a gain below 0."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Gain]

    @property
    def metrics(self) -> dict[str, Gain]:
        return self.__pydantic_extra__

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Gain: ...


class Gains(Record):
    """What every model but the base gains over the base, by stage. All models share the draws."""

    draws: int
    models: dict[str, dict[str, StageGains]]


class StageCoverage(Record):
    """Shares of users whose number of clicks lies within an interval; unweighted means over the sizes of the stage.

    `clicks`: the model's own interval. `coins`: the interval if the model were certain about the user, so that only the
    labels are random. `predictor`: the same for the shared model; null if there is none. `true_logits`: share of
    queries whose true logit lies within the model's interval; null if the truth is unknown.
    """

    clicks: MetricValue
    coins: MetricValue
    predictor: MetricValue
    true_logits: MetricValue


class ModelCoverage(Record):
    """One model by stage. `predictor` names its shared model."""

    predictor: str | None
    stages: dict[str, StageCoverage]


class Coverage(Record):
    """How often intervals of this `level` hold the outcome, for the models that give intervals."""

    level: float
    models: dict[str, ModelCoverage]


class WrongWay(Record):
    """Events that move the score of their own item the wrong way, among the `events` up to the largest support size.

    `likes`: the share of likes that lower it. `dislikes`: the share of dislikes that raise it. Null if there are none.
    """

    likes: MetricValue
    dislikes: MetricValue
    events: int


class Evaluation(Record):
    """What was evaluated: which log and users, and which models only serve as a comparison.

    `oracle` and `crowd` name the models of a planted world's truth: the probabilities given the user, and the best ones
    without. `tuned_on_validation` names the models with scales learned from validation users. No clock time is
    recorded, so that equal runs write equal files.
    """

    file: ClassVar[str]  # what errors call it
    command: ClassVar[str]  # which writes it
    format: Literal[1] = FORMAT
    log: LogFacts
    protocol: str
    seed: int
    part: Literal["test", "validation"]
    base: str
    oracle: str | None = None
    crowd: str | None = None
    tuned_on_validation: list[str] = Field(default_factory=list)
    models: dict[str, Any]

    @property
    def bounds(self) -> list[str]:
        """The models of a planted world's truth."""
        return [name for name in (self.oracle, self.crowd) if name is not None]

    @property
    def contenders(self) -> list[str]:
        """The models to judge: neither the base nor a bound."""
        return [name for name in self.models if name != self.base and name not in self.bounds]

    @property
    def has_truth(self) -> bool:
        return self.oracle is not None and self.crowd is not None

    def write(self, path: Path) -> None:
        write_json(path, self.model_dump(mode="json"))

    @classmethod
    def read(cls, path: Path) -> Self:
        value, advice = read_json(path), f"run '{cls.command}' again"
        if not isinstance(value, dict) or value.get("format") != FORMAT:
            raise ArtifactError(f"{path} is not {cls.file} of format {FORMAT}: {advice} with this version")
        try:
            return cls.model_validate(value)
        except ValidationError as error:
            found = sentence_of(error, cls)
            raise ArtifactError(f"{path} is not {cls.file} of this version ({found}): {advice}") from None


class Results(Evaluation):
    """By support size and stage. `gains` is null without draws; `coverage` also if no model gives intervals.

    `wrong_way` holds the models that learn from events. It is empty if no two support sizes differ by one event. `news`
    holds the models that were trained on another log: what this one has that they did not know.
    """

    file: ClassVar[str] = "a results file"
    command: ClassVar[str] = "resus evaluate"
    sizes: list[int]
    stages: dict[str, list[int]]
    models: dict[str, ModelResults]
    gains: Gains | None = None
    coverage: Coverage | None = None
    wrong_way: dict[str, WrongWay] = Field(default_factory=dict)
    news: dict[str, News] = Field(default_factory=dict)


class WarmUp(Evaluation):
    """A warm-up curve: the users have more than `sizes[-1]` events, and their events after those are the queries.

    `trained_up_to` holds the most events of a user that each run saw in training. `sizes` ends before `asked_up_to` if
    too few users have that many events.
    """

    file: ClassVar[str] = "a warm-up file"
    command: ClassVar[str] = "resus warm-up"
    asked_up_to: int
    users_beyond_asked: int
    trained_up_to: dict[str, int]
    sizes: list[int]
    models: dict[str, dict[int, SizeMetrics]]

    @property
    def population(self) -> SizeMetrics:
        """Users and queries, which are the same for every model and size."""
        return self.models[self.base][self.sizes[-1]]
