"""`warm-up.json`: every model on the same queries after ever more of the user's events."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field

from resus.evaluation.results import FORMAT, LogFacts, Record, SizeMetrics, read_record
from resus.files import write_json


class WarmUp(Record):
    """One warm-up curve: the users have more than `sizes[-1]` events, the queries are their events after those.

    `trained_up_to` holds, by run, the most events that it had seen of a user in training. Where fewer than it takes had
    more events than asked for, `sizes` ends earlier than `asked_up_to`. `posteriors` names the models whose scales were
    learned from validation users.
    """

    format: Literal[1] = FORMAT
    log: LogFacts
    protocol: str
    seed: int
    part: Literal["test", "validation"]
    base: str
    oracle: str | None = None
    crowd: str | None = None
    asked_up_to: int
    users_beyond_asked: int
    trained_up_to: dict[str, int]
    sizes: list[int]
    models: dict[str, dict[int, SizeMetrics]]
    posteriors: list[str] = Field(default_factory=list)

    @property
    def contenders(self) -> list[str]:
        """The models that were trained to win: neither the base nor the truth's two bounds."""
        return [name for name in self.models if name not in (self.base, self.oracle, self.crowd)]

    @property
    def population(self) -> SizeMetrics:
        """Whose users and queries are those of every model and size."""
        return self.models[self.base][self.sizes[-1]]

    @classmethod
    def read(cls, path: Path) -> Self:
        return read_record(cls, path, kind="a warm-up file", advice="run 'resus warm-up' again")

    def write(self, path: Path) -> None:
        write_json(path, self.model_dump(mode="json"))
