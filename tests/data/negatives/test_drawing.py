import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from resus.arrays import Integers
from resus.data.negatives.drawing import chances_of, draw_items, exhausted, items_at


@given(
    had=st.lists(st.sets(st.integers(0, 5), max_size=5), min_size=1, max_size=6),
    by=st.sampled_from(["uniform", "popularity"]),
    seed=st.integers(0, 99),
)
def test_no_place_gets_an_item_that_it_has_had(had: list[set[int]], by: str, seed: int) -> None:
    rng, n_items = np.random.default_rng(seed), 6
    chances = chances_of(np.arange(1, n_items + 1), by)
    places = np.repeat(np.arange(len(had)), 5)
    used = np.array(sorted(place * n_items + item for place, items in enumerate(had) for item in items), dtype=np.int64)
    if not len(used):
        return
    bounds = np.cumsum(chances)
    drawn = draw_items(
        places, used, chances, lambda _, few: items_at(bounds, rng.random(len(few))), lambda few: rng.random(len(few))
    )
    assert all(item not in had[place] for place, item in zip(places, drawn, strict=True))
    assert not exhausted(used, len(had), n_items).any()


def test_what_the_rounds_leave_is_drawn_from_the_items_that_are_left() -> None:
    """The candidates are always an item that was had, so that all draws come from the last step."""
    chances = chances_of(np.array([1, 16, 81, 256]), "popularity")  # 1, 8, 27, 64
    rng, draws = np.random.default_rng(3), 40_000
    used = np.array([3])

    def had_before(_: int, few: Integers) -> Integers:
        return np.full(len(few), 3)

    drawn = draw_items(np.zeros(draws, dtype=np.int64), used, chances, had_before, lambda few: rng.random(len(few)))
    shares = np.bincount(drawn, minlength=4) / draws
    np.testing.assert_allclose(shares, np.array([1, 8, 27, 0]) / 36, atol=0.01)


def test_popularity_is_the_number_of_events_to_the_power_of_three_quarters() -> None:
    np.testing.assert_allclose(chances_of(np.array([1, 16]), "popularity"), [1 / 9, 8 / 9])
    np.testing.assert_allclose(chances_of(np.array([1, 16]), "uniform"), [0.5, 0.5])


def test_a_place_with_every_item_is_exhausted() -> None:
    assert exhausted(np.array([0, 1, 2, 4]), 2, 3).tolist() == [True, False]
