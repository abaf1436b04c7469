"""What a request holds that the model does not know: counted for the metrics, and told to who sent it."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from resus.data.fields.unknown import never_seen, not_fields

MAX_WARNINGS = 10  # of a request
Counts = Mapping[str, int]  # by field, the values that the model does not know
Tally = Callable[[Counts, int], None]  # takes these, and the number of names that are not fields of the model
CONTEXTS, USERS = "contexts", "users"  # what is kept in memory for the next answer
CacheTally = Callable[[str, bool], None]  # takes one of these, and whether it was there


@dataclass
class Noticed:
    """Filled while a request is answered."""

    values: list[tuple[Counts, int]] = field(default_factory=list)  # with the number of rows that have a value
    names: list[str] = field(default_factory=list)

    def add(self, counts: Counts, rows: int) -> None:
        if counts:
            self.values.append((counts, rows))

    def add_names(self, given: Iterable[str], known: Collection[str]) -> None:
        """Names of fields; `item` is always one."""
        self.names += [name for name in given if name not in known and name != "item"]

    def tell(self, known: Collection[str], tally: Tally) -> list[str]:
        """Count it, and say it in one sentence for each field."""
        if not self.values and not self.names:
            return []
        total: Counter[str] = Counter()
        for counts, _ in self.values:
            total.update(counts)
        tally(total, len(self.names))
        told = [sentence for counts, rows in self.values for sentence in never_seen(counts, rows)]
        return [*told, *not_fields(self.names[:MAX_WARNINGS], known)][:MAX_WARNINGS]
