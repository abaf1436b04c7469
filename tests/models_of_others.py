"""A planted table, and models of other libraries fitted on its raw columns."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import catboost
import lightgbm
import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl
import xgboost
from onnx import TensorProto, helper, save
from sklearn.linear_model import LogisticRegression

from resus import TableSchema
from resus.data.datasets.planted import PlantedWorld, draw_events

Floats = npt.NDArray[np.float64]
SCHEMA = TableSchema.model_validate(
    {
        "user": "user",
        "item": "item",
        "time": "time",
        "label": "click",
        "fields": {"category": "categorical", "price": "numeric"},
    }
)
OF_NUMBERS = SCHEMA.model_copy(update={"fields": dict.fromkeys(("item", "discount", "hour"), SCHEMA.fields["price"])})
READS = ["category", "price", "discount"]  # the last is not a field of the schema


class Fitted(NamedTuple):
    """A model file, and the logits that its library gives for the whole table."""

    path: Path
    logits: Floats


def rows() -> pl.DataFrame:
    """Events with text, a number that is sometimes missing, and numbers and a boolean outside the schema."""
    drawn = draw_events(PlantedWorld(users=50, items=20, events_per_user=12, categories=9, seed=3))
    noise = np.random.default_rng(4).normal(size=drawn.height)
    return drawn.select(
        "user",
        "time",
        "item",
        "click",
        category="c" + pl.col("category").cast(pl.String),
        price=pl.when(pl.col("time") % 7 != 5).then(pl.col("item") * 1.5),
        discount=pl.col("crowd") + 0.1 * pl.Series(noise),
        hour=pl.col("time") % 24,
        grade=pl.col("item") % 5 / 2,
        fresh=pl.col("item") % 3 == 0,
    )


def frame(table: pl.DataFrame, columns: list[str], kind: str) -> pd.DataFrame:
    """As pandas; the text as `kind`."""
    return table.select(columns).to_pandas().astype({"category": kind} if "category" in columns else {})


def lightgbm_file(table: pl.DataFrame, folder: Path) -> Fitted:
    columns = frame(table, READS, "category")
    model = lightgbm.LGBMClassifier(n_estimators=8, num_leaves=7, n_jobs=1, verbosity=-1).fit(
        columns, table["click"].to_numpy()
    )
    model.booster_.save_model(folder / "model.txt")
    return Fitted(folder / "model.txt", np.asarray(model.predict_proba(columns, raw_score=True)))


def categorical_lightgbm_file(table: pl.DataFrame, folder: Path) -> Fitted:
    """On categories that are no text: fractions, whole numbers and booleans."""
    columns = table.select("grade", "item", "fresh").to_pandas().astype("category")
    model = lightgbm.LGBMClassifier(n_estimators=8, n_jobs=1, min_child_samples=5, verbosity=-1)
    model.fit(columns, table["click"].to_numpy()).booster_.save_model(folder / "categorical.txt")
    return Fitted(folder / "categorical.txt", np.asarray(model.predict_proba(columns, raw_score=True)))


def steep_lightgbm_file(table: pl.DataFrame, folder: Path) -> Fitted:
    """A model with its own sigmoid, so that the raw score is not the logit."""
    columns = table.select("price", "discount").to_pandas()
    data = lightgbm.Dataset(columns, table["click"].to_numpy())
    model = lightgbm.train({"objective": "binary", "sigmoid": 0.4, "num_threads": 1, "verbosity": -1}, data, 8)
    model.save_model(folder / "steep.lgb")
    chance = np.asarray(model.predict(columns))
    return Fitted(folder / "steep.lgb", np.log(chance / (1 - chance)))


def forest_lightgbm_file(table: pl.DataFrame, folder: Path) -> Fitted:
    """Trees that are averaged, so that the raw score is not a logit."""
    columns = table.select("price", "discount").to_pandas()
    forest = {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5, "num_threads": 1, "verbosity": -1}
    model = lightgbm.train(forest | {"objective": "binary"}, lightgbm.Dataset(columns, table["click"].to_numpy()), 8)
    model.save_model(folder / "forest.txt")
    chance = np.asarray(model.predict(columns))
    return Fitted(folder / "forest.txt", np.log(chance / (1 - chance)))


def linear_xgboost_file(table: pl.DataFrame, folder: Path) -> Fitted:
    """No trees at all."""
    columns = table.select("item", "discount").to_pandas()
    model = xgboost.XGBClassifier(booster="gblinear", n_estimators=5).fit(columns, table["click"].to_numpy())
    model.save_model(folder / "linear.json")
    return Fitted(folder / "linear.json", model.predict(columns, output_margin=True))


def xgboost_file(table: pl.DataFrame, folder: Path, ending: str = "json") -> Fitted:
    columns = frame(table, READS, "category")
    model = xgboost.XGBClassifier(n_estimators=8, max_depth=3, enable_categorical=True)
    model.fit(columns, table["click"].to_numpy()).save_model(folder / f"model.{ending}")
    return Fitted(folder / f"model.{ending}", model.predict(columns, output_margin=True))


def categorical_xgboost_file(table: pl.DataFrame, folder: Path) -> Fitted:
    """A model of whole numbers, the only categories besides text that it lists."""
    columns = table.select("item").to_pandas().astype("category")
    model = xgboost.XGBClassifier(n_estimators=8, max_depth=3, enable_categorical=True)
    model.fit(columns, table["click"].to_numpy()).save_model(folder / "categorical.json")
    return Fitted(folder / "categorical.json", model.predict(columns, output_margin=True))


def stopped_xgboost_file(table: pl.DataFrame, folder: Path) -> Fitted:
    """Stopped early, so that not all trees count; fitted on an array, so without names."""
    columns, clicks = table.select(*OF_NUMBERS.fields).to_numpy(), table["click"].to_numpy()
    model = xgboost.XGBClassifier(n_estimators=30, early_stopping_rounds=2, learning_rate=1.0)
    model.fit(columns[:300], clicks[:300], eval_set=[(columns[300:], clicks[300:])], verbose=False)
    assert model.best_iteration < model.get_booster().num_boosted_rounds() - 1
    model.save_model(folder / "stopped.ubj")
    return Fitted(folder / "stopped.ubj", model.predict(columns, output_margin=True))


def catboost_file(table: pl.DataFrame, folder: Path) -> Fitted:
    columns = frame(table, READS, "object")
    model = catboost.CatBoostClassifier(iterations=8, cat_features=["category"], verbose=0, allow_writing_files=False)
    model.fit(columns, table["click"].to_numpy()).save_model(str(folder / "model.cbm"))
    return Fitted(folder / "model.cbm", model.predict(columns, prediction_type="RawFormulaVal"))


def categorical_catboost_file(table: pl.DataFrame, folder: Path, *, words: bool = False) -> Fitted:
    """On whole numbers and booleans, or on the words that text has for these."""
    columns = table.select("item", "fresh", "discount").to_pandas()
    if words:
        columns = columns.astype({"fresh": str})
    kinds = {"cat_features": ["item", "fresh"], "verbose": 0, "allow_writing_files": False}
    model = catboost.CatBoostClassifier(iterations=20, **kinds).fit(columns, table["click"].to_numpy())
    path = folder / f"categorical{'-words' * words}.cbm"
    model.save_model(str(path))
    return Fitted(path, model.predict(columns, prediction_type="RawFormulaVal"))


def catboost_as_onnx(table: pl.DataFrame, folder: Path) -> Fitted:
    """One matrix in, a class and a ZipMap of probabilities out, as CatBoost itself exports it."""
    columns = table.select(*OF_NUMBERS.fields).to_numpy()
    model = catboost.CatBoostClassifier(iterations=8, verbose=0, allow_writing_files=False)
    model.fit(columns, table["click"].to_numpy()).save_model(str(folder / "matrix.onnx"), format="onnx")
    return Fitted(folder / "matrix.onnx", model.predict(columns, prediction_type="RawFormulaVal"))


def linear_onnx(
    table: pl.DataFrame, folder: Path, *, name: str, output: str, logit: bool = False, classes: int = 2
) -> Fitted:
    """A logistic regression with an input per column and its answer in one tensor."""
    codes = {f"c{code}": float(code) for code in range(9)}
    known = table.select(pl.col("category").replace_strict(codes), "discount").to_numpy()
    model = LogisticRegression().fit(known, table["click"].to_numpy())
    inputs = [
        helper.make_tensor_value_info("category", TensorProto.STRING, [None, 1]),
        helper.make_tensor_value_info("discount", TensorProto.FLOAT, [None, 1]),
    ]
    slopes = np.vstack([-model.coef_[0], model.coef_[0]] + [model.coef_[0]] * (classes - 2)) / 2
    starts = np.array([-model.intercept_[0], model.intercept_[0]] + [0.0] * (classes - 2)) / 2
    nodes = [
        helper.make_node(
            "LabelEncoder",
            ["category"],
            ["code"],
            domain="ai.onnx.ml",
            keys_strings=list(codes),
            values_floats=list(codes.values()),
        ),
        helper.make_node("Concat", ["code", "discount"], ["row"], axis=1),
        helper.make_node("Gemm", ["row", "slopes", "starts"], [output if logit else "both"], transB=1),
    ]
    if not logit:
        nodes.append(helper.make_node("Softmax", ["both"], [output], axis=1))
    graph = helper.make_graph(
        nodes,
        "linear",
        inputs,
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, [None, classes])],
        [
            helper.make_tensor("slopes", TensorProto.FLOAT, slopes.shape, slopes.ravel()),
            helper.make_tensor("starts", TensorProto.FLOAT, starts.shape, starts),
        ],
    )
    versions = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    save(helper.make_model(graph, opset_imports=versions, ir_version=9), folder / name)
    return Fitted(folder / name, model.decision_function(known))


FILES: dict[str, Callable[[pl.DataFrame, Path], Fitted]] = {
    "LightGBM": lightgbm_file,
    "LightGBM of numbers and booleans as categories": categorical_lightgbm_file,
    "LightGBM with its own sigmoid": steep_lightgbm_file,
    "LightGBM's forest": forest_lightgbm_file,
    "XGBoost as JSON": xgboost_file,
    "XGBoost's linear one": linear_xgboost_file,
    "XGBoost as UBJSON": lambda table, folder: xgboost_file(table, folder, "ubj"),
    "XGBoost of numbers as categories": categorical_xgboost_file,
    "XGBoost without names, stopped early": stopped_xgboost_file,
    "CatBoost": catboost_file,
    "CatBoost of numbers and booleans as categories": categorical_catboost_file,
    "ONNX of a matrix, with a ZipMap": catboost_as_onnx,
    "ONNX of columns, probabilities": lambda *where: linear_onnx(*where, name="p.onnx", output="probabilities"),
    "ONNX of columns, logits": lambda *where: linear_onnx(*where, name="l.onnx", output="logits", logit=True),
}
