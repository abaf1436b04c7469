"""A model file gives the logits that its own library gives, of raw columns, also where all of them are text."""

import contextlib
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import catboost
import lightgbm
import numpy as np
import polars as pl
import pytest
import xgboost
from models_of_others import FILES, OF_NUMBERS, READS, SCHEMA, Fitted, categorical_catboost_file, linear_onnx, rows
from onnx import TensorProto, helper, load, numpy_helper, save

from resus.errors import ConfigError, DataError
from resus.external import choice, trial
from resus.external.choice import model_that_scores
from resus.external.score_column import ScoreColumn

QUIET = {"verbose": 0, "allow_writing_files": False, "iterations": 2}


@pytest.fixture(scope="module")
def table() -> pl.DataFrame:
    return rows()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module", params=list(FILES))
def fitted(request: pytest.FixtureRequest, table: pl.DataFrame, folder: Path) -> Fitted:
    return FILES[request.param](table, folder)


def scores(path: Path, table: pl.DataFrame) -> pl.Series:
    schema = SCHEMA if {*READS, "item"} >= set(_names(path)) else OF_NUMBERS
    return ScoreColumn.of(path).on(table, schema, "the table")["model_score"]


def _names(path: Path) -> tuple[str, ...]:
    reads = model_that_scores(path).reads
    return reads if isinstance(reads, tuple) else ("nameless",)


def test_the_logits_are_the_librarys_own(fitted: Fitted, table: pl.DataFrame) -> None:
    assert np.ptp(fitted.logits) > 0.3, "a model that says the same of all rows shows nothing"
    assert np.abs(scores(fitted.path, table).to_numpy() - fitted.logits).max() < 2e-6


def test_text_as_a_csv_has_it_is_read_as_what_it_says(fitted: Fitted, table: pl.DataFrame) -> None:
    shuffled = table.select(reversed(table.columns)).sample(fraction=1, shuffle=True, seed=1)
    as_text = shuffled.with_columns(pl.all().cast(pl.String))
    assert scores(fitted.path, as_text).equals(scores(fitted.path, shuffled))


@pytest.mark.parametrize("kind", [kind for kind in FILES if "as categories" in kind])
@pytest.mark.parametrize(
    "written",
    [
        {"fresh": pl.col("fresh").cast(pl.String).str.to_titlecase()},  # as pandas writes them
        {"fresh": pl.col("fresh").cast(pl.Int8)},
        {"fresh": pl.col("fresh").cast(pl.Int8).cast(pl.String), "grade": pl.format(" {} ", "grade")},
    ],
)
def test_categories_that_are_no_text_are_found_however_they_are_written(
    kind: str, written: dict[str, pl.Expr], table: pl.DataFrame, tmp_path: Path
) -> None:
    fitted = FILES[kind](table, tmp_path)
    assert np.abs(scores(fitted.path, table.with_columns(**written)).to_numpy() - fitted.logits).max() < 2e-6


@pytest.mark.parametrize("kind", ["LightGBM of numbers and booleans as categories", "XGBoost of numbers as categories"])
def test_a_whole_number_written_with_a_fraction_is_the_same_category(
    kind: str, table: pl.DataFrame, tmp_path: Path
) -> None:
    fitted = FILES[kind](table, tmp_path)
    text = table.with_columns(pl.col("item").cast(pl.Float64).cast(pl.String))
    assert text["item"][0].endswith(".0")
    assert np.abs(scores(fitted.path, text).to_numpy() - fitted.logits).max() < 2e-6


def test_catboost_fitted_on_the_words_true_and_false_gets_the_words(table: pl.DataFrame, tmp_path: Path) -> None:
    fitted = categorical_catboost_file(table, tmp_path, words=True)
    words = table.with_columns(pl.col("fresh").cast(pl.String).str.to_titlecase())
    for some in (words, words.head(1)):
        said = scores(fitted.path, some).to_numpy()
        assert np.abs(said - fitted.logits[: some.height]).max() < 2e-6
    fresh = fitted.logits - scores(fitted.path, words.with_columns(fresh=pl.lit("perhaps"))).to_numpy()
    assert np.abs(fresh).max() > 0.01, "a model that does not heed the words shows nothing"


@pytest.mark.parametrize("kind", ["LightGBM", "XGBoost as JSON"])
def test_a_table_to_learn_from_with_no_category_that_is_listed(kind: str, table: pl.DataFrame, tmp_path: Path) -> None:
    column = ScoreColumn.of(FILES[kind](table, tmp_path).path)
    foreign = table.with_columns(pl.col("category").str.to_uppercase())
    first, count = foreign["category"][0], table["category"].n_unique()
    with pytest.raises(
        DataError, match=rf"'category': .* '{first}', .* {count} categories of {column.written_by}.*'c0'"
    ):
        column.learned_on(foreign, SCHEMA, "the table")
    one = pl.when(pl.int_range(pl.len()) == 3).then(pl.lit("c0")).otherwise("category")
    for fine in (table, foreign.with_columns(category=one), foreign.with_columns(category=pl.lit(None, pl.String))):
        column.learned_on(fine, SCHEMA, "the table")


def test_xgboost_categories_without_a_list(table: pl.DataFrame, tmp_path: Path) -> None:
    for names, said in ((["hour", "discount"], "'hour'"), (None, "1")):
        data = xgboost.DMatrix(
            table.select("hour", "discount").to_numpy(),
            table["click"].to_numpy(),
            feature_names=names,
            feature_types=["c", "q"],
            enable_categorical=True,
        )
        xgboost.train({"objective": "binary:logistic", "nthread": 1}, data, 2).save_model(tmp_path / "codes.json")
        sentence = f"codes.json does not list the categories of its column {said}: fit it on a pandas frame and save it"
        with pytest.raises(ConfigError, match=sentence):
            model_that_scores(tmp_path / "codes.json")


def test_an_onnx_file_with_weights_in_another_file(
    table: pl.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = linear_onnx(table, tmp_path, name="whole.onnx", output="logits", logit=True).path
    model, parted = load(whole), tmp_path / "parted.onnx"
    for weights in model.graph.initializer:
        weights.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weights), weights.name))  # as bytes
    save(model, parted, save_as_external_data=True, location="weights.bin", size_threshold=0)
    assert (tmp_path / "weights.bin").is_file()
    for place in (tmp_path, tmp_path.parent):
        monkeypatch.chdir(place)
        with pytest.raises(ConfigError, match=r"parted.onnx keeps weights in other files, "):
            model_that_scores(parted)


def test_classes_that_do_not_say_which_is_the_click(table: pl.DataFrame, tmp_path: Path) -> None:
    columns = table.select(*OF_NUMBERS.fields).to_numpy()
    words = np.where(table["click"].to_numpy() == 1, "bought", "left")
    fitted = catboost.CatBoostClassifier(**QUIET).fit(columns, words)
    fitted.save_model(str(tmp_path / "words.cbm"))
    fitted.save_model(str(tmp_path / "words.onnx"), format="onnx")
    for name in ("words.cbm", "words.onnx"):
        with pytest.raises(ConfigError, match=f"{name} has the classes 'bought' and 'left'"):
            scores(tmp_path / name, table)


def test_no_rows_are_no_scores(fitted: Fitted, table: pl.DataFrame) -> None:
    assert scores(fitted.path, table.clear()).is_empty()


@pytest.mark.parametrize("kind", ["LightGBM", "XGBoost as JSON"])
def test_a_category_never_met_is_as_good_as_missing(kind: str, table: pl.DataFrame, tmp_path: Path) -> None:
    path = FILES[kind](table, tmp_path).path
    fresh, missing = (table.with_columns(category=pl.lit(value, pl.String)) for value in ("c99", None))
    assert scores(path, fresh).equals(scores(path, missing))
    assert not scores(path, fresh).equals(scores(path, table))


def test_catboost_answers_for_a_category_never_met_and_refuses_a_missing_one(
    table: pl.DataFrame, tmp_path: Path
) -> None:
    path = FILES["CatBoost"](table, tmp_path).path
    assert scores(path, table.with_columns(category=pl.lit("c99"))).is_finite().all()
    holey = table.with_columns(category=pl.when(pl.col("item") != table["item"][7]).then("category"))
    with pytest.raises(DataError, match=r"the table, row \d+, column 'category': the value is missing, and CatBoost"):
        scores(path, holey)


@pytest.mark.parametrize("kind", ["LightGBM", "XGBoost as UBJSON", "CatBoost", "ONNX of columns, logits"])
def test_what_is_no_number_is_named(kind: str, table: pl.DataFrame, tmp_path: Path) -> None:
    path = FILES[kind](table, tmp_path).path
    cells = table["discount"].cast(pl.String).to_list()
    cells[41] = "cheap"
    with pytest.raises(DataError, match="the table, row 42, column 'discount': 'cheap' is not a number"):
        scores(path, table.with_columns(discount=pl.Series(cells)))


@pytest.mark.parametrize(
    "kind", ["LightGBM", "XGBoost as JSON", "XGBoost as UBJSON", "CatBoost", "ONNX of columns, logits"]
)
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_a_file_that_is_cut_short(kind: str, share: float, table: pl.DataFrame, tmp_path: Path) -> None:
    path = FILES[kind](table, tmp_path).path
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))].rstrip(b"}"))
    with pytest.raises(ConfigError, match=rf"{path.name} is not a whole \w+ model"):
        model_that_scores(path)


@pytest.mark.parametrize("ending", ["txt", "lgb", "json", "ubj", "cbm", "onnx"])
def test_a_file_of_something_else(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"notes.{ending}"
    path.write_text('{"these are": "notes, not a model"}\n' * 9)
    with pytest.raises(ConfigError, match=rf"notes.{ending} is not a whole \w+ model"):
        model_that_scores(path)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("model.pkl", "is a pickle, which can run any code, so resus never opens one"),
        ("model.joblib", "is a pickle"),
        ("model.h5", r"model.h5 has none of the known endings \(.*\.txt, .*\.onnx\)"),
        ("model.cbm", "model.cbm does not exist"),
    ],
)
def test_files_that_are_not_opened(name: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=sentence):
        model_that_scores(tmp_path / name)


def test_models_that_do_not_say_how_probable_a_click_is(table: pl.DataFrame, tmp_path: Path) -> None:
    columns, classes = table.select("discount", "hour").to_numpy(), table["hour"].to_numpy() % 3
    trees = lightgbm.Dataset(columns, classes)
    lightgbm.train({"objective": "multiclass", "num_class": 3, "num_threads": 1, "verbosity": -1}, trees, 2).save_model(
        tmp_path / "m.txt"
    )
    xgboost.XGBRegressor(n_estimators=2).fit(columns, classes).save_model(tmp_path / "m.json")
    catboost.CatBoostClassifier(**QUIET).fit(columns, classes).save_model(str(tmp_path / "m.cbm"))
    for name, why in (
        ("m.txt", "its objective is 'multiclass', not binary or cross_entropy"),
        ("m.json", "its objective is 'reg:squarederror', none of binary:logistic, "),
        ("m.cbm", "its loss function is 'MultiClass', none of Logloss, CrossEntropy"),
    ):
        with pytest.raises(ConfigError, match=rf"{name} does not give the probability of a click \({why}"):
            model_that_scores(tmp_path / name)


def test_onnx_files_of_other_outputs(table: pl.DataFrame, tmp_path: Path) -> None:
    three = linear_onnx(table, tmp_path, name="three.onnx", output="probabilities", classes=3)
    with pytest.raises(ConfigError, match=r"three.onnx does not give .*the shape \[\d+, 3\], not \[rows, 2\]"):
        scores(three.path, table)
    unnamed = linear_onnx(table, tmp_path, name="unnamed.onnx", output="dense_2")
    with pytest.raises(ConfigError, match=r"the output 'dense_2' of unnamed.onnx may be a logit or a probability"):
        model_that_scores(unnamed.path)
    wrong = linear_onnx(table, tmp_path, name="wrong.onnx", output="probabilities", logit=True)
    with pytest.raises(DataError, match=r"row \d+: wrong.onnx gives -?[\d.]+, which is not a probability"):
        scores(wrong.path, table)


def test_an_onnx_file_of_whole_numbers(table: pl.DataFrame, tmp_path: Path) -> None:
    hour = helper.make_tensor_value_info("hour", TensorProto.INT64, [None])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, [None])
    cast = helper.make_node("Cast", ["hour"], ["logits"], to=TensorProto.FLOAT)
    graph = helper.make_graph([cast], "graph", [hour], [logits])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), tmp_path / "hour.onnx")
    column = ScoreColumn.of(tmp_path / "hour.onnx")
    assert column.on(table, SCHEMA, "the table")["model_score"].to_list() == table["hour"].to_list()
    for value, said in ((1.5, "1.5"), (None, "None")):
        odd = table.with_columns(hour=pl.when(pl.col("time") == 2).then(pl.lit(value)).otherwise("hour"))
        row = int((table["time"] == 2).arg_true()[0]) + 1
        with pytest.raises(DataError, match=f"the table, row {row}, column 'hour': {said} is not a whole number"):
            column.on(odd, SCHEMA, "the table")


@pytest.mark.parametrize(
    ("module", "ending", "extra"),
    [
        ("lightgbm", "txt", "trees"),
        ("xgboost", "ubj", "models"),
        ("catboost", "cbm", "models"),
        ("onnxruntime", "onnx", "models"),
    ],
)
def test_a_library_that_is_not_installed(
    module: str, ending: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, module, None)
    (tmp_path / f"model.{ending}").write_bytes(b"")
    sentence = f"model.{ending} needs {module}, which is not installed: pip install 'resus[{extra}]'"
    with pytest.raises(ConfigError, match=re.escape(sentence)):
        model_that_scores(tmp_path / f"model.{ending}")


def opened_by_another_process(path: Path) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "resus.external.trial_process", str(path)]
    return subprocess.run(command, input=path.read_bytes(), capture_output=True, check=False)


def test_a_file_that_ends_the_process_of_its_library_is_one_sentence(table: pl.DataFrame, tmp_path: Path) -> None:
    path = FILES["LightGBM"](table, tmp_path).path
    path.write_text(re.sub(r"^num_leaves=.*$", "num_leaves=2000000000", path.read_text(), flags=re.MULTILINE))
    assert opened_by_another_process(path).returncode < 0, "a file that does no harm shows nothing"
    with pytest.raises(ConfigError, match=r"model.txt is not a whole LightGBM model \(the library ends with SIG"):
        model_that_scores(path)


def test_trees_without_an_end_are_one_sentence(
    table: pl.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = FILES["LightGBM"](table, tmp_path).path

    path.write_text(re.sub(r"^(right_child=\S+) ", "\\1\7", path.read_text(), flags=re.MULTILINE))  # children become 0
    monkeypatch.setattr(trial, "SECONDS", 4)
    with pytest.raises(ConfigError, match="the library does not answer within 4 seconds"):
        model_that_scores(path)


@pytest.mark.parametrize("kind", ["LightGBM", "XGBoost as UBJSON", "CatBoost"])
@pytest.mark.parametrize("seed", range(3))
def test_a_damaged_file_is_one_sentence_or_a_model(
    kind: str, seed: int, table: pl.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "SECONDS", 4)
    path = FILES[kind](table, tmp_path).path
    draw, content = random.Random(seed), bytearray(path.read_bytes())
    for _ in range(12):
        content[draw.randrange(len(content))] = draw.randrange(128)
    path.write_bytes(content)
    with contextlib.suppress(ConfigError):
        model_that_scores(path)


@pytest.mark.parametrize("ending", ["txt", "json", "cbm", "onnx"])
def test_what_is_not_a_file_is_refused_at_once(ending: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / f"pipe.{ending}")
    (tmp_path / f"zero.{ending}").symlink_to("/dev/zero")
    (tmp_path / f"folder.{ending}").mkdir()
    for name, kind in (("pipe", "a named pipe"), ("zero", "a device"), ("folder", "a folder")):
        with pytest.raises(ConfigError, match=f"{name}.{ending} cannot be read .it is {kind}, not a regular file"):
            model_that_scores(tmp_path / f"{name}.{ending}")


def test_a_file_with_a_known_hash_needs_no_other_process(
    table: pl.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = FILES["LightGBM"](table, tmp_path).path
    remembered = ScoreColumn.remembered(ScoreColumn.of(path).facts)
    monkeypatch.setattr(choice, "_TRIED", set())
    monkeypatch.setattr(choice, "try_in_a_process", lambda *_: pytest.fail("it is known"))
    assert remembered.again(path).model is not None
    path.write_bytes(path.read_bytes().replace(b"num_leaves=7", b"num_leaves=2000000000"))
    monkeypatch.setattr(choice, "open_here", lambda *_: pytest.fail("it is another file"))
    with pytest.raises(ConfigError, match=r"model\.txt is not that file"):
        remembered.again(path)
