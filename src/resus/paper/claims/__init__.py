"""What section 5 of the paper says, claim by claim, as checks on numbers; and what it does not ask, marked as ours."""

from resus.paper.claims import accuracy, beyond, boosting, components, cost, ours, robustness
from resus.paper.verdicts import Claim

CLAIMS: tuple[Claim, ...] = (
    *accuracy.CLAIMS,
    *ours.ON_ACCURACY,
    *components.CLAIMS,
    *boosting.CLAIMS,
    *robustness.CLAIMS,
    *cost.CLAIMS,
    *ours.ON_COST,
    *beyond.CLAIMS,
)
