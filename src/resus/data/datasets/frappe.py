"""Frappe app usage: one tab-separated file of events without times, each of them a positive."""

from dataclasses import replace
from pathlib import Path

import polars as pl

from resus.data.datasets.base import PUBLISHED_DEFAULTS, DataSet
from resus.data.options import PrepareOptions
from resus.data.problems import Problem
from resus.data.readers.delimited import read_columns
from resus.data.readers.tables import RawTable
from resus.data.schema import TableSchema

FILE = "frappe.csv"
CONTEXT = ["daytime", "weekday", "isweekend", "homework", "cost", "weather", "country", "city"]
SCHEMA = TableSchema.model_validate(
    {
        "user": "user",
        "item": "item",
        "label": "used",
        "negatives": {"per_event": 2, "context": CONTEXT, "item_fields": []},  # `cost` stays that of the log
        "fields": dict.fromkeys(["item", *CONTEXT], "categorical"),
    }
)


def read(folder: Path, options: PrepareOptions) -> RawTable:
    """The events, all of label 1; rare apps are dropped. The column `cnt` is not read."""
    columns = ["user", "item", *CONTEXT]
    read = read_columns(folder / FILE, columns, separator="\t", quoted=False)
    schema = SCHEMA.drawing(options.negatives)
    table = RawTable("frappe", read.where, schema, None, read.problems, defaults=PUBLISHED_DEFAULTS)
    if read.frame is None or read.lines is None:
        return table
    logs = read.frame.with_columns(read.lines.alias("line"), used=pl.lit(1, pl.Int8))
    floor = options.build_options(PUBLISHED_DEFAULTS).min_item_count
    logs = logs.filter(pl.col("item").is_null() | (pl.len().over("item") >= floor))
    if logs.drop_nulls(["user", "item"]).is_empty():
        problem = Problem(read.where, None, "item", f"no app has {floor} logs", "lower min_item_count")
        return replace(table, problems=(*read.problems, problem))
    return replace(table, frame=logs, lines=logs["line"])


DATA_SET = DataSet(
    name="frappe",
    aliases=("mobile-frappe",),
    members=("Mobile_Frappe/frappe/frappe.csv",),
    read=read,
    options=frozenset({"negatives"}),
    url="https://www.baltrunas.info/_files/archives/be17b7_474755a5e9684a749a012516d04fb456.zip?dn=Mobile_Frappe.zip",
    checksum="sha256:4adc616de57170f282397f6e6e30215f97fa7ad1b7f40bd12ef5dceaaf3e9b4e",
)
