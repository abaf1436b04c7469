"""Taobao display-ad logs: read into memory, or streamed."""

from pathlib import Path

import polars as pl

from resus.data.datasets.base import PUBLISHED_DEFAULTS, DataSet
from resus.data.datasets.taobao import layout
from resus.data.datasets.taobao.stream import events_of
from resus.data.options import PrepareOptions
from resus.data.problems import Problem
from resus.data.readers.delimited import read_columns
from resus.data.readers.side_tables import attach
from resus.data.readers.tables import RawTable


def read(folder: Path, options: PrepareOptions) -> RawTable:
    """Impressions with the columns of their ad and of their user's profile; about 5 % of the users have none.

    Together with the user id these are the 16 fields of the paper.
    """
    samples = read_columns(folder / layout.IMPRESSIONS_FILE, layout.EVENTS, separator=",")
    ads, profiles = layout.read_ads(folder), layout.read_profiles(folder)
    problems = [*samples.problems, *ads.problems, *profiles.problems]
    frame, truth = None, None
    if samples.frame is not None and ads.frame is not None and profiles.frame is not None:
        frame = attach(samples.frame, ads, "adgroup_id", problems, unlisted="impressions")
        frame = attach(frame.with_columns(userid="user"), profiles, "userid", problems)
        truth = layout.read_truth(folder, frame.height)
    if isinstance(truth, Problem):
        problems.append(truth)
    elif truth is not None and frame is not None:
        frame = frame.with_columns(pl.Series(name, truth[:, place]) for place, name in enumerate(layout.TRUTHS))
    return RawTable(
        name=layout.NAME if truth is None else layout.PLANTED_NAME,
        where=samples.where,
        schema=layout.schema_of(options),
        frame=frame,
        problems=tuple(problems),
        lines=samples.lines,
        defaults=PUBLISHED_DEFAULTS,
        truth=None if truth is None else layout.TRUTHS,
    )


DATA_SET = DataSet(
    name=layout.NAME,
    aliases=("taobao-ads", "ali-display-ads"),
    members=(layout.IMPRESSIONS_FILE, layout.ADS_FILE, layout.PROFILES_FILE),
    read=read,
    options=frozenset({"user_field"}),
    login_page="https://tianchi.aliyun.com/dataset/56",
    optional=(layout.TRUTH_FILE,),
    events=events_of,
)
