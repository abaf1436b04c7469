"""Models given as objects: an estimator gets the columns it was fitted on, a function everything but the label."""

from typing import Any

import numpy as np
import polars as pl
import pytest
from catboost import CatBoostClassifier
from models_of_others import OF_NUMBERS, READS, SCHEMA, frame, rows
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.svm import SVC
from xgboost import XGBClassifier

from resus.errors import ConfigError, DataError
from resus.external.choice import model_that_scores
from resus.external.score_column import ScoreColumn

TABLE = rows()
CLICKS = TABLE["click"].to_numpy()


def scores(what: object, table: pl.DataFrame = TABLE, schema: object = SCHEMA) -> np.ndarray:
    assert schema in (SCHEMA, OF_NUMBERS)
    chosen = SCHEMA if schema is SCHEMA else OF_NUMBERS
    return ScoreColumn.of(what).on(table, chosen, "the table")["model_score"].to_numpy()


def test_a_pipeline_gets_the_pandas_columns_that_it_was_fitted_on() -> None:
    known = frame(TABLE, READS, "object")
    columns = make_column_transformer((OneHotEncoder(), ["category"]), remainder="passthrough")
    model = make_pipeline(columns, HistGradientBoostingClassifier(max_iter=5)).fit(known, CLICKS)
    chance = model.predict_proba(known)[:, 1]
    assert np.abs(scores(model) - np.log(chance / (1 - chance))).max() < 1e-9


def test_an_estimator_fitted_without_names_gets_the_fields_in_their_order_as_an_array() -> None:
    known = TABLE.select(*OF_NUMBERS.fields).to_numpy()
    model = LogisticRegression(max_iter=500).fit(known, CLICKS)
    assert np.abs(scores(model, schema=OF_NUMBERS) - model.decision_function(known)).max() < 1e-9
    with pytest.raises(ConfigError, match=r"Regression reads 1 column .* the 3 fields item, discount, hour"):
        scores(LogisticRegression().fit(known[:, :1], CLICKS), schema=OF_NUMBERS)


def test_other_libraries_estimators_are_asked_alike() -> None:
    known = TABLE.select("price", "discount").to_pandas()
    model = XGBClassifier(n_estimators=4, n_jobs=1).fit(known, CLICKS)
    assert np.abs(scores(model) - model.predict(known, output_margin=True)).max() < 1e-4


def test_a_sure_estimator_is_finite() -> None:
    class Sure:
        def predict_proba(self, table: object) -> np.ndarray:
            return np.column_stack([1 - CLICKS, CLICKS])

    assert np.unique(scores(Sure())).tolist() == pytest.approx([np.log(1e-6 / (1 - 1e-6)), -np.log(1e-6 / (1 - 1e-6))])


def test_estimators_that_do_not_fit() -> None:
    numbers = TABLE.select("price", "discount").fill_null(0).to_pandas()
    three = LogisticRegression(max_iter=500).fit(numbers, TABLE["hour"].to_numpy() % 3)
    with pytest.raises(ConfigError, match=r"LogisticRegression does not give .* shape \[\d+, 3\], not \[rows, 2\]"):
        scores(three, TABLE.fill_null(0))
    model = LogisticRegression().fit(numbers, CLICKS)
    with pytest.raises(DataError, match="no column 'discount', which the estimator LogisticRegression reads: did you"):
        scores(model, TABLE.rename({"discount": "discounts"}))
    with pytest.raises(ConfigError, match="the class LogisticRegression cannot score rows"):
        model_that_scores(LogisticRegression)
    with pytest.raises(ConfigError, match="a value of the type SVC cannot score rows"):
        model_that_scores(SVC().fit(numbers, CLICKS))


@pytest.mark.parametrize("labels", [("no", "yes"), (1, 2), (0, 1), (0.0, 1.0), (False, True), (-1, 1)])
def test_classes_must_say_which_is_the_click(labels: tuple[Any, Any]) -> None:
    known = TABLE.select("discount").to_pandas()
    model = LogisticRegression().fit(known, np.where(CLICKS == 1, labels[1], labels[0]))
    if labels[1] == 1:
        assert np.abs(scores(model) - model.decision_function(known)).max() < 1e-9
        return
    with pytest.raises(ConfigError, match=rf"Regression has the classes '{labels[0]}' and '{labels[1]}'"):
        scores(model)


def test_a_function_sees_every_column_but_the_label_and_gives_what_holds_numbers() -> None:
    def score(table: pl.DataFrame) -> pl.Series:
        assert "click" not in table.columns
        return table["discount"] * 2 - 1

    wanted = TABLE["discount"].to_numpy() * 2 - 1
    assert np.array_equal(scores(score), wanted)
    assert np.array_equal(scores(lambda table: score(table).to_list()), wanted)
    assert np.array_equal(scores(lambda table: score(table).to_numpy()[:, None]), wanted)


def of_the_label(table: pl.DataFrame) -> pl.Series:
    return table["click"]


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        (LogisticRegression(), r"the estimator LogisticRegression failed on the table \(NotFittedError: This Logistic"),
        (CatBoostClassifier(), r"the estimator CatBoostClassifier failed on the table \(CatBoostError: "),
        (of_the_label, r"the function 'of_the_label' failed on the table \(ColumnNotFoundError: "),
    ],
)
def test_what_an_object_raises_is_told_in_one_sentence(what: object, sentence: str) -> None:
    with pytest.raises(DataError, match=rf"^{sentence}.*\): .* without the label 'click'") as caught:
        scores(what)
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is not None


def test_functions_that_do_not_fit() -> None:
    def some(table: pl.DataFrame) -> pl.Series:
        return table["discount"].head(3)

    def holey(table: pl.DataFrame) -> pl.Series:
        return table["price"]

    def endless(table: pl.DataFrame) -> pl.Series:
        return table.select(pl.when(pl.int_range(pl.len()) == 4).then(float("inf")).otherwise(0.0)).to_series()

    row = int(TABLE["price"].is_null().arg_true()[0]) + 1
    for function, sentence in (
        (some, rf"the function '.*some' gave an answer of the shape \[3\] for {TABLE.height} rows"),
        (holey, rf"the table, row {row}: the function '.*holey' gives nan"),
        (endless, "the table, row 5: the function '.*endless' gives inf"),
        (lambda table: table["category"], r"the function '.*<lambda>' gave no array of numbers \("),
    ):
        with pytest.raises(DataError, match=sentence):
            scores(function)
