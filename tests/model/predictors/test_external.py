"""The user's own model as predictor: its scores come through unchanged, and RESUS learns on top of them."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from planted_models import KEEP, tiny

import resus
from resus import FieldSchema, Resus, TableSchema, build_log
from resus.config.resolve import resolve
from resus.data.datasets.planted import PlantedWorld, draw_events
from resus.episodes.batch import features_of
from resus.errors import ConfigError, DataError, ResusWarning

SCHEMA = TableSchema(
    user="user",
    item="item",
    time="time",
    label="click",
    fields={"category": FieldSchema(), "score": FieldSchema(kind="numeric"), "chance": FieldSchema(kind="numeric")},
)


def table() -> pl.DataFrame:
    """Events of a planted world, with a model of the crowd's: its logit in one column, its probability in another."""
    drawn = draw_events(PlantedWorld(users=80, items=20, events_per_user=14, seed=5))
    crowd = drawn["crowd"]
    return drawn.drop("truth", "crowd").with_columns(score=(crowd / (1 - crowd)).log(), chance=crowd)


def model(predictor: str, **settings: str) -> Resus:
    return tiny(predictor=predictor, settings=settings)


@pytest.mark.parametrize("predictor", ["logits:score", "probabilities:chance"])
def test_what_it_says_is_the_basis_and_new_users_get_it_unchanged(predictor: str, tmp_path: Path) -> None:
    events = table()
    log = build_log(events, SCHEMA, KEEP)
    fitted = model(predictor).fit(log)
    by_user_and_time = events.sort("user", "time", maintain_order=True)
    said = fitted._fitted().model.predictor.logits_of_rows(log)
    assert np.abs(said - by_user_and_time["score"].to_numpy()).max() < 1e-5
    assert {record.stage for record in fitted.history} == {"residuals"}, "there is nothing of it to learn"
    known, asked = events.filter(pl.col("time") < 4), events.filter(pl.col("time") >= 4)
    answers = fitted.predict(known.filter(pl.col("user") > 0), asked)
    assert np.abs(answers["basis"].to_numpy() - asked["score"].to_numpy()).max() < 1e-5
    new_user = (asked["user"] == 0).to_numpy()
    assert not answers["residual"].to_numpy()[new_user].any()
    assert answers["residual"].to_numpy()[~new_user].any()
    results = fitted.evaluate(log)
    assert list(results.models) == [predictor.partition(":")[2], "RESUS-RR"]
    fitted.save(tmp_path / "run")
    assert resus.load(tmp_path / "run").predict(known, asked).equals(fitted.predict(known, asked))


def test_a_sure_probability_is_a_finite_logit() -> None:
    events = table().with_columns(chance=pl.col("click").cast(pl.Float64))
    log = build_log(events, SCHEMA, KEEP)
    with pytest.warns(ResusWarning, match=r"'chance' has an AUC of 1.0000 on training users"):
        fitted = model("probabilities:chance").fit(log)
    assert np.isfinite(fitted._fitted().model.predictor.logits_of_rows(log)).all()


def with_cell(events: pl.DataFrame, row: int, column: str, value: float | None) -> pl.DataFrame:
    return events.with_columns(pl.when(pl.int_range(pl.len()) == row).then(value).otherwise(column).alias(column))


@pytest.mark.parametrize(("value", "what"), [(None, "the value is missing"), (float("nan"), "nan is not a .* number")])
def test_a_row_without_it_is_refused(value: float | None, what: str) -> None:
    events = table()
    fitted = model("logits:score").fit(build_log(events, SCHEMA, KEEP))
    holey = with_cell(events, 5, "score", value)
    for tables, where in (((holey, events), "support"), ((events, holey), "query")):
        with pytest.raises(DataError, match=f"^the {where}, row 6, column 'score': {what}.*; .*fill it in$"):
            fitted.predict(*tables)


@pytest.mark.parametrize("value", [1.3, -0.2])
def test_what_is_no_probability_is_refused_in_training_and_in_answering(value: float, tmp_path: Path) -> None:
    events = table()
    fix = r"write numbers from 0 to 1"
    fitted = model("probabilities:chance").fit(build_log(events, SCHEMA, KEEP))
    odd = with_cell(events, 5, "chance", value)
    for tables, where in (((odd, events), "support"), ((events, odd), "query")):
        with pytest.raises(
            DataError, match=f"^the {where}, row 6, column 'chance': {value} is not a probability; {fix}"
        ):
            fitted.predict(*tables)
    user, time = events["user"][5], events["time"][5]
    row = (events.filter(user=user)["time"] < time).sum() + 1
    log = build_log(odd, SCHEMA, KEEP, name="mine")
    with pytest.raises(
        DataError,
        match=f"^the log 'mine', row {row} of user '{user}', column 'chance': {value} is not a probability; {fix}",
    ):
        model("probabilities:chance").fit(log, folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    with pytest.raises(DataError, match=r"'score': .* is not a probability"):
        model("probabilities:score").fit(log)


def test_a_service_refuses_what_is_no_probability_through_the_predictor() -> None:
    log = build_log(table(), SCHEMA, KEEP)
    predictor = model("probabilities:chance").fit(log)._fitted().model.predictor
    asked = features_of(log, np.arange(4))
    assert asked.weights is not None
    asked.weights[2, log.features.block("score").columns.start] += 5
    predictor.logits(asked)  # it reads no other column than its own
    asked.weights[2, log.features.block("chance").columns.start] += 5
    with pytest.raises(
        DataError, match=r"^row 3, column 'chance': \S+ is not a probability; write numbers from 0 to 1"
    ):
        predictor.logits(asked)


@pytest.mark.parametrize(
    ("predictor", "sentence"),
    [
        (
            "logits:category",
            r"needs a numeric field, and 'category' is categorical \(numeric are score, chance\): name a numeric one, "
            r"or, if it holds numbers, write 'category: numeric' under 'fields' of the schema and prepare again$",
        ),
        ("logits:item", r"and 'item' is categorical \(numeric are score, chance\): name a numeric one$"),
        ("logits:click", r"^the predictor 'logits:click' is the label"),
        ("probabilities:user", r"'probabilities:user' is the user's id"),
        ("logits", "^the predictor 'logits' does not name the column .*: write logits:COLUMN"),
        ("probabilities", "the predictor 'probabilities' does not name the column"),
        ("external", "the predictor 'external' does not name .*: write logits:COLUMN or probabilities:COLUMN$"),
        ("logits:absent", r"write 'absent: numeric' under 'fields' of the schema and prepare again"),
        ("logits:", "unknown predictor 'logits:'; use logits:COLUMN or probabilities:COLUMN"),
        ("odds:score", "unknown predictor 'odds:score'; use logits:COLUMN or probabilities:COLUMN"),
    ],
)
def test_what_cannot_be_meant(predictor: str, sentence: str, tmp_path: Path) -> None:
    log = build_log(table(), SCHEMA, KEEP)
    with pytest.raises(ConfigError, match=sentence):
        model(predictor).fit(log, folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("predictor", "sentence"),
    [
        ("logits:chance", "^all values of 'chance' lie between 0 and 1: .* use probabilities:chance$"),
        ("logits:score", "^'score' has an AUC of 1.0000 on training users"),
    ],
)
def test_a_column_that_looks_wrong_is_warned_of(predictor: str, sentence: str) -> None:
    knowing = table().with_columns(score=pl.col("score") + 20 * pl.col("click") - 10)
    with pytest.warns(ResusWarning, match=sentence):
        model(predictor).fit(build_log(knowing, SCHEMA, KEEP))


def test_a_file_in_place_of_a_predictors_name() -> None:
    with pytest.raises(ConfigError, match=r"the predictor 'model.cbm' looks like a file: give Path"):
        resolve({"predictor.kind": "model.cbm"})


@pytest.mark.parametrize(("key", "value"), [("predictor.column", "chance"), ("predictor.scale", "probabilities")])
def test_a_column_that_is_named_in_two_ways(key: str, value: str) -> None:
    with pytest.raises(
        ConfigError, match=f"^the predictor is 'logits:score', and {key} is '{value}': leave one of them out$"
    ):
        model("logits:score", **{key: value})
