"""A support on disk holds the same events in the same order as a support in memory."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planted_models import events, log_of, tiny

from resus.progress import silent
from resus.scoring import spill
from resus.scoring.blocks import FrameBlocks
from resus.scoring.scorer import Scorer

EVENTS = events()


@pytest.fixture(scope="module", params=[False, True], ids=["weighted", "plain"])
def scorer(request: pytest.FixtureRequest) -> Scorer:
    """The scorer of a model with weights, and of one with categorical fields only."""
    whole = tiny().fit(log_of(EVENTS)).scorer
    kept = tuple(field for field in whole.features.fields if field.kind == "categorical")
    return replace(whole, features=replace(whole.features, fields=kept)) if request.param else whole


@given(
    owners=st.lists(st.sampled_from(["", "b", "ä", "10", "9", "long name"]).map("u".__add__), max_size=60),
    block_rows=st.sampled_from([1, 4, 1000]),
    bucket_rows=st.sampled_from([1, 5, 1000]),
    most_buckets=st.sampled_from([1, 3, 100]),
)
@settings(max_examples=15, deadline=None)
def test_a_support_on_disk_equals_one_in_memory(
    scorer: Scorer,
    tmp_path_factory: pytest.TempPathFactory,
    owners: list[str],
    block_rows: int,
    bucket_rows: int,
    most_buckets: int,
) -> None:
    support = EVENTS.head(len(owners)).with_columns(user=pl.Series(owners, dtype=pl.String))
    folder = tmp_path_factory.mktemp("spill") / "support"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spill, "BUCKET_ROWS", bucket_rows)
        patch.setattr(spill, "MOST_BUCKETS", most_buckets)
        spill.spill_support(scorer, FrameBlocks(support), folder, block_rows, silent)
    assert sorted(path.name for path in folder.iterdir()) == [spill.EVENTS, spill.UNKNOWN, spill.USERS]
    on_disk, in_memory = spill.open_spill(scorer, folder).index(), scorer.index(support)
    assert on_disk.users.to_list() == in_memory.users.to_list()
    assert np.array_equal(on_disk.offsets, in_memory.offsets)
    assert np.array_equal(on_disk.ids, in_memory.ids)
    assert np.array_equal(on_disk.labels, in_memory.labels)
    if in_memory.weights is None:
        assert on_disk.weights is None
    else:
        assert on_disk.weights is not None
        assert np.array_equal(on_disk.weights, in_memory.weights)
    for user, start, stop in zip(in_memory.users, in_memory.offsets[:-1], in_memory.offsets[1:], strict=True):
        own = support.filter(pl.col("user") == user)
        assert in_memory.labels[start:stop].tolist() == own["click"].to_list()
        assert np.array_equal(in_memory.ids[start:stop], scorer.features.encode(own)[0])
