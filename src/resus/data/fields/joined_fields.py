"""Fields of a smaller table, each of whose rows stands for many rows of the log: what they hold, and their ids."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from resus.data.fields.feature_map import EncodedField, FeatureMap, Ids, as_text

Integers = npt.NDArray[np.int64]


def learned_field(name: str, values: pl.Series, counts: Integers, min_count: int) -> EncodedField:
    """A field's vocabulary, as `FeatureMap.learn` finds it, from values that stand for several rows each."""
    seen = pl.DataFrame({"value": as_text(values), "count": counts}).drop_nulls("value")
    seen = seen.group_by("value").agg(pl.col("count").sum())
    seen = seen.filter((pl.col("count") >= max(min_count, 1)) & (pl.col("value") != ""))
    seen = seen.sort(["count", "value"], descending=[True, False])
    return EncodedField(name=name, kind="categorical", columns=1, vocabulary=tuple(seen["value"].to_list()))


@dataclass(frozen=True)
class PartOfIds:
    """The ids of some fields for each row of a smaller table, and the columns of the log that they fill."""

    columns: list[int]
    ids: Ids

    @classmethod
    def of(cls, features: FeatureMap, table: pl.DataFrame) -> "PartOfIds":
        columns = [column for column, field in enumerate(features.fields) if field.name in table.columns]
        part = FeatureMap(fields=tuple(features.fields[column] for column in columns))
        ids, _ = part.encode(table)
        shift = np.array(features.first_ids)[columns] - np.array(part.first_ids)
        return cls(columns, ids + shift.astype(np.int32))
