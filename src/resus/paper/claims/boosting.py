"""Research question 3, boosting rows of table 5: is RESUS more than gradient boosting?"""

from resus.paper.claims.p_values import TABLE_5_TESTS, all_gains_significant
from resus.paper.claims.terms import LEARNERS, Checks
from resus.paper.published import STAGES
from resus.paper.questions import BOOSTED, resus_on
from resus.paper.verdicts import Check, Claim, Evidence

_TABLE_5 = "5.4, table 5"
_PREDICTORS_AND_BOOSTED = tuple(name for kind in BOOSTED for name in (kind, f"boosted-{kind}"))
_BOOSTED_AND_RESUS = tuple(
    name for kind in BOOSTED for name in (f"boosted-{kind}", resus_on("nn", kind), resus_on("rr", kind))
)


def _boosting(metric: str) -> Checks:
    """Boosting raises the metric of Ψ."""

    def checks(evidence: Evidence) -> list[Check]:
        return [
            check
            for kind in BOOSTED
            for stage in STAGES
            for check in evidence.duel(f"boosted-{kind}", kind, stage, metric)
        ]

    return checks


def _over_boosting(evidence: Evidence) -> list[Check]:
    return [
        check
        for kind in BOOSTED
        for learner in LEARNERS
        for stage in STAGES
        for check in evidence.duel(resus_on(learner, kind), f"boosted-{kind}", stage)
    ]


CLAIMS: tuple[Claim, ...] = (
    Claim("rq3", "Boosting improves Ψ's AUC in every case.", _TABLE_5, _PREDICTORS_AND_BOOSTED, _boosting("auc")),
    Claim("rq3", "Boosting raises Ψ's Logloss.", _TABLE_5, _PREDICTORS_AND_BOOSTED, _boosting("logloss")),
    Claim("rq3", "RESUS beats boosting on every architecture.", _TABLE_5, _BOOSTED_AND_RESUS, _over_boosting),
    Claim(
        "rq3",
        f"All of RESUS's gains over boosting are significant ({TABLE_5_TESTS}).",
        _TABLE_5,
        _BOOSTED_AND_RESUS,
        all_gains_significant({kind: f"boosted-{kind}" for kind in BOOSTED}),
    ),
)
