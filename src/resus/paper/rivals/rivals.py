"""Methods by name to set beside a run: each learns from the run's training users when it is first asked."""

from collections.abc import Sequence
from dataclasses import dataclass

from resus.baselines.method import Floats, Task
from resus.episodes.prefixes import OrderedUsers
from resus.errors import ConfigError
from resus.paper.rivals.catalogue import Entry, entry_of


@dataclass(frozen=True)
class Rival:
    """A method with its default hyperparameters, not fitted yet."""

    entry: Entry
    task: Task

    @property
    def tuned_on_validation(self) -> bool:
        return self.entry.tuned_on_validation

    def __call__(self, ordered: OrderedUsers, sizes: Sequence[int]) -> Floats:
        """Fit it, then `score_prefixes`."""
        method = self.entry.build()
        method.fit(self.task)
        self.task.progress(f"{self.entry.label}: every support size", 0, None)
        return method.score_prefixes(self.task.log, ordered, sizes)


def rivals(names: Sequence[str], task: Task) -> dict[str, Rival]:
    """By the label that tables give them."""
    if len(set(names)) < len(names):
        raise ConfigError(f"a rival is named twice in {','.join(names)}: name each once")
    return {entry.label: Rival(entry, task) for entry in map(entry_of, names)}
