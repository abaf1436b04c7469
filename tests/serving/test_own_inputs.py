"""`resus export --score-with`: which models may be packed, and what the table of the log says of them."""

import json
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from models_of_others import catboost_file
from own_models import KEEP, SCHEMA, TABLE, lightgbm_of_users, made
from planted_models import tiny

import resus
from resus.errors import ConfigError
from resus.serving import LoadedModel
from resus.serving.export import export


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made("LightGBM", tmp_path_factory.mktemp("own"))


@pytest.fixture
def by_hand(tmp_path: Path) -> Path:
    """A run on scores that the user wrote into the table."""
    scored = TABLE.with_columns(score=pl.Series(lightgbm_of_users(TABLE, tmp_path).logits))
    scored.write_csv(tmp_path / "events.csv")
    schema = SCHEMA | {"fields": {"sex": "categorical", "score": "numeric"}}
    log = resus.prepare(tmp_path / "events.csv", tmp_path / "log", schema=schema, options=KEEP)
    tiny(predictor="logits:score").fit(log, folder=tmp_path / "run")
    return tmp_path


def pack(folder: Path, model: Path, out: Path, **more: Any) -> list[str]:
    return export(folder / "run", folder / "log", out, titles={}, onnx=False, score_with=model, **more)


def test_scores_by_hand_are_compared_with_those_of_the_model(by_hand: Path) -> None:
    pack(by_hand, by_hand / "model.txt", by_hand / "export")
    assert LoadedModel.load(by_hand / "export").score is None
    other = catboost_file(TABLE, by_hand).path
    with pytest.raises(ConfigError, match=r"model.cbm is not the model .* [\d,]+ of 598 rows .* by up to \d"):
        pack(by_hand, other, by_hand / "other")
    assert not (by_hand / "other").exists()


def test_another_file_than_that_of_the_log(folder: Path, tmp_path: Path) -> None:
    other = catboost_file(TABLE, tmp_path).path
    with pytest.raises(ConfigError, match=r"by model.txt of sha256 \w{12}…, and model.cbm is not that file"):
        pack(folder, other, tmp_path / "export")


def test_the_table_moved_or_is_another_one(folder: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    manifest = json.loads((copy / "log" / "manifest.json").read_text())
    manifest["source"] = str(tmp_path / "gone.parquet")
    (copy / "log" / "manifest.json").write_text(json.dumps(manifest))
    with pytest.warns(resus.ResusWarning, match=r"gone.parquet is gone, so the scores of model.txt cannot"):
        pack(copy, copy / "model.txt", tmp_path / "unchecked")
    assert LoadedModel.load(tmp_path / "unchecked").rows([dict.fromkeys(TABLE.columns, None) | {"item": 1}]).length
    pack(copy, copy / "model.txt", tmp_path / "checked", table=folder / "events.parquet")
    TABLE.head(300).write_parquet(tmp_path / "short.parquet")
    with pytest.raises(ConfigError, match=r"short.parquet does not hold the rows of the log .* --table"):
        pack(copy, copy / "model.txt", tmp_path / "short", table=tmp_path / "short.parquet")


def test_a_run_that_reads_no_logits(folder: Path, tmp_path: Path) -> None:
    tiny().fit(folder / "log", folder=tmp_path / "run")
    with pytest.raises(ConfigError, match="reads no logits of a model of your own"):
        export(tmp_path / "run", folder / "log", tmp_path / "out", titles={}, score_with=folder / "model.txt")
