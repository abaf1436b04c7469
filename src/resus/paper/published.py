"""The numbers that the paper prints in tables 3 to 6."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

import yaml

from resus.paper.questions import ARCHITECTURES

TableNumber = Literal[3, 4, 5]


@dataclass(frozen=True)
class Printed:
    """One method in one stage. `rela_impr` is in percent, against the base of its table."""

    logloss: float
    auc: float
    rela_impr: float


@dataclass(frozen=True)
class Times:
    """A line of table 6: epochs, and seconds of training, of pretraining and of scoring all test users."""

    epochs: float
    training: float
    pretraining: float
    test: float


@dataclass(frozen=True)
class Paper:
    """By table, data set, method and stage."""

    tables: Mapping[int, Mapping[str, Mapping[str, Mapping[str, Printed]]]]
    timed: Mapping[str, Mapping[str, Times]]

    def printed(self, data_set: str, method: str, stage: str, table: TableNumber | None = None) -> Printed | None:
        """The row of one table, or of the first table that has it. Logloss and AUC are the same in all tables."""
        for number in (3, 4, 5) if table is None else (table,):
            found = self.tables[number].get(data_set, {}).get(method)
            if found:
                return found[stage]
        return None

    def value(self, data_set: str, method: str, stage: str, metric: str) -> float | None:
        """AUC or Logloss. The paper prints no other metric."""
        found = self.printed(data_set, method, stage)
        value: float | None = getattr(found, metric, None)
        return value

    def pair(self, data_set: str, method: str, against: str, stage: str, metric: str) -> tuple[float, float] | None:
        own, other = (self.value(data_set, name, stage, metric) for name in (method, against))
        return None if own is None or other is None else (own, other)

    def times(self, data_set: str, method: str) -> Times | None:
        return self.timed.get(data_set, {}).get(method)


@cache
def paper() -> Paper:
    read = yaml.safe_load((files("resus.paper") / "paper.yaml").read_text(encoding="utf-8"))
    return Paper(
        tables={
            number: {
                data_set: {
                    method: {stage: Printed(*values) for stage, values in stages.items()}
                    for method, stages in methods.items()
                }
                for data_set, methods in read[f"table {number}"].items()
            }
            for number in (3, 4, 5)
        },
        timed={
            data_set: {method: Times(*values) for method, values in methods.items()}
            for data_set, methods in read["table 6"].items()
        },
    )


def architecture_of(method: str) -> str:
    """The kind of Ψ that a method of table 5 builds on. Names leave DeepFM out."""
    named = [kind for kind in ARCHITECTURES if method == kind or method.endswith(f"-{kind}")]
    return named[0] if named else "deepfm"


def base_of(table: TableNumber, method: str) -> str:
    """The method that the table's RelaImpr compares with."""
    return {3: "lwa", 4: "mus", 5: architecture_of(method)}[table]
