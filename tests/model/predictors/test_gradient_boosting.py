"""LightGBM on logs whose answer is known."""

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
import torch
from sklearn.metrics import roc_auc_score

from resus.data.datasets.planted import PlantedWorld, planted_log
from resus.data.given import build_log
from resus.data.log.log import InteractionLog
from resus.data.options import BuildOptions
from resus.data.schema import TableSchema
from resus.errors import ArtifactError
from resus.model.predictors.gradient_boosting import GradientBoosting

Rows = npt.NDArray[np.int64]


def boosting(log: InteractionLog, rounds: int = 40) -> GradientBoosting:
    return GradientBoosting(log.features, learning_rate=0.1, rounds=rounds, num_leaves=15, patience=10)


def fitted(log: InteractionLog, train: Rows, held_out: Rows, seed: int = 1) -> tuple[GradientBoosting, float]:
    booster = boosting(log)
    return booster, booster.fit(log, train, held_out, seed=seed, threads=1)


@pytest.fixture(scope="module")
def log() -> InteractionLog:
    return planted_log(PlantedWorld(users=300, items=30, events_per_user=20))


@pytest.fixture(scope="module")
def rows(log: InteractionLog) -> tuple[Rows, Rows]:
    return log.rows_of(np.arange(200)), log.rows_of(np.arange(200, 300))


def test_it_learns_what_the_crowd_likes(log: InteractionLog, rows: tuple[Rows, Rows]) -> None:
    train, held_out = rows
    booster, best = fitted(log, train, held_out)
    found = roc_auc_score(log.labels[held_out], booster.logits_of_rows(log, held_out))
    assert log.crowd is not None
    crowd = roc_auc_score(log.labels[held_out], log.crowd[held_out])
    assert found == pytest.approx(best, abs=1e-6)
    assert 0.5 + 0.5 * (crowd - 0.5) < found


def test_the_same_seed_gives_the_same_trees(log: InteractionLog, rows: tuple[Rows, Rows]) -> None:
    first, again = (fitted(log, *rows)[0] for _ in range(2))
    assert np.array_equal(first.logits_of_rows(log), again.logits_of_rows(log))


@pytest.mark.parametrize("damage", ["no key", "other text", "cut", "not text", "empty"])
def test_a_damaged_booster_is_refused(log: InteractionLog, rows: tuple[Rows, Rows], damage: str) -> None:
    state = fitted(log, *rows)[0].state_dict()["booster"]
    spoiled = {
        "no key": {},
        "other text": {"booster": torch.tensor(list(b"tree: oak"), dtype=torch.uint8)},
        "cut": {"booster": state[: len(state) // 2].clone()},
        "not text": {"booster": torch.full((50,), 255, dtype=torch.uint8)},
        "empty": {"booster": torch.empty(0, dtype=torch.uint8)},
    }[damage]
    with pytest.raises(ArtifactError, match=r"LightGBM model in the artifact cannot be read .*: train it again"):
        boosting(log).load_state_dict(spoiled)


@pytest.mark.parametrize("decided_by", ["price", "tags", "item"])
def test_numbers_several_values_and_categories_all_split(decided_by: str) -> None:
    random = np.random.default_rng(1)
    n = 2000
    price, item, has = random.normal(size=n), random.integers(6, size=n), random.random((n, 3)) < 0.5
    clicked = {"price": np.abs(price) < 0.5, "tags": has[:, 1], "item": np.isin(item, [1, 4])}[decided_by]
    table = pl.DataFrame(
        {
            "user": np.arange(n) // 10,
            "item": item,
            "price": price,
            "tags": [[tag for tag, here in zip("xyz", row, strict=True) if here] for row in has.tolist()],
            "click": clicked.astype(np.int8),
        }
    )
    schema = TableSchema.model_validate(
        {"user": "user", "item": "item", "label": "click", "fields": {"price": "numeric", "tags": "multi"}}
    )
    log = build_log(table, schema, BuildOptions(duplicates="keep"))
    booster, best = fitted(log, log.rows_of(np.arange(150)), log.rows_of(np.arange(150, 200)))
    assert best > 0.99
    assert booster.logits_of_rows(log).shape == (n,)
