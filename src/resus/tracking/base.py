"""What every tracker can do."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from resus.history import EpochRecord


class Tracker(ABC):
    """Tells a tool about one run. `kind` names it on the command line; `extra` brings its packages."""

    kind: ClassVar[str]
    extra: ClassVar[str]

    @classmethod
    @abstractmethod
    def begin(cls, folder: Path | None, name: str, settings: Mapping[str, Any]) -> Self:
        """A new run with this name. `settings` are by dotted keys; without a `folder`, the tool's default is used."""

    @classmethod
    @abstractmethod
    def again(cls, folder: Path | None, place: str) -> Self:
        """The run at a `place`, to tell more about it."""

    @property
    @abstractmethod
    def place(self) -> str:
        """Where the run is, for `again`."""

    @property
    @abstractmethod
    def shown_by(self) -> str:
        """The command that shows it."""

    @abstractmethod
    def epoch(self, record: EpochRecord) -> None:
        """One more epoch of a stage."""

    @abstractmethod
    def finish(self, results: Mapping[str, float]) -> None:
        """The run is complete; these are its final results."""

    @abstractmethod
    def close(self, *, failed: bool = False) -> None:
        """Write what is left, and say that the run ended early if it `failed`. It may still go on later."""
