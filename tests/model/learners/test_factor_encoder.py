"""The code of a row: what its values are, how much each counts, and which context it belongs to."""

import itertools
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from planted_models import KEEP
from torch import Tensor

from resus import FieldSchema, InteractionLog, TableSchema, build_log
from resus.episodes.batch import Features, features_of
from resus.model.encoders.base import FieldEmbedding
from resus.model.learners import FactorSettings
from resus.model.learners.plus.codes import Codes
from resus.model.learners.plus.factors import FactorEncoder
from resus.model.learners.plus.numbers import KNOTS, UNKNOWN
from resus.training.factors import _describe_fields

FIELDS = {
    "place": FieldSchema(),
    "hour": FieldSchema(),
    "tags": FieldSchema(kind="multi"),
    "price": FieldSchema(kind="numeric"),
}
SCHEMA = TableSchema(user="user", item="item", label="click", fields=FIELDS)


def log_of(**columns: Any) -> InteractionLog:
    return build_log(table_of(**columns), SCHEMA, KEEP)


def table_of(**columns: Any) -> pl.DataFrame:
    """A table with these columns; the others hold one value."""
    rows = len(next(iter(columns.values())))
    plain = {"item": ["i"] * rows, "place": ["p"] * rows, "hour": ["h"] * rows, "tags": ["t"] * rows}
    table = {"user": [f"u{row % 2}" for row in range(rows)], "click": [row % 2 for row in range(rows)], **plain}
    table |= {"price": [1.0] * rows} | columns
    return pl.DataFrame(table, strict=False)


def encoder_of(log: InteractionLog) -> FactorEncoder:
    torch.manual_seed(1)
    built = FactorSettings(embedding_dim=3, choice_dim=2, embedding_std=0.5).architecture(log.features)
    return FactorEncoder.of(built).requires_grad_(False)


def number_of(log: InteractionLog, name: str) -> int:
    return [field.name for field in log.features.fields].index(name)


def rows_of(log: InteractionLog) -> Features:
    return features_of(log, np.arange(log.n_rows))


def codes_of(encoder: FactorEncoder, features: Features) -> Codes:
    return encoder.layout.unpack(encoder(features))


def shares_of(encoder: FactorEncoder, features: Features, name: str) -> list[dict[int, float]]:
    """Value → share of one field in each row, without those that do not count."""
    codes, number = codes_of(encoder, features), encoder.layout.names.index(name)
    own = encoder.layout.field_of_value == number
    pairs = zip(codes.values[:, own].tolist(), codes.shares[:, own].tolist(), strict=True)
    return [
        {int(value): share for value, share in zip(values, shares, strict=True) if share} for values, shares in pairs
    ]


def spoiled(features: Features, column: int, value: int) -> Features:
    """The same rows with one id in a column of all of them."""
    ids = features.ids.clone()
    ids[:, column] = value
    return Features(ids, features.weights)


def test_an_unknown_value_says_nothing() -> None:
    log = log_of(item=["a", "b", "c"], place=["x", "y", "x"], tags=["r|s", "r", "s"], price=[1.0, 2.0, 4.0])
    encoder = encoder_of(log)
    plain = codes_of(encoder, rows_of(log))
    for block in log.features.blocks:
        features = rows_of(log)
        for column in range(block.columns.start, block.columns.stop):
            features = spoiled(features, column, block.first)
        assert shares_of(encoder, features, block.field.name) == [{}, {}, {}]
        codes = codes_of(encoder, features)
        assert torch.equal(codes.items, torch.full((3,), UNKNOWN) if block.field.name == "item" else plain.items)
        others = encoder.layout.field_of_value != number_of(log, block.field.name)
        assert torch.equal(codes.shares[:, others], plain.shares[:, others])


def test_items_are_their_ids() -> None:
    log = log_of(item=["a", "b", "a"])
    items = codes_of(encoder_of(log), rows_of(log)).items
    column = log.features.block("item").columns.start
    assert items.tolist() == log.ids[:, column].tolist()


def test_several_values_share_one_and_a_value_that_comes_twice_counts_once() -> None:
    tags = ["r", "r|s", "s|r|t", "r|r|s", None]
    log = log_of(tags=tags)
    ids, weights = log.features.encode(table_of(tags=tags))
    assert weights is not None
    found = shares_of(encoder_of(log), Features(torch.from_numpy(ids), torch.from_numpy(weights)), "tags")
    r, s, t = (log.features.block("tags").first + place for place in (1, 2, 3))  # the most frequent first
    expected = [{r: 1.0}, {r: 0.5**0.5, s: 0.5**0.5}, dict.fromkeys((s, r, t), 3**-0.5), {r: 0.5**0.5, s: 0.5**0.5}, {}]
    for mine, theirs in zip(found, expected, strict=True):
        assert mine == pytest.approx(theirs)


def test_a_field_that_describes_the_user_has_no_share() -> None:
    log = log_of(place=["x", "y"], tags=["r", "s"], price=[1.0, 2.0])
    encoder = encoder_of(log)
    for name in ("place", "tags", "price"):
        encoder.kept.fill_(1.0)
        encoder.kept[number_of(log, name)] = 0.0
        assert shares_of(encoder, rows_of(log), name) == [{}, {}]
        assert all(shares_of(encoder, rows_of(log), "item"))


def without_price(log: InteractionLog, last: int) -> InteractionLog:
    """The same log, in whose last rows the number is missing."""
    block, ids = log.features.block("price"), log.ids.copy()
    assert log.weights is not None
    weights = log.weights.copy()
    ids[-last:, block.columns], weights[-last:, block.columns] = block.first, 1.0
    return replace(log, ids=ids, weights=weights)


@cache
def priced() -> tuple[InteractionLog, FactorEncoder]:
    """Numbers with ties: half of them are equal, some are missing."""
    log = without_price(log_of(price=[0.0] * 20 + [float(price) for price in range(1, 16)] + [0.0] * 12), 12)
    encoder = encoder_of(log)
    _describe_fields(encoder, log, np.arange(log.n_users))
    return log, encoder


def test_knots_are_the_distinct_quantiles_of_known_numbers() -> None:
    log, encoder = priced()
    block = log.features.block("price")
    known = log.ids[:, block.columns.start] != block.first
    assert log.weights is not None
    numbers = log.weights[known, block.columns.start]
    expected = sorted(set(np.quantile(numbers, np.linspace(0, 1, KNOTS)).astype(np.float32).tolist()))
    knots = encoder.knots[number_of(log, "price")].tolist()
    assert len(expected) < KNOTS
    assert knots == expected + [float("inf")] * (KNOTS - len(expected))


@pytest.mark.parametrize("ties", [False, True])
def test_a_number_belongs_to_the_two_knots_around_it(ties: bool) -> None:
    log, encoder = priced()
    number = number_of(log, "price")
    knots = encoder.knots[number]
    if not ties:
        encoder = encoder_of(log)
        knots = torch.linspace(-1, 1, KNOTS)
        encoder.knots[number] = knots
    finite = [knot for knot in knots.tolist() if np.isfinite(knot)]
    block = log.features.block("price")
    asked = sorted({*finite, *np.linspace(-1.5, 1.5, 37).tolist()})
    first = rows_of(log).take(np.zeros(len(asked), dtype=np.int64))
    assert first.weights is not None
    weights = first.weights.clone()
    weights[:, block.columns.start] = torch.tensor(asked)
    found = shares_of(encoder, Features(first.ids, weights), "price")
    start = log.features.n_ids + KNOTS * number
    for value, shares in zip(torch.tensor(asked).tolist(), found, strict=True):
        hats = np.array([np.interp(value, finite, np.eye(len(finite))[place]) for place in range(len(finite))])
        hats = hats / np.sqrt((hats**2).sum())
        expected = {start + place: share for place, share in enumerate(hats.tolist()) if share > 1e-4}
        assert {place: share for place, share in shares.items() if share > 1e-4} == pytest.approx(expected, abs=1e-4)


def test_a_constant_number_matches_itself() -> None:
    log = log_of(price=[3.0, 3.0, 3.0])
    encoder = encoder_of(log)
    _describe_fields(encoder, log, np.arange(log.n_users))
    found = shares_of(encoder, rows_of(log), "price")
    assert found[0] == found[1] == found[2]
    assert list(found[0].values()) == [1.0]


def test_a_number_that_is_always_missing_has_knots_all_the_same() -> None:
    log = without_price(log_of(price=[1.0, 2.0, 3.0, 4.0]), 4)
    encoder = encoder_of(log)
    _describe_fields(encoder, log, np.arange(log.n_users))
    assert encoder.knots.isfinite().all()
    assert shares_of(encoder, rows_of(log), "price") == [{}] * 4


def test_rows_have_one_signature_just_if_all_fields_of_the_context_are_equal() -> None:
    values = list(itertools.product("abcdef", "stuvwx", ["k", "l", "k|l", "m"], "ij"))
    places, hours, tags, items = (list(column) for column in zip(*values, strict=True))
    log = log_of(place=places, hour=hours, tags=tags, item=items)
    encoder, features = encoder_of(log), rows_of(log)
    block = log.features.block
    for context in ((), ("place",), ("place", "hour"), ("hour", "tags"), ("place", "hour", "tags")):
        encoder.context.fill_(0.0)
        for name in context:
            encoder.context[number_of(log, name)] = 1.0
        found = codes_of(encoder, features).contexts
        if not context:
            assert not found.any()
            continue
        assert (found != 0).all()
        columns = np.concatenate([np.arange(log.n_rows)[block(name).columns] for name in context])
        distinct = np.unique(log.ids[:, columns], axis=0, return_inverse=True)[1].ravel()
        same = torch.from_numpy(distinct).unsqueeze(0) == torch.from_numpy(distinct).unsqueeze(1)
        assert torch.equal(found.unsqueeze(0) == found.unsqueeze(1), same)


def test_no_two_contexts_of_many_small_fields_share_a_signature() -> None:
    """Sums of ids would be equal for many of them."""
    log = log_of(place=[f"{n}" for n in range(60)], hour=[f"{n}" for n in range(60)], tags=[f"{n}" for n in range(60)])
    encoder = encoder_of(log)
    blocks = [log.features.block(name) for name in ("place", "hour", "tags")]
    for block in blocks:
        encoder.context[number_of(log, block.field.name)] = 1.0
    grid = torch.cartesian_prod(*(block.first + torch.arange(1, 60) for block in blocks)).int()
    ids = rows_of(log).ids[:1].expand(len(grid), -1).clone()
    for place, block in enumerate(blocks):
        ids[:, block.columns.start] = grid[:, place]
    found: Tensor = encoder._signatures(Features(ids, None))
    assert len(torch.unique(found, dim=0)) == len(grid)
    assert bool((found.float().long() == found).all()), "a float32 holds each half"


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("looked_up", [False, True])
def test_sums_over_groups_of_rows_are_those_of_a_loop(weighted: bool, looked_up: bool) -> None:
    """Also of a group without rows, and by an optimizer that looks the rows of a table up itself."""
    random = torch.Generator().manual_seed(3)
    embedding = FieldEmbedding(30, (1, 3, 1), 4, std=1.0)
    if looked_up:
        embedding.lookup = lambda ids: embedding.table[ids]
    ids = torch.randint(30, (9, 5), generator=random, dtype=torch.int32)
    features = Features(ids, torch.rand(9, 5, generator=random) if weighted else None)
    kept, starts = torch.tensor([1.0, 0.5, 0.0]), torch.tensor([0, 2, 2, 7, 9])
    found = embedding.summed(features, kept, starts)
    rows = (embedding(features) * kept.view(1, -1, 1)).sum(dim=1)
    expected = torch.stack([rows[slice(*pair)].sum(dim=0) for pair in itertools.pairwise([*starts.tolist(), 9])])
    torch.testing.assert_close(found, expected)
    gradients = [torch.autograd.grad(sums.square().sum(), embedding.table)[0] for sums in (found, expected)]
    torch.testing.assert_close(*gradients)
