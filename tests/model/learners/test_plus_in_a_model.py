"""Every way to ask a model of RESUS+, from the fields of a log on, against the same model written out."""

from functools import cache

import numpy as np
import pytest
import torch
from planted_models import TINY, small_log
from plus_oracle import answers_of, crowd_of

from resus.arrays import Doubles, Integers
from resus.config.resolve import resolve
from resus.episodes.batch import EpisodeBatch, features_of, labels_of
from resus.episodes.prefixes import OrderedUsers
from resus.model.build import build_personalizer
from resus.model.learners.plus.factors import FactorEncoder
from resus.model.learners.plus.learner import PlusLearner
from resus.model.personalizer import Personalizer

USERS = np.flatnonzero(small_log().lengths >= 12)[[2, 0, 1]]
SIZES = (1, 3, 6)


@cache
def built() -> Personalizer:
    """Random weights everywhere; tags are the context, and each number of the log lies between two knots."""
    torch.manual_seed(6)
    settings = {"learner.kind": "plus", "learner.steps": 14, "predictor.embedding_std": 0.7}
    model = build_personalizer(resolve(TINY | settings), small_log().features)
    encoder = FactorEncoder.of(model.encoder)
    with torch.no_grad():
        encoder.embedding.table.normal_(std=0.6)
        encoder.chosen.table.normal_(std=0.6)
        encoder.spread.copy_(torch.eye(4) + 0.3 * torch.randn(4, 4).tril())
        encoder.context[encoder.layout.names.index("tags")] = 1.0
        for parameter in model.learner.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
    return model.eval()


def written_out(known: Integers, asked: Integers) -> Doubles:
    """Logits of some rows of a user after others."""
    model, learner = built(), PlusLearner.of(built().learner)
    with torch.no_grad():
        events, query = (model.encoder(features_of(small_log(), rows)).double().numpy() for rows in (known, asked))
    crowds = [
        crowd_of(learner, encoded, model.predictor.logits_of_rows(small_log(), rows).astype(np.float64))
        for encoded, rows in ((events, known), (query, asked))
    ]
    added = answers_of(learner, events, small_log().labels[known].astype(np.float64), crowds[0], query)
    found: Doubles = crowds[1] + (added if len(known) else 0.0)
    return found


def test_the_rows_have_what_the_model_is_about() -> None:
    """Items and contexts that come again, so that all terms add something."""
    rows = small_log().rows_of(USERS)
    with torch.no_grad():
        codes = FactorEncoder.of(built().encoder).layout.unpack(built().encoder(features_of(small_log(), rows)))
    assert len(torch.unique(codes.items)) < len(rows)
    assert 1 < len(torch.unique(codes.contexts)) < len(rows) / 2


@pytest.mark.parametrize("size", [0, *SIZES])
def test_a_batch(size: int) -> None:
    batch = EpisodeBatch(small_log().rows_of(USERS), small_log().lengths[USERS], np.full(len(USERS), size))
    found = built().score_batch(small_log(), batch)
    rows = [small_log().rows_of(USERS[[place]]) for place in range(len(USERS))]
    expected = np.concatenate([written_out(own[:size], own[size:]) for own in rows])
    np.testing.assert_allclose(found, expected, atol=5e-5)


def test_all_prefixes() -> None:
    ordered = OrderedUsers.of(small_log(), USERS, seed=1)
    found = built().score_prefixes(small_log(), ordered, SIZES)
    starts = np.cumsum(ordered.lengths) - ordered.lengths
    for start, length in zip(starts, ordered.lengths, strict=True):
        rows = ordered.rows[start : start + length]
        for column, size in enumerate(SIZES):
            expected = written_out(rows[:size], rows[size:])
            np.testing.assert_allclose(found[start + size : start + length, column], expected, atol=5e-5)


@pytest.mark.parametrize("size", [0, *SIZES])
def test_a_live_user(size: int) -> None:
    rows = small_log().rows_of(USERS[:1])
    user = built().live_support()
    for place, row in enumerate(rows[:size]):
        user.insert(place, features_of(small_log(), np.array([row])), 1 - float(small_log().labels[row]))
    for place, row in enumerate(rows[:size]):
        user.correct(place, float(small_log().labels[row]))
    scores = user.score(features_of(small_log(), rows[size:]))
    np.testing.assert_allclose(scores.basis + scores.residual, written_out(rows[:size], rows[size:]), atol=5e-5)


def test_no_candidate() -> None:
    user = built().live_support()
    user.insert(0, features_of(small_log(), USERS[:1]), 1.0)
    nothing = features_of(small_log(), USERS[:0])
    scores = user.score(nothing, explain=True)
    assert scores.residual.shape == (0,)
    assert scores.explanation is not None
    assert scores.explanation.parts.shape == (0, 1)


def test_a_table_of_users() -> None:
    """As `resus predict` asks: supports of different sizes, one of them empty."""
    known = [small_log().rows_of(USERS[[place]])[:size] for place, size in enumerate((3, 0, 6))]
    asked = [small_log().rows_of(USERS[[place]])[-4:] for place in range(3)]
    events, query = np.concatenate(known), np.concatenate(asked)
    filled = torch.arange(6) < torch.tensor([[3], [0], [6]])
    basis, added = built().score(
        features_of(small_log(), events),
        labels_of(small_log(), events),
        filled,
        features_of(small_log(), query),
        torch.arange(3).repeat_interleave(4),
    )
    expected = np.concatenate([written_out(*pair) for pair in zip(known, asked, strict=True)])
    np.testing.assert_allclose(basis + added, expected, atol=5e-5)
