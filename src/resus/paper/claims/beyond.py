"""What RESUS+ is to reach: the aims of the issue that asked for it, and rivals that it must not lose to."""

from collections.abc import Mapping, Sequence

from resus.paper.claims.cost import times_of, training_seconds
from resus.paper.claims.terms import RIVALS, Checks
from resus.paper.published import STAGES
from resus.paper.questions import PLUS, PRACTICE, PROPOSED
from resus.paper.verdicts import Check, Claim, Evidence

AIMS: Mapping[str, Mapping[str, Sequence[float]]] = {  # over Ψ, by data set and metric, in stages I, II and III
    "auc": {"ml-1m": (0.014, 0.032, 0.037), "frappe": (0.008, 0.025, 0.040)},
    "gauc": {"ml-1m": (0.005, 0.008, 0.010)},
}
TIMES_IN_TRAINING, TIMES_IN_SCORING = 3.0, 1.0  # of RESUS-RR's
OTHERS = ("deepfm", *PRACTICE, *RIVALS, *PROPOSED)


def _reaches_its_aim(metric: str) -> Checks:
    def checks(evidence: Evidence) -> list[Check]:
        found = []
        for stage, aim in zip(STAGES, AIMS[metric].get(evidence.data_set, ()), strict=False):
            gain = evidence.gain(PLUS, "deepfm", stage, metric)
            if gain is not None:
                found.append(Check(stage, gain - aim, f"{stage}: {gain:+.4f}, aim {aim:+.4f}"))
        return found

    return checks


def _beats(rivals: Sequence[str]) -> Checks:
    """The hardest of the rivals, in AUC and in GAUC."""

    def checks(evidence: Evidence) -> list[Check]:
        found = []
        for metric in ("auc", "gauc"):
            for stage in STAGES:
                if pair := evidence.closest([PLUS], rivals, stage, metric):
                    (check,) = evidence.duel(*pair, stage, metric)
                    found.append(Check(f"{metric.upper()} {stage}", check.margin, f"{metric.upper()} {check.clause}"))
        return found

    return checks


def _lowest_logloss(evidence: Evidence) -> list[Check]:
    found = []
    for stage in STAGES:
        pairs = {rival: pair for rival in OTHERS if (pair := evidence.pair(PLUS, rival, stage, "logloss"))}
        if pairs:
            best = min(pairs, key=lambda rival: pairs[rival][1] - pairs[rival][0])
            own, other = pairs[best]
            found.append(Check(stage, other - own, f"{stage}: {evidence.versus(PLUS, best, pairs[best])}"))
    return found


def _within_its_time(evidence: Evidence) -> list[Check]:
    """Of cells that ran alone, one at a time."""
    own, other = (times_of(evidence, method) for method in (PLUS, "resus-rr"))
    if own is None or other is None:
        return []
    training = training_seconds(own) / training_seconds(other)
    scoring = own.test / other.test
    return [
        Check("training", TIMES_IN_TRAINING - training, f"training takes {training:.2f} times as long"),
        Check("scoring", TIMES_IN_SCORING - scoring, f"scoring all sizes takes {scoring:.2f} times as long"),
    ]


def _claim(words: str, methods: Sequence[str], checks: Checks) -> Claim:
    return Claim("beyond", words, "ours", (PLUS, *methods), checks, ours=True)


CLAIMS: tuple[Claim, ...] = (
    _claim("RESUS+ gains over its Ψ in AUC at least what was aimed for.", ("deepfm",), _reaches_its_aim("auc")),
    _claim("RESUS+ gains over its Ψ in GAUC at least what was aimed for.", ("deepfm",), _reaches_its_aim("gauc")),
    _claim("RESUS+ beats user bias in AUC and GAUC.", ("user-bias",), _beats(("user-bias",))),
    _claim("RESUS+ beats LightGBM with history features in AUC and GAUC.", PRACTICE[1:], _beats(PRACTICE[1:])),
    _claim("RESUS+ beats RESUS-NN and RESUS-RR in AUC and GAUC.", PROPOSED, _beats(PROPOSED)),
    _claim("RESUS+ beats the paper's rivals in AUC and GAUC.", RIVALS, _beats(RIVALS)),
    _claim("RESUS+ has the lowest Logloss of all methods.", OTHERS, _lowest_logloss),
    _claim(
        f"RESUS+ trains in at most {TIMES_IN_TRAINING:.0f} times RESUS-RR's time, Ψ included, and scores no slower.",
        ("resus-rr",),
        _within_its_time,
    ),
)
