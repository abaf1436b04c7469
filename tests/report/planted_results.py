"""Small results of a planted world, computed like real ones, and a warm-up curve of known numbers."""

import io
from functools import cache
from typing import Literal

import numpy as np
from rich.console import Console, RenderableType

from resus.evaluation.intervals import gains_over
from resus.evaluation.population import ScoredQueries, staged_results
from resus.evaluation.results import Coverage, LogFacts, ModelCoverage, Results, SizeMetrics, StageCoverage, WarmUp
from resus.evaluation.wrong_way import wrong_way_of

SIZES = tuple(range(7))
STAGES = {"I": [1, 2], "II": [3, 4], "III": [5, 6]}
EVENTS = [0, 1, 3, 8, 30, 120, 300]


@cache
def planted_results(
    lengths: tuple[int, ...],
    *,
    learns: str = "taste",
    truth: bool = True,
    name: str = "RESUS-RR",
    seed: int = 0,
    draws: int = 0,
) -> Results:
    """`learns` says what the contender finds out about a user as k grows: their bias, their taste, or nothing."""
    rng = np.random.default_rng(seed)
    users = np.repeat(np.arange(len(lengths)), lengths)
    item, taste = rng.normal(0, 0.7, (2, len(users)))
    bias = np.repeat(rng.normal(0, 1, len(lengths)), lengths)
    known = np.array(SIZES) / (np.array(SIZES) + 2)
    found = {"bias": bias, "taste": taste, "nothing": rng.normal(0, 1, len(users))}[learns]
    logits = {
        "DeepFM": item[:, None],
        name: item[:, None] + found[:, None] * known,
        "MUS": taste[:, None] * known,
    }
    if truth:
        logits |= {"oracle": (item + taste + bias)[:, None], "crowd": (item + 0.01 * taste)[:, None]}
    scored = ScoredQueries(
        labels=(rng.random(len(users)) < 1 / (1 + np.exp(-item - taste - bias))).astype(np.float32),
        users=users,
        positions=np.concatenate([np.arange(length) for length in lengths]),
        sizes=SIZES,
        logits={model: values.astype(np.float32) for model, values in logits.items()},
    )
    bounds = {"oracle": "oracle", "crowd": "crowd"} if truth else {"oracle": None, "crowd": None}
    measured = staged_results(scored, stages=STAGES, base="DeepFM", **bounds)
    return Results(
        log=LogFacts(name="planted", hash="0f" * 32, rows=len(users), users=len(lengths)),
        protocol="paper",
        seed=1,
        part="test",
        base="DeepFM",
        sizes=list(SIZES),
        stages=STAGES,
        models=measured,
        wrong_way={model: found for model in scored.logits if (found := wrong_way_of(model, scored)) is not None},
        gains=gains_over("DeepFM", scored, measured, stages=STAGES, draws=draws, seed=1) if draws else None,
        **bounds,
    )


def example() -> Results:
    return planted_results((4, 9, 14, 20) * 40, draws=60)


def example_without_truth() -> Results:
    return planted_results((4, 9, 14, 20) * 40, truth=False)


def example_of_short_users() -> Results:
    """No user has a query at sizes 5 and 6, so stage III is empty and there is no fixed population."""
    return planted_results((3, 4, 5) * 20, draws=60)


def example_with_coverage() -> Results:
    """A model with intervals, which has no query in stage III."""
    shares = {"I": (0.912, 0.664, 0.618, 0.857), "II": (0.894, 0.758, 0.666, 0.861), "III": (None,) * 4}
    stages = {
        stage: StageCoverage(clicks=own, coins=coins, predictor=predictor, true_logits=true)
        for stage, (own, coins, predictor, true) in shares.items()
    }
    models = {"RESUS-RR": ModelCoverage(predictor="DeepFM", stages=stages)}
    return example().model_copy(update={"coverage": Coverage(level=0.9, models=models)})


def example_curve(*, falls: bool = False, truth: bool = False, asked: int = 300, trained: int = 30) -> WarmUp:
    rise = [0.70, 0.71, 0.72, 0.74, 0.76, 0.78, 0.75 if falls else 0.80]
    models = {
        "DeepFM": {size: point(0.70, 0.65) for size in EVENTS},
        "RESUS-RR": {size: point(value, value - 0.05) for size, value in zip(EVENTS, rise, strict=True)},
        "<user> bias": {size: point(0.70 + 0.01 * place, 0.65) for place, size in enumerate(EVENTS)},
    }
    if truth:
        models |= {name: {size: point(0.9, None) for size in EVENTS} for name in ("oracle", "crowd")}
    return WarmUp(
        log=LogFacts(name="films", hash="0f" * 32, rows=99999, users=410),
        protocol="paper",
        seed=1,
        part="test",
        base="DeepFM",
        oracle="oracle" if truth else None,
        crowd="crowd" if truth else None,
        asked_up_to=asked,
        users_beyond_asked=7 if asked > 300 else 41,
        trained_up_to={"RESUS-RR": trained},
        sizes=EVENTS,
        models=models,
    )


def point(auc: float | None, gauc: float | None) -> SizeMetrics:
    metrics = {"auc": auc, "gauc": gauc, "logloss": 0.5, "calibration_error": 0.1, "rela_impr": None}
    return SizeMetrics.model_validate({**metrics, "users": 41, "queries": 5678, "gauc_users": 40})


def printed(*parts: RenderableType, width: int, colours: bool = False) -> str:
    """What a terminal of this width shows."""
    system: Literal["standard"] | None = "standard" if colours else None
    console = Console(width=width, file=io.StringIO(), force_terminal=colours, color_system=system)
    console.print(*parts, sep="\n")
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()
