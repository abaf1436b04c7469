"""A data set: one file `likes.csv` with the columns who, what and liked."""

from pathlib import Path

from resus.data.datasets.base import DataSet
from resus.data.options import PrepareOptions
from resus.data.readers.delimited import read_columns
from resus.data.readers.tables import RawTable
from resus.data.schema import TableSchema

SCHEMA = TableSchema.model_validate({"user": "who", "item": "what", "label": "liked"})


def read(folder: Path, options: PrepareOptions) -> RawTable:
    rows = read_columns(folder / "likes.csv", ["who", "what", "liked"], separator=",")
    return RawTable("likes", rows.where, SCHEMA, rows.frame, rows.problems, rows.lines)


LIKES = DataSet(name="likes", members=("likes.csv",), read=read)
