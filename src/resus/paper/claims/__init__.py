"""Section 5 of the paper claim by claim, and claims of our own, as checks on numbers. One file per topic."""

from resus.paper.claims import accuracy, architectures, beyond, cost, robustness
from resus.paper.claims.judging import Claim

CLAIMS: tuple[Claim, ...] = (
    *accuracy.CLAIMS,
    *architectures.CLAIMS,
    *robustness.CLAIMS,
    *cost.CLAIMS,
    *beyond.CLAIMS,
)
