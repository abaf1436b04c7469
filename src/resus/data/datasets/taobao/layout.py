"""The layout of the Taobao display-ad logs: impressions, ads and user profiles in three CSV files.

Drawn files of this layout have a fourth, `truth.npy`: the click probability of each impression if one knows the user,
and if one does not.
"""

from pathlib import Path

import numpy as np
import polars as pl

from resus.arrays import Array
from resus.data.log.column_files import map_column
from resus.data.options import PrepareOptions
from resus.data.problems import Problem
from resus.data.readers.delimited import FileRows, read_columns
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
    """The fields. The user id is a field only on request."""
    fields = ["adgroup_id", "pid", *ADS[1:], *PROFILES[1:], *([USER_FIELD] if options.user_field else [])]
    kinds = dict.fromkeys(fields, "categorical")
    roles = {"user": "user", "item": "adgroup_id", "label": "clk", "time": "time_stamp"}
    sides = {
        "users": {"key": USER_FIELD, "fields": dict.fromkeys(PROFILES[1:], "categorical")},
        "items": {"key": "adgroup_id", "fields": dict.fromkeys(ADS[1:], "categorical")},
    }
    return TableSchema.model_validate(roles | {"fields": kinds} | sides)


def read_ads(folder: Path) -> FileRows:
    """The ads. `price` becomes the whole part of ln(price)²: some hundred bins, the same in every sample."""
    ads = read_columns(folder / ADS_FILE, ADS, separator=",")
    if ads.frame is None:
        return ads
    price = pl.col("price").cast(pl.Float64, strict=False)
    frame = ads.frame.with_columns(
        brand=pl.when(pl.col("brand") != "NULL").then("brand"),
        price=price.clip(lower_bound=1).log().pow(2).floor().cast(pl.Int32, strict=False),
    )
    return FileRows(ads.where, frame, ads.lines, ads.problems)


def read_profiles(folder: Path) -> FileRows:
    return read_columns(folder / PROFILES_FILE, PROFILES, separator=",")


def read_truth(folder: Path, rows: int | None = None) -> Array | Problem | None:
    """Both probabilities of each of the `rows` impressions, memory-mapped; None if there is no such file."""
    path = folder / TRUTH_FILE
    if not path.is_file():
        return None
    try:
        truth = map_column(path, np.float32)
    except (ValueError, OSError) as error:
        return wrong_truth(folder, str(error))
    fits = truth.ndim == 2 and truth.shape[1] == len(TRUTHS) and rows in (None, len(truth))
    return truth if fits else wrong_truth(folder)


def wrong_truth(folder: Path, what: str = "it does not hold two probabilities for each impression") -> Problem:
    fix = "draw the files again with 'resus prepare planted --like taobao', or delete it"
    return Problem(str(folder / TRUTH_FILE), None, None, what, fix)
