"""The rows of the proving ground, by the names of the registries of methods."""

from resus.paper.questions import ABLATIONS, PLUS
from resus.paper.rivals import METHODS

SHARED = "deepfm"  # Ψ, on which every other row builds
RIVALS = (
    SHARED,
    "user-bias",
    "history-trees",
    "din",
    "resus-rr",
    "resus-nn",
    "resus-rr-refit",
    "resus-nn-refit",
)
ROWS = tuple(method for method in (*RIVALS, PLUS, *ABLATIONS) if method in METHODS)


def label_of(method: str) -> str:
    return METHODS[method].label if method in METHODS else method


def is_part(method: str) -> bool:
    return method.startswith(f"{PLUS}-without-")
