"""Claims of significance: what the tests of a comparison say."""

from collections.abc import Mapping

from resus.paper.claims.terms import LEARNERS, Checks
from resus.paper.comparisons import Comparison
from resus.paper.published import STAGES
from resus.paper.questions import resus_on
from resus.paper.verdicts import Check, Evidence

TABLE_5_LEVEL = 0.01
ENOUGH_RUNS = 3  # of two, a t-test gets there only where they agree within 3 %
TABLE_5_TESTS = f"p < {TABLE_5_LEVEL} in the t-test over at least {ENOUGH_RUNS} runs and in the bootstrap over users"


def p_text(p_value: float) -> str:
    return "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"


def significance(
    evidence: Evidence, comparison: Comparison, case: str, *, below: float, fewest_runs: int = 2
) -> list[Check]:
    """Both tests where both could be made; nothing where none was."""
    runs = len(comparison.seeds)
    tests = {"t-test": comparison.p_ttest if runs >= fewest_runs else None, "bootstrap": comparison.p_bootstrap}
    p_values = [p for p in tests.values() if p is not None]
    if not p_values:
        return []
    margin = below - max(p_values) if comparison.difference > 0 else -1.0
    shown = ", ".join(f"{name} p {'not computed' if p is None else p_text(p)}" for name, p in tests.items())
    pair = f"{evidence.label(comparison.method)} over {evidence.label(comparison.against)} {comparison.difference:+.4f}"
    return [Check(case, margin, f"{case}: {pair}, {shown}")]


def all_gains_significant(rivals: Mapping[str, str]) -> Checks:
    """RESUS against a rival on each architecture of Ψ, by learner and stage."""

    def checks(evidence: Evidence) -> list[Check]:
        return [
            check for learner in LEARNERS for stage in STAGES for check in _weakest(evidence, learner, stage, rivals)
        ]

    return checks


def _weakest(evidence: Evidence, learner: str, stage: str, rivals: Mapping[str, str]) -> list[Check]:
    """One gain refutes a claim about all of them; it is borne out only where every gain was tested."""
    pairs = [(resus_on(learner, kind), rival) for kind, rival in rivals.items()]
    measured = [pair for pair in pairs if evidence.gain(*pair, stage) is not None]
    tested = [
        check
        for pair in measured
        if (comparison := evidence.comparison(*pair, stage))
        for check in significance(evidence, comparison, "weakest", below=TABLE_5_LEVEL, fewest_runs=ENOUGH_RUNS)
    ]
    weakest = min(tested, key=lambda check: check.margin, default=None)
    if weakest is None or (weakest.passed and len(tested) < len(measured)):
        return []
    case = f"{evidence.label(f'resus-{learner}')} {stage}"
    return [Check(case, weakest.margin, f"{case}: {len(tested)} of {len(measured)} gains tested, {weakest.clause}")]
