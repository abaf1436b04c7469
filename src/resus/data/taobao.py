"""Taobao display-ad logs in their published layout: impressions, ads and user profiles in three CSV files."""

from pathlib import Path

import polars as pl

from resus.data.delimited import read_columns
from resus.data.options import PrepareOptions
from resus.data.schema import TableSchema
from resus.data.tables import PUBLISHED_DEFAULTS, Table, attach

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
SCHEMA = TableSchema.model_validate(
    {
        "user": "user",
        "item": "adgroup_id",
        "label": "clk",
        "time": "time_stamp",
        "fields": dict.fromkeys(["adgroup_id", "pid", *ADS[1:], *PROFILES[1:]], "categorical"),
    }
)


def read(folder: Path, options: PrepareOptions) -> Table:  # noqa: ARG001 - every published data set is read this way
    """Impressions with the columns of their ad and of their user's profile, which about 5 % of the users lack.

    With the user these are the paper's 16 fields. `price` is the whole part of ln(price)², as is usual for counts and
    amounts in this field: some hundred bins that are the same for every sample of the data.
    """
    samples, ads, profiles = (
        read_columns(folder / name, columns, separator=",")
        for name, columns in (("raw_sample.csv", EVENTS), ("ad_feature.csv", ADS), ("user_profile.csv", PROFILES))
    )
    problems = [*samples.problems, *ads.problems, *profiles.problems]
    frame = None
    if samples.frame is not None and ads.frame is not None and profiles.frame is not None:
        frame = attach(samples.frame, ads, "adgroup_id", problems, unlisted="impressions")
        frame = attach(frame.rename({"user": "userid"}), profiles, "userid", problems).rename({"userid": "user"})
        price = pl.col("price").cast(pl.Float64, strict=False)
        frame = frame.with_columns(
            brand=pl.when(pl.col("brand") != "NULL").then("brand"),
            price=price.clip(lower_bound=1).log().pow(2).floor().cast(pl.Int32),
        )
    return Table("taobao", samples.where, SCHEMA, frame, tuple(problems), samples.lines, PUBLISHED_DEFAULTS)
