"""Our own claims about RESUS+: against the shared model, what practitioners use, the paper's RESUS and its rivals."""

from functools import partial

from resus.paper.claims.cost import times_of, training_seconds
from resus.paper.claims.judging import Check, Checks, Claim, Evidence, beats
from resus.paper.questions import PAPER_RIVALS, PLUS, PRACTICE, PROPOSED, STAGES

TIMES_IN_TRAINING, TIMES_IN_SCORING = 3.0, 1.0  # of RESUS-RR's
OTHERS = ("deepfm", *PRACTICE, *PAPER_RIVALS, *PROPOSED)


def _lowest_logloss(evidence: Evidence) -> list[Check]:
    found = []
    for stage in STAGES:
        if closest := evidence.closest([PLUS], OTHERS, stage, "logloss"):
            (check,) = evidence.duel(*closest, stage, "logloss")
            found.append(Check(stage, -check.margin, check.clause))
    return found


def _not_much_slower(evidence: Evidence) -> list[Check]:
    """Uses only cells that ran alone."""
    own, other = (times_of(evidence, method) for method in (PLUS, "resus-rr"))
    if own is None or other is None:
        return []
    training = training_seconds(own) / training_seconds(other)
    scoring = own.test / other.test
    return [
        Check("training", TIMES_IN_TRAINING - training, f"training takes {training:.2f} times as long"),
        Check("scoring", TIMES_IN_SCORING - scoring, f"scoring all sizes takes {scoring:.2f} times as long"),
    ]


def _claim(words: str, rivals: tuple[str, ...], checks: Checks | None = None) -> Claim:
    return Claim("beyond", words, (PLUS, *rivals), checks or partial(beats, methods=[PLUS], rivals=rivals))


CLAIMS: tuple[Claim, ...] = (
    _claim("RESUS+ beats its Ψ in AUC and GAUC.", ("deepfm",)),
    _claim("RESUS+ beats user bias in AUC and GAUC.", ("user-bias",)),
    _claim("RESUS+ beats LightGBM with history features in AUC and GAUC.", ("history-trees",)),
    _claim("RESUS+ beats RESUS-NN and RESUS-RR in AUC and GAUC.", PROPOSED),
    _claim("RESUS+ beats the paper's rivals in AUC and GAUC.", PAPER_RIVALS),
    _claim("RESUS+ has the lowest Logloss of all methods.", OTHERS, _lowest_logloss),
    _claim(
        f"RESUS+ trains in at most {TIMES_IN_TRAINING:.0f} times RESUS-RR's time, Ψ included, and scores no slower.",
        ("resus-rr",),
        _not_much_slower,
    ),
)
