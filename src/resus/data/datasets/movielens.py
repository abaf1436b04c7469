"""MovieLens-1M in its published layout: three files, '::'-separated, latin-1."""

from pathlib import Path

import polars as pl

from resus.data.datasets.base import PUBLISHED_DEFAULTS, DataSet
from resus.data.options import PrepareOptions
from resus.data.readers.delimited import read_delimited
from resus.data.readers.side_tables import attach
from resus.data.readers.tables import RawTable
from resus.data.schema import FieldSchema, TableSchema

RATINGS = ("user", "movie", "rating", "time")
USERS = ("user", "gender", "age", "occupation", "zip")
MOVIES = ("movie", "title", "genres")

PAPER = TableSchema(
    user="user",
    item="movie",
    label="rating",
    time="time",
    label_threshold=3,
    fields=dict.fromkeys(("movie", "gender", "age", "occupation", "year"), FieldSchema())
    | {"genres": FieldSchema(kind="multi")},
)
RELEASED_FIELDS = {
    "age": FieldSchema(kind="numeric", center=0, scale=56, missing="refuse"),
    "year": FieldSchema(kind="numeric", center=1919, scale=81, missing="refuse"),
    "genres": FieldSchema(),
}
AUTHORS_RELEASE = PAPER.model_copy(update={"label_threshold": 4, "fields": PAPER.fields | RELEASED_FIELDS})


def read(folder: Path, options: PrepareOptions) -> RawTable:
    """Ratings with the columns of their user and movie, as in the paper or as in the authors' release.

    The release keeps all movies and only the first genre. It orders a user's rows by where a movie first appears in
    `ratings.dat`, not by time.
    """
    released = options.protocol == "authors-release"
    schema = AUTHORS_RELEASE if released else PAPER
    if options.label_threshold is not None:
        schema = schema.model_copy(update={"label_threshold": options.label_threshold})
    ratings, users, movies = (
        read_delimited(folder / name, separator="::", encoding="latin-1", names=columns, quoted=False)
        for name, columns in (("ratings.dat", RATINGS), ("users.dat", USERS), ("movies.dat", MOVIES))
    )
    problems = [*ratings.problems, *users.problems, *movies.problems]
    frame = None
    if ratings.frame is not None and users.frame is not None and movies.frame is not None:
        frame = attach(ratings.frame, users, "user", problems, unlisted="ratings")
        frame = attach(frame, movies, "movie", problems, unlisted="ratings")
        frame = frame.with_columns(year=pl.col("title").str.extract(r"\((\d{4})\)\s*$"))
        frame = _as_released(frame) if released else frame
        frame = frame.select("user", "movie", "gender", "age", "occupation", "year", "genres", "rating", "time")
    defaults = PUBLISHED_DEFAULTS.model_copy(update={"min_item_count": 1}) if released else PUBLISHED_DEFAULTS
    return RawTable("ml-1m", ratings.where, schema, frame, tuple(problems), ratings.lines, defaults)


def _as_released(frame: pl.DataFrame) -> pl.DataFrame:
    rank = frame.select("movie").unique(maintain_order=True).with_row_index("rank")
    return frame.join(rank, on="movie", how="left", maintain_order="left").with_columns(
        pl.col("rank").alias("time"), pl.col("genres").str.split("|").list.first()
    )


DATA_SET = DataSet(
    name="ml-1m",
    aliases=("movielens-1m", "movielens", "ml1m"),
    members=("ml-1m/ratings.dat", "ml-1m/users.dat", "ml-1m/movies.dat"),
    read=read,
    options=frozenset({"protocol", "label_threshold"}),
    url="https://files.grouplens.org/datasets/movielens/ml-1m.zip",
    checksum="md5:c4d9eecfca2ab87c1945afe126590906",
)
