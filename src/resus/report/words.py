"""How several things are said in one sentence."""

from collections.abc import Sequence


def joined(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
