"""What section 5 of the paper says, claim by claim, as checks on numbers; and what it does not ask, marked as ours."""

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from statistics import fmean

from resus.reproduction.paper import STAGES, Times
from resus.reproduction.questions import (
    ARCHITECTURES,
    BOOSTED,
    FEW_SHOT,
    OPTIMISATION,
    PRACTICE,
    PROPOSED,
    resus_on,
)
from resus.reproduction.verdicts import SIGNIFICANT, Check, Claim, Evidence

RIVALS = (*FEW_SHOT, *OPTIMISATION)
JOINT = {learner: f"{learner}-joint" for learner in PROPOSED}
LEARNERS = ("nn", "rr")

COMPARABLE = 0.001  # AUC: what the paper calls comparable
LITTLE = 0.002  # AUC: what it calls a little
FAR = 0.01  # AUC: what it calls a large margin
STEADY = 2.0  # how many times the smallest gain the largest may be, for gains to be called stable
TRAINING_LIMITS = {"mamo": 1200.0}
TRAINING_LIMIT, TEST_LIMIT = 600.0, 60.0  # seconds

Checks = Callable[[Evidence], Sequence[Check]]


def _best_of_all(metric: str) -> Checks:
    def checks(evidence: Evidence) -> list[Check]:
        found = []
        for stage in STAGES:
            # the paper says itself that Meta-Embedding is ahead there
            excused = metric == "auc" and evidence.data_set == "frappe" and stage == "I"
            rivals = [rival for rival in RIVALS if not (excused and rival == "meta-embedding")]
            if pair := evidence.closest(PROPOSED, rivals, stage, metric):
                found += evidence.duel(*pair, stage, metric, case=stage)
        return found

    return checks


def _significantly(evidence: Evidence) -> list[Check]:
    """Both tests where both could be made."""
    found = []
    for stage in STAGES:
        compared = {
            method: [each for rival in RIVALS if (each := evidence.comparison(method, rival, stage))]
            for method in PROPOSED
        }
        hardest = [min(of_method, key=lambda each: each.difference) for of_method in compared.values() if of_method]
        best = max(hardest, key=lambda each: each.difference, default=None)
        if best is None:
            continue
        tests = {"t-test": best.p_ttest, "bootstrap": best.p_bootstrap}
        p_values = [p for p in tests.values() if p is not None]
        if p_values:
            margin = SIGNIFICANT - max(p_values) if best.difference > 0 else -1.0
            shown = ", ".join(f"{name} p {'not computed' if p is None else p_text(p)}" for name, p in tests.items())
            pair = f"{evidence.label(best.method)} over {evidence.label(best.against)} {best.difference:+.4f}"
            found.append(Check(stage, margin, f"{stage}: {pair}, {shown}"))
    return found


def p_text(p_value: float) -> str:
    return "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"


def _stable(evidence: Evidence) -> list[Check]:
    """The worst place over the stages among all methods."""
    places: dict[str, list[int]] = {}
    for stage in STAGES:
        own = [value for method in PROPOSED if (value := evidence.value(method, stage)) is not None]
        values = {rival: value for rival in RIVALS if (value := evidence.value(rival, stage)) is not None}
        if own:
            values["RESUS"] = max(own)
        for place, name in enumerate(sorted(values, key=lambda name: -values[name]), start=1):
            places.setdefault(name, []).append(place)
    if "RESUS" not in places:
        return []
    own_worst = max(places["RESUS"])
    return [
        Check(label, worst - own_worst, f"{label}: worst place {worst}, RESUS {own_worst}")
        for method in OPTIMISATION
        if method in places
        for label, worst in ((evidence.label(method), max(places[method])),)
    ]


def _better_learner(evidence: Evidence) -> list[Check]:
    winner = {"ml-1m": "resus-rr", "frappe": "resus-nn", "taobao": "resus-nn"}.get(evidence.data_set)
    if winner is None:
        return []
    other = next(method for method in PROPOSED if method != winner)
    pair = evidence.on_average(winner, other)
    if pair is None:
        return []
    clause = f"mean of the stages: {evidence.versus(winner, other, pair)}"
    return [Check("mean of the stages", pair[0] - pair[1], clause)]


def _optimisation_over_few_shot(evidence: Evidence) -> list[Check]:
    found = []
    for stage in STAGES:
        pairs = [(method, rival) for method in OPTIMISATION for rival in FEW_SHOT]
        gains = [gain for method, rival in pairs if (gain := evidence.gain(method, rival, stage)) is not None]
        if gains:
            found.append(Check(stage, fmean(gains), f"{stage}: {fmean(gains):+.4f} AUC"))
    return found


def _meta_embedding(stages: Iterable[str], *, ahead: bool) -> Checks:
    def checks(evidence: Evidence) -> list[Check]:
        found = []
        for stage in stages:
            for rival in ("melu", "mamo"):
                pair = ("meta-embedding", rival) if ahead else (rival, "meta-embedding")
                found += evidence.duel(*pair, stage)
        return found

    return checks


def _rises(evidence: Evidence) -> list[Check]:
    return [
        check
        for method in PROPOSED
        for check in _steps(evidence.label(method), [evidence.value(method, stage) for stage in STAGES])
    ]


def _rises_on_the_fixed_population(evidence: Evidence) -> list[Check]:
    found = []
    for method in PROPOSED if evidence.summary else ():
        assert evidence.summary is not None
        spreads = [evidence.summary.fixed(evidence.data_set, method, stage, "auc") for stage in STAGES]
        found += _steps(evidence.label(method), [spread.mean if spread else None for spread in spreads])
    return found


def _steps(label: str, values: Sequence[float | None]) -> list[Check]:
    """One check of a whole rise."""
    present = [value for value in values if value is not None]
    if len(present) < 2:
        return []
    smallest = min(later - earlier for earlier, later in pairwise(present))
    return [Check(label, smallest, f"{label} {' → '.join(f'{value:.4f}' for value in present)}")]


def _almost_all_gain(evidence: Evidence) -> list[Check]:
    found = []
    for metric, name, sign in (("auc", "AUC rises", 1), ("logloss", "Logloss falls", -1)):
        ends = [
            (evidence.value(method, "I", metric), evidence.value(method, "III", metric))
            for method in (*RIVALS, *PROPOSED)
        ]
        changes = [sign * (last - first) for first, last in ends if first is not None and last is not None]
        if changes:
            gained = sum(change > 0 for change in changes)
            found.append(Check(name, gained - len(changes) + 1.5, f"{name} with {gained} of {len(changes)} methods"))
    return found


def _few_shot_gains_little(evidence: Evidence) -> list[Check]:
    found = []
    for method in FEW_SHOT:
        earlier, later = evidence.value(method, "II"), evidence.value(method, "III")
        if earlier is not None and later is not None:
            gain = later - earlier
            found.append(Check(evidence.label(method), LITTLE - gain, f"{evidence.label(method)} {gain:+.4f}"))
    return found


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
    """One check of most cases."""
    cases = [
        check
        for joint in JOINT.values()
        for stage in STAGES
        if (pair := evidence.closest([joint], RIVALS, stage))
        for check in evidence.duel(*pair, stage, above=-COMPARABLE)
    ]
    if not cases:
        return []
    good, worst = sum(case.passed for case in cases), min(cases, key=lambda case: case.margin)
    return [Check("most cases", good - len(cases) / 2, f"in {good} of {len(cases)} cases, at worst {worst.clause}")]


def _every_architecture(evidence: Evidence) -> list[Check]:
    return [
        check
        for kind in ARCHITECTURES
        for learner in LEARNERS
        for stage in STAGES
        for check in evidence.duel(resus_on(learner, kind), kind, stage)
    ]


def _lightgbm_is_best(methods: Sequence[str], champions: Sequence[str]) -> Checks:
    def checks(evidence: Evidence) -> list[Check]:
        found = []
        for stage in STAGES:
            others = [method for method in methods if method not in champions]
            if pair := evidence.closest(champions, others, stage):
                found += evidence.duel(*pair, stage, case=stage)
        return found

    return checks


def _better_predictor_better_resus(evidence: Evidence) -> list[Check]:
    found = []
    for better, worse in (("xdeepfm", "lr"), (resus_on("rr", "xdeepfm"), resus_on("rr", "lr"))):
        if pair := evidence.on_average(better, worse):
            found.append(Check(evidence.label(better), pair[0] - pair[1], evidence.versus(better, worse, pair)))
    return found


def _steady_gains(evidence: Evidence) -> list[Check]:
    found = []
    for learner in LEARNERS:
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


def _every_noise_level(evidence: Evidence) -> list[Check]:
    found = []
    for method in PROPOSED if evidence.summary else ():
        assert evidence.summary is not None
        own = evidence.summary.noise(evidence.data_set, method)
        other = evidence.summary.noise(evidence.data_set, "meta-embedding")
        gains = [mine.auc - theirs.auc for mine, theirs in zip(own, other, strict=False)]
        if gains:
            name = evidence.label(method)
            clause = f"{name} ahead by {min(gains):+.4f} to {max(gains):+.4f} AUC over {len(gains)} levels"
            found.append(Check(name, min(gains), clause))
    return found


def _falls_less_than_mus(evidence: Evidence) -> list[Check]:
    found = []
    for method in PROPOSED if evidence.summary else ():
        assert evidence.summary is not None
        own, mus = (evidence.summary.noise(evidence.data_set, name) for name in (method, "mus"))
        if own and mus:
            falls = [levels[0].auc - levels[-1].auc for levels in (own, mus)]
            name = evidence.label(method)
            clause = f"{name} {-falls[0]:+.4f} AUC from nearest to farthest, {evidence.label('mus')} {-falls[1]:+.4f}"
            found.append(Check(name, falls[1] - falls[0], clause))
    return found


def _fastest(seconds: Callable[[Times], float]) -> Checks:
    def checks(evidence: Evidence) -> list[Check]:
        rivals = {rival: seconds(times) for rival in RIVALS if (times := _times(evidence, rival))}
        if not rivals:
            return []
        rival = min(rivals, key=lambda name: rivals[name])
        fastest = f"fastest rival {evidence.label(rival)} {rivals[rival]:.1f} s"
        return [
            Check(name, rivals[rival] - seconds(times), f"{name} {seconds(times):.1f} s, {fastest}")
            for method in PROPOSED
            if (times := _times(evidence, method)) and (name := evidence.label(method))
        ]

    return checks


def _training(times: Times) -> float:
    return times.training + times.pretraining


def _test(times: Times) -> float:
    return times.test


def _times(evidence: Evidence, method: str) -> Times | None:
    return evidence.numbers.times(evidence.data_set, method)


def _optimisation_trains_longer(evidence: Evidence) -> list[Check]:
    means = []
    for family in (OPTIMISATION, FEW_SHOT):
        seconds = [_training(times) for method in family if (times := _times(evidence, method))]
        if not seconds:
            return []
        means.append(fmean(seconds))
    return [Check("on average", means[0] - means[1], f"on average {means[0]:.0f} s against {means[1]:.0f} s")]


def _meta_embedding_and_melu(evidence: Evidence) -> list[Check]:
    own, other = _times(evidence, "meta-embedding"), _times(evidence, "melu")
    if own is None or other is None:
        return []
    return [
        Check(
            "training",
            _training(own) - _training(other),
            f"training {_training(own):.0f} s, MeLU {_training(other):.0f} s",
        ),
        Check("test", other.test - own.test, f"test {own.test:.1f} s, MeLU {other.test:.1f} s"),
    ]


def _slow_to_converge(evidence: Evidence) -> list[Check]:
    quick = [
        times.epochs for method in (*FEW_SHOT, "melu", *PROPOSED) if (times := _times(evidence, method)) is not None
    ]
    return [
        Check(name, times.epochs - max(quick), f"{name} {times.epochs:.3g} epochs, the others at most {max(quick):.3g}")
        for method in ("mamo", "meta-embedding")
        if quick and (times := _times(evidence, method)) and (name := evidence.label(method))
    ]


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
    timed = {method: times for method in (*RIVALS, *PROPOSED, *PRACTICE) if (times := _times(evidence, method))}
    if not timed:
        return []
    room = {method: TRAINING_LIMITS.get(method, TRAINING_LIMIT) - _training(times) for method, times in timed.items()}
    tightest, slowest = min(room, key=lambda method: room[method]), max(timed, key=lambda method: timed[method].test)
    return [
        Check(
            "training",
            room[tightest],
            f"longest training for its limit {evidence.label(tightest)} {_training(timed[tightest]):.0f} s",
        ),
        Check(
            "test",
            TEST_LIMIT - timed[slowest].test,
            f"longest test {evidence.label(slowest)} {timed[slowest].test:.1f} s",
        ),
    ]


_RESUS_ON_ALL = tuple(resus_on(learner, kind) for kind in ARCHITECTURES for learner in LEARNERS)
_BOOSTED_PAIRS = tuple(name for kind in BOOSTED for name in (kind, f"boosted-{kind}"))
_RQ1, _RQ2, _RQ3 = "5.2, table 3", "5.3, table 4", "5.4, table 5"
_ARCHITECTURES, _RQ4, _RQ5 = "5.3, table 5", "5.5, figure 4", "5.6, table 6"

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "rq1",
        "RESUS, the better of its two learners, has the best AUC of all methods in every stage; on Frappe in stage I "
        "only Meta-Embedding is ahead.",
        _RQ1,
        (*RIVALS, *PROPOSED),
        _best_of_all("auc"),
    ),
    Claim(
        "rq1",
        f"RESUS beats the best rival significantly (p < {SIGNIFICANT} in the t-test over runs and in the bootstrap "
        "over users).",
        _RQ1,
        (*RIVALS, *PROPOSED),
        _significantly,
    ),
    Claim(
        "rq1",
        "RESUS is more stable than the optimisation-based methods: its worst place over the stages is better than "
        "theirs.",
        "5.2",
        (*RIVALS, *PROPOSED),
        _stable,
    ),
    Claim(
        "rq1",
        "On average RESUS-RR is the better learner on MovieLens-1M, RESUS-NN on Frappe and Taobao.",
        _RQ1,
        PROPOSED,
        _better_learner,
    ),
    Claim(
        "rq1",
        "Optimisation-based methods beat few-shot representation methods on average.",
        _RQ1,
        RIVALS,
        _optimisation_over_few_shot,
    ),
    Claim(
        "rq1",
        "Meta-Embedding beats MeLU and MAMO in stage I.",
        _RQ1,
        OPTIMISATION,
        _meta_embedding(("I",), ahead=True),
    ),
    Claim(
        "rq1",
        "Meta-Embedding loses to MeLU and MAMO in stages II and III.",
        _RQ1,
        OPTIMISATION,
        _meta_embedding(("II", "III"), ahead=False),
    ),
    Claim("rq1", "RESUS gets better with more events: stage I < II < III.", _RQ1, PROPOSED, _rises),
    Claim(
        "rq1",
        "Almost all methods (all but one at most) reach a higher AUC and a lower Logloss in stage III than in I.",
        _RQ1,
        (*RIVALS, *PROPOSED),
        _almost_all_gain,
    ),
    Claim(
        "rq1",
        f"Few-shot representation methods gain little (at most {LITTLE} AUC) from stage II to III.",
        _RQ1,
        FEW_SHOT,
        _few_shot_gains_little,
    ),
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
        _best_of_all("gauc"),
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
    Claim(
        "rq2",
        f"RESUS beats MUS, which has no Ψ, by far (more than {FAR} AUC in every stage).",
        _RQ2,
        ("mus", *PROPOSED),
        _over_mus,
    ),
    Claim(
        "rq2",
        f"Pretraining Ψ is better than training it jointly, or comparable (within {COMPARABLE} AUC); on Frappe it is "
        "worse.",
        _RQ2,
        (*PROPOSED, *JOINT.values()),
        _pretraining,
    ),
    Claim(
        "rq2",
        f"Even without pretraining RESUS is better than the best rival, or comparable (within {COMPARABLE} AUC), in "
        "most cases.",
        "5.3, tables 3 and 4",
        (*JOINT.values(), *RIVALS),
        _joint_against_rivals,
    ),
    Claim(
        "rq2",
        "RESUS improves every architecture of Ψ in every stage.",
        _ARCHITECTURES,
        (*ARCHITECTURES, *_RESUS_ON_ALL),
        _every_architecture,
    ),
    Claim(
        "rq2",
        "LightGBM is the best Ψ.",
        _ARCHITECTURES,
        ARCHITECTURES,
        _lightgbm_is_best(ARCHITECTURES, ("lightgbm",)),
    ),
    Claim(
        "rq2",
        "RESUS on LightGBM is the best RESUS.",
        _ARCHITECTURES,
        _RESUS_ON_ALL,
        _lightgbm_is_best(_RESUS_ON_ALL, (resus_on("nn", "lightgbm"), resus_on("rr", "lightgbm"))),
    ),
    Claim(
        "rq2",
        "A better Ψ makes a better RESUS: xDeepFM beats LR, and RESUS-RR on xDeepFM beats RESUS-RR on LR.",
        _ARCHITECTURES,
        ("lr", "xdeepfm", resus_on("rr", "lr"), resus_on("rr", "xdeepfm")),
        _better_predictor_better_resus,
    ),
    Claim(
        "rq2",
        f"RESUS's gains are stable over architectures (the largest at most {STEADY:.0f} times the smallest).",
        _ARCHITECTURES,
        (*ARCHITECTURES, *_RESUS_ON_ALL),
        _steady_gains,
    ),
    Claim("rq3", "Boosting improves Ψ's AUC in every case.", _RQ3, _BOOSTED_PAIRS, _boosting("auc")),
    Claim("rq3", "Boosting raises Ψ's Logloss.", _RQ3, _BOOSTED_PAIRS, _boosting("logloss")),
    Claim(
        "rq3",
        "RESUS beats boosting on every architecture.",
        _RQ3,
        tuple(name for kind in BOOSTED for name in (f"boosted-{kind}", resus_on("nn", kind), resus_on("rr", kind))),
        _over_boosting,
    ),
    Claim(
        "rq4",
        "RESUS beats Meta-Embedding at every noise level.",
        _RQ4,
        ("meta-embedding", *PROPOSED),
        _every_noise_level,
    ),
    Claim(
        "rq4",
        "RESUS's AUC falls less from the nearest to the farthest support than MUS's.",
        _RQ4,
        ("mus", *PROPOSED),
        _falls_less_than_mus,
    ),
    Claim(
        "rq5",
        "RESUS trains faster than every rival (pretraining counted).",
        _RQ5,
        (*RIVALS, *PROPOSED),
        _fastest(_training),
    ),
    Claim("rq5", "RESUS has the shortest test time.", _RQ5, (*RIVALS, *PROPOSED), _fastest(_test)),
    Claim(
        "rq5",
        "Optimisation-based methods train longer than few-shot representation methods on average.",
        _RQ5,
        RIVALS,
        _optimisation_trains_longer,
    ),
    Claim(
        "rq5",
        "Meta-Embedding trains longer than MeLU, but tests faster.",
        _RQ5,
        ("meta-embedding", "melu"),
        _meta_embedding_and_melu,
    ),
    Claim(
        "rq5",
        "MAMO and Meta-Embedding take more epochs than all the others.",
        "5.6, figure 5",
        (*RIVALS, *PROPOSED),
        _slow_to_converge,
    ),
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
