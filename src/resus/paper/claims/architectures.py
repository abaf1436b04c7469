"""Research questions 2 and 3, tables 4 and 5: Ψ, its pretraining, its architecture, and gradient boosting."""

from collections.abc import Mapping, Sequence
from functools import partial

from resus.paper.claims.judging import COMPARABLE, FAR, STEADY, Check, Claim, Evidence, significance
from resus.paper.questions import ARCHITECTURES, BOOSTED, JOINT, PAPER_RIVALS, PROPOSED, STAGES, resus_on

LEVEL = 0.01  # of the tests in table 5
ENOUGH_RUNS = 3  # with two runs, a t-test reaches the level only if they agree within 3 %
TESTS = f"p < {LEVEL} in the t-test over at least {ENOUGH_RUNS} runs and in the bootstrap over users"
PAPER_LEARNERS = ("nn", "rr")

_on_table_4 = partial(Claim, "rq2", where="5.3, table 4")
_on_table_5 = partial(Claim, "rq2", where="5.3, table 5")
_on_boosting = partial(Claim, "rq3", where="5.4, table 5")
_RESUS_ON_ALL = tuple(resus_on(learner, kind) for kind in ARCHITECTURES for learner in PAPER_LEARNERS)
_PREDICTORS = {kind: kind for kind in ARCHITECTURES}
_BOOSTING = {kind: f"boosted-{kind}" for kind in BOOSTED}
_PREDICTORS_AND_BOOSTED = (*BOOSTED, *_BOOSTING.values())
_BOOSTED_AND_RESUS = (*_BOOSTING.values(), *(resus_on(learner, kind) for kind in BOOSTED for learner in PAPER_LEARNERS))


def _over_mus(evidence: Evidence) -> list[Check]:
    return [
        check for method in PROPOSED for stage in STAGES for check in evidence.duel(method, "mus", stage, above=FAR)
    ]


def _pretraining(evidence: Evidence) -> list[Check]:
    found = []
    for method, joint in JOINT.items():
        for stage in STAGES:
            if evidence.data_set == "frappe":
                found += evidence.duel(joint, method, stage)
            else:
                found += evidence.duel(method, joint, stage, above=-COMPARABLE)
    return found


def _joint_against_rivals(evidence: Evidence) -> list[Check]:
    """One check: more than half of the cases pass."""
    cases = [
        check
        for joint in JOINT.values()
        for stage in STAGES
        if (pair := evidence.closest([joint], PAPER_RIVALS, stage))
        for check in evidence.duel(*pair, stage, above=-COMPARABLE)
    ]
    if not cases:
        return []
    good, worst = sum(case.passed for case in cases), min(cases, key=lambda case: case.margin)
    return [Check("most cases", good - len(cases) / 2, f"in {good} of {len(cases)} cases, at worst {worst.clause}")]


def _resus_beats(evidence: Evidence, rivals: Mapping[str, str]) -> list[Check]:
    """RESUS against the rival of each kind of Ψ."""
    return [
        check
        for kind, rival in rivals.items()
        for learner in PAPER_LEARNERS
        for stage in STAGES
        for check in evidence.duel(resus_on(learner, kind), rival, stage)
    ]


def _all_gains_significant(evidence: Evidence, rivals: Mapping[str, str]) -> list[Check]:
    """RESUS against the rival of each kind of Ψ, by learner and stage."""
    return [
        check for learner in PAPER_LEARNERS for stage in STAGES for check in _weakest(evidence, learner, stage, rivals)
    ]


def _weakest(evidence: Evidence, learner: str, stage: str, rivals: Mapping[str, str]) -> list[Check]:
    """One gain can refute a claim about all gains. The claim holds only if every gain was tested."""
    pairs = [(resus_on(learner, kind), rival) for kind, rival in rivals.items()]
    measured = [pair for pair in pairs if evidence.gain(*pair, stage) is not None]
    tested = [
        check
        for pair in measured
        if (comparison := evidence.comparison(*pair, stage))
        for check in significance(evidence, comparison, "weakest", below=LEVEL, fewest_runs=ENOUGH_RUNS)
    ]
    weakest = min(tested, key=lambda check: check.margin, default=None)
    if weakest is None or (weakest.passed and len(tested) < len(measured)):
        return []
    case = f"{evidence.label(f'resus-{learner}')} {stage}"
    return [Check(case, weakest.margin, f"{case}: {len(tested)} of {len(measured)} gains tested, {weakest.clause}")]


def _lightgbm_is_best(evidence: Evidence, methods: Sequence[str], champions: Sequence[str]) -> list[Check]:
    found = []
    for stage in STAGES:
        others = [method for method in methods if method not in champions]
        if pair := evidence.closest(champions, others, stage):
            found += evidence.duel(*pair, stage, case=stage)
    return found


def _better_predictor_better_resus(evidence: Evidence) -> list[Check]:
    found = []
    for better, worse in (("xdeepfm", "lr"), (resus_on("rr", "xdeepfm"), resus_on("rr", "lr"))):
        if pair := evidence.on_average(better, worse):
            found.append(Check(evidence.label(better), pair[0] - pair[1], evidence.versus(better, worse, pair)))
    return found


def _steady_gains(evidence: Evidence) -> list[Check]:
    found = []
    for learner in PAPER_LEARNERS:
        for stage in STAGES:
            gains = [
                gain
                for kind in ARCHITECTURES
                if (gain := evidence.gain(resus_on(learner, kind), kind, stage)) is not None
            ]
            if len(gains) > 1:
                case = f"{evidence.label(f'resus-{learner}')} {stage}"
                clause = f"{case}: gains from {min(gains):+.4f} to {max(gains):+.4f} AUC"
                found.append(Check(case, STEADY * min(gains) - max(gains), clause))
    return found


def _boosting_raises(evidence: Evidence, metric: str) -> list[Check]:
    return [
        check
        for kind, boosted in _BOOSTING.items()
        for stage in STAGES
        for check in evidence.duel(boosted, kind, stage, metric)
    ]


CLAIMS: tuple[Claim, ...] = (
    _on_table_4(
        f"RESUS beats MUS, which has no Ψ, by far (more than {FAR} AUC in every stage).",
        ("mus", *PROPOSED),
        _over_mus,
    ),
    _on_table_4(
        f"Pretraining Ψ is better than training it jointly, or comparable (within {COMPARABLE} AUC); on Frappe it is "
        "worse.",
        (*PROPOSED, *JOINT.values()),
        _pretraining,
    ),
    _on_table_4(
        f"Even without pretraining RESUS is better than the best rival, or comparable (within {COMPARABLE} AUC), in "
        "most cases.",
        (*JOINT.values(), *PAPER_RIVALS),
        _joint_against_rivals,
        where="5.3, tables 3 and 4",
    ),
    _on_table_5(
        "RESUS improves every architecture of Ψ in every stage.",
        (*ARCHITECTURES, *_RESUS_ON_ALL),
        partial(_resus_beats, rivals=_PREDICTORS),
    ),
    _on_table_5(
        f"All of RESUS's gains over its Ψ are significant ({TESTS}).",
        (*ARCHITECTURES, *_RESUS_ON_ALL),
        partial(_all_gains_significant, rivals=_PREDICTORS),
    ),
    _on_table_5(
        "LightGBM is the best Ψ.",
        ARCHITECTURES,
        partial(_lightgbm_is_best, methods=ARCHITECTURES, champions=("lightgbm",)),
    ),
    _on_table_5(
        "RESUS on LightGBM is the best RESUS.",
        _RESUS_ON_ALL,
        partial(
            _lightgbm_is_best, methods=_RESUS_ON_ALL, champions=(resus_on("nn", "lightgbm"), resus_on("rr", "lightgbm"))
        ),
    ),
    _on_table_5(
        "A better Ψ makes a better RESUS: xDeepFM beats LR, and RESUS-RR on xDeepFM beats RESUS-RR on LR.",
        ("lr", "xdeepfm", resus_on("rr", "lr"), resus_on("rr", "xdeepfm")),
        _better_predictor_better_resus,
    ),
    _on_table_5(
        f"RESUS's gains are stable over architectures (the largest at most {STEADY:.0f} times the smallest).",
        (*ARCHITECTURES, *_RESUS_ON_ALL),
        _steady_gains,
    ),
    _on_boosting(
        "Boosting improves Ψ's AUC in every case.",
        _PREDICTORS_AND_BOOSTED,
        partial(_boosting_raises, metric="auc"),
    ),
    _on_boosting(
        "Boosting raises Ψ's Logloss.",
        _PREDICTORS_AND_BOOSTED,
        partial(_boosting_raises, metric="logloss"),
    ),
    _on_boosting(
        "RESUS beats boosting on every architecture.",
        _BOOSTED_AND_RESUS,
        partial(_resus_beats, rivals=_BOOSTING),
    ),
    _on_boosting(
        f"All of RESUS's gains over boosting are significant ({TESTS}).",
        _BOOSTED_AND_RESUS,
        partial(_all_gains_significant, rivals=_BOOSTING),
    ),
)
