"""Which columns are read, where the row of an error is counted from, and what the column's name may be."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from models_of_others import SCHEMA, rows

from resus.arrays import Doubles
from resus.data.log.manifest import ScoreFacts
from resus.errors import ConfigError, DataError, RowError
from resus.external import score_column
from resus.external.score_column import ScoreColumn
from resus.external.scoring_model import Reads

TABLE = rows()


class Nameless:
    """A model that sums up what it reads; a row with a missing number is refused."""

    name = "the sum"

    def __init__(self, reads: Reads) -> None:
        self.reads = reads

    def logits(self, frame: pl.DataFrame) -> Doubles:
        values = frame.to_numpy().astype(np.float64)
        bad = np.flatnonzero(np.isnan(values).any(axis=1))
        if len(bad):
            raise RowError(int(bad[0]), None, "a number is missing", "fill it in")
        return np.asarray(values.sum(axis=1))


def column(reads: Reads) -> ScoreColumn:
    return ScoreColumn("model_score", "the sum", None, Nameless(reads))


@pytest.mark.parametrize("reads", [3, ("Column_0", "Column_1", "Column_2"), ("f0", "f1", "f2"), ("0", "1", "2")])
def test_without_names_the_fields_are_read_in_their_order(reads: Reads) -> None:
    assert column(reads).columns(SCHEMA, TABLE.columns, "the table") == ["item", "category", "price"]
    scored = column(reads).schema(SCHEMA)
    assert list(scored.fields) == ["item", "category", "price", "model_score"]
    assert column(reads).columns(scored, TABLE.columns, "the table") == ["item", "category", "price"]


def test_generic_names_that_the_table_has_are_names() -> None:
    assert column(("f0", "f1")).columns(SCHEMA, [*TABLE.columns, "f1", "f0"], "the table") == ["f0", "f1"]


def test_named_columns_are_read_in_the_models_order_and_no_others() -> None:
    assert column(("hour", "item")).columns(SCHEMA, TABLE.columns, "the table") == ["hour", "item"]
    summed = column(("hour", "item")).on(TABLE, SCHEMA, "the table")
    assert summed["model_score"].equals((TABLE["hour"] + TABLE["item"]).cast(pl.Float64), check_names=False)
    assert summed.drop("model_score").equals(TABLE)


def test_a_model_that_reads_the_label_or_a_missing_column_is_refused() -> None:
    with pytest.raises(ConfigError, match="the sum reads the label 'click'"):
        column(("click",)).columns(SCHEMA, TABLE.columns, "the table")
    with pytest.raises(DataError, match=r"^the table has no column 'price', which the sum reads: add it$"):
        column(3).columns(SCHEMA, TABLE.drop("price").columns, "the table")


def test_a_column_that_is_there_is_left_alone_in_answers_and_refused_in_learning() -> None:
    scored = TABLE.with_columns(model_score=pl.lit(0.5))
    assert column(("hour",)).on(scored, SCHEMA, "the table") is scored
    with pytest.raises(ConfigError, match=r"the table has a column 'model_score' already"):
        column(("hour",)).learned_on(scored, SCHEMA, "the table")


def test_the_row_of_an_error_counts_what_came_before_or_is_the_line_of_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(score_column, "BLOCK_ROWS", 4)
    first = int(TABLE["price"].is_null().arg_true()[0])
    assert first > 4
    for options, row in (
        ({}, first + 1),
        ({"first_row": 1000}, first + 1001),
        ({"lines": pl.Series(range(50, 50 + TABLE.height))}, first + 50),
    ):
        with pytest.raises(DataError, match=f"^the query, row {row}: a number is missing; fill it in$"):
            column(("price",)).on(TABLE, SCHEMA, "the query", **options)


def test_blocks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = column(("item", "hour")).on(TABLE, SCHEMA, "the table")
    monkeypatch.setattr(score_column, "BLOCK_ROWS", 7)
    assert column(("item", "hour")).on(TABLE, SCHEMA, "the table").equals(whole)


def test_names_that_are_taken_or_empty() -> None:
    with pytest.raises(ConfigError, match="name of the score column is empty"):
        ScoreColumn.of(lambda table: table["hour"], " ")
    with pytest.raises(ConfigError, match="'click' is a column of the schema already: give the scores another name"):
        ScoreColumn("click", "the sum", None, None).schema(SCHEMA)
    with pytest.raises(ConfigError, match=r"'category' .* must be numeric, not categorical"):
        ScoreColumn("category", "the sum", None, None).schema(SCHEMA)


def test_a_remembered_column_asks_for_its_model_and_refuses_another_file(tmp_path: Path) -> None:
    remembered = ScoreColumn.remembered(ScoreFacts(column="model_score", written_by="a.onnx", sha256="12" * 32))
    with pytest.raises(DataError, match=r"the query has no column 'model_score', which a.onnx wrote"):
        remembered.columns(SCHEMA, TABLE.columns, "the query")
    with pytest.raises(ConfigError, match=r"by a.onnx of sha256 121212121212…, and the function 'f' is not"):
        remembered.refuse_another(ScoreColumn("model_score", "the function 'f'", None, Nameless(None)))
