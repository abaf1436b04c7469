"""Fields of the user and of the item are told from those of the event, and from those that hardly vary at all."""

from dataclasses import replace

import numpy as np
import polars as pl

from resus import BuildOptions, FieldSchema, TableSchema, build_log
from resus.data.log.user_fields import item_fields, user_fields

KEEP = BuildOptions(duplicates="keep", single_events="keep")


def test_steady_within_users_and_not_beyond_is_a_user_field() -> None:
    random = np.random.default_rng(0)
    users = np.repeat(np.arange(200), 20)
    country = random.integers(0, 8, 200)[users]
    travelling = random.random(len(users)) < 0.05
    table = pl.DataFrame(
        {
            "user": users,
            "item": random.integers(0, 30, len(users)),
            "click": random.integers(0, 2, len(users)),
            "age": np.repeat(random.integers(18, 60, 200), 20).astype(float),
            "country": np.where(travelling, random.integers(0, 8, len(users)), country),
            "cost": np.where(random.random(len(users)) < 0.96, "free", "paid"),
            "constant": np.full(len(users), "x"),
            "price": random.random(len(users)),
        }
    )
    fields = {name: FieldSchema() for name in ("country", "cost", "constant")}
    numbers = {name: FieldSchema(kind="numeric") for name in ("age", "price")}
    log = build_log(table, TableSchema(user="user", item="item", label="click", fields=fields | numbers), KEEP)
    found = user_fields(log, np.arange(log.n_users))
    assert {log.features.fields[number].name for number in found} == {"country", "age"}


def test_steady_within_items_and_not_beyond_is_an_item_field() -> None:
    random = np.random.default_rng(0)
    users = np.repeat(np.arange(100), 20)
    items = random.integers(0, 150, len(users))
    genres = np.array(["a", "b", "a|b", "b|c", "c"])
    table = pl.DataFrame(
        {
            "user": users,
            "item": items,
            "click": random.integers(0, 2, len(users)),
            "author": random.integers(0, 40, 150)[items],
            "genres": genres[random.integers(0, 5, 150)[items]],
            "year": random.integers(1950, 2020, 150)[items].astype(float),
            "shelf": np.where(random.random(len(users)) < 0.07, random.integers(0, 9, len(users)), items % 9),
            "age": random.integers(18, 60, 100)[users],
            "hour": random.integers(0, 24, len(users)),
            "language": np.where(random.random(len(users)) < 0.97, "en", "de"),
            "price": random.random(len(users)),
        }
    )
    fields = {name: FieldSchema() for name in ("author", "shelf", "age", "hour", "language")}
    fields |= {name: FieldSchema(kind="numeric") for name in ("year", "price")}
    fields["genres"] = FieldSchema(kind="multi")
    log = build_log(table, TableSchema(user="user", item="item", label="click", fields=fields), KEEP)
    some = np.arange(log.n_users)[::2]
    found = {log.features.fields[number].name for number in item_fields(log, some)}
    assert found == {"item", "author", "genres", "year", "shelf"}
    spoiled = replace(log, ids=log.ids.copy())
    spoiled.ids[log.rows_of(np.setdiff1d(np.arange(log.n_users), some))] = 0
    assert item_fields(spoiled, some) == item_fields(log, some), "rows of other users are not read"


def test_items_that_come_once_show_nothing() -> None:
    table = pl.DataFrame({"user": [1, 1, 2], "item": ["a", "b", "c"], "click": [0, 1, 0], "author": ["x", "y", "x"]})
    schema = TableSchema(user="user", item="item", label="click", fields={"author": FieldSchema()})
    log = build_log(table, schema, KEEP)
    assert item_fields(log, np.arange(log.n_users)) == ()
