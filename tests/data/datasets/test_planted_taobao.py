"""The planted world is in Taobao's layout and likeness, and its truth is the truth."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from resus.data.datasets.taobao.planted import (
    FILES,
    PUBLISHED_COUNTS,
    PUBLISHED_ROWS,
    PlantedTaobao,
    write_planted_taobao,
)
from resus.data.doctor import diagnose
from resus.data.log.column_files import map_column
from resus.errors import ConfigError

WORLD = PlantedTaobao(rows=60_000, seed=3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("planted") / "files"
    write_planted_taobao(folder, WORLD, block_rows=7_000)
    return folder


@pytest.fixture(scope="module")
def impressions(folder: Path) -> pl.DataFrame:
    truth = map_column(folder / "truth.npy", np.float32)
    frame = pl.read_csv(folder / "raw_sample.csv")
    return frame.with_columns(truth=pl.Series(truth[:, 0]), crowd=pl.Series(truth[:, 1]))


def test_the_layout_is_the_published_one(folder: Path) -> None:
    heads = [(folder / name).read_text().partition("\n")[0] for name in FILES[:3]]
    assert heads == [
        "user,time_stamp,adgroup_id,pid,nonclk,clk",
        "adgroup_id,cate_id,campaign_id,customer,brand,price",
        "userid,cms_segid,cms_group_id,final_gender_code,age_level,pvalue_level,shopping_level,occupation,"
        "new_user_class_level ",
    ]
    assert diagnose(folder) == []


def test_at_the_published_size_the_counts_are_the_published_ones() -> None:
    whole = PlantedTaobao(rows=PUBLISHED_ROWS)
    assert {what: whole.count(what) for what in PUBLISHED_COUNTS} == PUBLISHED_COUNTS
    tenth = PlantedTaobao(rows=PUBLISHED_ROWS // 10)
    assert tenth.count("users") == pytest.approx(PUBLISHED_COUNTS["users"] / 10, rel=1e-4)


def test_ads_and_profiles_are_in_its_likeness(folder: Path) -> None:
    ads = pl.read_csv(folder / "ad_feature.csv", null_values="NULL")
    assert ads.height == ads["adgroup_id"].n_unique() == WORLD.count("ads")
    for column, what in (("cate_id", "categories"), ("campaign_id", "campaigns"), ("customer", "customers")):
        assert ads[column].n_unique() == WORLD.count(what)
    assert ads["brand"].drop_nulls().n_unique() == WORLD.count("brands")
    assert ads["brand"].null_count() > 0
    assert ads.group_by("campaign_id").agg(pl.col("customer").n_unique())["customer"].max() == 1
    profiles = pl.read_csv(folder / "user_profile.csv").rename(str.strip)
    assert 0.9 < profiles.height / WORLD.count("users") < 0.99
    assert profiles["cms_group_id"].n_unique() <= 13
    for column in ("pvalue_level", "new_user_class_level"):
        assert 0.2 < profiles[column].null_count() / profiles.height < 0.7


def test_impressions_are_long_tailed_and_in_about_the_order_of_time(impressions: pl.DataFrame) -> None:
    assert impressions.height == WORLD.rows
    assert bool((impressions["clk"] + impressions["nonclk"] == 1).all())
    assert impressions["clk"].mean() == pytest.approx(0.05, abs=0.006)
    assert impressions["user"].n_unique() > 0.95 * WORLD.count("users")
    for column in ("user", "adgroup_id"):
        counts = impressions[column].value_counts()["count"]
        assert counts.max() > 5 * counts.mean()  # type: ignore[operator]
        assert counts.top_k(len(counts) // 5).sum() > 0.5 * WORLD.rows
    time = impressions["time_stamp"].to_numpy()
    assert 1494000000 <= time.min() < time.max() < 1494000000 + 8 * 86400
    assert np.corrcoef(time, np.arange(len(time)))[0, 1] > 0.999
    assert (np.diff(time) < 0).any()


@pytest.mark.parametrize("truth", ["truth", "crowd"])
def test_the_truth_is_calibrated(impressions: pl.DataFrame, truth: str) -> None:
    """Overall and in ten bins, clicks are as many as the probabilities say, within four standard errors."""
    tenth = WORLD.rows // 10
    for group in [impressions, *impressions.sort(truth).iter_slices(tenth)]:
        probability = group[truth].to_numpy().astype(np.float64)
        spread = np.sqrt((probability * (1 - probability)).sum())
        crowded = 2.0 if truth == "crowd" else 1.0  # a user's rows share the part that the crowd does not know
        assert abs(group["clk"].sum() - probability.sum()) < 4 * crowded * spread


def test_the_truth_knows_more_than_the_crowd(impressions: pl.DataFrame) -> None:
    def logloss(column: str) -> float:
        probability, clicked = impressions[column].to_numpy(), impressions["clk"].to_numpy()
        return float(-np.log(np.where(clicked == 1, probability, 1 - probability)).mean())

    assert logloss("truth") < logloss("crowd") - 0.005


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    world = PlantedTaobao(rows=2000, seed=5)
    for name in ("one", "other"):
        write_planted_taobao(tmp_path / name, world)
    write_planted_taobao(tmp_path / "changed", PlantedTaobao(rows=2000, seed=6))
    content = {name: [(tmp_path / name / file).read_bytes() for file in FILES] for name in ("one", "other", "changed")}
    assert content["one"] == content["other"]
    assert all(one != changed for one, changed in zip(content["one"], content["changed"], strict=True))


def test_asked_for_the_same_again_nothing_is_drawn(tmp_path: Path) -> None:
    world, steps = PlantedTaobao(rows=1000), []

    def note(task: str, done: int, total: int | None, unit: str = "") -> None:
        steps.append(task)

    first = write_planted_taobao(tmp_path / "files", world, note)
    drawn = len(steps)
    assert write_planted_taobao(tmp_path / "files", world, note) == first
    assert len(steps) == drawn
    with (tmp_path / "files" / "raw_sample.csv").open("a") as stream:
        stream.write("1,")
    assert write_planted_taobao(tmp_path / "files", world, note) == first
    assert len(steps) == 2 * drawn
    assert write_planted_taobao(tmp_path / "files", PlantedTaobao(rows=1001), note) != first


def test_what_was_not_drawn_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "raw_sample.csv").write_text("the published one")
    with pytest.raises(ConfigError, match=r"holds raw_sample\.csv, which was not drawn"):
        write_planted_taobao(tmp_path, PlantedTaobao(rows=1000))
    with pytest.raises(ConfigError, match="is a file"):
        write_planted_taobao(tmp_path / "raw_sample.csv", PlantedTaobao(rows=1000))
    write_planted_taobao(tmp_path / "files", PlantedTaobao(rows=1000))
    (tmp_path / "files" / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match=r"holds notes\.txt"):
        write_planted_taobao(tmp_path / "files", PlantedTaobao(rows=1001))
