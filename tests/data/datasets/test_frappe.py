from collections import Counter
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resus.data.datasets import frappe
from resus.data.datasets.negatives import sample_negatives
from resus.data.doctor import diagnose
from resus.data.options import PrepareOptions
from resus.data.prepare import prepare_log
from resus.errors import DataError

EVENTS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.integers(0, 1), st.sampled_from("ab")), min_size=1)


@settings(deadline=None)
@given(events=EVENTS, per_log=st.integers(1, 3), seed=st.integers(0, 2**32))
def test_a_negative_is_an_item_the_user_never_had_in_that_context(
    events: list[tuple[int, int, int, str]], per_log: int, seed: int
) -> None:
    logs = pl.DataFrame(events, schema=["user", "item", "place", "mood"], orient="row")
    items = {item for _, item, _, _ in events}
    used = {(user, place, mood): set[int]() for user, _, place, mood in events}
    for user, item, place, mood in events:
        used[user, place, mood].add(item)
    context = ["place", "mood"]
    if any(len(had) == len(items) for had in used.values()):
        with pytest.raises(DataError, match="no negative can be drawn"):
            sample_negatives(logs, user="user", item="item", context=context, per_log=per_log, seed=seed)
        return
    drawn = sample_negatives(logs, user="user", item="item", context=context, per_log=per_log, seed=seed)
    assert drawn.drop("item").rows() == [(u, p, m) for u, _, p, m in events for _ in range(per_log)]
    assert all(item in items - used[user, place, mood] for user, item, place, mood in drawn.rows())
    again = sample_negatives(logs, user="user", item="item", context=context, per_log=per_log, seed=seed)
    assert drawn.equals(again)


def test_negatives_are_drawn_uniformly_from_what_qualifies() -> None:
    """Four of six items qualify for user 0, however popular they are with user 1."""
    logs = pl.DataFrame({"user": [0, 0, 1, 1, 1, 1, 1], "item": [0, 1, 2, 2, 3, 4, 5], "place": [0] * 7})
    per_log = 4000
    drawn = sample_negatives(logs, user="user", item="item", context=["place"], per_log=per_log, seed=7)
    counts = Counter(drawn.filter(pl.col("user") == 0)["item"])
    expected = 2 * per_log / 4
    assert set(counts) == {2, 3, 4, 5}
    assert sum((count - expected) ** 2 / expected for count in counts.values()) < 21.1  # chi-square, 3 df, p = 1e-4


def write_frappe(folder: Path, rows: list[list[object]]) -> Path:
    path = folder / "frappe.csv"
    header: list[object] = ["user", "item", "cnt", *frappe.CONTEXT]
    path.write_text("".join("\t".join(map(str, row)) + "\n" for row in (header, *rows)))
    return path


def rows_of(users: int, items: int) -> list[list[object]]:
    """User u has the items of the same parity as u; item 0 occurs only once."""
    logs = [
        [u, i, 3, "noon", "monday", "no", "x", "free", "sunny", "Oz", 0] for u in range(users) for i in range(1, items)
    ]
    return [log for log in logs if int(str(log[0])) % 2 == int(str(log[1])) % 2] + [[0, 0, *logs[0][2:]]]


def test_logs_are_filtered_before_negatives_are_drawn(tmp_path: Path) -> None:
    write_frappe(tmp_path, rows_of(6, 9))
    log = prepare_log("frappe", tmp_path / "log", path=tmp_path, options=PrepareOptions(min_item_count=3, negatives=3))
    logs = 6 * 4
    assert (log.n_rows, log.labels.sum()) == (4 * logs, logs)
    assert set(log.features.fields[0].values) == {str(item) for item in range(1, 9)}
    assert [field.name for field in log.features.fields] == ["item", *frappe.CONTEXT]
    assert not log.ordered
    assert log.lengths.tolist() == [16] * 6


def test_the_seed_decides_and_is_not_ignored(tmp_path: Path) -> None:
    write_frappe(tmp_path, rows_of(6, 9))
    logs = [
        prepare_log("frappe", tmp_path / str(n), path=tmp_path, options=PrepareOptions(min_item_count=3, seed=seed))
        for n, seed in enumerate((1, 1, 2))
    ]
    assert logs[0].content_hash == logs[1].content_hash != logs[2].content_hash


def test_what_is_wrong_with_a_file(tmp_path: Path) -> None:
    rows = rows_of(202, 4)
    path = write_frappe(tmp_path, rows)
    assert diagnose(path) == []
    rows[5][0] = ""
    rows[7][1] = ""
    path = write_frappe(tmp_path, rows)
    assert [(problem.row, problem.column) for problem in diagnose(path)] == [(7, "user"), (9, "item")]
    write_frappe(tmp_path, rows_of(2, 3))
    assert "no app has 100 logs" in diagnose(path)[0].what
    path.write_text(path.read_text().replace("weather", "wether"))
    assert [problem.column for problem in diagnose(path)] == ["weather"]
    path.write_text(path.read_text().replace("\t", ","))
    assert "separated by ','" in diagnose(path)[0].what


@pytest.mark.reproduction
def test_the_published_facts(published_data: Path, tmp_path: Path) -> None:
    folder = published_data / "frappe"
    assert diagnose(folder) == []
    log = prepare_log("frappe", tmp_path / "log", path=folder, options=PrepareOptions(min_item_count=1))
    counts = log.manifest.counts
    assert counts is not None
    assert counts.rows == 288_609
    assert (counts.users, counts.items, counts.positives) == (957, 4_082, 96_203)
    values = sum(len(field.values) for field in log.features.fields)
    assert (1 + len(log.features.fields), log.n_users + values) == (10, 5_382)


@pytest.mark.reproduction
def test_no_sampled_negative_was_used(published_data: Path) -> None:
    table = frappe.read(published_data / "frappe", PrepareOptions(min_item_count=1))
    assert table.frame is not None
    key = ["user", "item", *frappe.CONTEXT]
    logs, negatives = table.frame.filter(used=1), table.frame.filter(used=0)
    assert negatives.join(logs, on=key, how="semi").is_empty()
