"""Scores from two local workers of a real Ray cluster against those of one process."""

import subprocess
import sys
from pathlib import Path

import lightgbm
import numpy as np
import polars as pl
import pytest
from planted_models import SCHEMA, events, log_of, tiny
from resus_process import environment, resus_here

from resus.scoring.stream import predict_file

SCRIPT = Path(__file__).with_name("score_on_ray.py")


@pytest.mark.integration
def test_workers_answer_what_one_process_answers(tmp_path: Path) -> None:
    table = events()
    tiny().fit(log_of(table)).save(tmp_path / "run")
    trees = lightgbm.Dataset(table.select("price", "item").to_pandas(), table["click"].to_numpy())
    lightgbm.train({"objective": "binary", "verbosity": -1, "num_threads": 1}, trees, 4).save_model(
        tmp_path / "model.txt"
    )
    on_top = tiny(predictor=tmp_path / "model.txt").fit(table, schema=SCHEMA)
    on_top.save(tmp_path / "on-top")
    known = pl.col("time") < 5
    table.filter(known & (pl.col("user") % 7 != 0)).write_parquet(tmp_path / "support.parquet")
    query = table.filter(~known).sample(fraction=1, shuffle=True, seed=1).with_columns(tag=pl.col("user") * 2)
    query = query.with_columns(category=pl.when(pl.col("user") == 3).then(pl.lit("new")).otherwise("category"))
    query.drop("click").write_parquet(tmp_path / "query.parquet")
    tables = tmp_path / "support.parquet", tmp_path / "query.parquet"
    alone = predict_file(on_top.scorer, *tables, tmp_path / "alone.parquet", model="it")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path)], env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    told, refused = done.stdout.splitlines()
    assert told == f"{alone.rows} {alone.events} {alone.unknown}"
    assert alone.unknown == {"category": query.filter(pl.col("user") == 3).height}
    assert refused == "the support, column 'click', row 151: 7 is not 0 or 1; write 0 or 1"
    assert not (tmp_path / "none.parquet").exists()
    one, other = pl.read_parquet(tmp_path / "alone.parquet"), pl.read_parquet(tmp_path / "ray.parquet")
    floats = ["probability", "basis", "residual"]
    assert one.drop(floats).equals(other.drop(floats)), "the same rows in the same order"
    assert np.abs(one.select(floats).to_numpy() - other.select(floats).to_numpy()).max() < 1e-5


def test_ray_takes_parquet_only(tmp_path: Path) -> None:
    words = ["predict", "run", "--support", "s.csv", "--query", "q.parquet", "--out", "o.parquet", "--engine", "ray"]
    done = resus_here(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert all(word in done.stderr for word in ("--engine ray", "Parquet", "--support", "--query", "--out"))
