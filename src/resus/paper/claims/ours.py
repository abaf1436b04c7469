"""What the paper does not ask: the fixed population, GAUC, what practice does, and limits of time."""

from resus.paper.claims.accuracy import best_of_all, steps
from resus.paper.claims.cost import times_of, training_seconds
from resus.paper.claims.terms import COMPARABLE, RIVALS, Checks
from resus.paper.published import STAGES
from resus.paper.questions import PRACTICE, PROPOSED
from resus.paper.verdicts import Check, Claim, Evidence

TRAINING_LIMITS = {"mamo": 1200.0}
TRAINING_LIMIT, TEST_LIMIT = 600.0, 60.0  # seconds


def _rises_on_the_fixed_population(evidence: Evidence) -> list[Check]:
    found = []
    for method in PROPOSED if evidence.summary else ():
        assert evidence.summary is not None
        spreads = [evidence.summary.fixed(evidence.data_set, method, stage, "auc") for stage in STAGES]
        found += steps(evidence.label(method), [spread.mean if spread else None for spread in spreads])
    return found


def _gain_in_gauc(evidence: Evidence) -> list[Check]:
    found = []
    for method in PROPOSED:
        for stage in STAGES:
            auc, gauc = (evidence.gain(method, "deepfm", stage, metric) for metric in ("auc", "gauc"))
            if auc is not None and gauc is not None:
                case = f"{evidence.label(method)} {stage}"
                found.append(Check(case, gauc - COMPARABLE, f"{case}: AUC {auc:+.4f}, GAUC {gauc:+.4f}"))
    return found


def _beats_practice(rival: str) -> Checks:
    """By metric, since that is what the question is about."""

    def checks(evidence: Evidence) -> list[Check]:
        found = []
        for metric in ("auc", "gauc"):
            for stage in STAGES:
                if pair := evidence.closest(PROPOSED, [rival], stage, metric):
                    (check,) = evidence.duel(*pair, stage, metric)
                    found.append(Check(f"{metric.upper()} {stage}", check.margin, f"{metric.upper()} {check.clause}"))
        return found

    return checks


def _within_limits(evidence: Evidence) -> list[Check]:
    timed = {method: times for method in (*RIVALS, *PROPOSED, *PRACTICE) if (times := times_of(evidence, method))}
    if not timed:
        return []
    room = {
        method: TRAINING_LIMITS.get(method, TRAINING_LIMIT) - training_seconds(times) for method, times in timed.items()
    }
    tightest, slowest = min(room, key=lambda method: room[method]), max(timed, key=lambda method: timed[method].test)
    return [
        Check(
            "training",
            room[tightest],
            f"longest training for its limit {evidence.label(tightest)} {training_seconds(timed[tightest]):.0f} s",
        ),
        Check(
            "test",
            TEST_LIMIT - timed[slowest].test,
            f"longest test {evidence.label(slowest)} {timed[slowest].test:.1f} s",
        ),
    ]


ON_ACCURACY: tuple[Claim, ...] = (
    Claim(
        "rq1",
        "RESUS gets better with more events also on the fixed population, where the queries stay the same.",
        "ours",
        PROPOSED,
        _rises_on_the_fixed_population,
        ours=True,
    ),
    Claim(
        "rq1",
        f"RESUS's gain over its Ψ survives in GAUC, which ranks each user's own candidates (by more than "
        f"{COMPARABLE}).",
        "ours",
        ("deepfm", *PROPOSED),
        _gain_in_gauc,
        ours=True,
    ),
    Claim(
        "rq1",
        "RESUS has the best GAUC of the paper's methods in every stage.",
        "ours",
        (*RIVALS, *PROPOSED),
        best_of_all("gauc"),
        ours=True,
    ),
    Claim(
        "rq1",
        "RESUS beats user bias, Ψ plus a shrunken mean of the user's residuals, in AUC and GAUC.",
        "ours",
        ("user-bias", *PROPOSED),
        _beats_practice("user-bias"),
        ours=True,
    ),
    Claim(
        "rq1",
        "RESUS beats LightGBM with history features in AUC and GAUC.",
        "ours",
        ("history-trees", *PROPOSED),
        _beats_practice("history-trees"),
        ours=True,
    ),
)

ON_COST: tuple[Claim, ...] = (
    Claim(
        "rq5",
        f"Every method trains in under {TRAINING_LIMIT / 60:.0f} minutes (MAMO {TRAINING_LIMITS['mamo'] / 60:.0f}) "
        f"and scores all sizes in under {TEST_LIMIT:.0f} s.",
        "ours",
        (*RIVALS, *PROPOSED, *PRACTICE),
        _within_limits,
        ours=True,
    ),
)
