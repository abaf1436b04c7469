"""A draft names the right columns, says why it leaves others out, and `prepare` reads it as it is."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from resus.data.drafting.draft import Draft, draft_schema
from resus.data.prepare import prepare_log
from resus.data.schema import TableSchema
from resus.errors import DataError

ROWS = 1200


def news() -> pl.DataFrame:
    """A log of impressions as companies have it."""
    rng = np.random.default_rng(4)
    users, items = rng.integers(0, 60, ROWS), rng.integers(0, 40, ROWS)
    clicked = rng.random(ROWS) < 0.2 + 0.5 * (items % 2)
    price = np.round(rng.lognormal(3, 1, ROWS), 2)
    price[7] = 1e12
    tags = ["|".join(sorted({"abcd"[item % 4], "xyz"[item % 3]})) for item in items]
    return pl.DataFrame(
        {
            "event_id": np.arange(ROWS) + 100_000,
            "userId": [f"u{user}" for user in users],
            "email": [f"u{user}@example.org" for user in users],
            "article_id": items,
            "title": [f"Article {item}" for item in items],
            "shown_at": 1_700_000_000 + 60 * np.arange(ROWS),
            "clicked": clicked.astype(int),
            "category": [["news", "sport", "tech"][item % 3] for item in items],
            "tags": tags,
            "price": price,
            "age": users % 50 + 18,
            "city": users % 45,
            "device": rng.choice(["phone", "tv", ""], ROWS),
            "currency": ["EUR"] * ROWS,
            "dwell_seconds": np.where(clicked, rng.integers(1, 300, ROWS).astype(str), ""),
            "relevance": clicked + rng.random(ROWS) * 0.9,
        }
    )


def drafted(table: pl.DataFrame, folder: Path, name: str = "table.csv", **options: Any) -> Draft:
    path = folder / name
    table.write_parquet(path) if name.endswith("parquet") else table.write_csv(path, **options)
    draft = draft_schema(path)
    (folder / "schema.yaml").write_text(draft.text_for(folder / "schema.yaml"))
    assert TableSchema.read(folder / "schema.yaml") == draft.schema
    return draft


def kinds(draft: Draft) -> dict[str, str]:
    return {one.name: one.said if isinstance(one.said, str) else one.said["kind"] for one in draft.fields}


def left_out(draft: Draft) -> dict[str, str]:
    return {one.name: one.reason for one in draft.left_out}


def test_roles_kinds_and_reasons(tmp_path: Path) -> None:
    draft = drafted(news(), tmp_path)
    assert draft.said == {"user": "userId", "item": "article_id", "time": "shown_at", "label": "clicked"}
    assert kinds(draft) == {
        "category": "categorical",
        "tags": "multi",
        "price": "numeric",
        "age": "numeric",
        "city": "categorical",
        "device": "categorical",
    }
    reasons = left_out(draft)
    assert reasons.pop("event_id").startswith("it is an id")
    assert reasons.pop("email").startswith("it is another name of the user")
    assert reasons.pop("title").startswith("it is another name of the item")
    assert reasons.pop("currency") == "always 'EUR'"
    assert reasons.pop("dwell_seconds") == "it gives the label away: it is filled only in rows with label 1"
    assert reasons.pop("relevance") == "it gives the label away: alone it has an AUC of 1.000"
    assert not reasons
    assert ["1e+12" in one for one in draft.suspicious] == [True]
    text = (tmp_path / "schema.yaml").read_text()
    assert "# seconds since 1970, 2023-11-14 to 2023-11-15" in text
    assert "#   currency: always 'EUR'" in text
    log = prepare_log(str(tmp_path / "table.csv"), tmp_path / "log", schema=tmp_path / "schema.yaml")
    assert log.n_rows == ROWS


def test_clicks_alone_get_negatives(tmp_path: Path) -> None:
    clicks = news().filter(clicked=1).drop("clicked", "relevance", "dwell_seconds")
    draft = drafted(clicks, tmp_path, separator=";")
    assert draft.said == {
        "user": "userId",
        "item": "article_id",
        "time": "shown_at",
        "negatives": 2,
        "separator": ";",
    }
    log = prepare_log(str(tmp_path / "table.csv"), tmp_path / "log", schema=tmp_path / "schema.yaml")
    assert (log.n_rows, int(log.labels.sum())) == (3 * clicks.height, clicks.height)
    always = drafted(clicks.with_columns(purchased=1), tmp_path)
    assert (always.said["label"], always.said["negatives"]) == ("purchased", 2)


def test_lists_dates_and_a_table_in_parquet(tmp_path: Path) -> None:
    table = news().select(
        "userId",
        "article_id",
        "clicked",
        pl.from_epoch("shown_at").alias("when"),
        pl.col("tags").str.split("|"),
        milliseconds=pl.col("shown_at") * 1000,
    )
    draft = drafted(table, tmp_path, "table.parquet")
    assert draft.said["time"] == "when"
    assert kinds(draft) == {"tags": "multi"}
    assert left_out(draft)["milliseconds"].startswith("it is a time")
    log = prepare_log(str(tmp_path / "table.parquet"), tmp_path / "log", schema=tmp_path / "schema.yaml")
    assert log.ordered


@pytest.mark.parametrize(
    ("times", "unit"),
    [
        ([1_700_000_000 + n for n in range(ROWS)], "seconds"),
        ([1_700_000_000_000 + n for n in range(ROWS)], "milliseconds"),
        ([f"2024-01-{1 + n % 28:02}T10:00:00" for n in range(ROWS)], "dates"),
        ([f"2024-01-{1 + n % 28:02}" for n in range(ROWS)], "dates"),
        (list(range(ROWS)), "numbers"),
    ],
)
def test_times_are_recognised(tmp_path: Path, times: list[Any], unit: str) -> None:
    table = news().select("userId", "article_id", "clicked", timestamp=pl.Series(times))
    draft = drafted(table, tmp_path)
    assert draft.said["time"] == "timestamp"
    assert draft.remarks["time"].startswith(unit)


@pytest.mark.parametrize("separator", ["|", ";", ", ", "/"])
def test_several_values_in_a_cell_are_found(tmp_path: Path, separator: str) -> None:
    table = news().select(
        "userId", "article_id", "clicked", tags=pl.col("tags").str.replace_all("|", separator, literal=True)
    )
    (field,) = drafted(table, tmp_path).fields
    expected = "multi" if separator == "|" else {"kind": "multi", "separator": separator}
    assert field.said == expected


def test_ratings_get_a_threshold_in_the_middle(tmp_path: Path) -> None:
    ratings = np.random.default_rng(1).choice([-1, 1, 2, 3, 4, 5], ROWS, p=[0.05, 0.05, 0.1, 0.3, 0.3, 0.2])
    draft = drafted(news().select("userId", "article_id", rating=ratings), tmp_path)
    assert (draft.said["label"], draft.said["label_threshold"]) == ("rating", 4)
    assert any("no rating" in one for one in draft.suspicious)


def test_what_looks_wrong_is_told(tmp_path: Path) -> None:
    odd = news().with_columns(userId=pl.lit("u"), shown_at=pl.lit(-5) - pl.int_range(pl.len()), clicked=pl.lit(0))
    told = " / ".join(drafted(odd.select("userId", "article_id", "shown_at", "clicked"), tmp_path).suspicious)
    for part in ("the same user, 'u'", "are negative", "always 0"):
        assert part in told


def test_equal_and_single_events_are_settled(tmp_path: Path) -> None:
    table = news().select("userId", "article_id", "shown_at", "clicked")
    alone = table.head(1).with_columns(userId=pl.lit("alone"))
    draft = drafted(pl.concat([table, table.head(3), alone]), tmp_path)
    assert (draft.said["duplicates"], draft.said["single_events"]) == ("first", "drop")
    log = prepare_log(str(tmp_path / "table.csv"), tmp_path / "log", schema=tmp_path / "schema.yaml")
    assert log.n_rows == ROWS


def test_a_table_without_users_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"seems to name the user; .* if this is a table of items, name it under 'items:'"
    ):
        drafted(news().select("price", "age"), tmp_path)
    with pytest.raises(DataError, match="does not exist"):
        draft_schema(tmp_path / "nothing.csv")


@pytest.mark.reproduction
@pytest.mark.parametrize("name", ["anime", "douban-book", "goodbooks"])
def test_published_ratings(published_data: Path, name: str) -> None:
    draft = draft_schema(published_data / name / "events.csv")
    assert [draft.said[role] for role in ("user", "item", "label")] == ["user", "item", "rating"]
    assert not draft.suspicious


@pytest.mark.reproduction
def test_frappe_as_a_table_of_ones_own(published_data: Path) -> None:
    draft = draft_schema(published_data / "frappe" / "frappe.csv")
    assert (draft.said["user"], draft.said["item"], draft.said["negatives"]) == ("user", "item", 2)
    assert kinds(draft)["city"] == "categorical"
