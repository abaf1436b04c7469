"""The data sets of the proving ground as prepared logs: five by name, any other by the path of its log."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from benchmarks.published import LOGS, published_log
from resus.checking import nearest_key
from resus.data.given import build_log
from resus.data.log.log import MANIFEST, InteractionLog
from resus.data.options import BuildOptions
from resus.data.problems import Problem, refuse
from resus.data.readers.delimited import FileRows, read_columns
from resus.data.readers.side_tables import attach
from resus.data.schema import TableSchema
from resus.errors import ArtifactError, ConfigError


@dataclass(frozen=True)
class Ratings:
    """Ratings in `events.csv`, joined with `items.csv`, and with `users.csv` if there are fields of the user.

    A rating from `threshold` on counts as a click. `fields` holds the kind of each.
    """

    threshold: int
    fields: Mapping[str, str]
    of_user: tuple[str, ...] = ()


RATINGS = {
    "goodbooks": Ratings(4, {"authors": "multi", "language": "categorical", "year": "numeric"}),
    "anime": Ratings(8, {"episodes": "categorical", "genre": "multi", "type": "categorical"}),
    "douban-book": Ratings(
        4, dict.fromkeys(("author", "location", "publisher", "year"), "categorical"), of_user=("location",)
    ),
}
DATA_SETS = ("ml-1m", "frappe", *RATINGS)
OPTIONS = BuildOptions(duplicates="keep", single_events="drop")


def find_logs(asked: Sequence[str]) -> dict[str, Path]:
    """The folders of the logs by the name of the data set. Prepares those of the five that are missing."""
    found: dict[str, Path] = {}
    for word in asked:
        path = _own_log(word) if word not in DATA_SETS else None
        name = word if path is None else path.resolve().name
        if name in found:
            raise ConfigError(f"'{name}' is named twice: name each data set once, and give logs different folder names")
        found[name] = path or prepared(name)
    return found


def prepared(name: str) -> Path:
    """The log of one of the five data sets, prepared from the folder in RESUS_DATA if it is missing."""
    folder = LOGS / (f"{name}-paper" if name not in RATINGS else name)
    if _opens(folder):
        return folder
    raw = Path(os.environ.get("RESUS_DATA", "../shared/data")) / name
    if not raw.is_dir():
        raise ArtifactError(
            f"there is no folder {raw} with the files of '{name}': set RESUS_DATA to the folder that holds it, or name "
            "only the data sets that you have"
        )
    if name in RATINGS:
        _joined(name, raw).save(folder)
        return folder
    return published_log(name)[0]


def _own_log(word: str) -> Path:
    if not (Path(word) / MANIFEST).is_file():
        nearest = nearest_key(word, DATA_SETS)
        raise ArtifactError(
            f"'{word}' is neither the folder of a prepared log nor one of {', '.join(DATA_SETS)}: "
            + (f"did you mean '{nearest}'?" if nearest else "make a log with 'resus prepare'")
        )
    return Path(word)


def _opens(folder: Path) -> bool:
    try:
        InteractionLog.open(folder)
    except ArtifactError:  # missing, damaged or of another version
        return False
    return True


def _joined(name: str, raw: Path) -> InteractionLog:
    ratings = RATINGS[name]
    of_item = [field for field in ratings.fields if field not in ratings.of_user]
    problems: list[Problem] = []
    frame = _rows(raw / "events.csv", ["user", "item", "rating"]).frame
    assert frame is not None
    frame = attach(frame, _rows(raw / "items.csv", ["item", *of_item]), "item", problems)
    if ratings.of_user:
        frame = attach(frame, _rows(raw / "users.csv", ["user", *ratings.of_user]), "user", problems)
    refuse(problems)
    numbers = [
        pl.col(field).cast(pl.Float64, strict=False) for field, kind in ratings.fields.items() if kind == "numeric"
    ]
    frame = frame.with_columns(number.fill_null(number.mean()) for number in numbers)
    roles = {"user": "user", "item": "item", "label": "rating", "label_threshold": ratings.threshold}
    schema = TableSchema.model_validate({**roles, "fields": ratings.fields})
    return build_log(frame, schema, OPTIONS, name=name, where=str(raw / "events.csv"))


def _rows(path: Path, columns: Sequence[str]) -> FileRows:
    rows = read_columns(path, columns, separator=",")
    refuse(rows.problems)
    return rows
