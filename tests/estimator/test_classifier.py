"""`ResusClassifier` among the tools of scikit-learn."""

import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from planted_models import TINY, events
from sklearn.base import clone, is_classifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from resus import ArtifactError, ConfigError, DataError, ResusClassifier, after_events

SCHEMA = {
    "user": "user",
    "item": "item",
    "time": "time",
    "fields": {"category": "categorical", "price": "numeric", "tags": "multi"},
}
SMALL = {key: value for key, value in TINY.items() if key != "learner.kind"}
TABLE = events().rename({"click": "label"})
X: pd.DataFrame = TABLE.drop("label").to_pandas()
Y = TABLE["label"].to_numpy()
NEW = TABLE["user"].to_numpy() >= 45  # users to keep out of training


def small(**options: Any) -> ResusClassifier:
    return ResusClassifier(**{"schema": SCHEMA, "learner": "ridge", "settings": SMALL, **options})


@pytest.fixture(scope="module")
def fitted() -> ResusClassifier:
    return small().fit(X[~NEW], Y[~NEW])


def test_it_is_a_classifier_that_can_be_cloned() -> None:
    model = small(seed=3)
    assert is_classifier(model)
    assert clone(model).get_params() == model.get_params()
    assert model.set_params(learner="nearest").learner == "nearest"


def test_probabilities_are_those_of_the_model_and_its_remembered_events(fitted: ResusClassifier) -> None:
    asked = X[~NEW].head(50)
    answer = fitted.model_.predict(TABLE.filter(~pl.Series(NEW)), pl.from_pandas(asked))
    found = fitted.predict_proba(asked)
    np.testing.assert_allclose(found[:, 1], answer["probability"].to_numpy(), atol=1e-6)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert fitted.classes_.tolist() == [0, 1]
    np.testing.assert_array_equal(fitted.predict(asked), (found[:, 1] > 0.5).astype(int))
    assert list(fitted.feature_names_in_) == list(X.columns)


def test_new_users_get_the_shared_model_until_their_events_are_observed(fitted: ResusClassifier) -> None:
    model = small().fit(X[~NEW], Y[~NEW])
    first, later = NEW & (X["time"] < 5).to_numpy(), NEW & (X["time"] >= 5).to_numpy()
    before = model.predict_proba(X[later])
    shared = model.model_.predict(TABLE.clear(), TABLE.filter(pl.Series(later)))["probability"].to_numpy()
    np.testing.assert_allclose(before[:, 1], shared, atol=1e-6)
    after = model.observe(X[first], Y[first]).predict_proba(X[later])
    assert not np.allclose(before, after)
    again = small(remember=False).partial_fit(X[~NEW], Y[~NEW]).partial_fit(X[first], Y[first])
    np.testing.assert_allclose(again.predict_proba(X[later]), after, atol=1e-6)


def test_the_score_after_events_is_the_auc_of_the_later_ones(fitted: ResusClassifier) -> None:
    first, later = NEW & (X["time"] < 3).to_numpy(), NEW & (X["time"] >= 3).to_numpy()
    known = small().fit(X[~NEW], Y[~NEW]).observe(X[first], Y[first])
    expected = roc_auc_score(Y[later], known.predict_proba(X[later])[:, 1])
    shuffled = X[NEW].sample(frac=1, random_state=1)  # the time says which events are first
    found = after_events(3)(fitted, shuffled, pd.Series(Y, index=X.index)[shuffled.index])
    assert found == pytest.approx(expected, abs=1e-9)
    assert after_events(0)(fitted, X[NEW], Y[NEW]) == pytest.approx(
        roc_auc_score(Y[NEW], fitted.predict_proba(X[NEW])[:, 1])
    )


def test_grid_search_by_users() -> None:
    search = GridSearchCV(
        small(), {"learner": ["ridge", "nearest"]}, cv=GroupKFold(2), scoring=after_events(4), error_score="raise"
    )
    search.fit(X, Y, groups=X["user"])
    assert set(search.cv_results_["param_learner"]) == {"ridge", "nearest"}
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.predict_proba(X.head(3)).shape == (3, 2)


def test_the_last_step_of_a_pipeline_and_polars() -> None:
    pipeline = make_pipeline(FunctionTransformer(lambda frame: frame.assign(price=frame["price"] * 2)), small())
    scores = cross_val_score(
        pipeline, X, Y, groups=X["user"], cv=GroupKFold(2), scoring=after_events(4), error_score="raise"
    )
    assert np.isfinite(scores).all()
    in_polars = small().fit(TABLE.drop("label"), Y)
    in_pandas = small().fit(X, Y)
    np.testing.assert_array_equal(in_polars.predict_proba(TABLE.drop("label")), in_pandas.predict_proba(X))


def test_classes_of_any_kind(fitted: ResusClassifier) -> None:
    words = np.where(Y == 1, "yes", "no")
    model = small().fit(X[~NEW], words[~NEW])
    assert model.classes_.tolist() == ["no", "yes"]
    np.testing.assert_array_equal(model.predict_proba(X), fitted.predict_proba(X))
    assert set(model.predict(X)) <= {"no", "yes"}


@pytest.mark.parametrize(
    ("use", "sentence"),
    [
        (lambda: ResusClassifier().fit(X, Y), "needs a schema: pass schema="),
        (lambda: small().fit(X, np.zeros(len(X))), "y holds 1 classes: give the labels of two"),
        (lambda: small().fit(X, Y[:-1]), "y has the shape .* and X has .* rows"),
        (lambda: small().fit(X.drop(columns="user"), Y), "X has no column 'user'"),
        (lambda: small().fit(X.drop(columns="price"), Y), "column 'price': there is no such column"),
        (lambda: small().predict_proba(X), r"not fitted yet: call fit\(X, y\)"),
        (lambda: small().fit(X, Y).observe(X, Y + 1), "y holds .*2.*, which is none of the classes"),
        (lambda: small().fit(X, Y).observe(X.drop(columns="price"), Y), "give the same columns"),
        (lambda: after_events(-1), "give 0 or more events"),
    ],
)
def test_mistakes_are_one_sentence(use: Any, sentence: str) -> None:
    with pytest.raises((ArtifactError, ConfigError, DataError), match=sentence):
        use()


@pytest.mark.integration
def test_without_scikit_learn_it_is_one_sentence() -> None:
    code = (
        "import sys; sys.modules['sklearn'] = None\n"
        "from resus import *\n"
        "try: ResusClassifier()\n"
        "except ConfigError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == (
        "ResusClassifier needs scikit-learn, which is not installed: pip install scikit-learn"
    )
