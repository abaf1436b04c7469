"""Taobao display-ad logs: a strict reader in memory, and a fast one that streams."""

from pathlib import Path

import polars as pl

from resus.data.datasets.base import PUBLISHED_DEFAULTS, DataSet
from resus.data.datasets.taobao.layout import (
    ADS_FILE,
    EVENTS,
    IMPRESSIONS_FILE,
    NAME,
    PLANTED_NAME,
    PROFILES_FILE,
    TRUTH_FILE,
    TRUTHS,
    read_ads,
    read_profiles,
    read_truth,
    schema_of,
)
from resus.data.datasets.taobao.stream import is_sound, stream
from resus.data.options import PrepareOptions
from resus.data.problems import Problem
from resus.data.readers.delimited import read_columns
from resus.data.readers.tables import RawTable, attach


def read(folder: Path, options: PrepareOptions) -> RawTable:
    """Impressions with the columns of their ad and of their user's profile; about 5 % of the users have none.

    Together with the user id these are the 16 fields of the paper.
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
    return RawTable(
        name=NAME if truth is None else PLANTED_NAME,
        where=samples.where,
        schema=schema_of(options),
        frame=frame,
        problems=tuple(problems),
        lines=samples.lines,
        defaults=PUBLISHED_DEFAULTS,
        truth=None if truth is None else TRUTHS,
    )


DATA_SET = DataSet(
    name=NAME,
    aliases=("taobao-ads", "ali-display-ads"),
    members=(IMPRESSIONS_FILE, ADS_FILE, PROFILES_FILE),
    read=read,
    options=frozenset({"user_field"}),
    login_page="https://tianchi.aliyun.com/dataset/56",
    optional=(TRUTH_FILE,),
    stream=stream,
    sound=is_sound,
)
