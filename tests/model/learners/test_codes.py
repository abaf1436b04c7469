"""Codes of rows, and sums over the values that rows have in common, against a loop over all pairs."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from plus_oracle import draw_rows, layout_of, rows_of

from resus.model.learners.plus.codes import matched, summed_by_key
from resus.model.learners.plus.numbers import SIGNATURE_BITS


@settings(max_examples=60)
@given(
    users=st.integers(1, 3),
    slots=st.integers(0, 5),
    queries=st.integers(0, 6),
    columns=st.integers(1, 3),
    outputs=st.integers(1, 2),
    keys=st.integers(1, 5),
    seed=st.integers(0, 2**16),
)
def test_sums_by_key_are_those_of_a_double_loop(
    users: int, slots: int, queries: int, columns: int, outputs: int, keys: int, seed: int
) -> None:
    """Also without events or queries, with keys that come twice in a row, and with weights of 0."""
    draw = np.random.default_rng(seed)
    own, other = draw.integers(keys, size=(users, slots, columns)), draw.integers(keys, size=(queries, columns))
    weights, asked = (draw.normal(size=each.shape) * (draw.random(each.shape) < 0.7) for each in (own, other))
    amounts, owner = draw.normal(size=(users, slots, outputs)), draw.integers(users, size=queries)
    expected = np.zeros((queries, outputs))
    for query in range(queries):
        for slot in range(slots):
            for one in range(columns):
                for two in range(columns):
                    if own[owner[query], slot, one] == other[query, two]:
                        share = weights[owner[query], slot, one] * asked[query, two]
                        expected[query] += share * amounts[owner[query], slot]
    found = summed_by_key(*map(torch.from_numpy, (own, weights, amounts, other, asked, owner)))
    np.testing.assert_allclose(found, expected, atol=1e-12)


@settings(max_examples=30)
@given(users=st.integers(1, 3), slots=st.integers(1, 6), queries=st.integers(1, 6), seed=st.integers(0, 2**16))
def test_matches_are_those_of_a_double_loop(users: int, slots: int, queries: int, seed: int) -> None:
    random, layout = torch.Generator().manual_seed(seed), layout_of(2)
    events, asked = draw_rows((users, slots), layout, random), draw_rows((queries,), layout, random)
    owner = torch.randint(users, (queries,), generator=random)
    amounts = torch.randn(users, slots, 2, generator=random, dtype=torch.float64)
    of_field = torch.rand(len(layout.names), generator=random, dtype=torch.float64)
    scales = of_field[layout.field_of_value]
    found = matched(layout.unpack(events), amounts, scales, layout.unpack(asked), owner)
    known = [rows_of(events[user].numpy(), layout) for user in range(users)]
    for place, row in enumerate(rows_of(asked.numpy(), layout)):
        expected = np.zeros(2)
        for slot, event in enumerate(known[int(owner[place])]):
            for name, scale in zip(layout.names, of_field.tolist(), strict=True):
                overlap = sum(share * event.shares[name].get(value, 0.0) for value, share in row.shares[name].items())
                expected += scale * overlap * amounts[owner[place], slot].numpy()
        np.testing.assert_allclose(found[place], expected, atol=1e-6)


def test_what_is_packed_is_unpacked() -> None:
    layout, random = layout_of(3), torch.Generator().manual_seed(1)
    rows = draw_rows((4, 5), layout, random)
    codes = layout.unpack(rows)
    largest = (1 << SIGNATURE_BITS) - 1
    halves = torch.randint(1, largest + 1, (4, 5, 2), generator=random)
    halves[0, 0] = largest
    parts = [codes.items, codes.values, codes.shares, codes.taste, codes.offered, codes.chosen, codes.common]
    again = layout.unpack(layout.pack(parts, halves))
    assert again.contexts.tolist() == (halves[..., 0] + (halves[..., 1] << SIGNATURE_BITS)).tolist()
    for name, mine, theirs in zip(codes._fields, again, codes, strict=True):
        assert name == "contexts" or torch.equal(mine, theirs)
    assert rows.shape[-1] == layout.width
    assert torch.equal(codes.of((slice(2), slice(3))).taste, codes.taste[:2, :3])
