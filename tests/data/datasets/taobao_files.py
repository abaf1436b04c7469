"""Random small files in Taobao's published layout, and the log that a plain in-memory computation makes of them."""

from pathlib import Path

import numpy as np
import polars as pl

from resus.data.build import assemble_log
from resus.data.datasets.base import PUBLISHED_DEFAULTS
from resus.data.log.log import InteractionLog
from resus.data.options import PrepareOptions
from resus.data.readers.tables import RawTable
from resus.data.schema import TableSchema

IMPRESSION_HEADER = "user,time_stamp,adgroup_id,pid,nonclk,clk"
AD_HEADER = "adgroup_id,cate_id,campaign_id,customer,brand,price"
PROFILE_HEADER = (  # the published one ends in a space
    "userid,cms_segid,cms_group_id,final_gender_code,age_level,pvalue_level,shopping_level,occupation,"
    "new_user_class_level "
)


def write_files(
    folder: Path, seed: int, rows: int, *, end: str = "\n", last_end: bool = True, truth: bool = False
) -> Path:
    """Few users, ads and times, so that events tie and repeat; some users have no profile, some ads no brand."""
    random = np.random.default_rng(seed)
    folder.mkdir()
    n_users, n_ads = int(random.integers(1, 12)), int(random.integers(1, 9))
    user_ids = random.choice([7, 12, 99, 100, 581738, 3_000_000_000, *range(200, 220)], n_users, replace=False)
    ad_ids = random.choice([0, 1, 9, 10, 846811, *range(50, 70)], n_ads, replace=False)
    clicks = random.integers(2, size=rows)
    clicks[:2] = 0, 1
    impressions = [
        f"{random.choice(user_ids)},{1494000000 + random.integers(4)},{random.choice(ad_ids)},"
        f"{random.choice(['430548_1007', '430539_1007', ''], p=[0.6, 0.3, 0.1])},{1 - click},{click}"
        for click in clicks
    ]
    brands, prices = ["NULL", "95471", "7", ""], ["170.0", "0.5", "99999999.0", "12", "nan", "?"]
    ads = [
        f"{ad},{random.integers(3)},{random.integers(3)},{ad},{random.choice(brands)},{random.choice(prices)}"
        for ad in sorted({*ad_ids.tolist(), 9, 1234567})
    ]
    profiles = [
        f"{user},{random.integers(97)},5,2,{random.integers(3)},{random.choice(['', '1', '2'])},3,0,"
        f"{random.choice(['', '3'])}"
        for user in [*user_ids[random.random(n_users) < 0.8], 4]
    ]
    for name, header, lines in (
        ("raw_sample", IMPRESSION_HEADER, impressions),
        ("ad_feature", AD_HEADER, ads),
        ("user_profile", PROFILE_HEADER, profiles),
    ):
        text = end.join([header, *lines]) + (end if last_end else "")
        (folder / f"{name}.csv").write_bytes(text.encode())
    if truth:
        np.save(folder / "truth.npy", random.random((rows, 2), dtype=np.float32))
    return folder


def in_memory_log(folder: Path, options: PrepareOptions) -> InteractionLog:
    """The same log by joins of whole tables."""
    samples, ads, profiles = (
        pl.read_csv(folder / name, infer_schema=False).rename(str.strip)
        for name in ("raw_sample.csv", "ad_feature.csv", "user_profile.csv")
    )
    ads = ads.with_columns(
        brand=pl.when(pl.col("brand") != "NULL").then("brand"),
        price=pl.col("price").cast(pl.Float64, strict=False).clip(1).log().pow(2).floor().cast(pl.Int32, strict=False),
    )
    samples = samples.filter(~pl.all_horizontal(pl.all().is_null()))
    frame = samples.join(ads, on="adgroup_id", how="left", maintain_order="left")
    frame = frame.with_columns(userid="user").join(profiles, on="userid", how="left", maintain_order="left")
    truth = None
    if (folder / "truth.npy").is_file():
        truth = ("truth", "crowd")
        values = np.lib.format.open_memmap(folder / "truth.npy", mode="r")
        frame = frame.with_columns(truth=pl.Series(values[:, 0]), crowd=pl.Series(values[:, 1]))
    fields = ["adgroup_id", "pid", *ads.columns[1:], *profiles.columns[1:], *(["userid"] if options.user_field else [])]
    roles = {"user": "user", "item": "adgroup_id", "label": "clk", "time": "time_stamp"}
    schema = TableSchema.model_validate(roles | {"fields": dict.fromkeys(fields, "categorical")})
    table = RawTable("taobao", "the table", schema, frame, truth=truth)
    return assemble_log(table, options.build_options(PUBLISHED_DEFAULTS))
