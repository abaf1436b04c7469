"""What a model does not know, in words: fields that it does not read, and values that it has never seen."""

import warnings
from collections.abc import Collection, Iterable, Mapping

from resus.checking import nearest_key, shortened
from resus.errors import ResusWarning

LONGEST = 100  # characters of a name that is compared with others


def not_fields(names: Iterable[str], known: Collection[str]) -> list[str]:
    """One sentence for each name that is not a field of the model."""
    sentences = []
    for name in names:
        if name not in known:
            nearest = nearest_key(name, known) if len(name) <= LONGEST else None
            hint = f", did you mean '{nearest}'?" if nearest else ""
            sentences.append(f"{shortened(name)} is not a field of the model{hint}")
    return sentences


def never_seen(counts: Mapping[str, int], rows: int, where: str = "") -> list[str]:
    """One sentence for each field with values that the model does not know, among the rows of a table `where`."""
    place = f"{where}: " if where else ""
    return [
        f"{place}{count:,} of {rows:,} values of '{name}' {'is' if count == 1 else 'are'} unknown to the model"
        for name, count in counts.items()
    ]


def warn(sentences: Iterable[str]) -> None:
    """One warning for each sentence, at the line that called the library."""
    for sentence in sentences:
        warnings.warn(sentence, ResusWarning, stacklevel=4)
