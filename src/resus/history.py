"""How training went: one record per epoch."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class EpochRecord:
    """One epoch of one training stage, as `metrics.jsonl` and `artifact.json` keep it."""

    stage: str
    epoch: int  # counted from 1; 0 stands for the weights of a warm start
    validation_auc: float
    loss: float | None = None  # the mean over the batches; trees have none
    seconds: float = field(default=0.0, compare=False)

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}


History = list[EpochRecord]


def best_epoch(history: Iterable[EpochRecord]) -> EpochRecord:
    """The first epoch with the highest validation AUC."""
    return max(history, key=lambda record: record.validation_auc)


def best_of_stages(history: Iterable[EpochRecord]) -> dict[str, EpochRecord]:
    """The best epoch of each stage, in the order of the stages."""
    stages: dict[str, list[EpochRecord]] = {}
    for record in history:
        stages.setdefault(record.stage, []).append(record)
    return {stage: best_epoch(records) for stage, records in stages.items()}
