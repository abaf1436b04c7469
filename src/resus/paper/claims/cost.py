"""Research question 5, table 6 and figure 5: what RESUS costs in time."""

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from statistics import fmean

from resus.paper.claims.judging import Check, Claim, Evidence
from resus.paper.published import Times
from resus.paper.questions import FEW_SHOT, OPTIMISATION, PAPER_RIVALS, PROPOSED

_claim = partial(Claim, "rq5", where="5.6, table 6")


def _fastest(evidence: Evidence, seconds: Callable[[Times], float]) -> list[Check]:
    rivals = {rival: seconds(times) for rival in PAPER_RIVALS if (times := times_of(evidence, rival))}
    if not rivals:
        return []
    rival = min(rivals, key=lambda name: rivals[name])
    fastest = f"fastest rival {evidence.label(rival)} {rivals[rival]:.1f} s"
    return [
        Check(name, rivals[rival] - seconds(times), f"{name} {seconds(times):.1f} s, {fastest}")
        for method in PROPOSED
        if (times := times_of(evidence, method)) and (name := evidence.label(method))
    ]


def training_seconds(times: Times) -> float:
    return times.training + times.pretraining


def times_of(evidence: Evidence, method: str) -> Times | None:
    return evidence.numbers.times(evidence.data_set, method)


def _optimisation_trains_longer(evidence: Evidence) -> list[Check]:
    means = []
    for family in (OPTIMISATION, FEW_SHOT):
        seconds = [training_seconds(times) for method in family if (times := times_of(evidence, method))]
        if not seconds:
            return []
        means.append(fmean(seconds))
    return [Check("on average", means[0] - means[1], f"on average {means[0]:.0f} s against {means[1]:.0f} s")]


def _meta_embedding_and_melu(evidence: Evidence) -> list[Check]:
    own, other = times_of(evidence, "meta-embedding"), times_of(evidence, "melu")
    if own is None or other is None:
        return []
    return [
        Check(
            "training",
            training_seconds(own) - training_seconds(other),
            f"training {training_seconds(own):.0f} s, MeLU {training_seconds(other):.0f} s",
        ),
        Check("test", other.test - own.test, f"test {own.test:.1f} s, MeLU {other.test:.1f} s"),
    ]


def _slow_to_converge(evidence: Evidence) -> list[Check]:
    quick = [
        times.epochs for method in (*FEW_SHOT, "melu", *PROPOSED) if (times := times_of(evidence, method)) is not None
    ]
    return [
        Check(name, times.epochs - max(quick), f"{name} {times.epochs:.3g} epochs, the others at most {max(quick):.3g}")
        for method in ("mamo", "meta-embedding")
        if quick and (times := times_of(evidence, method)) and (name := evidence.label(method))
    ]


CLAIMS: tuple[Claim, ...] = (
    _claim(
        "RESUS trains faster than every rival (pretraining counted).",
        (*PAPER_RIVALS, *PROPOSED),
        partial(_fastest, seconds=training_seconds),
    ),
    _claim(
        "RESUS has the shortest test time.",
        (*PAPER_RIVALS, *PROPOSED),
        partial(_fastest, seconds=attrgetter("test")),
    ),
    _claim(
        "Optimisation-based methods train longer than few-shot representation methods on average.",
        PAPER_RIVALS,
        _optimisation_trains_longer,
    ),
    _claim(
        "Meta-Embedding trains longer than MeLU, but tests faster.",
        ("meta-embedding", "melu"),
        _meta_embedding_and_melu,
    ),
    _claim(
        "MAMO and Meta-Embedding take more epochs than all the others.",
        (*PAPER_RIVALS, *PROPOSED),
        _slow_to_converge,
        where="5.6, figure 5",
    ),
)
