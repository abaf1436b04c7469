"""A verdict on a claim: checks with numbers, and what they add up to. No verdict is ever typed in."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from resus.paper.comparisons import Comparison
from resus.paper.published import STAGES, Paper
from resus.paper.questions import DATA_SETS
from resus.paper.report.summary import Numbers, Summary

SIGNIFICANT = 0.05
LISTED = 6  # more checks than this are counted, not listed


class Outcome(StrEnum):
    HOLDS = "holds"
    IN_PART = "holds in part"
    FAILS = "does not hold"
    UNTESTED = "not tested here"


@dataclass(frozen=True)
class Check:
    """One case of a claim, by name and as a clause with numbers; it passes where the margin is above zero."""

    case: str
    margin: float
    clause: str

    @property
    def passed(self) -> bool:
        return self.margin > 0


@dataclass(frozen=True)
class Verdict:
    """`passed` names the cases in which a claim that holds in part does hold; `whole` is false where methods lack."""

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
    """One data set's numbers, with what claims keep asking of them. `summary` is there where they are ours."""

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
        pair = self.pair(method, against, stage, metric)
        return pair[0] - pair[1] if pair else None

    def closest(
        self, methods: Sequence[str], rivals: Sequence[str], stage: str, metric: str = "auc"
    ) -> tuple[str, str] | None:
        """The best of the methods and its best rival, by the gains of one over the other."""
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
        """The mean AUCs over the stages, where all of them have one."""
        pairs = [pair for stage in STAGES if (pair := self.pair(method, against, stage))]
        if len(pairs) < len(STAGES):
            return None
        return sum(own for own, _ in pairs) / len(pairs), sum(other for _, other in pairs) / len(pairs)

    def duel(
        self, method: str, against: str, stage: str, metric: str = "auc", *, above: float = 0, case: str | None = None
    ) -> list[Check]:
        """Whether one method beats another by more than `above`; nothing where the two cannot be compared."""
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


@dataclass(frozen=True)
class Claim:
    """What the paper says, or what we ask beyond it, in plain words."""

    question: str
    words: str
    where: str
    methods: tuple[str, ...]
    checks: Callable[[Evidence], Sequence[Check]]
    ours: bool = False


@dataclass(frozen=True)
class Ruling:
    """A claim with a verdict per data set: by our cells, and by the paper's own tables."""

    claim: Claim
    verdicts: Mapping[str, Verdict]
    on_paper: Mapping[str, Verdict]


def find_comparison(
    comparisons: Sequence[Comparison], data_set: str, method: str, against: str, stage: str, metric: str
) -> Comparison | None:
    """Of several, the one over most seeds."""
    wanted = (data_set, method, against, stage, metric)
    found = [
        each for each in comparisons if (each.data_set, each.method, each.against, each.stage, each.metric) == wanted
    ]
    return max(found, key=lambda each: (len(each.seeds), each.replicates), default=None)


def significant(p_value: float | None) -> bool:
    return p_value is not None and p_value < SIGNIFICANT


def verdict_of(checks: Sequence[Check], absent: Sequence[str] = ()) -> Verdict:
    """All checks pass, some, or none; `absent` are methods without which the claim was judged."""
    left_out = f"; not run: {', '.join(absent)}" if absent else ""
    if not checks:
        return Verdict(Outcome.UNTESTED, f"Nothing to judge by{left_out}.")
    whole = not absent
    passed = [check.case for check in checks if check.passed]
    failed = [check.case for check in checks if not check.passed]
    evidence = f"{_clauses(checks, len(passed))}{left_out}."
    if not failed:
        return Verdict(Outcome.HOLDS, evidence, whole=whole)
    if not passed:
        return Verdict(Outcome.FAILS, evidence, whole=whole)
    if min(len(passed), len(failed)) > LISTED:
        return Verdict(Outcome.IN_PART, evidence, f"{len(passed)} of {len(checks)} cases", whole)
    shorter = f"all but {', '.join(failed)}" if len(failed) < len(passed) else ", ".join(passed)
    return Verdict(Outcome.IN_PART, evidence, shorter, whole)


def rule(
    claims: Sequence[Claim],
    summary: Summary,
    paper: Paper,
    data_sets: Sequence[str],
    comparisons: Sequence[Comparison],
    labels: Mapping[str, str],
    missing: Mapping[str, str],
) -> list[Ruling]:
    """Every claim on every data set; a data set without cells says why it has none."""
    rulings = []
    for claim in claims:
        verdicts = {}
        for data_set in data_sets:
            run = summary.methods(data_set)
            if not run:
                verdicts[data_set] = Verdict(Outcome.UNTESTED, f"{not_run(data_set, missing).capitalize()}.")
                continue
            absent = [labels.get(method, method) for method in claim.methods if method not in run]
            evidence = Evidence(summary, data_set, labels, summary, comparisons)
            verdicts[data_set] = verdict_of(claim.checks(evidence), absent)
        printed = {name: verdict_of(claim.checks(Evidence(paper, name, labels))) for name in DATA_SETS}
        on_paper = {} if claim.ours else {n: v for n, v in printed.items() if v.outcome is not Outcome.UNTESTED}
        rulings.append(Ruling(claim, verdicts, on_paper))
    return rulings


def not_run(data_set: str, missing: Mapping[str, str]) -> str:
    return f"not run: {missing[data_set]}" if data_set in missing else "not run"


def _clauses(checks: Sequence[Check], passed: int) -> str:
    """All of them, or how many pass and the two ends."""
    if len(checks) <= LISTED:
        return "; ".join(check.clause for check in checks)
    least, most = min(checks, key=lambda check: check.margin), max(checks, key=lambda check: check.margin)
    return f"{passed} of {len(checks)} cases; weakest {least.clause}; strongest {most.clause}"
