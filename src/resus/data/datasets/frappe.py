"""Frappe app usage: one tab-separated file of logs, each a positive, without times."""

from pathlib import Path

import polars as pl

from resus.data.datasets.negatives import sample_negatives
from resus.data.options import PrepareOptions
from resus.data.problems import Problem
from resus.data.readers.delimited import read_columns
from resus.data.readers.tables import PUBLISHED_DEFAULTS, Table
from resus.data.schema import TableSchema
from resus.errors import DataError

FILE = "frappe.csv"
CONTEXT = ["daytime", "weekday", "isweekend", "homework", "cost", "weather", "country", "city"]
SCHEMA = TableSchema.model_validate(
    {"user": "user", "item": "item", "label": "used", "fields": dict.fromkeys(["item", *CONTEXT], "categorical")}
)


def read(folder: Path, options: PrepareOptions) -> Table:
    """The logs (label 1), then the negatives sampled for them (label 0) from the apps that survive the item filter.

    An app is filtered by its logs alone, before negatives are drawn. `cnt` is left out.
    """
    columns = ["user", "item", *CONTEXT]
    read = read_columns(folder / FILE, columns, separator="\t", quoted=False)
    problems = list(read.problems)
    if read.frame is None or read.lines is None:
        return Table("frappe", read.where, SCHEMA, None, read.problems, defaults=PUBLISHED_DEFAULTS)
    logs = read.frame.with_columns(read.lines.alias("line"), used=pl.lit(1, pl.Int8))
    floor = options.build_options(PUBLISHED_DEFAULTS).min_item_count
    logs = logs.filter(pl.col("item").is_null() | (pl.len().over("item") >= floor))
    named = logs.drop_nulls(["user", "item"])
    if named.is_empty():
        problems.append(Problem(read.where, None, "item", f"no app has {floor} logs", "lower min_item_count"))
        return Table("frappe", read.where, SCHEMA, None, tuple(problems), defaults=PUBLISHED_DEFAULTS)
    try:
        negatives = sample_negatives(
            named, user="user", item="item", context=CONTEXT, per_log=options.negatives, seed=options.seed
        )
    except DataError as error:
        problems.append(Problem(read.where, None, "item", str(error), "lower min_item_count"))
        return Table("frappe", read.where, SCHEMA, None, tuple(problems), defaults=PUBLISHED_DEFAULTS)
    frame = pl.concat([logs, negatives.with_columns(used=pl.lit(0, pl.Int8))])
    return Table("frappe", read.where, SCHEMA, frame, tuple(problems), frame["line"], PUBLISHED_DEFAULTS)
