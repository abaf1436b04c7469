"""Tables in memory: pandas, Arrow, polars and mappings of arrays become a polars frame, and back."""

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

import polars as pl
import pyarrow as pa

from resus.errors import DataError


class Frame(Protocol):
    """A table in memory: a polars DataFrame or LazyFrame, a pandas DataFrame or an Arrow table."""

    @property
    def columns(self) -> Any:
        """Its columns, or their names."""


Table = Frame | Mapping[str, Any]
SameFrame = TypeVar("SameFrame", bound=Frame)


def as_frame(table: Any, where: str = "the table") -> pl.DataFrame:
    """Any kind of table as a polars frame."""
    if isinstance(table, pl.LazyFrame):
        return table.collect()
    if isinstance(table, pl.DataFrame):
        return table
    try:
        return _converted(table, where)
    except (pa.ArrowException, TypeError, ValueError, pl.exceptions.PolarsError) as error:
        reason = str(error).partition("\n")[0]
        raise DataError(f"{where} cannot be read as a table ({reason}): give each column values of one kind") from None


def _converted(table: Any, where: str) -> pl.DataFrame:
    if isinstance(table, Mapping):
        lengths = {name: len(column) for name, column in table.items()}
        if len(set(lengths.values())) > 1:
            raise DataError(f"{where} has columns of different lengths: {lengths}")
        return pl.DataFrame([pl.Series(name, column) for name, column in table.items()])
    library = type(table).__module__.partition(".")[0]
    converted: object = None
    if library == "pandas":
        converted = pl.from_pandas(table.reset_index(drop=True))
    elif library == "pyarrow":
        converted = pl.from_arrow(table)
    elif hasattr(table, "__arrow_c_stream__"):  # a DuckDB relation, the answer of a query, a reader of batches
        converted = pl.DataFrame(table)
    if isinstance(converted, pl.DataFrame):
        return converted
    raise DataError(
        f"{where} is a {type(table).__name__}: give a polars or pandas frame, an Arrow table or stream, or a mapping "
        "of arrays"
    )


def like(table: Any, result: pl.DataFrame, *, same_rows: bool = True) -> Any:
    """`result` as the same kind of table as `table`; if it has the same rows, also with its index."""
    if isinstance(table, Mapping):
        return {name: result[name].to_numpy() for name in result.columns}
    if type(table).__module__.partition(".")[0] == "pandas":
        converted = result.to_pandas()
        if same_rows:
            converted.index = table.index
        return converted
    if type(table).__module__.partition(".")[0] == "pyarrow":
        return result.to_arrow()
    return result.lazy() if isinstance(table, pl.LazyFrame) else result
