"""`warm-up.json`: every model on the same queries after ever more of the user's events."""

from pathlib import Path
from typing import Self

from resus.evaluation.results import Evaluation, SizeMetrics, read_record


class WarmUp(Evaluation):
    """One warm-up curve: the users have more than `sizes[-1]` events, the queries are their events after those.

    `trained_up_to` holds, by run, the most events that it had seen of a user in training. Where fewer than it takes had
    more events than asked for, `sizes` ends earlier than `asked_up_to`.
    """

    asked_up_to: int
    users_beyond_asked: int
    trained_up_to: dict[str, int]
    sizes: list[int]
    models: dict[str, dict[int, SizeMetrics]]

    @property
    def population(self) -> SizeMetrics:
        """Whose users and queries are those of every model and size."""
        return self.models[self.base][self.sizes[-1]]

    @classmethod
    def read(cls, path: Path) -> Self:
        return read_record(cls, path, kind="a warm-up file", advice="run 'resus warm-up' again")
