"""Frappe app usage: one tab-separated file of events without times, each of them a positive."""

from dataclasses import replace
from pathlib import Path

import polars as pl

from resus.data.datasets.base import PUBLISHED_DEFAULTS, DataSet
from resus.data.datasets.negatives import sample_negatives
from resus.data.options import PrepareOptions
from resus.data.problems import Problem
from resus.data.readers.delimited import read_columns
from resus.data.readers.tables import RawTable
from resus.data.schema import TableSchema
from resus.errors import DataError

FILE = "frappe.csv"
CONTEXT = ["daytime", "weekday", "isweekend", "homework", "cost", "weather", "country", "city"]
SCHEMA = TableSchema.model_validate(
    {"user": "user", "item": "item", "label": "used", "fields": dict.fromkeys(["item", *CONTEXT], "categorical")}
)


def read(folder: Path, options: PrepareOptions) -> RawTable:
    """The events (label 1), then sampled negatives (label 0).

    Rare apps are dropped before negatives are drawn from the others. The column `cnt` is not read.
    """
    columns = ["user", "item", *CONTEXT]
    read = read_columns(folder / FILE, columns, separator="\t", quoted=False)
    table = RawTable("frappe", read.where, SCHEMA, None, read.problems, defaults=PUBLISHED_DEFAULTS)
    if read.frame is None or read.lines is None:
        return table
    logs = read.frame.with_columns(read.lines.alias("line"), used=pl.lit(1, pl.Int8))
    floor = options.build_options(PUBLISHED_DEFAULTS).min_item_count
    logs = logs.filter(pl.col("item").is_null() | (pl.len().over("item") >= floor))
    named = logs.drop_nulls(["user", "item"])
    try:
        if named.is_empty():
            raise DataError(f"no app has {floor} logs")
        negatives = sample_negatives(
            named, user="user", item="item", context=CONTEXT, per_log=options.negatives, seed=options.seed
        )
    except DataError as error:
        problem = Problem(read.where, None, "item", str(error), "lower min_item_count")
        return replace(table, problems=(*read.problems, problem))
    frame = pl.concat([logs, negatives.with_columns(used=pl.lit(0, pl.Int8))])
    return replace(table, frame=frame, lines=frame["line"])


DATA_SET = DataSet(
    name="frappe",
    aliases=("mobile-frappe",),
    members=("Mobile_Frappe/frappe/frappe.csv",),
    read=read,
    options=frozenset({"negatives"}),
    url="https://www.baltrunas.info/_files/archives/be17b7_474755a5e9684a749a012516d04fb456.zip?dn=Mobile_Frappe.zip",
    checksum="sha256:4adc616de57170f282397f6e6e30215f97fa7ad1b7f40bd12ef5dceaaf3e9b4e",
)
