"""`--score-with` gives the same answers as a table into which the scores were written by hand."""

from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from models_of_others import catboost_file, linear_onnx, rows, stopped_xgboost_file
from resus_process import WITHOUT_NETWORK, refused_here, resus_here, succeed_here

from resus import InteractionLog
from resus.arrays import Doubles
from resus.data.readers.frames import as_frame
from resus.external.catboost_file import CatboostFile
from resus.external.score_column import ScoreColumn
from resus.serving import LoadedModel

pytestmark = pytest.mark.integration

SCHEMA = "user: user\nitem: item\ntime: time\nlabel: click\nfields: {category: categorical, price: numeric}\n"
TABLE = rows().with_columns(pl.col("price").fill_null(0))
KNOWN = TABLE.filter(pl.col("time") < 4)
ASKED = TABLE.filter(pl.col("time") >= 4).drop("click")
PREPARE = ("prepare", "events.csv", "--schema", "schema.yaml", "--out")
SCORED = ("--score-with", "model.cbm")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Events, a model, a log with its scores and a run on top; and the same with the scores written by hand."""
    folder = tmp_path_factory.mktemp("scored")
    scores = pl.Series("model_score", catboost_file(TABLE, folder).logits)
    (folder / "schema.yaml").write_text(SCHEMA)
    (folder / "by-hand.yaml").write_text(SCHEMA.replace("numeric}", "numeric, model_score: numeric}"))
    for name, table in (("events", TABLE), ("support", KNOWN), ("query", ASKED)):
        table.write_csv(folder / f"{name}.csv")
        pq.write_table(table.to_arrow(), folder / f"{name}.parquet")
    TABLE.with_columns(scores).write_csv(folder / "scored.csv")
    said = succeed_here(*PREPARE, "log", *SCORED, cwd=folder)
    assert said.endswith("log in log; next: resus train log --predictor logits:model_score\n")
    succeed_here("prepare", "scored.csv", "--schema", "by-hand.yaml", "--out", "by-hand", cwd=folder)
    for log in ("log", "by-hand"):
        words = ("train", log, "--predictor", "logits:model_score", *WITHOUT_NETWORK, "--out", f"run-{log}")
        succeed_here(*words, cwd=folder)
    return folder


@pytest.fixture(scope="module")
def with_bad_files(folder: Path) -> Path:
    linear_onnx(TABLE, folder, name="other.onnx", output="logits", logit=True)
    (folder / "model.joblib").write_bytes(b"")
    (folder / "schema.txt").write_text(SCHEMA)
    TABLE.drop("discount").write_csv(folder / "cut.csv")
    pq.write_table(TABLE.drop("discount").to_arrow(), folder / "cut.parquet")
    pq.write_table(TABLE.with_columns(model_score=pl.lit(0.5)).to_arrow(), folder / "scored.parquet")
    pq.write_table(TABLE.drop("category").to_arrow(), folder / "short.parquet")
    stopped_xgboost_file(TABLE, folder).path.rename(folder / "nameless.ubj")
    cells = TABLE["discount"].cast(pl.String).to_list()
    cells[3] = "cheap"
    TABLE.with_columns(discount=pl.Series(cells)).write_csv(folder / "wrong.csv")
    return folder


def test_the_log_equals_one_with_scores_written_by_hand(folder: Path, tmp_path: Path) -> None:
    mine, by_hand = InteractionLog.open(folder / "log"), InteractionLog.open(folder / "by-hand")
    assert mine.content_hash == by_hand.content_hash
    assert mine.manifest.score == ScoreColumn.of(folder / "model.cbm").facts
    of_parquet = ("prepare", "events.parquet", "--schema", "schema.yaml", "--out", tmp_path / "log", *SCORED)
    succeed_here(*of_parquet, cwd=folder)
    assert InteractionLog.open(tmp_path / "log").content_hash == mine.content_hash
    succeed_here(*PREPARE, tmp_path / "other", *SCORED, "--score-column", "cat", cwd=folder)
    assert [field.name for field in InteractionLog.open(tmp_path / "other").features.fields][-1] == "cat"


def test_the_same_model_keeps_the_log_and_another_model_replaces_it(folder: Path, tmp_path: Path) -> None:
    succeed_here(*PREPARE, tmp_path / "log", *SCORED, cwd=folder)
    before = (tmp_path / "log" / "manifest.json").stat().st_mtime_ns
    succeed_here(*PREPARE, tmp_path / "log", *SCORED, cwd=folder)
    assert (tmp_path / "log" / "manifest.json").stat().st_mtime_ns == before
    other = linear_onnx(TABLE, tmp_path, name="other.onnx", output="logits", logit=True).path
    succeed_here(*PREPARE, tmp_path / "log", "--score-with", other, cwd=folder)
    assert InteractionLog.open(tmp_path / "log").manifest.score == ScoreColumn.of(other).facts


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_the_answers_equal_those_of_scores_written_by_hand(ending: str, folder: Path, tmp_path: Path) -> None:
    tables = ("--support", f"support.{ending}", "--query", f"query.{ending}")
    out = tmp_path / f"mine.{ending}"
    succeed_here("predict", "run-log", *tables, *SCORED, "--out", out, cwd=folder)
    scored = as_frame(pl.read_csv(folder / "scored.csv"))
    for name, table in (("support", KNOWN), ("query", ASKED)):
        scored.join(table.select("user", "time"), on=["user", "time"], maintain_order="right").write_csv(
            tmp_path / f"{name}.csv"
        )
    by_hand = ("--support", tmp_path / "support.csv", "--query", tmp_path / "query.csv", "--out", tmp_path / "hand.csv")
    succeed_here("predict", "run-by-hand", *by_hand, cwd=folder)
    mine = pl.read_csv(out) if ending == "csv" else as_frame(pq.read_table(out))
    answers = ["probability", "basis", "residual", "support"]
    assert mine.columns == [*ASKED.columns, *answers], "the query's columns come back, and no others"
    difference = mine.select(answers) - pl.read_csv(tmp_path / "hand.csv").select(answers)
    assert np.abs(difference.to_numpy()).max() < 1e-5
    assert mine["residual"].abs().max() > 0  # type: ignore[operator]


def test_an_export_holds_the_model(folder: Path, tmp_path: Path) -> None:
    said = succeed_here("export", "run-log", "--out", tmp_path / "export", *SCORED, "--no-onnx", cwd=folder)
    assert "own-model.cbm" in said
    assert LoadedModel.load(tmp_path / "export").score is None
    for words, sentence in (
        (("--table", "events.csv"), "--table is for --score-with: leave it out, or name your model as well"),
        (("--score-with", "gone.cbm"), "gone.cbm does not exist"),
        ((*SCORED, "--table", "gone.csv"), "gone.csv"),
        ((*SCORED, "--table", "query.csv"), "query.csv, column 'click'"),
    ):
        assert sentence in refused_here("export", "run-log", "--out", tmp_path / "other", *words, cwd=folder)
        assert not (tmp_path / "other").exists()


def test_parquet_is_scored_block_by_block(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    of_library = CatboostFile.logits

    def counted(self: CatboostFile, frame: pl.DataFrame) -> Doubles:
        sizes.append(frame.height)
        return of_library(self, frame)

    tables = ("--support", "support.parquet", "--query", "query.parquet", *SCORED)
    succeed_here("predict", "run-log", *tables, "--out", tmp_path / "whole.parquet", cwd=folder)
    monkeypatch.setattr(CatboostFile, "logits", counted)
    succeed_here("predict", "run-log", *tables, "--out", tmp_path / "blocks.parquet", "--block-rows", 50, cwd=folder)
    assert max(sizes) == 50
    assert sum(sizes) == KNOWN.height + ASKED.height
    whole, blocks = (as_frame(pq.read_table(tmp_path / f"{name}.parquet")) for name in ("whole", "blocks"))
    assert (whole["probability"] - blocks["probability"]).abs().max() < 1e-6  # type: ignore[operator]


def test_help_and_docs_warn_of_a_model_fitted_on_the_same_table(folder: Path) -> None:
    root = Path(__file__).parents[2]
    said = succeed_here("prepare", "--help", cwd=folder)
    for text in (said, (root / "docs" / "external.md").read_text()):
        words = " ".join(text.replace("│", " ").replace("*", "").split())
        assert "on other users or on earlier data than this table, otherwise it knows the test users' labels" in words
        assert "RESUS+ cannot cross-fit your model" in words


def test_warnings_are_one_line_each_and_training_continues(folder: Path, tmp_path: Path) -> None:
    known = TABLE.with_columns(model_score=pl.col("click") * 0.5)
    known.write_csv(tmp_path / "known.csv")
    succeed_here("prepare", tmp_path / "known.csv", "--schema", "by-hand.yaml", "--out", tmp_path / "log", cwd=folder)
    chosen = ("--predictor", "logits:model_score", *WITHOUT_NETWORK)
    words = ("train", tmp_path / "log", *chosen, "--out", tmp_path / "run")
    done = resus_here(*words, cwd=folder)
    assert done.returncode == 0
    scale, leak = (line for line in done.stderr.splitlines() if line.startswith("resus: "))
    assert "probabilities:model_score" in scale
    assert "'model_score'" in leak
    assert "1.0000" in leak


NEW = ("--schema", "schema.yaml", "--out", "new")
PREDICT = ("predict", "run-log", "--support", "support.csv", "--query", "query.csv")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (PREDICT, "the support has no column 'model_score', which model.cbm wrote"),
        ((*PREDICT, "--score-with", "other.onnx"), "other.onnx is not that file"),
        ((*PREDICT, "--score-with", "model.joblib"), "model.joblib is a pickle, which can run any code"),
        ((*PREPARE, "new", "--score-with", "absent.cbm"), "absent.cbm does not exist"),
        ((*PREPARE, "new", "--score-with", "events.csv"), "events.csv has none of the known endings"),
        ((*PREPARE, "new", "--score-with", "schema.txt"), "schema.txt is not a whole LightGBM model"),
        ((*PREPARE, "new", "--score-column", "cat"), "--score-column needs --score-with"),
        (("prepare", "taobao", "--path", ".", "--out", "new", *SCORED), "'taobao' is read in blocks"),
        (("prepare", "planted", "--out", "new", *SCORED), "planted is drawn, not read from files: leave out --path, "),
        (("prepare", "cut.csv", *NEW, *SCORED), "cut.csv has no column 'discount', which model.cbm reads"),
        (("prepare", "cut.parquet", *NEW, *SCORED), "cut.parquet has no column 'discount', which model.cbm reads"),
        (
            ("prepare", "wrong.csv", *NEW, *SCORED),
            "wrong.csv, row 5, column 'discount': 'cheap' is not a number; the model reads a number here",
        ),
        (("prepare", "scored.csv", *NEW, *SCORED), "scored.csv has a column 'model_score' already"),
        (("prepare", "scored.parquet", *NEW, *SCORED), "scored.parquet has a column 'model_score' already"),
        ((*PREPARE, "new", *SCORED, "--score-column", ""), "the name of the score column is empty"),
        (
            ("prepare", "short.parquet", *NEW, "--score-with", "nameless.ubj"),
            "short.parquet has no column 'category', which nameless.ubj reads: add it",
        ),
    ],
)
def test_mistakes_are_one_sentence_and_leave_nothing_behind(
    words: tuple[object, ...], sentence: str, with_bad_files: Path
) -> None:
    folder = with_bad_files
    before = {path.name for path in folder.iterdir()}
    assert sentence in refused_here(*words, cwd=folder)
    assert {path.name for path in folder.iterdir()} == before
