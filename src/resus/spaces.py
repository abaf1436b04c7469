"""Which values of a setting a search may try. Each settings class says so for its own keys, in `space`."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol


class Suggests(Protocol):
    """What a search offers; a trial of Optuna does."""

    def suggest_int(self, name: str, low: int, high: int, *, log: bool = False) -> int: ...

    def suggest_float(self, name: str, low: float, high: float, *, log: bool = False) -> float: ...

    def suggest_categorical(self, name: str, choices: Sequence[Any]) -> Any: ...


class Space(ABC):
    """The values that one setting may take."""

    @abstractmethod
    def suggest(self, trial: Suggests, key: str) -> Any:
        """The value that a trial is to take."""

    @abstractmethod
    def known_as(self, value: Any) -> Any:
        """A value as trials hold it; None if the space does not have it."""


@dataclass(frozen=True)
class Whole(Space):
    """Whole numbers, as likely in each order of magnitude."""

    low: int
    high: int

    def suggest(self, trial: Suggests, key: str) -> int:
        return trial.suggest_int(key, self.low, self.high, log=True)

    def known_as(self, value: Any) -> int | None:
        return value if isinstance(value, int) and self.low <= value <= self.high else None


@dataclass(frozen=True)
class Real(Space):
    """Numbers, as likely in each order of magnitude."""

    low: float
    high: float

    def suggest(self, trial: Suggests, key: str) -> float:
        return trial.suggest_float(key, self.low, self.high, log=True)

    def known_as(self, value: Any) -> float | None:
        return float(value) if isinstance(value, int | float) and self.low <= value <= self.high else None


@dataclass(frozen=True)
class OneOf(Space):
    """Some values, such as widths of layers; a trial holds them as text."""

    values: tuple[Any, ...]

    def suggest(self, trial: Suggests, key: str) -> Any:
        texts = {_text(value): value for value in self.values}
        return texts[trial.suggest_categorical(key, list(texts))]

    def known_as(self, value: Any) -> str | None:
        return _text(value) if any(_text(value) == _text(each) for each in self.values) else None


def _text(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


LAYERS = OneOf(((64,), (64, 64), (128, 128), (200, 200, 200), (400, 400, 400)))
LEARNING_RATE = Real(1e-4, 1e-2)
