"""A planted world that looks like Taobao: files of any size in its layout, and the truth about each click.

    logit P(click) = base + appeal(ad) + place + taste(group) · traits(ad)        what everyone can see
                   + bias(user) + taste(user) · traits(ad)                        what only the user's own clicks tell

Memory grows with the users and ads, not with the impressions.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from resus.arrays import Array
from resus.data.datasets.planted import mean_sigmoid, sigmoid
from resus.data.datasets.taobao import layout
from resus.data.log.column_files import ColumnWriter
from resus.errors import ArtifactError, ConfigError
from resus.files import atomic_folder, read_json, write_json
from resus.progress import Progress, silent
from resus.randomness import Purpose, generator

PUBLISHED_ROWS = 26_557_961
PUBLISHED_COUNTS = {
    "users": 1_141_729,
    "ads": 846_811,
    "campaigns": 423_000,
    "customers": 255_000,
    "brands": 461_000,
    "categories": 13_000,
}
FLOORS = {"users": 40, "ads": 40, "campaigns": 20, "customers": 10, "brands": 20, "categories": 8}
PLACES = ("430548_1007", "430539_1007")
BEGIN, SECONDS = 1_494_000_000, 8 * 24 * 3600
JITTER_SECONDS = 600.0
TRAITS = 4
GROUPS = 13  # of gender and age
NO_PROFILE, NO_BRAND = 0.05, 0.3
BLOCK_ROWS = 1 << 19
FACTS_FILE = "planted.json"
FILES = (layout.IMPRESSIONS_FILE, layout.ADS_FILE, layout.PROFILES_FILE, layout.TRUTH_FILE)


class PlantedTaobao(BaseModel):
    """How many impressions there are, and how personal they are. The rest has the published proportions."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rows: int = Field(default=PUBLISHED_ROWS, ge=1000)
    seed: int = Field(default=1, ge=0)
    click_rate: float = Field(default=0.05, gt=0, lt=1)
    taste_spread: float = Field(default=0.9, ge=0)
    bias_spread: float = Field(default=0.6, ge=0)

    def count(self, what: str) -> int:
        """How many users, ads, … there are, in proportion to the rows."""
        return max(FLOORS[what], round(PUBLISHED_COUNTS[what] * self.rows / PUBLISHED_ROWS))


class DrawnCounts(BaseModel):
    users: int
    ads: int
    clicks: int


class DrawnFiles(BaseModel):
    """What `planted.json` says about the files next to it."""

    format: Literal[1] = 1
    world: PlantedTaobao
    counts: DrawnCounts
    bytes: dict[str, int]


def write_planted_taobao(
    folder: Path, settings: PlantedTaobao, progress: Progress = silent, *, block_rows: int = BLOCK_ROWS
) -> DrawnFiles:
    """Draw the files, all or none, unless they are there already; return the content of `planted.json`."""
    held = _facts_in(folder)
    if held is not None and held.world == settings and held.bytes == _sizes(folder):
        return held
    _check_drawn_folder(folder, drawn=held is not None)
    with atomic_folder(folder) as aside:
        progress("drawing users and ads", 0, 1)
        world = TaobaoWorld(settings)
        world.ads.table.write_csv(aside / layout.ADS_FILE)
        last = layout.PROFILES[-1]
        world.people.table.rename({last: f"{last} "}).write_csv(aside / layout.PROFILES_FILE)  # as it is published
        progress("drawing users and ads", 1, 1)
        clicks = _write_impressions(aside, world, block_rows, progress)
        counts = DrawnCounts(users=settings.count("users"), ads=settings.count("ads"), clicks=clicks)
        facts = DrawnFiles(world=settings, counts=counts, bytes=_sizes(aside))
        write_json(aside / FACTS_FILE, facts.model_dump())
    return facts


@dataclass(frozen=True)
class Ads:
    """The table `ad_feature.csv`, and what each ad does to a click."""

    table: pl.DataFrame
    appeal: Array
    traits: Array  # [A, TRAITS]
    popularity: Array  # cumulative, up to 1

    @classmethod
    def draw(cls, world: PlantedTaobao) -> "Ads":
        random = generator(Purpose.TAOBAO_ADS, world.seed)
        ads = world.count("ads")
        category = _covering(random, world.count("categories"), ads)
        campaign = _covering(random, world.count("campaigns"), ads)
        customer = _covering(random, world.count("customers"), world.count("campaigns"))[campaign]
        branded = random.random(ads) >= NO_BRAND
        branded[: world.count("brands")] = True  # so that every brand has an ad
        branded = random.permutation(branded)
        brand = np.full(ads, -1)
        brand[branded] = _covering(random, world.count("brands"), int(branded.sum()))
        log_price = random.normal(5.0, 1.3, size=ads)
        by_category, by_brand = random.normal(size=world.count("categories")), random.normal(size=world.count("brands"))
        appeal = 0.4 * by_category[category] + 0.4 * random.normal(size=ads) - 0.15 * (log_price - 5.0) / 1.3
        appeal += np.where(branded, 0.3 * by_brand[brand], 0.0)
        traits = random.normal(size=(len(by_category), TRAITS))[category] + 0.8 * random.normal(size=(ads, TRAITS))
        named = pl.Series(brand + 1).cast(pl.String).set(pl.Series(~branded), "NULL")
        columns = (np.arange(1, ads + 1), category + 1, campaign + 1, customer + 1, named, np.exp(log_price).round(2))
        return cls(
            table=pl.DataFrame(dict(zip(layout.ADS, columns, strict=True))),
            appeal=appeal.astype(np.float32),
            traits=(traits / np.sqrt(1.64 * TRAITS)).astype(np.float32),
            popularity=_cumulative(random.permutation(np.arange(1, ads + 1) ** -0.8)),
        )


@dataclass(frozen=True)
class People:
    """The table `user_profile.csv`, which lacks some users, and what each user does to a click."""

    table: pl.DataFrame
    group: Array  # GROUPS for those without a profile
    bias: Array
    taste: Array  # [U, TRAITS]
    activity: Array  # cumulative, up to 1

    @classmethod
    def draw(cls, world: PlantedTaobao) -> "People":
        random = generator(Purpose.TAOBAO_USERS, world.seed)
        users = world.count("users")
        gender = 2 - (random.random(users) < 0.35)
        age = random.choice(7, size=users, p=[0.01, 0.05, 0.18, 0.29, 0.22, 0.21, 0.04])
        group = np.where(age == 0, 0, age + 6 * (gender == 1))
        has_profile = random.random(users) >= NO_PROFILE
        profile = {
            "userid": np.arange(1, users + 1),
            "cms_segid": np.where(random.random(users) < 0.5, 0, random.integers(97, size=users)),
            "cms_group_id": group,
            "final_gender_code": gender,
            "age_level": age,
            "shopping_level": random.choice([1, 2, 3], size=users, p=[0.1, 0.1, 0.8]),
            "occupation": (random.random(users) < 0.06).astype(np.int64),
        }
        for name, share, end in (("pvalue_level", 0.46, 4), ("new_user_class_level", 0.68, 5)):
            profile[name] = np.where(random.random(users) < share, random.integers(1, end, size=users), -1)
        table = pl.DataFrame(profile).select(layout.PROFILES).filter(pl.Series(has_profile))
        # the floor under the long tail lets nearly all users appear
        activity = 0.15 + np.exp(1.3 * random.normal(size=users))
        return cls(
            table=table.with_columns(pl.when(pl.all() >= 0).then(pl.all())),
            group=np.where(has_profile, group, GROUPS),
            bias=(world.bias_spread * random.normal(size=users)).astype(np.float32),
            taste=(world.taste_spread * random.normal(size=(users, TRAITS))).astype(np.float32),
            activity=_cumulative(activity),
        )


class TaobaoWorld:
    """Users and ads, drawn once; impressions, drawn block by block."""

    def __init__(self, settings: PlantedTaobao) -> None:
        self.settings = settings
        self.ads = Ads.draw(settings)
        self.people = People.draw(settings)
        random = generator(Purpose.TAOBAO_TASTES, settings.seed)
        self._group_taste = 0.7 * random.normal(size=(GROUPS + 1, TRAITS)).astype(np.float32)
        self._place = 0.2 * random.normal(size=len(PLACES))

    def impressions(self, block_rows: int) -> Iterator[tuple[pl.DataFrame, Array]]:
        """All rows of `raw_sample.csv` and of `truth.npy`, in about the order of their time."""
        for number, start in enumerate(range(0, self.settings.rows, block_rows)):
            random = generator(Purpose.TAOBAO_IMPRESSIONS, self.settings.seed, number)
            yield self._block(random, np.arange(start, min(start + block_rows, self.settings.rows)))

    def _block(self, random: np.random.Generator, number: Array) -> tuple[pl.DataFrame, Array]:
        user, ad, place = self._draw(random, len(number))
        known, personal, variance = self._logits(user, ad, place)
        known += self._base
        truth = sigmoid(known + personal)
        late = (number + 0.5) / self.settings.rows * SECONDS + JITTER_SECONDS * random.normal(size=len(number))
        clicked = (random.random(len(number)) < truth).astype(np.int8)
        rows = {
            "user": user + 1,
            "time_stamp": BEGIN + np.clip(late, 0, SECONDS - 1).astype(np.int64),
            "adgroup_id": ad + 1,
            "pid": pl.Series(PLACES).gather(place),
            "nonclk": 1 - clicked,
            "clk": clicked,
        }
        return pl.DataFrame(rows), np.stack([truth, mean_sigmoid(known, variance)], axis=1).astype(np.float32)

    @cached_property
    def _base(self) -> float:
        """The logit that gives the click rate, found by bisection on a sample."""
        random = generator(Purpose.TAOBAO_CLICK_RATE, self.settings.seed)
        known, personal, _ = self._logits(*self._draw(random, 100_000))
        low, high = -20.0, 20.0
        for _ in range(50):
            middle = (low + high) / 2
            enough = sigmoid(middle + known + personal).mean() > self.settings.click_rate
            low, high = (low, middle) if enough else (middle, high)
        return low

    def _draw(self, random: np.random.Generator, rows: int) -> tuple[Array, Array, Array]:
        user = np.searchsorted(self.people.activity, random.random(rows), side="right")
        ad = np.searchsorted(self.ads.popularity, random.random(rows), side="right")
        return user, ad, (random.random(rows) < 0.38).astype(np.int64)

    def _logits(self, user: Array, ad: Array, place: Array) -> tuple[Array, Array, Array]:
        """The part that everyone can see, without the base; the user's own part; and its variance over users."""
        traits = self.ads.traits[ad]
        group = self._group_taste[self.people.group[user]]
        known = self.ads.appeal[ad] + self._place[place] + np.einsum("nt,nt->n", group, traits)
        personal = self.people.bias[user] + np.einsum("nt,nt->n", self.people.taste[user], traits)
        spread = self.settings.taste_spread**2 * np.einsum("nt,nt->n", traits, traits)
        return known.astype(np.float64), personal.astype(np.float64), self.settings.bias_spread**2 + spread


def _covering(random: np.random.Generator, values: int, size: int) -> Array:
    """`size` draws of 0 … values - 1 with a long tail, every value at least once."""
    assert values <= size
    more = (values * random.random(size - values) ** 2).astype(np.int64)
    return random.permutation(np.concatenate([np.arange(values), more]))


def _cumulative(weights: Array) -> Array:
    total = np.cumsum(weights)
    shares: Array = total / total[-1]
    return shares


def _facts_in(folder: Path) -> DrawnFiles | None:
    """What was drawn into the folder; None if nothing was."""
    try:
        return DrawnFiles.model_validate(read_json(folder / FACTS_FILE))
    except (ArtifactError, NotADirectoryError, ValidationError):
        return None


def _sizes(folder: Path) -> dict[str, int]:
    return {name: (folder / name).stat().st_size for name in FILES if (folder / name).is_file()}


def _check_drawn_folder(folder: Path, *, drawn: bool) -> None:
    """Refuse to replace anything but drawn files."""
    if folder.is_file():
        raise ConfigError(f"{folder} is a file: choose a folder for the result")
    present = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    foreign = present - {*FILES, FACTS_FILE} if drawn else present
    if foreign:
        raise ConfigError(f"{folder} holds {min(foreign)}, which was not drawn: choose another folder for the files")


def _write_impressions(folder: Path, world: TaobaoWorld, block_rows: int, progress: Progress) -> int:
    """Write the impressions and their truth, and count the clicks."""
    clicks = done = 0
    with (
        (folder / layout.IMPRESSIONS_FILE).open("wb") as samples,
        ColumnWriter(folder / layout.TRUTH_FILE, np.float32, len(layout.TRUTHS)) as truths,
    ):
        for rows, truth in world.impressions(block_rows):
            rows.write_csv(samples, include_header=done == 0)
            truths.add(truth)
            clicks += int(rows["clk"].sum())
            done += rows.height
            progress("drawing impressions", done, world.settings.rows, "rows")
    return clicks
