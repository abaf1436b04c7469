"""`Resus` on someone's model: the answers of the column path with scores written by hand, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from models_of_others import READS, SCHEMA, catboost_file, frame, lightgbm_file, linear_onnx, rows
from planted_models import KEEP, tiny
from sklearn.linear_model import LogisticRegression

import resus
from resus import ConfigError, DataError, FieldSchema, Resus, TableSchema, build_log
from resus.external.score_column import ScoreColumn

BY_HAND = SCHEMA.model_copy(update={"fields": SCHEMA.fields | {"score": FieldSchema(kind="numeric")}})


@pytest.fixture(scope="module")
def table() -> pl.DataFrame:
    """Without missing prices, which a schema refuses in a numeric field."""
    return rows().with_columns(pl.col("price").fill_null(0))


@pytest.fixture(scope="module")
def path(table: pl.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return catboost_file(table, tmp_path_factory.mktemp("models")).path


@pytest.fixture(scope="module")
def fitted(table: pl.DataFrame, path: Path) -> Resus:
    return model(path).fit(table, schema=SCHEMA)


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    path = tmp_path / "schema.yaml"
    path.write_text("user: user\nitem: item\ntime: time\nlabel: click\n")
    return path


def model(predictor: Any, **settings: Any) -> Resus:
    return tiny(predictor=predictor, settings=settings)


def support_and_query(table: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    return table.filter((pl.col("time") < 4) & (pl.col("user") > 0)), table.filter(pl.col("time") >= 4).drop("click")


def discount(table: pl.DataFrame) -> pl.Series:
    return table["discount"] * 3


def estimator(table: pl.DataFrame) -> LogisticRegression:
    return LogisticRegression().fit(table.select("price", "discount").to_pandas(), table["click"].to_numpy())


@pytest.mark.parametrize("kind", ["file", "estimator", "function"])
def test_it_is_the_column_path_with_the_scores_written_by_hand(kind: str, table: pl.DataFrame, path: Path) -> None:
    what: Any = {"file": path, "estimator": estimator(table), "function": discount}[kind]
    mine = model(what, **{"predictor.column": "score"}).fit(table, schema=SCHEMA)
    scored = table.with_columns(ScoreColumn.of(what, "score").on(table, SCHEMA, "the table")["score"])
    by_hand = model("logits:score").fit(scored, schema=BY_HAND)
    (known, asked), scored_tables = support_and_query(table), support_and_query(scored)
    answers = mine.predict(known, asked)
    assert answers.equals(by_hand.predict(*scored_tables))
    assert answers.equals(mine.predict(*scored_tables)), "a table that has the column keeps it"
    assert answers["residual"].to_numpy().any()
    assert np.abs(answers["basis"] - scored_tables[1]["score"]).max() < 1e-5
    assert mine.evaluate(table) == by_hand.evaluate(scored)
    assert mine.unknown_values(asked) == by_hand.unknown_values(scored_tables[1])


def test_other_kinds_of_tables_are_answered_alike(fitted: Resus, table: pl.DataFrame) -> None:
    known, asked = support_and_query(table)
    answer = fitted.predict(known.to_pandas(), asked.to_pandas())
    assert isinstance(answer, pd.DataFrame)
    assert pl.from_pandas(answer).equals(fitted.predict(known, asked))


def test_what_is_saved_asks_for_the_model_again(fitted: Resus, table: pl.DataFrame, path: Path, tmp_path: Path) -> None:
    fitted.save(tmp_path / "run")
    assert not [file for file in (tmp_path / "run").iterdir() if path.read_bytes()[:99] in file.read_bytes()]
    known, asked = support_and_query(table)
    alone = resus.load(tmp_path / "run")
    for tables, where in (((known, asked), "support"), ((known.with_columns(model_score=pl.lit(0.0)), asked), "query")):
        with pytest.raises(
            DataError, match=rf"the {where} has no column 'model_score', which model.cbm wrote: .* with resus.load"
        ):
            alone.predict(*tables)
    assert resus.load(tmp_path / "run", predictor=path).predict(known, asked).equals(fitted.predict(known, asked))
    other = linear_onnx(table, tmp_path, name="other.onnx", output="logits", logit=True).path
    for another in (other, discount):
        with pytest.raises(ConfigError, match=r"was written by model.cbm of sha256 \w{12}…, and .* is not that file"):
            resus.load(tmp_path / "run", predictor=another)


def test_a_function_cannot_be_told_from_another_so_any_is_taken(table: pl.DataFrame, tmp_path: Path) -> None:
    first = model(discount).fit(table, schema=SCHEMA)
    first.save(tmp_path / "run")
    known, asked = support_and_query(table)
    with pytest.raises(
        DataError, match=r"which the function 'discount' wrote: .*resus.load\(folder, predictor=…\), or"
    ):
        resus.load(tmp_path / "run").predict(known, asked)
    again = resus.load(tmp_path / "run", predictor=lambda rows: rows["discount"] * 3)
    assert again.predict(known, asked).equals(first.predict(known, asked))


def test_a_run_on_a_column_by_hand_takes_a_model_later(table: pl.DataFrame, path: Path, tmp_path: Path) -> None:
    scored = ScoreColumn.of(path, "score").on(table, SCHEMA, "the table")
    by_hand = model("logits:score").fit(scored, schema=BY_HAND)
    by_hand.save(tmp_path / "run")
    answer = resus.load(tmp_path / "run", predictor=path).predict(*support_and_query(table))
    assert answer.equals(by_hand.predict(*support_and_query(scored)))


def test_a_run_of_another_predictor_takes_none(table: pl.DataFrame, path: Path, tmp_path: Path) -> None:
    model("lr").fit(build_log(table, SCHEMA, KEEP)).save(tmp_path / "run")
    with pytest.raises(ConfigError, match=r"reads no logits .*\(its shared model is LR\): leave the model out"):
        resus.load(tmp_path / "run", predictor=path)


def test_a_finished_run_is_taken_up_with_its_model(table: pl.DataFrame, path: Path, tmp_path: Path) -> None:
    first = model(path).fit(table, schema=SCHEMA, folder=tmp_path / "run")
    again = model(path).fit(table, schema=SCHEMA, folder=tmp_path / "run", resume=True)
    assert again.predict(*support_and_query(table)).equals(first.predict(*support_and_query(table)))


def test_a_prepared_log_must_hold_the_scores_of_the_same_file(
    table: pl.DataFrame, path: Path, schema: Path, tmp_path: Path
) -> None:
    log = build_log(table, SCHEMA, KEEP)
    with pytest.raises(ConfigError, match=r"the log 'log' holds no raw columns for model.cbm"):
        model(path).fit(log)
    table.write_csv(tmp_path / "events.csv")
    resus.prepare(tmp_path / "events.csv", tmp_path / "log", schema=schema, score_with=path)
    fitted = model(path).fit(tmp_path / "log")
    known, asked = support_and_query(table)
    assert fitted.predict(known, asked)["residual"].to_numpy().any()
    other = lightgbm_file(table, tmp_path).path
    with pytest.raises(ConfigError, match=r"by model.cbm of sha256 \w{12}…, and model.txt is not that file"):
        model(other).fit(tmp_path / "log")


def test_a_log_of_another_function_is_written_anew(table: pl.DataFrame, schema: Path, tmp_path: Path) -> None:
    table.write_parquet(tmp_path / "events.parquet")
    hashes = []
    for slope in (1.0, -1.0):

        def score(rows: pl.DataFrame, slope: float = slope) -> pl.Series:
            return rows["discount"] ** 2 * slope + rows["hour"]

        log = resus.prepare(tmp_path / "events.parquet", tmp_path / "log", schema=schema, score_with=score)
        hashes.append(log.content_hash)
    assert hashes[0] != hashes[1]


def test_prepare_takes_any_model_and_paths_as_text(
    table: pl.DataFrame, path: Path, schema: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    table.write_parquet("events.parquet")
    for number, what in enumerate((str(path), path, estimator(table), discount)):
        log = resus.prepare("events.parquet", f"data/{number}", schema=str(schema), score_with=what)
        assert [field.name for field in log.features.fields] == ["item", "model_score"]
    assert log.manifest.score is not None
    assert log.manifest.score.written_by == "the function 'discount'"


@pytest.mark.parametrize("settings", [{"predictor.kind": "fm"}, {"predictor": {"kind": "fm"}}])
def test_a_model_and_another_predictor_in_the_settings(settings: dict[str, Any], path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^model.cbm is .* predictor.kind=fm"):
        Resus(predictor=path, settings=settings)
    assert Resus(predictor=path, settings={"predictor": {"column": "mine"}}).config.predictor.score_column == "mine"


def test_a_score_column_with_holes_is_not_filled_by_the_model(fitted: Resus, table: pl.DataFrame) -> None:
    known, asked = support_and_query(table)
    holey = asked.with_columns(model_score=pl.when(pl.int_range(pl.len()) != 3).then(0.5))
    with pytest.raises(DataError, match=r"the query, row 4, column 'model_score': the value is missing.* model.cbm"):
        fitted.predict(known, holey)


def test_a_function_that_gives_probabilities_is_warned_of(table: pl.DataFrame) -> None:
    with pytest.warns(resus.ResusWarning, match="'model_score' lie between 0 and 1: .* the function 'chance'"):
        model(chance).fit(table, schema=SCHEMA)


def chance(table: pl.DataFrame) -> pl.Series:
    return table["discount"].clip(0, 1)


@pytest.mark.parametrize("name", ["model.cbm", "models/MODEL.TXT", "model.pkl"])
def test_a_path_that_is_text_is_to_be_wrapped(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"^'{name}' is text.* give Path\('{name}'\)$"):
        Resus(predictor=name)
    assert Resus(predictor="logits:score.txt").config.predictor.score_column == "score.txt"


def test_a_path_that_is_text_is_to_be_wrapped_in_load_too(fitted: Resus, path: Path, tmp_path: Path) -> None:
    fitted.save(tmp_path / "run")
    with pytest.raises(ConfigError, match=r"model.cbm' is text.* give Path"):
        resus.load(tmp_path / "run", predictor=str(path))
    with pytest.raises(ConfigError, match="a value of the type str cannot score rows"):
        resus.load(tmp_path / "run", predictor="deepfm")


def test_a_table_without_what_the_model_reads(fitted: Resus, table: pl.DataFrame) -> None:
    known, asked = support_and_query(table)
    with pytest.raises(DataError, match=r"the query has no column 'discount', which model.cbm reads: add it"):
        fitted.predict(known, asked.drop("discount"))
    with pytest.raises(DataError, match="the query has no column 'item': the model reads item, category, price"):
        fitted.predict(known, asked.drop("item"))
    with pytest.raises(ConfigError, match="a value of the type int cannot score rows"):
        Resus(predictor=3)


def test_a_schema_as_a_mapping_and_categories_of_pandas(table: pl.DataFrame, tmp_path: Path) -> None:
    path = lightgbm_file(table, tmp_path).path
    roles = SCHEMA.model_dump()
    mine = model(path).fit(table.to_pandas().astype({"category": "category"}), schema=roles)
    assert mine.schema == TableSchema.model_validate(roles | {"fields": roles["fields"] | {"model_score": "numeric"}})
    assert list(frame(table, READS, "category").columns) == READS
