"""What is wrong with a message, in one sentence."""

from collections.abc import Mapping
from typing import Any

from resus.checking import in_plain_words
from resus.serving.limits import MAX_ID


def sentence_of(finding: Mapping[str, Any]) -> str:
    """Where the mistake is, by the names in the message, and what is wrong, from a finding of pydantic."""
    path = [*finding["loc"], finding.get("ctx", {}).get("field")]
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path if step is not None)
    place = "".join(steps).removeprefix(".")
    return f"{place[:MAX_ID] or 'the request'}: {in_plain_words(finding)}"
