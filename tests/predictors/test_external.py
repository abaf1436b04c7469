"""A model of one's own as Ψ: what it says comes through unchanged, and RESUS learns on top of it."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from planted_models import KEEP, TINY

import resus
from resus import FieldSchema, Resus, TableSchema, build_log
from resus.data.planted import PlantedWorld, draw_events
from resus.errors import ConfigError, DataError
from resus.predictors.neural import logits_of_rows

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


def model(predictor: str) -> Resus:
    return Resus(predictor=predictor, settings=TINY)


@pytest.mark.parametrize("predictor", ["logits:score", "probabilities:chance"])
def test_what_it_says_is_the_basis_and_new_users_get_it_unchanged(predictor: str, tmp_path: Path) -> None:
    events = table()
    log = build_log(events, SCHEMA, KEEP)
    fitted = model(predictor).fit(log)
    by_user_and_time = events.sort("user", "time", maintain_order=True)
    said = logits_of_rows(fitted._fitted().predictor, log)
    assert np.abs(said - by_user_and_time["score"].to_numpy()).max() < 1e-5
    assert {line["stage"] for line in fitted.history} == {"residuals"}, "there is nothing of it to learn"
    known, asked = events.filter(pl.col("time") < 4), events.filter(pl.col("time") >= 4)
    answers = fitted.predict(known.filter(pl.col("user") > 0), asked)
    assert np.abs(answers["basis"].to_numpy() - asked["score"].to_numpy()).max() < 1e-5
    stranger = (asked["user"] == 0).to_numpy()
    assert not answers["residual"].to_numpy()[stranger].any()
    assert answers["residual"].to_numpy()[~stranger].any()
    results = fitted.evaluate(log)
    assert list(results.models) == [predictor.partition(":")[2], "RESUS-RR"]
    fitted.save(tmp_path / "run")
    assert resus.load(tmp_path / "run").predict(known, asked).equals(fitted.predict(known, asked))


def test_a_sure_probability_is_a_finite_logit() -> None:
    events = table().with_columns(chance=pl.col("click").cast(pl.Float64))
    log = build_log(events, SCHEMA, KEEP)
    fitted = model("probabilities:chance").fit(log)
    assert np.isfinite(logits_of_rows(fitted._fitted().predictor, log)).all()


def test_a_row_without_it_is_refused() -> None:
    events = table()
    fitted = model("logits:score").fit(build_log(events, SCHEMA, KEEP))
    holey = events.with_columns(score=pl.when(pl.col("time") > 2).then("score"))
    with pytest.raises(DataError, match="row 1, column 'score': the value is missing; it is Ψ: fill it in"):
        fitted.predict(events, holey)


@pytest.mark.parametrize(
    ("predictor", "sentence"),
    [
        ("logits:category", r"needs 'category' as a numeric field of the log \(numeric are score, chance\)"),
        ("logits:absent", r"write 'absent: numeric' under 'fields' of the schema and prepare again"),
        ("logits:", "the predictor 'logits:' is none: write logits:COLUMN or probabilities:COLUMN"),
        (
            "model.cbm",
            r"the predictor 'model.cbm' looks like a file: let it score the table with 'resus prep",
        ),
        ("odds:score", "the predictor 'odds:score' is none: write logits:COLUMN or probabilities:COLUMN"),
    ],
)
def test_what_cannot_be_meant(predictor: str, sentence: str, tmp_path: Path) -> None:
    log = build_log(table(), SCHEMA, KEEP)
    with pytest.raises(ConfigError, match=sentence):
        model(predictor).fit(log, folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_it_cannot_be_trained_jointly() -> None:
    with pytest.raises(ConfigError, match="pretrain=false needs a neural predictor"):
        Resus(predictor="logits:score", settings=TINY | {"predictor.pretrain": False})


def test_its_value_does_not_depend_on_the_batch() -> None:
    log = build_log(table(), SCHEMA, KEEP)
    predictor = model("logits:score").fit(log)._fitted().predictor
    rows = np.array([5, 99, 7])
    one_by_one = torch.tensor([logits_of_rows(predictor, log, rows[[n]])[0] for n in range(3)])
    assert torch.equal(one_by_one, torch.from_numpy(logits_of_rows(predictor, log, rows)))
