"""Research question 1, table 3: RESUS against its rivals on cold users. Also our own claims on the same methods."""

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import pairwise
from statistics import fmean

from resus.paper.claims.judging import (
    COMPARABLE,
    LITTLE,
    SIGNIFICANT,
    Check,
    Claim,
    Evidence,
    beats,
    significance,
)
from resus.paper.questions import FEW_SHOT, OPTIMISATION, PAPER_RIVALS, PROPOSED, STAGES

_claim = partial(Claim, "rq1", where="5.2, table 3")
_own_claim = partial(Claim, "rq1")


def _best_of_all(evidence: Evidence, metric: str) -> list[Check]:
    found = []
    for stage in STAGES:
        # the paper itself says that Meta-Embedding leads there
        excused = metric == "auc" and evidence.data_set == "frappe" and stage == "I"
        rivals = [rival for rival in PAPER_RIVALS if not (excused and rival == "meta-embedding")]
        if pair := evidence.closest(PROPOSED, rivals, stage, metric):
            found += evidence.duel(*pair, stage, metric, case=stage)
    return found


def _lowest_logloss(evidence: Evidence) -> list[Check]:
    found = []
    for stage in STAGES:
        if evidence.data_set == "frappe" and stage == "I":
            continue  # MAMO leads there in table 3 itself
        if pair := evidence.closest(PROPOSED, PAPER_RIVALS, stage, "logloss"):
            method, rival = pair
            found += evidence.duel(rival, method, stage, "logloss", case=stage)
    return found


def _significantly(evidence: Evidence) -> list[Check]:
    found = []
    for stage in STAGES:
        compared = {
            method: [each for rival in PAPER_RIVALS if (each := evidence.comparison(method, rival, stage))]
            for method in PROPOSED
        }
        hardest = [min(of_method, key=lambda each: each.difference) for of_method in compared.values() if of_method]
        if hardest:
            best = max(hardest, key=lambda each: each.difference)
            found += significance(evidence, best, stage, below=SIGNIFICANT)
    return found


def _stable(evidence: Evidence) -> list[Check]:
    """Compare the worst place over the stages."""
    places: dict[str, list[int]] = {}
    for stage in STAGES:
        own = [value for method in PROPOSED if (value := evidence.value(method, stage)) is not None]
        values = {rival: value for rival in PAPER_RIVALS if (value := evidence.value(rival, stage)) is not None}
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


def _meta_embedding(evidence: Evidence, stages: Iterable[str], *, ahead: bool) -> list[Check]:
    found = []
    for stage in stages:
        for rival in ("melu", "mamo"):
            pair = ("meta-embedding", rival) if ahead else (rival, "meta-embedding")
            found += evidence.duel(*pair, stage)
    return found


def _rises(evidence: Evidence) -> list[Check]:
    return [
        check
        for method in PROPOSED
        for check in _rise(evidence.label(method), [evidence.value(method, stage) for stage in STAGES])
    ]


def _rise(label: str, values: Sequence[float | None]) -> list[Check]:
    """One check that values rise from each stage to the next."""
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
            for method in (*PAPER_RIVALS, *PROPOSED)
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


def _rises_on_the_fixed_population(evidence: Evidence) -> list[Check]:
    found: list[Check] = []
    if evidence.summary:
        for method in PROPOSED:
            spreads = [evidence.summary.fixed(evidence.data_set, method, stage, "auc") for stage in STAGES]
            found += _rise(evidence.label(method), [spread.mean if spread else None for spread in spreads])
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


CLAIMS: tuple[Claim, ...] = (
    _claim(
        "RESUS, the better of its two learners, has the best AUC of all methods in every stage; on Frappe in stage I "
        "only Meta-Embedding is ahead.",
        (*PAPER_RIVALS, *PROPOSED),
        partial(_best_of_all, metric="auc"),
    ),
    _claim(
        "The better of RESUS's two learners also has the lowest Logloss of all methods in every stage, except in "
        "stage I on Frappe.",
        (*PAPER_RIVALS, *PROPOSED),
        _lowest_logloss,
    ),
    _claim(
        f"RESUS beats the best rival significantly (p < {SIGNIFICANT} in the t-test over runs and in the bootstrap "
        "over users).",
        (*PAPER_RIVALS, *PROPOSED),
        _significantly,
    ),
    _claim(
        "RESUS is more stable than the optimisation-based methods: its worst place over the stages is better than "
        "theirs.",
        (*PAPER_RIVALS, *PROPOSED),
        _stable,
        where="5.2",
    ),
    _claim(
        "On average RESUS-RR is the better learner on MovieLens-1M, RESUS-NN on Frappe and Taobao.",
        PROPOSED,
        _better_learner,
    ),
    _claim(
        "Optimisation-based methods beat few-shot representation methods on average.",
        PAPER_RIVALS,
        _optimisation_over_few_shot,
    ),
    _claim(
        "Meta-Embedding beats MeLU and MAMO in stage I.",
        OPTIMISATION,
        partial(_meta_embedding, stages=("I",), ahead=True),
    ),
    _claim(
        "Meta-Embedding loses to MeLU and MAMO in stages II and III.",
        OPTIMISATION,
        partial(_meta_embedding, stages=("II", "III"), ahead=False),
    ),
    _claim("RESUS gets better with more events: stage I < II < III.", PROPOSED, _rises),
    _claim(
        "Almost all methods (all but one at most) reach a higher AUC and a lower Logloss in stage III than in I.",
        (*PAPER_RIVALS, *PROPOSED),
        _almost_all_gain,
    ),
    _claim(
        f"Few-shot representation methods gain little (at most {LITTLE} AUC) from stage II to III.",
        FEW_SHOT,
        _few_shot_gains_little,
    ),
    _own_claim(
        "RESUS gets better with more events also on the fixed population, where the queries stay the same.",
        PROPOSED,
        _rises_on_the_fixed_population,
    ),
    _own_claim(
        "RESUS's gain over its Ψ survives in GAUC, which ranks each user's own candidates "
        f"(by more than {COMPARABLE}).",
        ("deepfm", *PROPOSED),
        _gain_in_gauc,
    ),
    _own_claim(
        "RESUS has the best GAUC of the paper's methods in every stage.",
        (*PAPER_RIVALS, *PROPOSED),
        partial(_best_of_all, metric="gauc"),
    ),
    _own_claim(
        "RESUS beats user bias, Ψ plus a shrunken mean of the user's residuals, in AUC and GAUC.",
        ("user-bias", *PROPOSED),
        partial(beats, methods=PROPOSED, rivals=["user-bias"]),
    ),
    _own_claim(
        "RESUS beats LightGBM with history features in AUC and GAUC.",
        ("history-trees", *PROPOSED),
        partial(beats, methods=PROPOSED, rivals=["history-trees"]),
    ),
)
