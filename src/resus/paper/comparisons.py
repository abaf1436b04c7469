"""A comparison is one method against another in one stage by one metric; each is one line of JSON."""

import json
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from resus.checking import sentence_of
from resus.errors import ArtifactError
from resus.evaluation.results import MetricValue
from resus.files import append_line
from resus.paper.cells.cells import whole_lines

COMPARISONS = "comparisons.jsonl"
Subject = tuple[str, str, str, str, str]


class Comparison(BaseModel):
    """`difference` is the method's metric minus its rival's, mean over seeds; what could not be computed is null."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    data_set: str
    method: str
    against: str
    stage: str
    metric: Literal["auc", "gauc"]
    seeds: tuple[int, ...]
    difference: float
    low: MetricValue  # of the bootstrap's 95 % interval
    high: MetricValue
    p_bootstrap: MetricValue
    p_ttest: MetricValue  # paired over seeds, so null for one seed
    replicates: int  # of the bootstrap; 0 where there was none

    @property
    def subject(self) -> Subject:
        return self.data_set, self.method, self.against, self.stage, self.metric


def read_comparisons(folder: Path) -> list[Comparison]:
    """The comparisons of a folder; of those with one subject the last, which has the seeds and replicates asked for."""
    path = folder / COMPARISONS
    found: dict[Subject, Comparison] = {}
    for number, line in enumerate(whole_lines(path), start=1):
        try:
            comparison = Comparison.model_validate_json(line)
        except ValidationError as error:
            raise ArtifactError(
                f"{path}, line {number} is not a comparison of this version ({sentence_of(error, Comparison)}): "
                "delete the line, and it is made again"
            ) from None
        found[comparison.subject] = comparison
    return list(found.values())


def add_comparison(folder: Path, comparison: Comparison) -> None:
    append_line(folder / COMPARISONS, json.dumps(comparison.model_dump(mode="json")))
