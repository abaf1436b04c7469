"""Fields of the user are told from those of the event, and from those that hardly vary at all."""

import numpy as np
import polars as pl

from resus import BuildOptions, FieldSchema, TableSchema, build_log
from resus.data.log.user_fields import user_fields

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
