"""Models of the user's own that read columns of items, users and situations, and exports that hold them."""

from collections.abc import Callable
from pathlib import Path

import lightgbm
import numpy as np
import polars as pl
import xgboost
from models_of_others import Fitted, catboost_file, linear_onnx, rows, xgboost_file
from planted_models import tiny

import resus
from resus.data.options import PrepareOptions
from resus.serving.export import export

TABLE = rows().with_columns(
    age=pl.when(pl.col("user") % 4 > 0).then(pl.col("user") % 5 * 10 + 20),
    sex=pl.when(pl.col("user") % 2 == 0).then(pl.lit("f")).otherwise(pl.lit("m")),
)
SCHEMA = {"user": "user", "item": "item", "time": "time", "label": "click", "fields": {"sex": "categorical"}}
KEEP = PrepareOptions(duplicates="keep", single_events="keep")


def lightgbm_of_users(table: pl.DataFrame, folder: Path) -> Fitted:
    """Reads a column of the item, two of the situation and two of the user, some of them missing."""
    columns = table.select("category", "price", "age", "sex", "discount").to_pandas()
    columns = columns.astype({"category": "category", "sex": "category"})
    model = lightgbm.LGBMClassifier(n_estimators=8, num_leaves=7, n_jobs=1, verbosity=-1)
    model.fit(columns, table["click"].to_numpy()).booster_.save_model(folder / "model.txt")
    return Fitted(folder / "model.txt", np.asarray(model.predict_proba(columns, raw_score=True)))


def xgboost_of_ids(table: pl.DataFrame, folder: Path) -> Fitted:
    """Reads the id of the item as a number."""
    columns = table.select("item", "discount").to_pandas()
    model = xgboost.XGBClassifier(n_estimators=8, max_depth=3, n_jobs=1).fit(columns, table["click"].to_numpy())
    model.save_model(folder / "model.ubj")
    return Fitted(folder / "model.ubj", model.predict(columns, output_margin=True))


KINDS: dict[str, Callable[[pl.DataFrame, Path], Fitted]] = {
    "LightGBM": lightgbm_of_users,
    "XGBoost": xgboost_file,
    "CatBoost": catboost_file,
    "ONNX": lambda table, folder: linear_onnx(table, folder, name="model.onnx", output="probabilities"),
    "XGBoost of ids": xgboost_of_ids,
}


def made(kind: str, folder: Path) -> Path:
    """A table, a model of it, a log with its scores, a run on top, and an export that holds the model."""
    folder.mkdir(exist_ok=True)
    TABLE.write_parquet(folder / "events.parquet")
    model = KINDS[kind](TABLE, folder).path
    log = resus.prepare(folder / "events.parquet", folder / "log", schema=SCHEMA, score_with=model, options=KEEP)
    tiny(predictor="logits:model_score").fit(log, folder=folder / "run")
    export(folder / "run", folder / "log", folder / "export", titles={}, onnx=False, score_with=model)
    return folder
