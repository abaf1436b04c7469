"""What fit, evaluate, predict, prepare and build_log take: paths, frames and logs; schemas; options."""

import re
from pathlib import Path
from typing import Any, get_type_hints

import polars as pl
import pytest
import yaml
from planted_models import SCHEMA, events, log_of, tiny
from resus_process import refused_here

from resus import (
    BuildOptions,
    ConfigError,
    DataError,
    InteractionLog,
    PrepareOptions,
    Resus,
    build_log,
    load,
    open_log,
    prepare,
)
from resus.data.options import PrepareArguments, TableOptions

ROLES: dict[str, Any] = {
    "user": "user",
    "item": "item",
    "time": "time",
    "label": "click",
    "fields": {"category": "categorical", "price": "numeric", "tags": "multi"},
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the table as CSV and as Parquet, and its schema."""
    folder = tmp_path_factory.mktemp("tables")
    events().write_csv(folder / "events.csv")
    events().write_parquet(folder / "events.parquet")
    (folder / "schema.yaml").write_text(yaml.safe_dump(ROLES))
    return folder


@pytest.fixture(scope="module")
def log() -> InteractionLog:
    return log_of(events())


@pytest.fixture(scope="module")
def model(place: Path) -> Resus:
    return tiny().fit(place / "events.csv", schema=place / "schema.yaml")


def test_every_way_to_give_a_table_and_a_schema_builds_the_same_log(place: Path, log: InteractionLog) -> None:
    for table in (place / "events.csv", str(place / "events.parquet"), events(), events().lazy(), events().to_arrow()):
        for schema in (place / "schema.yaml", str(place / "schema.yaml"), ROLES, SCHEMA):
            assert build_log(table, schema).content_hash == log.content_hash
    assert build_log(log) is log


def test_prepare_takes_tables_and_logs_too(place: Path, log: InteractionLog, tmp_path: Path) -> None:
    sources = {"file": place / "events.csv", "frame": events().to_pandas(), "folder": tmp_path / "file"}
    for name, source in sources.items():
        schema = None if name == "folder" else ROLES
        assert prepare(source, tmp_path / name, schema=schema).content_hash == log.content_hash
    assert prepare(log, tmp_path / "log").name == log.name
    assert open_log(tmp_path / "log").content_hash == log.content_hash


def test_the_same_file_prepared_again_is_opened_whatever_form_the_schema_has(place: Path, tmp_path: Path) -> None:
    prepare(place / "events.csv", tmp_path / "log", schema=place / "schema.yaml")
    before = (tmp_path / "log" / "manifest.json").stat().st_mtime_ns
    prepare(place / "events.csv", tmp_path / "log", schema=ROLES)
    assert (tmp_path / "log" / "manifest.json").stat().st_mtime_ns == before


def test_fit_and_evaluate_take_a_file(place: Path, model: Resus, log: InteractionLog) -> None:
    results = model.evaluate(place / "events.parquet", draws=0)
    assert results.models == tiny().fit(log).evaluate(log, draws=0).models


def test_evaluate_reads_a_table_with_the_options_of_training(place: Path, log: InteractionLog, tmp_path: Path) -> None:
    doubled = pl.concat([events(), events().head(5)])
    doubled.write_csv(tmp_path / "doubled.csv")
    model = tiny().fit(tmp_path / "doubled.csv", schema=ROLES, duplicates="first")
    model.save(tmp_path / "run")
    again = load(tmp_path / "run")
    expected = model.evaluate(doubled, draws=0).models
    assert again.evaluate(tmp_path / "doubled.csv", draws=0).models == expected
    assert again.evaluate(doubled, duplicates="last", draws=0).models == expected
    with pytest.raises(DataError, match="the same user, item and time"):
        model.evaluate(doubled, duplicates="error", draws=0)


def test_options_are_arguments_or_an_object(log: InteractionLog) -> None:
    doubled, rated = pl.concat([events(), events()]), events().with_columns(click=pl.col("click") * 4 + 1)
    assert build_log(doubled, ROLES, duplicates="first").content_hash == log.content_hash
    assert build_log(doubled, ROLES, BuildOptions(duplicates="first")).content_hash == log.content_hash
    assert build_log(rated, ROLES, label_threshold=3).content_hash == log.content_hash
    assert tiny().fit(rated, schema=ROLES, label_threshold=3).schema.label_threshold == 3
    with pytest.raises(ConfigError, match="options are given twice, as an object and as duplicates"):
        build_log(doubled, ROLES, BuildOptions(), duplicates="first")
    with pytest.raises(ConfigError, match="unknown key 'duplicate', did you mean 'duplicates'"):
        build_log(doubled, ROLES, duplicate="first")  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="'duplicates' is 'some'"):
        build_log(doubled, ROLES, duplicates="some")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="is built already, so options of a table change nothing"):
        tiny().fit(log, duplicates="first")


def test_the_arguments_are_the_options_of_prepare() -> None:
    hints = get_type_hints(PrepareArguments)
    assert set(hints) == set(PrepareOptions.model_fields)
    assert set(BuildOptions.model_fields) | {"label_threshold"} == set(get_type_hints(TableOptions))


@pytest.mark.parametrize(
    ("table", "in_python", "in_a_command"),
    [
        (pl.concat([events(), events().head(1)]), r"\(duplicates='first'\)", r"\(--set duplicates=first\)"),
        (
            pl.concat([events(), events().head(1).with_columns(user=pl.lit(999, dtype=pl.Int64))]),
            r"\(single_events='drop'\)",
            r"\(--set single_events=drop\)",
        ),
        (
            events().with_columns(click=pl.col("click") * 4 + 1),
            r"\(such as label_threshold=5\)",
            r"\(such as --set label_threshold=5\)",
        ),
    ],
    ids=["duplicates", "single events", "graded labels"],
)
def test_advice_names_the_argument_in_python_and_the_option_in_a_command(
    table: pl.DataFrame, in_python: str, in_a_command: str, place: Path, tmp_path: Path
) -> None:
    table.write_csv(tmp_path / "wrong.csv")
    for given in (tmp_path / "wrong.csv", table):
        with pytest.raises(DataError, match=in_python):
            tiny().fit(given, schema=ROLES)
    said = refused_here("prepare", "wrong.csv", "--schema", place / "schema.yaml", "--out", "log", cwd=tmp_path)
    assert re.search(in_a_command, said)
    with pytest.raises(DataError, match=in_python):
        tiny().fit(table, schema=ROLES)


def test_all_problems_are_in_the_error() -> None:
    wrong = events().with_columns(item=pl.lit(None), click=pl.lit("perhaps"))
    with pytest.raises(DataError, match=r"\(and \d more, see the error's 'problems'\)") as caught:
        build_log(wrong, ROLES)
    assert {problem.column for problem in caught.value.problems} >= {"item", "click"}  # type: ignore[attr-defined]


def test_predict_takes_files_and_logs(place: Path, model: Resus, log: InteractionLog, tmp_path: Path) -> None:
    support, query = events().filter(pl.col("time") < 4), events().filter(pl.col("time") >= 4)
    support.write_csv(tmp_path / "support.csv")
    query.write_parquet(tmp_path / "query.parquet")
    answer = model.predict(support, query)
    assert model.predict(tmp_path / "support.csv", tmp_path / "query.parquet").equals(answer)
    of_log = model.predict(support, log)
    whole = model.predict(support, events().sort("user", "time", maintain_order=True))
    assert of_log.drop("user").equals(whole.drop("user"))
    from_log = model.predict(log, query)
    assert from_log.drop("user").equals(model.predict(events(), query).drop("user"))
    with pytest.raises(ConfigError, match="give tables to explain"):
        model.predict(log, query, explain=True)
    with pytest.raises(ConfigError, match="numbers its values in another way"):
        model.predict(log_of(events().filter(pl.col("user") < 30)), query)


@pytest.mark.parametrize(
    ("give", "sentence"),
    [
        (lambda: build_log(Path("nowhere.csv"), ROLES), "nowhere.csv: the file does not exist; check the path"),
        (lambda: build_log(events(), 7), "the schema is a int: give a path, a mapping or a TableSchema"),  # type: ignore[arg-type]
        (lambda: build_log(events(), "nowhere.yaml"), "schema file nowhere.yaml does not exist"),
        (lambda: build_log(events()), "without a schema: pass schema="),
        (lambda: build_log([1, 2], ROLES), "the table is a list: give a polars or pandas frame"),  # type: ignore[arg-type]
        (lambda: prepare(events(), "out", path="x", schema=ROLES), "a table is given: leave it out"),
        (lambda: prepare(events(), "out", schema=ROLES, negatives=3), "'negatives' has no effect for 'the table'"),
    ],
)
def test_what_cannot_be_taken_is_one_sentence(give: Any, sentence: str) -> None:
    with pytest.raises((DataError, ConfigError), match=sentence):
        give()


def test_a_file_without_a_schema_shows_one_to_start_from(place: Path) -> None:
    with pytest.raises(DataError, match=r"write a schema file, for instance .*, and name it with schema="):
        tiny().fit(place / "events.csv")
