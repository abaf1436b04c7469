"""`resus predict` with Parquet: the same scores after a kill and an interrupt; mistakes are one sentence."""

import json
import signal
import time
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest
from resus_process import refused_here, resus_here, start, succeed_here

from resus import PlantedWorld, load
from resus.data.datasets.planted import draw_events
from resus.scoring.explanations import REASONS

pytestmark = pytest.mark.integration

UNFINISHED = ".scores.parquet.parts"
FILES = ("--support", "support.parquet", "--query", "query.parquet")


@pytest.fixture
def run(workplace: Path) -> Path:
    return workplace / "run"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    drawn = draw_events(PlantedWorld(users=30, items=40, seed=9)).drop("truth", "crowd")
    pq.write_table(drawn.filter(pl.col("time") < 4).to_arrow(), tmp_path / "support.parquet")
    asked = drawn.filter(pl.col("time") >= 4).drop("click").sample(300, shuffle=True, seed=1)
    pq.write_table(asked.to_arrow(), tmp_path / "query.parquet", row_group_size=50)
    return tmp_path


def stop(words: list[object], cwd: Path, sign: signal.Signals, parts: int) -> tuple[int, str]:
    """Run until some parts exist, then send the signal. Returns the exit code and standard error."""
    with start(*words, cwd=cwd) as process:
        while process.poll() is None and len(list((cwd / UNFINISHED).glob("part-*"))) < parts:
            time.sleep(0.002)
        process.send_signal(sign)
        assert process.stderr is not None
        said = process.stderr.read()
    return process.returncode, said


def test_a_killed_and_interrupted_prediction_resumes_to_the_same_scores(run: Path, folder: Path) -> None:
    predict: list[object] = ["predict", run, *FILES, "--block-rows", 3]
    calm = succeed_here(*predict, "--out", "calm.parquet", cwd=folder)
    words = [*predict, "--out", "scores.parquet"]

    code, said = stop(words, folder, signal.SIGKILL, parts=3)
    assert code == -signal.SIGKILL, said
    assert f"{UNFINISHED} holds unfinished scores: add --resume" in refused_here(*words, cwd=folder)
    done = len(list((folder / UNFINISHED).glob("part-*")))
    code, said = stop([*words, "--resume"], folder, signal.SIGINT, parts=done + 3)
    assert code == 130, said
    assert "Traceback" not in said
    assert "events" not in said, "the support is not read again"
    assert said.splitlines()[-1].startswith("stopped; ")
    assert not (folder / "scores.parquet").exists()

    assert succeed_here(*words, "--resume", cwd=folder) == calm.replace("calm", "scores")
    assert (folder / "scores.parquet").read_bytes() == (folder / "calm.parquet").read_bytes()
    assert not (folder / UNFINISHED).exists()


def test_all_file_formats_give_the_same_scores(run: Path, folder: Path) -> None:
    asked = pl.read_parquet(folder / "query.parquet")
    asked.write_csv(folder / "query.csv")
    pl.read_parquet(folder / "support.parquet").write_csv(folder / "support.csv")
    scores = []
    for support in ("support.parquet", "support.csv"):
        for query in ("query.parquet", "query.csv"):
            words = ("predict", run, "--support", support, "--query", query, "--out", "scores.parquet")
            assert succeed_here(*words, cwd=folder) == f"{asked.height} scores in scores.parquet\n"
            scores.append(
                pl.read_parquet(folder / "scores.parquet").select("probability", "basis", "residual", "support")
            )
    assert all(other.equals(scores[0]) for other in scores)


def test_unknown_values_are_reported_once_for_all_blocks(run: Path, folder: Path) -> None:
    asked = pl.read_parquet(folder / "query.parquet").with_columns(brand=pl.lit("new"))
    pq.write_table(asked.to_arrow(), folder / "query.parquet")
    known = pl.read_parquet(folder / "support.parquet")
    other = pl.when(pl.int_range(pl.len()) < 3).then(pl.lit("other")).otherwise(pl.col("brand"))
    known = known.with_columns(other.alias("brand"))
    pq.write_table(known.to_arrow(), folder / "support.parquet")
    model, sentences = load(run), []
    for name, table in (("support", known), ("query", asked)):
        counts = model.unknown_values(table)
        assert counts["brand"] >= (3 if name == "support" else asked.height)
        told = (f"{count} of {table.height} values of '{field}'" for field, count in counts.items())
        sentences += [f"the {name}: {values} are unknown to the model" for values in told]
    said = resus_here("predict", run, *FILES, "--block-rows", 100, "--out", "scores.parquet", cwd=folder).stderr
    assert [line for line in said.splitlines() if "unknown" in line] == sentences
    alone = resus_here("predict", run, *FILES, "--out", "scores.csv", cwd=folder).stderr
    assert alone == "".join(f"{told}\n" for told in sentences)


@pytest.mark.parametrize("out", ["scores.parquet", "scores.csv"])
def test_empty_tables(run: Path, folder: Path, out: str) -> None:
    support, asked = (pl.read_parquet(folder / f"{name}.parquet") for name in ("support", "query"))
    pq.write_table(support.clear().to_arrow(), folder / "support.parquet")
    said = resus_here("predict", run, *FILES, "--out", out, cwd=folder)
    assert "the support has no rows" in said.stderr
    assert said.stdout == f"{asked.height} scores in {out}\n"
    pq.write_table(support.to_arrow(), folder / "support.parquet")
    pq.write_table(asked.clear().to_arrow(), folder / "query.parquet")
    assert resus_here("predict", run, *FILES, "--out", out, cwd=folder).stdout == f"0 scores in {out}\n"


@pytest.mark.parametrize("option", [("--resume",), ("--block-rows", 10)])
@pytest.mark.parametrize("out", [(), ("--out", "scores.csv")])
def test_options_of_blocks_need_parquet(
    run: Path, folder: Path, option: tuple[object, ...], out: tuple[str, ...]
) -> None:
    told = refused_here("predict", run, *FILES, *out, *option, cwd=folder)
    assert f"{option[0]} needs a Parquet --query and a Parquet --out" in told


@pytest.mark.parametrize("out", ["scores.parquet", "scores.csv"])
def test_explained_scores_have_two_more_columns(run: Path, folder: Path, out: str) -> None:
    asked, words = pl.read_parquet(folder / "query.parquet"), ("predict", run, *FILES, "--out", out)
    read = pl.read_parquet if out.endswith("parquet") else pl.read_csv
    assert succeed_here(*words, cwd=folder) == f"{asked.height} scores in {out}\n"
    plain = read(folder / out)
    succeed_here(*words, "--explain", cwd=folder)
    explained = read(folder / out)
    assert explained.columns == [*plain.columns, "causes", "because"]
    assert explained["probability"].to_numpy() == pytest.approx(plain["probability"].to_numpy(), abs=1e-5)
    for size, said in zip(explained["support"], explained["because"], strict=True):
        assert len(json.loads(said)) == min(size, REASONS)


@pytest.mark.parametrize("option", [("--resume",), ("--block-rows", 10), ("--engine", "ray")])
def test_explained_tables_are_read_whole(run: Path, folder: Path, option: tuple[object, ...]) -> None:
    told = refused_here("predict", run, *FILES, "--out", "scores.parquet", "--explain", *option, cwd=folder)
    assert "--explain reads whole tables: leave out --resume, --block-rows and --engine ray" in told


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_an_input_is_never_overwritten(ending: str, tmp_path: Path) -> None:
    table = tmp_path / f"table.{ending}"
    table.write_bytes(b"mine")
    words = ("predict", "run", "--support", table.name, "--query", table.name, "--out", f"./{table.name}")
    assert f"{table.name} is also an input table" in refused_here(*words, cwd=tmp_path)
    assert table.read_bytes() == b"mine"
