"""The planted world's three files in Taobao's published layout, and beside them the truth."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from resus.data.datasets.planted_taobao import BLOCK_ROWS, PLACES, Ads, People, PlantedTaobao, World
from resus.data.datasets.taobao import ADS, ADS_FILE, IMPRESSIONS_FILE, PROFILES, PROFILES_FILE, TRUTH_FILE, TRUTHS
from resus.data.log.column_files import ColumnWriter
from resus.errors import ArtifactError, ConfigError
from resus.files import atomic_folder, read_json, write_json
from resus.progress import Progress, silent

FACTS_FILE = "planted.json"
FILES = (IMPRESSIONS_FILE, ADS_FILE, PROFILES_FILE, TRUTH_FILE)
FORMAT = 1


def write_planted_taobao(
    folder: Path, settings: PlantedTaobao, progress: Progress = silent, *, block_rows: int = BLOCK_ROWS
) -> dict[str, Any]:
    """Draw the files, whole or not at all, unless they are there already; return what `planted.json` says of them."""
    facts = _facts_in(folder)
    asked = {"format": FORMAT, "like": "taobao", "world": settings.model_dump()}
    if facts is not None and asked.items() <= facts.items() and facts.get("bytes") == _sizes(folder):
        return facts
    _refuse_foreign(folder, drawn=facts is not None)
    with atomic_folder(folder) as aside:
        progress("drawing users and ads", 0, 1)
        world = World(settings)
        _write_ads(aside / ADS_FILE, world.ads)
        _write_profiles(aside / PROFILES_FILE, world.people)
        progress("drawing users and ads", 1, 1)
        clicks = _write_impressions(aside, world, block_rows, progress)
        counts = {"users": settings.count("users"), "ads": settings.count("ads"), "clicks": clicks}
        facts = asked | {"counts": counts, "bytes": _sizes(aside)}
        write_json(aside / FACTS_FILE, facts)
    return facts


def _facts_in(folder: Path) -> dict[str, Any] | None:
    """What the folder says was drawn; None where it does not say so."""
    try:
        facts = read_json(folder / FACTS_FILE)
    except (ArtifactError, NotADirectoryError):
        return None
    return facts if isinstance(facts, dict) else None


def _sizes(folder: Path) -> dict[str, int]:
    return {name: (folder / name).stat().st_size for name in FILES if (folder / name).is_file()}


def _refuse_foreign(folder: Path, *, drawn: bool) -> None:
    """Drawn files may be replaced; anything else in that place, such as the published files, is somebody's work."""
    if folder.is_file():
        raise ConfigError(f"{folder} is a file: choose a folder for the result")
    present = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    foreign = present - {*FILES, FACTS_FILE} if drawn else present
    if foreign:
        raise ConfigError(f"{folder} holds {min(foreign)}, which was not drawn: choose another place for the files")


def _write_ads(path: Path, ads: Ads) -> None:
    brand = pl.Series(ads.brand)
    columns: Mapping[str, Any] = {
        "adgroup_id": np.arange(1, len(ads.price) + 1),
        "cate_id": ads.category + 1,
        "campaign_id": ads.campaign + 1,
        "customer": ads.customer + 1,
        "brand": (brand + 1).cast(pl.String).set(brand < 0, "NULL"),
        "price": ads.price,
    }
    pl.DataFrame(columns).select(ADS).write_csv(path)


def _write_profiles(path: Path, people: People) -> None:
    columns = {"userid": np.arange(1, len(people.bias) + 1), **people.profile}
    frame = pl.DataFrame(columns).select(PROFILES).filter(pl.Series(people.has_profile))
    frame = frame.with_columns(pl.when(pl.all() >= 0).then(pl.all()))
    frame.rename({PROFILES[-1]: f"{PROFILES[-1]} "}).write_csv(path)  # as published, with a space at its end


def _write_impressions(folder: Path, world: World, block_rows: int, progress: Progress) -> int:
    clicks = done = 0
    places = pl.Series(PLACES)
    with (
        (folder / IMPRESSIONS_FILE).open("wb") as samples,
        ColumnWriter(folder / TRUTH_FILE, np.float32, len(TRUTHS)) as truths,
    ):
        samples.write(b"user,time_stamp,adgroup_id,pid,nonclk,clk\n")
        for block in world.impressions(block_rows):
            frame = pl.DataFrame(
                {
                    "user": block.user + 1,
                    "time_stamp": block.time,
                    "adgroup_id": block.ad + 1,
                    "pid": places.gather(block.place),
                    "nonclk": 1 - block.clicked,
                    "clk": block.clicked,
                }
            )
            frame.write_csv(samples, include_header=False)
            truths.add(np.stack([block.truth, block.crowd], axis=1))
            clicks += int(block.clicked.sum())
            done += frame.height
            progress("drawing impressions", done, world.settings.rows, "rows")
    return clicks
