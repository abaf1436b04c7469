"""Events that move the score of their own item the wrong way, counted by hand and by live users."""

import numpy as np
import pytest
import torch
from planted_models import TINY, small_log

from resus.config.resolve import resolve
from resus.episodes.batch import features_of
from resus.episodes.prefixes import OrderedUsers
from resus.evaluation.evaluate import ComparedModel, scored_models
from resus.evaluation.population import ScoredQueries
from resus.evaluation.wrong_way import ROUNDING, wrong_way_of
from resus.model.build import build_personalizer


def test_counted_by_hand() -> None:
    logits = np.array(
        [  # after 0, 1 and 2 events; user 7 likes, dislikes, likes; user 9 dislikes
            [0.0, -0.1, 0.0],  # wrong: the first like lowers it
            [0.0, 0.3, 0.2],  # right
            [0.0, 9.0, -9.0],  # beyond the largest size
            [0.0, 0.0, 9.0],  # a dislike that changes nothing
        ],
        dtype=np.float32,
    )
    scored = ScoredQueries(
        labels=np.array([1, 0, 1, 0], dtype=np.float32),
        users=np.array([7, 7, 7, 9]),
        positions=np.array([0, 1, 2, 0]),
        sizes=(0, 1, 2),
        logits={"it": logits, "shared": logits[:, :1]},
    )
    found = wrong_way_of("it", scored)
    assert found is not None
    assert (found.likes, found.dislikes, found.events) == (1.0, 0.0, 3)
    assert wrong_way_of("shared", scored) is None


def test_sizes_further_apart_say_nothing() -> None:
    logits = np.zeros((3, 2), dtype=np.float32)
    scored = ScoredQueries(np.ones(3, np.float32), np.zeros(3, np.int64), np.arange(3), (0, 2), {"it": logits})
    assert wrong_way_of("it", scored) is None


@pytest.mark.parametrize("learner", ["ridge", "nearest"])
def test_live_users_see_the_same(learner: str) -> None:
    log = small_log()
    torch.manual_seed(4)
    config = resolve(TINY | {"learner.kind": learner, "encoder.embedding_std": 0.5})
    model = build_personalizer(config, log.features)
    with torch.no_grad():
        model.fusion.scale.copy_(torch.tensor([1.0, 1.5, 0.5, 2.0, 1.0, 1.2]))
    ordered = OrderedUsers.of(log, np.arange(20), seed=1)
    scored = scored_models({"it": ComparedModel(model, "shared")}, log, ordered, config.evaluation.sizes)
    found = wrong_way_of("it", scored)
    wrong: dict[float, list[bool]] = {0.0: [], 1.0: []}
    for user in range(20):
        live = model.live_support()
        for row in ordered.rows[scored.users == user][:6]:
            event, label = features_of(log, np.array([row])), float(log.labels[row])
            before = live.score(event)
            live.insert(len(live), event, label)
            moved = float(live.score(event).residual - before.residual)
            wrong[label].append((moved if label else -moved) < -ROUNDING)
    assert found is not None
    assert found.events == sum(map(len, wrong.values()))
    for share, label in ((found.likes, 1.0), (found.dislikes, 0.0)):
        assert share == pytest.approx(np.mean(wrong[label]))
    assert any(wrong[0.0] + wrong[1.0])
