"""What a model does not know, in words: fields that it does not read, and values that it has never seen."""

from collections.abc import Collection, Iterable

from resus.checking import nearest_key, shortened


def not_fields(names: Iterable[str], known: Collection[str]) -> list[str]:
    """One sentence for each name that is not a field of the model."""
    sentences = []
    for name in names:
        if name not in known:
            nearest = nearest_key(name, known)
            hint = f", did you mean '{nearest}'?" if nearest else ""
            sentences.append(f"{shortened(name)} is not a field of the model{hint}")
    return sentences
