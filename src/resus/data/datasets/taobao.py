"""Taobao display-ad logs in their published layout: impressions, ads and user profiles in three CSV files.

Beside drawn files of this layout lies a fourth, `truth.npy`: for each impression the click probability given the user,
and not given the user.
"""

from pathlib import Path

import numpy as np
import polars as pl

from resus.data.log.column_files import Column, map_column
from resus.data.options import PrepareOptions
from resus.data.problems import Problem
from resus.data.readers.delimited import Delimited, read_columns
from resus.data.readers.tables import PUBLISHED_DEFAULTS, Table, attach
from resus.data.schema import TableSchema

NAME = "taobao"
PLANTED_NAME = "planted-taobao"
IMPRESSIONS_FILE = "raw_sample.csv"
ADS_FILE = "ad_feature.csv"
PROFILES_FILE = "user_profile.csv"
TRUTH_FILE = "truth.npy"
TRUTHS = ("truth", "crowd")
EVENTS = ["user", "time_stamp", "adgroup_id", "pid", "clk"]
ADS = ["adgroup_id", "cate_id", "campaign_id", "customer", "brand", "price"]
PROFILES = [
    "userid",
    "cms_segid",
    "cms_group_id",
    "final_gender_code",
    "age_level",
    "pvalue_level",
    "shopping_level",
    "occupation",
    "new_user_class_level",
]
USER_FIELD = "userid"


def schema_of(options: PrepareOptions) -> TableSchema:
    """The fields; the user's id is one of them only where it is asked for."""
    fields = ["adgroup_id", "pid", *ADS[1:], *PROFILES[1:], *([USER_FIELD] if options.user_field else [])]
    kinds = dict.fromkeys(fields, "categorical")
    roles = {"user": "user", "item": "adgroup_id", "label": "clk", "time": "time_stamp"}
    return TableSchema.model_validate(roles | {"fields": kinds})


def read_ads(folder: Path) -> Delimited:
    """The ads. `price` is the whole part of ln(price)², as is usual for counts and amounts in this field.

    That gives some hundred bins which are the same for every sample of the data.
    """
    ads = read_columns(folder / ADS_FILE, ADS, separator=",")
    if ads.frame is None:
        return ads
    price = pl.col("price").cast(pl.Float64, strict=False)
    frame = ads.frame.with_columns(
        brand=pl.when(pl.col("brand") != "NULL").then("brand"),
        price=price.clip(lower_bound=1).log().pow(2).floor().cast(pl.Int32, strict=False),
    )
    return Delimited(ads.where, frame, ads.lines, ads.problems)


def read_profiles(folder: Path) -> Delimited:
    return read_columns(folder / PROFILES_FILE, PROFILES, separator=",")


def read_truth(folder: Path, rows: int | None = None) -> Column | Problem | None:
    """Both probabilities of each of the `rows` impressions, memory-mapped; None where there is no such file."""
    path = folder / TRUTH_FILE
    if not path.is_file():
        return None
    try:
        truth = map_column(path, np.float32)
    except (ValueError, OSError) as error:
        return unfit_truth(folder, str(error))
    fits = truth.ndim == 2 and truth.shape[1] == len(TRUTHS) and rows in (None, len(truth))
    return truth if fits else unfit_truth(folder)


def unfit_truth(folder: Path, what: str = "it does not hold two probabilities for each impression") -> Problem:
    fix = "draw the files again with 'resus prepare planted --like taobao', or delete it"
    return Problem(str(folder / TRUTH_FILE), None, None, what, fix)


def read(folder: Path, options: PrepareOptions) -> Table:
    """Impressions with the columns of their ad and of their user's profile, which about 5 % of the users lack.

    With the user these are the paper's 16 fields.
    """
    samples = read_columns(folder / IMPRESSIONS_FILE, EVENTS, separator=",")
    ads, profiles = read_ads(folder), read_profiles(folder)
    problems = [*samples.problems, *ads.problems, *profiles.problems]
    frame, truth = None, None
    if samples.frame is not None and ads.frame is not None and profiles.frame is not None:
        frame = attach(samples.frame, ads, "adgroup_id", problems, unlisted="impressions")
        frame = attach(frame.with_columns(userid="user"), profiles, "userid", problems)
        truth = read_truth(folder, frame.height)
    if isinstance(truth, Problem):
        problems.append(truth)
    elif truth is not None and frame is not None:
        frame = frame.with_columns(pl.Series(name, truth[:, place]) for place, name in enumerate(TRUTHS))
    return Table(
        name=NAME if truth is None else PLANTED_NAME,
        where=samples.where,
        schema=schema_of(options),
        frame=frame,
        problems=tuple(problems),
        lines=samples.lines,
        defaults=PUBLISHED_DEFAULTS,
        truth=None if truth is None else TRUTHS,
    )
