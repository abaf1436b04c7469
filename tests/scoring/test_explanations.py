"""Explained tables say what live users say, and their causes and shares add up."""

import json
from typing import Any

import numpy as np
import polars as pl
import pytest
from planted_models import events, log_of, tiny

from resus import Resus
from resus.scoring.explanations import REASONS

EVENTS = events()
SUPPORT = EVENTS.filter((pl.col("user") < 6) & (pl.col("time") < 1 + 2 * pl.col("user")))
QUERY = EVENTS.filter(pl.col("user") < 7).sort("item", "user")  # rows of one user are apart; some items were met before


@pytest.fixture(scope="module", params=["ridge", "nearest", "plus"])
def model(request: pytest.FixtureRequest) -> Resus:
    return tiny(learner=request.param).fit(log_of(EVENTS))


def known_of(user: Any) -> pl.DataFrame:
    return SUPPORT.filter(pl.col("user") == user)


def test_scores_stay_the_same(model: Resus) -> None:
    plain, explained = model.predict(SUPPORT, QUERY), model.predict(SUPPORT, QUERY, explain=True)
    assert explained.columns == [*plain.columns, "causes", "because"]
    assert explained.drop("causes", "because").equals(plain)


def test_causes_sum_to_the_residual(model: Resus) -> None:
    answer = model.predict(SUPPORT, QUERY, explain=True)
    if model.config.learner.kind != "plus":
        assert answer["causes"].null_count() == answer.height
        return
    sums = [sum(json.loads(causes).values()) for causes in answer["causes"]]
    np.testing.assert_allclose(sums, answer["residual"], atol=1e-4)


def test_because_names_the_own_item_first_then_the_largest_part(model: Resus) -> None:
    answer = model.predict(SUPPORT, QUERY, explain=True)
    for user, item, said in zip(QUERY["user"], QUERY["item"], answer["because"], strict=True):
        reasons, known = json.loads(said), known_of(user)
        assert len(reasons) == min(REASONS, known.height)
        met = known.select(pl.col("item").cast(pl.String), label=pl.col("click").cast(pl.Int64)).rows()
        assert all((reason["item"], reason["label"]) in met for reason in reasons)
        own = known.filter(pl.col("item") == item).height
        assert [reason["item"] == f"{item}" for reason in reasons[:own]] == [True] * min(own, len(reasons))
        others = [abs(reason["part"]) for reason in reasons[own:]]
        assert others == sorted(others, reverse=True)


def test_parts_are_shares_or_what_is_lost_without_the_event(model: Resus) -> None:
    user = 2  # few enough events that all are named
    asked = QUERY.filter(pl.col("user") == user)
    known = known_of(user)
    assert 1 < known.height <= REASONS
    answer = model.predict(known, asked, explain=True)
    for row in range(asked.height):
        reasons = json.loads(answer["because"][row])
        residual = answer["residual"][row]
        if model.config.learner.kind != "ridge":
            causes = json.loads(answer["causes"][row] or "{}")
            beside = sum(causes.get(cause, 0.0) for cause in ("choice of items", "same context", "number of events"))
            assert sum(reason["part"] for reason in reasons) == pytest.approx(residual - beside, abs=1e-4)
            continue
        for reason in reasons:
            if known["item"].cast(pl.String).to_list().count(reason["item"]) == 1:
                left = known.filter(pl.col("item").cast(pl.String) != reason["item"])
                without = model.predict(left, asked)["residual"][row]
                assert residual - reason["part"] == pytest.approx(without, abs=1e-4)
