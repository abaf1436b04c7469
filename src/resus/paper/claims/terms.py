"""The terms of the claims: groups of methods, and what the paper's words of degree mean in numbers."""

from collections.abc import Callable, Sequence

from resus.paper.questions import FEW_SHOT, OPTIMISATION, PROPOSED
from resus.paper.verdicts import Check, Evidence

RIVALS = (*FEW_SHOT, *OPTIMISATION)
JOINT = {learner: f"{learner}-joint" for learner in PROPOSED}
LEARNERS = ("nn", "rr")

COMPARABLE = 0.001  # AUC: what the paper calls comparable
LITTLE = 0.002  # AUC: what it calls a little
FAR = 0.01  # AUC: what it calls a large margin
STEADY = 2.0  # how many times the smallest gain the largest may be, for gains to be called stable

Checks = Callable[[Evidence], Sequence[Check]]
