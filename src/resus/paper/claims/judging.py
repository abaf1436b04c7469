"""From numbers to verdicts: a claim is a list of checks, and its verdict says how many of them pass."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from resus.paper.cells.summary import Numbers, Summary
from resus.paper.comparisons import Comparison, find_comparison
from resus.paper.published import Paper
from resus.paper.questions import DATA_SET_LABELS, STAGES

SIGNIFICANT = 0.05
COMPARABLE = 0.001  # AUC: what the paper calls comparable
LITTLE = 0.002  # AUC: what it calls a little
FAR = 0.01  # AUC: what it calls a large margin
STEADY = 2.0  # gains are stable if the largest is at most this many times the smallest
LISTED = 6  # more checks than this are counted, not listed


class Outcome(StrEnum):
    HOLDS = "holds"
    IN_PART = "holds in part"
    FAILS = "does not hold"
    UNTESTED = "not tested here"


@dataclass(frozen=True)
class Check:
    """One case of a claim, with its numbers in a clause. It passes if the margin is above zero."""

    case: str
    margin: float
    clause: str

    @property
    def passed(self) -> bool:
        return self.margin > 0


@dataclass(frozen=True)
class ClaimVerdict:
    """`passed` names the cases that pass if the claim holds in part. `whole` is false if some methods were not run."""

    outcome: Outcome
    evidence: str
    passed: str = ""
    whole: bool = True

    @property
    def words(self) -> str:
        named = f"{self.outcome}: {self.passed}" if self.passed else str(self.outcome)
        return named if self.whole or self.outcome is Outcome.UNTESTED else f"{named}, of what was run"


@dataclass(frozen=True)
class Evidence:
    """The numbers of one data set, and what claims ask of them. `summary` is None for the numbers of the paper."""

    numbers: Numbers
    data_set: str
    labels: Mapping[str, str]
    summary: Summary | None = None
    comparisons: Sequence[Comparison] = ()

    def label(self, method: str) -> str:
        return self.labels.get(method, method)

    def value(self, method: str, stage: str, metric: str = "auc") -> float | None:
        return self.numbers.value(self.data_set, method, stage, metric)

    def pair(self, method: str, against: str, stage: str, metric: str = "auc") -> tuple[float, float] | None:
        return self.numbers.pair(self.data_set, method, against, stage, metric)

    def gain(self, method: str, against: str, stage: str, metric: str = "auc") -> float | None:
        """How much better one method is. A better Logloss is a lower one."""
        pair = self.pair(method, against, stage, metric)
        return None if pair is None else pair[1] - pair[0] if metric == "logloss" else pair[0] - pair[1]

    def closest(
        self, methods: Sequence[str], rivals: Sequence[str], stage: str, metric: str = "auc"
    ) -> tuple[str, str] | None:
        """The best of the methods and its best rival, judged by the gains of one over the other."""
        found: dict[str, tuple[float, str]] = {}
        for method in methods:
            gains = [(gain, rival) for rival in rivals if (gain := self.gain(method, rival, stage, metric)) is not None]
            if gains:
                found[method] = min(gains)
        if not found:
            return None
        best = max(found, key=lambda method: found[method][0])
        return best, found[best][1]

    def on_average(self, method: str, against: str) -> tuple[float, float] | None:
        """The mean AUCs over the stages, if all stages have one."""
        pairs = [pair for stage in STAGES if (pair := self.pair(method, against, stage))]
        if len(pairs) < len(STAGES):
            return None
        return sum(own for own, _ in pairs) / len(pairs), sum(other for _, other in pairs) / len(pairs)

    def duel(
        self, method: str, against: str, stage: str, metric: str = "auc", *, above: float = 0, case: str | None = None
    ) -> list[Check]:
        """Whether one method beats another by more than `above`. Empty if the two cannot be compared."""
        pair = self.pair(method, against, stage, metric)
        if pair is None:
            return []
        clause = f"{stage}: {self.versus(method, against, pair)}"
        return [Check(case or f"{self.label(method)} {stage}", pair[0] - pair[1] - above, clause)]

    def versus(self, method: str, against: str, pair: tuple[float, float]) -> str:
        own, other = pair
        return f"{self.label(method)} {own:.4f}, {self.label(against)} {other:.4f} ({own - other:+.4f})"

    def comparison(self, method: str, against: str, stage: str, metric: str = "auc") -> Comparison | None:
        return find_comparison(self.comparisons, self.data_set, method, against, stage, metric)


Checks = Callable[[Evidence], Sequence[Check]]


@dataclass(frozen=True)
class Claim:
    """What is claimed, on which methods, and how it is judged.

    `where` is the section or table of the paper. It is empty for a claim of our own.
    """

    question: str
    words: str
    methods: tuple[str, ...]
    checks: Checks
    where: str = ""

    @property
    def ours(self) -> bool:
        return not self.where


@dataclass(frozen=True)
class Ruling:
    """A claim with one verdict per data set: by our cells, and by the numbers that the paper prints."""

    claim: Claim
    verdicts: Mapping[str, ClaimVerdict]
    on_paper: Mapping[str, ClaimVerdict]


def rule(
    claims: Sequence[Claim],
    summary: Summary,
    paper: Paper,
    data_sets: Sequence[str],
    comparisons: Sequence[Comparison],
    labels: Mapping[str, str],
    missing: Mapping[str, str],
) -> list[Ruling]:
    """Judge every claim on every data set. A data set without cells says why it has none."""
    rulings = []
    for claim in claims:
        verdicts = {}
        for data_set in data_sets:
            run = summary.methods(data_set)
            if not run:
                verdicts[data_set] = ClaimVerdict(Outcome.UNTESTED, f"{not_run(data_set, missing).capitalize()}.")
                continue
            absent = [labels.get(method, method) for method in claim.methods if method not in run]
            evidence = Evidence(summary, data_set, labels, summary, comparisons)
            verdicts[data_set] = verdict_of(claim.checks(evidence), absent)
        printed = {name: verdict_of(claim.checks(Evidence(paper, name, labels))) for name in DATA_SET_LABELS}
        on_paper = {} if claim.ours else {n: v for n, v in printed.items() if v.outcome is not Outcome.UNTESTED}
        rulings.append(Ruling(claim, verdicts, on_paper))
    return rulings


def verdict_of(checks: Sequence[Check], absent: Sequence[str] = ()) -> ClaimVerdict:
    """All checks pass, some, or none. `absent` are methods of the claim that were not run."""
    left_out = f"; not run: {', '.join(absent)}" if absent else ""
    if not checks:
        return ClaimVerdict(Outcome.UNTESTED, f"Nothing to judge by{left_out}.")
    whole = not absent
    passed = [check.case for check in checks if check.passed]
    failed = [check.case for check in checks if not check.passed]
    evidence = f"{_clauses(checks, len(passed))}{left_out}."
    if not failed:
        return ClaimVerdict(Outcome.HOLDS, evidence, whole=whole)
    if not passed:
        return ClaimVerdict(Outcome.FAILS, evidence, whole=whole)
    if min(len(passed), len(failed)) > LISTED:
        return ClaimVerdict(Outcome.IN_PART, evidence, f"{len(passed)} of {len(checks)} cases", whole)
    shorter = f"all but {', '.join(failed)}" if len(failed) < len(passed) else ", ".join(passed)
    return ClaimVerdict(Outcome.IN_PART, evidence, shorter, whole)


def _clauses(checks: Sequence[Check], passed: int) -> str:
    """All clauses, or how many checks pass with the weakest and the strongest."""
    if len(checks) <= LISTED:
        return "; ".join(check.clause for check in checks)
    least, most = min(checks, key=lambda check: check.margin), max(checks, key=lambda check: check.margin)
    return f"{passed} of {len(checks)} cases; weakest {least.clause}; strongest {most.clause}"


def not_run(data_set: str, missing: Mapping[str, str]) -> str:
    return f"not run: {missing[data_set]}" if data_set in missing else "not run"


def significant(p_value: float | None) -> bool:
    return p_value is not None and p_value < SIGNIFICANT


def p_text(p_value: float) -> str:
    return "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"


def significance(
    evidence: Evidence, comparison: Comparison, case: str, *, below: float, fewest_runs: int = 2
) -> list[Check]:
    """Both tests if both could be made. Empty if none was."""
    runs = len(comparison.seeds)
    tests = {"t-test": comparison.p_ttest if runs >= fewest_runs else None, "bootstrap": comparison.p_bootstrap}
    p_values = [p for p in tests.values() if p is not None]
    if not p_values:
        return []
    margin = below - max(p_values) if comparison.difference > 0 else -1.0
    shown = ", ".join(f"{name} p {'not computed' if p is None else p_text(p)}" for name, p in tests.items())
    pair = f"{evidence.label(comparison.method)} over {evidence.label(comparison.against)} {comparison.difference:+.4f}"
    return [Check(case, margin, f"{case}: {pair}, {shown}")]


def beats(evidence: Evidence, methods: Sequence[str], rivals: Sequence[str]) -> list[Check]:
    """The best of the methods against its hardest rival, in AUC and in GAUC."""
    found = []
    for metric in ("auc", "gauc"):
        for stage in STAGES:
            if pair := evidence.closest(methods, rivals, stage, metric):
                (check,) = evidence.duel(*pair, stage, metric)
                found.append(Check(f"{metric.upper()} {stage}", check.margin, f"{metric.upper()} {check.clause}"))
    return found
