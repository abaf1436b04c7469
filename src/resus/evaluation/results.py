"""`results.json`: every metric of every model at every support size, typed; a metric that does not exist is null."""

import math
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from resus.checking import sentence_of
from resus.errors import ArtifactError
from resus.files import read_json, write_json

FORMAT: Literal[1] = 1


def _null_for_nan(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


Metric = Annotated[float | None, BeforeValidator(_null_for_nan)]


class Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class LogFacts(Record):
    """Which log was evaluated."""

    name: str
    hash: str
    rows: int
    users: int


class SizeMetrics(Record):
    """One model on all queries at one support size; with no query (`queries` is 0) every metric is null."""

    auc: Metric
    gauc: Metric
    logloss: Metric
    calibration_error: Metric
    rela_impr: Metric
    gap_closed: Metric
    users: int
    queries: int
    gauc_users: int


class StageMetrics(Record):
    """Unweighted means over the stage's sizes that have queries (`sizes`).

    `rela_impr` and `gap_closed` are those of the mean AUCs, as in the paper's tables.
    """

    auc: Metric
    gauc: Metric
    logloss: Metric
    calibration_error: Metric
    rela_impr: Metric
    gap_closed: Metric
    sizes: list[int]


class FixedPopulation(Record):
    """The same model on the same queries at every size: rows from k_max on, of users that have more than k_max rows."""

    users: int
    queries: int
    stages: dict[str, StageMetrics]
    sizes: dict[int, SizeMetrics]


class ModelResults(Record):
    """One model; `fixed_population` is null where no user has more than k_max rows."""

    stages: dict[str, StageMetrics]
    sizes: dict[int, SizeMetrics]
    fixed_population: FixedPopulation | None = None


class Gain(Record):
    """A model's metric minus the base's; the middle 95 % of the draws of users lie from `low` to `high`.

    `draws` counts the draws in which the metric exists. Where users or draws are too few to tell, `low` and `high` are
    null.
    """

    difference: Metric
    low: Metric
    high: Metric
    draws: int

    @property
    def is_sure(self) -> bool:
        """The interval leaves 0 out."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


class StageGains(Record):
    """One model in one stage; a gain in Logloss is below 0."""

    auc: Gain
    gauc: Gain
    logloss: Gain


class Gains(Record):
    """What every model but the base gains over the base, by stage; all models on the same draws."""

    draws: int
    models: dict[str, dict[str, StageGains]]


class StageCoverage(Record):
    """Shares of users whose number of clicks lies within an interval; unweighted means over the stage's sizes.

    `clicks`: the model's own interval. `coins` leaves out what the model does not know of the user: only the labels are
    chance. `predictor`: Ψ's, likewise; null where there is none. `true_logits`: the share of queries whose true logit
    lies within the model's interval; null where no truth is known.
    """

    clicks: Metric
    coins: Metric
    predictor: Metric
    true_logits: Metric


class ModelCoverage(Record):
    """One model by stage; `predictor` names its Ψ."""

    predictor: str | None
    stages: dict[str, StageCoverage]


class Coverage(Record):
    """How often the intervals of the models that have a posterior hold what they should hold at this `level`."""

    level: float
    models: dict[str, ModelCoverage]


class Evaluation(Record):
    """What was asked: of which log and users, and which of the models measured are no contenders.

    `oracle` and `crowd` name the models of a planted world's truth: probabilities knowing the user, and not knowing.
    `posteriors` names the models that have one, whose scales were learned from validation users. There is no clock time
    in it, so equal runs write equal files.
    """

    format: Literal[1] = FORMAT
    log: LogFacts
    protocol: str
    seed: int
    part: Literal["test", "validation"]
    base: str
    oracle: str | None = None
    crowd: str | None = None
    posteriors: list[str] = Field(default_factory=list)
    models: dict[str, Any]

    @property
    def contenders(self) -> list[str]:
        """The models that were trained to win: neither the base nor the truth's two bounds."""
        return [name for name in self.models if name not in (self.base, self.oracle, self.crowd)]

    def write(self, path: Path) -> None:
        write_json(path, self.model_dump(mode="json"))


class Results(Evaluation):
    """By support size and stage; `gains` is null where no users were drawn, `coverage` also without a posterior."""

    sizes: list[int]
    stages: dict[str, list[int]]
    models: dict[str, ModelResults]
    gains: Gains | None = None
    coverage: Coverage | None = None

    @property
    def has_truth(self) -> bool:
        return self.oracle is not None and self.crowd is not None

    @classmethod
    def read(cls, path: Path) -> Self:
        return read_record(cls, path, kind="a results file", advice="evaluate again")


_AnyRecord = TypeVar("_AnyRecord", bound=Record)


def read_record(record: type[_AnyRecord], path: Path, *, kind: str, advice: str) -> _AnyRecord:
    """What `write` wrote, or a sentence: `kind` says what the file should be, `advice` how to make it again."""
    value = read_json(path)
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise ArtifactError(f"{path} is not {kind} of format {FORMAT}: {advice} with this version")
    try:
        return record.model_validate(value)
    except ValidationError as error:
        raise ArtifactError(f"{path} is not {kind} of this version ({sentence_of(error, record)}): {advice}") from None
