"""Research question 4, figure 4: supports that are less and less relevant to the query."""

from collections.abc import Sequence
from functools import partial

from resus.paper.cells.summary import Noise
from resus.paper.claims.judging import FAR, Check, Claim, Evidence
from resus.paper.questions import PROPOSED

_claim = partial(Claim, "rq4", where="5.5, figure 4")


def _levels(evidence: Evidence, method: str) -> list[Noise]:
    """From the nearest support to the farthest. The paper prints no such numbers."""
    return evidence.summary.noise(evidence.data_set, method) if evidence.summary else []


def _fall(levels: Sequence[Noise]) -> float:
    return levels[0].auc - levels[-1].auc


def _ahead_at_every_level(evidence: Evidence, metric: str, name: str, *, sign: int) -> list[Check]:
    """By how much RESUS is better. `sign` is -1 if less is better."""
    found = []
    for method in PROPOSED:
        both = zip(_levels(evidence, method), _levels(evidence, "meta-embedding"), strict=False)
        gains = [sign * (getattr(mine, metric) - getattr(theirs, metric)) for mine, theirs in both]
        if gains:
            label = evidence.label(method)
            clause = f"{label} ahead by {min(gains):+.4f} to {max(gains):+.4f} {name} over {len(gains)} levels"
            found.append(Check(label, min(gains), clause))
    return found


def _stable(evidence: Evidence) -> list[Check]:
    found = []
    for method in PROPOSED:
        if aucs := [level.auc for level in _levels(evidence, method)]:
            name, least, most = evidence.label(method), min(aucs), max(aucs)
            clause = f"{name} between {least:.4f} and {most:.4f} AUC over {len(aucs)} levels"
            found.append(Check(name, FAR - (most - least), clause))
    return found


def _falls_slightly(evidence: Evidence) -> list[Check]:
    """A rise does not count as a fall."""
    found = []
    for method in PROPOSED:
        if levels := _levels(evidence, method):
            name, fall = evidence.label(method), _fall(levels)
            found.append(Check(name, min(fall, FAR - fall), f"{name} {-fall:+.4f} AUC from nearest to farthest"))
    return found


def _falls_less_than_mus(evidence: Evidence) -> list[Check]:
    found = []
    for method in PROPOSED:
        own, mus = (_levels(evidence, name) for name in (method, "mus"))
        if own and mus:
            name, falls = evidence.label(method), [_fall(levels) for levels in (own, mus)]
            clause = f"{name} {-falls[0]:+.4f} AUC from nearest to farthest, {evidence.label('mus')} {-falls[1]:+.4f}"
            found.append(Check(name, falls[1] - falls[0], clause))
    return found


CLAIMS: tuple[Claim, ...] = (
    _claim(
        "RESUS beats Meta-Embedding at every noise level.",
        ("meta-embedding", *PROPOSED),
        partial(_ahead_at_every_level, metric="auc", name="AUC", sign=1),
    ),
    _claim(
        "RESUS has a lower Logloss than Meta-Embedding at every noise level.",
        ("meta-embedding", *PROPOSED),
        partial(_ahead_at_every_level, metric="logloss", name="Logloss", sign=-1),
    ),
    _claim(
        f"RESUS's AUC is stable over the noise levels (it varies by less than {FAR}).",
        PROPOSED,
        _stable,
    ),
    _claim(
        f"RESUS's AUC falls slightly from the nearest to the farthest support (by less than {FAR}).",
        PROPOSED,
        _falls_slightly,
    ),
    _claim(
        "RESUS's AUC falls less from the nearest to the farthest support than MUS's.",
        ("mus", *PROPOSED),
        _falls_less_than_mus,
    ),
)
