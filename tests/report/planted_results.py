"""Small results of a planted world, computed like real ones."""

from functools import cache

import numpy as np

from resus.evaluation.intervals import gains_over
from resus.evaluation.population import ScoredQueries, staged_results
from resus.evaluation.results import Coverage, LogFacts, ModelCoverage, Results, StageCoverage

SIZES = tuple(range(7))
STAGES = {"I": [1, 2], "II": [3, 4], "III": [5, 6]}


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
        gains=gains_over("DeepFM", scored, measured, stages=STAGES, draws=draws, seed=1) if draws else None,
        **bounds,
    )


def example() -> Results:
    return planted_results((4, 9, 14, 20) * 40, draws=60)


def example_without_truth() -> Results:
    return planted_results((4, 9, 14, 20) * 40, truth=False)


def example_of_short_users() -> Results:
    """Nobody has a query at sizes 5 and 6, so stage III is empty and there is no fixed population."""
    return planted_results((3, 4, 5) * 20, draws=60)


def example_with_coverage() -> Results:
    """A posterior of few users with queries: none in stage III."""
    shares = {"I": (0.912, 0.664, 0.618, 0.857), "II": (0.894, 0.758, 0.666, 0.861), "III": (None,) * 4}
    stages = {
        stage: StageCoverage(clicks=own, coins=coins, predictor=predictor, true_logits=true)
        for stage, (own, coins, predictor, true) in shares.items()
    }
    models = {"RESUS-RR": ModelCoverage(predictor="DeepFM", stages=stages)}
    return example().model_copy(update={"coverage": Coverage(level=0.9, models=models)})
