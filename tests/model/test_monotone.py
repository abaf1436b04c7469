"""A like never lowers, and a dislike never raises, the score of that very item with RESUS+, whatever came before."""

from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from planted_models import TINY, small_log

from resus.config.resolve import resolve
from resus.episodes.batch import Features, features_of
from resus.model.build import build_personalizer
from resus.model.learners.plus.factors import FactorEncoder
from resus.model.personalizer import LiveSupport, Personalizer

ROWS = 40  # of several users, with items and contexts that repeat
ROUNDING = 1e-4  # log-odds


@cache
def built(seed: int) -> Personalizer:
    """RESUS+ with random weights of all parts, from very small to very large, of both signs where they may have one."""
    torch.manual_seed(seed)
    config = resolve(TINY | {"learner.kind": "plus", "encoder.embedding_std": 0.7, "predictor.embedding_std": 1.0})
    model = build_personalizer(config, small_log().features)
    encoder = FactorEncoder.of(model.encoder)
    with torch.no_grad():
        for parameter in model.learner.parameters():
            parameter.add_(torch.randn_like(parameter) * 1.5)
        encoder.embedding.table.normal_(std=0.7)
        encoder.context[[field.name for field in small_log().features.fields].index("tags")] = 1.0
    return model.eval()


def row(number: int, known: bool = True) -> Features:
    """A row of the log, or the same row of an item that was never seen."""
    features, block = features_of(small_log(), np.array([number])), small_log().features.block("item")
    if not known:
        features.ids[:, block.columns] = block.first
    return features


def logit(user: LiveSupport, number: int, known: bool) -> float:
    scores = user.score(row(number, known))
    return float(scores.basis + scores.residual)


PLACES, LABELS, KNOWN = st.integers(0, ROWS - 1), st.sampled_from([0.0, 1.0]), st.sampled_from([True, True, False])
EVENTS = st.lists(st.tuples(PLACES, LABELS, KNOWN), max_size=25)


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 9), events=EVENTS, number=PLACES, label=LABELS, known=KNOWN, times=st.integers(1, 3))
def test_an_event_moves_its_own_item_towards_its_label(
    seed: int, events: list[tuple[int, float, bool]], number: int, label: float, known: bool, times: int
) -> None:
    """Also the second and third time, and for an item that was never seen."""
    user = built(seed).live_support()
    for place, (other, its_label, seen) in enumerate(events):
        user.insert(place, row(other, seen), its_label)
    for _ in range(1, times):
        user.insert(len(user), row(number, known), label)
    before = logit(user, number, known)
    user.insert(len(user), row(number, known), label)
    after = logit(user, number, known)
    towards = 1 if label else -1
    assert towards * (after - before) >= -ROUNDING
    user.correct(len(user) - 1, 1 - label)
    assert towards * (after - logit(user, number, known)) >= -ROUNDING, "a corrected label moves it the other way"
    user.remove(len(user) - 1)
    assert logit(user, number, known) == pytest.approx(before, abs=ROUNDING)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 9), events=EVENTS.filter(len), number=PLACES)
def test_the_part_of_an_event_of_the_same_row_has_the_sign_of_its_label(
    seed: int, events: list[tuple[int, float, bool]], number: int
) -> None:
    user = built(seed).live_support()
    for place, (other, label, seen) in enumerate(events):
        user.insert(place, row(other, seen), label)
    explanation = user.score(row(number), explain=True).explanation
    assert explanation is not None
    for (other, label, seen), part in zip(events, explanation.parts[0].tolist(), strict=True):
        if other == number and seen:
            assert part * (1 if label else -1) >= -ROUNDING
