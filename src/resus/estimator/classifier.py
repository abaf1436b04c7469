"""`ResusClassifier`: the estimator as scikit-learn's tools expect it."""

from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
import polars as pl

from resus.arrays import Array
from resus.data.fields.values import as_text, as_times
from resus.data.readers.frames import as_frame
from resus.data.schema import SchemaLike, TableSchema
from resus.data.split import Protocol
from resus.errors import ArtifactError, ConfigError, DataError
from resus.estimator.choices import Encoder, Learner
from resus.estimator.resus import Resus

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.metrics import roc_auc_score
    from sklearn.pipeline import Pipeline

    INSTALLED = True
except ImportError:  # scikit-learn is optional: a classifier says so when it is made
    INSTALLED = False

    class BaseEstimator:  # type: ignore[no-redef]
        """Stands in for scikit-learn's."""

    class ClassifierMixin:  # type: ignore[no-redef]
        """Stands in for scikit-learn's."""


LABEL = "label"  # the name of the labels in tables, unless the schema has one
VALIDATION = 0.2  # share of the users that choose the epochs and the scales


class ResusClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """`Resus` for `GridSearchCV`, `Pipeline` and the other tools of scikit-learn.

    >>> model = ResusClassifier(schema={"user": "user", "item": "item", "fields": {"age": "numeric"}})
    >>> model.fit(X, y).predict_proba(X_new)

    `X` is a frame with the columns of the `schema`: the user, the item, the fields and, if there is one, the time. `y`
    holds the labels, two classes of any kind, of which the second in sorted order is the click; so the schema needs no
    label. `fit` trains the model and remembers the events: they are what is known of their users. `observe` adds
    events, also of new users, without training. `predict_proba` scores each row from all remembered events of its user.
    A user without events gets the answer of the shared model. A row that was itself remembered is scored with its own
    label known, so measure on other rows: see `after_events`. With remember=False, `fit` keeps no events.

    The other parameters are those of `Resus`, which is the attribute `model_` after fitting.
    """

    def __init__(
        self,
        schema: SchemaLike | None = None,
        *,
        learner: Learner | None = None,
        predictor: Any = None,
        encoder: Encoder | None = None,
        protocol: Protocol | None = None,
        seed: int | None = None,
        settings: Mapping[str, Any] | None = None,
        remember: bool = True,
    ) -> None:
        if not INSTALLED:
            raise ConfigError("ResusClassifier needs scikit-learn, which is not installed: pip install scikit-learn")
        self.schema = schema
        self.learner = learner
        self.predictor = predictor
        self.encoder = encoder
        self.protocol = protocol
        self.seed = seed
        self.settings = settings
        self.remember = remember

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803  # as scikit-learn calls it
        """Train on all users of `X`, a fifth of whom choose the epochs and the scales."""
        roles, frame = self._roles(), as_frame(X, "X")
        labels = np.asarray(y)
        classes = np.unique(labels)
        if len(classes) != 2:
            raise DataError(f"y holds {len(classes)} classes: give the labels of two")
        self.classes_, self.label_ = classes, roles.label or LABEL
        events = self._labelled(frame, labels)
        if roles.user not in events.columns:
            raise DataError(f"X has no column '{roles.user}', which names the user of each row; add it")
        model = Resus(
            learner=self.learner,
            predictor=self.predictor,
            encoder=self.encoder,
            protocol=self.protocol,
            seed=self.seed,
            settings={"split.ratios": _parts(events[roles.user].n_unique()), **(self.settings or {})},
        )
        self.model_ = model.fit(events, schema=roles, duplicates="keep", single_events="keep")
        self.events_ = events if self.remember else events.clear()
        self.feature_names_in_ = np.array(frame.columns, dtype=object)
        self.n_features_in_ = len(frame.columns)
        return self

    def observe(self, X: Any, y: Any) -> Self:  # noqa: N803
        """Remember more events: the next scores of their users know them. Nothing is trained."""
        self._check_fitted()
        self.events_ = _together(self.events_, self._labelled(as_frame(X, "X"), np.asarray(y)))
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:  # noqa: N803, ARG002
        """Train at the first call, and `observe` at later ones. `classes` is not needed."""
        return self.observe(X, y) if hasattr(self, "model_") else self.fit(X, y)

    def predict_proba(self, X: Any) -> Array:  # noqa: N803
        """`[N, 2]`: the probability of each class in `classes_`."""
        self._check_fitted()
        return self._probabilities(self.events_, as_frame(X, "X"))

    def predict(self, X: Any) -> Array:  # noqa: N803
        """The more probable class of each row."""
        places = (self.predict_proba(X)[:, 1] > 0.5).astype(np.int64)
        return np.asarray(self.classes_[places])

    def _probabilities(self, events: pl.DataFrame, asked: pl.DataFrame) -> Array:
        clicks = self.model_.predict(events, asked)["probability"].to_numpy().astype(np.float64)
        return np.column_stack([1 - clicks, clicks])

    def _roles(self) -> TableSchema:
        if self.schema is None:
            raise ConfigError("ResusClassifier needs a schema: pass schema={'user': …, 'item': …, 'fields': {…}}")
        schema = self.schema
        roles = TableSchema.of({LABEL: LABEL, **schema} if isinstance(schema, Mapping) else schema)
        return roles if roles.label else roles.model_copy(update={"label": LABEL})

    def _labelled(self, frame: pl.DataFrame, labels: Array) -> pl.DataFrame:
        """The events as a table: `X` with the labels as 0 and 1."""
        if labels.shape != (frame.height,):
            raise DataError(
                f"y has the shape {list(labels.shape)}, and X has {frame.height:,} rows: give one label each"
            )
        foreign = labels[~np.isin(labels, self.classes_)]
        if len(foreign):
            raise DataError(f"y holds {foreign[0]!r}, which is none of the classes {self.classes_.tolist()}")
        clicked = (labels == self.classes_[1]).astype(np.int8)
        return frame.with_columns(pl.Series(self.label_, clicked))

    def _check_fitted(self) -> None:
        if not hasattr(self, "model_"):
            raise ArtifactError("the classifier is not fitted yet: call fit(X, y)")


def after_events(events: int) -> Callable[[Any, Any, Any], float]:
    """For `scoring=` in `GridSearchCV` and `cross_val_score`: the AUC on users of whom so many events are known.

    The first events of each test user, by time or by row, are observed; the AUC is that of the later ones. Split by
    user, as with `GroupKFold`, and nothing of a test user is in training. The classifier may be the last step of a
    pipeline.
    """
    if events < 0:
        raise ConfigError(f"after_events({events}): give 0 or more events")

    def score(estimator: Any, X: Any, y: Any) -> float:  # noqa: N803
        if isinstance(estimator, Pipeline):
            estimator, X = estimator[-1], estimator[:-1].transform(X) if len(estimator) > 1 else X  # noqa: N806
        if not isinstance(estimator, ResusClassifier):
            raise ConfigError(f"after_events scores a ResusClassifier, not a {type(estimator).__name__}")
        estimator._check_fitted()
        frame, labels = as_frame(X, "X"), np.asarray(y)
        known = _first_events(frame, estimator.model_.schema, events)
        if known.all():
            raise DataError(f"no test user has more than {events} events: ask for fewer")
        seen = estimator._labelled(frame.filter(known), labels[known])
        asked = estimator._probabilities(_together(estimator.events_, seen), frame.filter(~known))
        return float(roc_auc_score(labels[~known] == estimator.classes_[1], asked[:, 1]))

    return score


def _first_events(frame: pl.DataFrame, schema: TableSchema, events: int) -> Array:
    """Which rows are among the first events of their user."""
    order: dict[str, pl.Series] = {"user": as_text(frame[schema.user])}
    if schema.time:
        order["time"] = as_times(frame[schema.time])
    placed = pl.DataFrame(order).with_row_index("row").sort([*order, "row"])
    places = placed.with_columns(place=pl.int_range(pl.len()).over("user")).sort("row")["place"]
    return (places < events).to_numpy()


def _together(before: pl.DataFrame, more: pl.DataFrame) -> pl.DataFrame:
    try:
        return pl.concat([before, more.select(before.columns)], how="vertical_relaxed")
    except pl.exceptions.PolarsError as error:
        reason = str(error).partition("\n")[0]
        raise DataError(f"X does not have the columns that were fitted ({reason}): give the same columns") from None


def _parts(users: int) -> tuple[int, int, int]:
    """Training, validation and, because there must be a test part, one user."""
    validation = max(1, round(VALIDATION * users))
    return max(1, users - validation - 1), validation, 1
