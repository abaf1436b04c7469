from pathlib import Path

import numpy as np
import polars as pl
import pytest

from resus.data.datasets import frappe
from resus.data.doctor import diagnose
from resus.data.options import PrepareOptions
from resus.data.prepare import prepare_log


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
def test_the_log_is_the_one_that_results_were_measured_on(published_data: Path, tmp_path: Path) -> None:
    """Another hash means other negatives, and that every number on Frappe must be measured again."""
    log = prepare_log("frappe", tmp_path / "log", path=published_data / "frappe")
    assert log.content_hash == "9192ae6e179adbb2545e257b9e57dd3d66d0263e8928f7a3b4d350d4539007ff"
    drawn = log.manifest.negatives
    assert drawn is not None
    assert (drawn.per_event, drawn.rows, drawn.item_fields) == (2, 2 * drawn.events, ())


@pytest.mark.reproduction
def test_no_drawn_negative_was_used(published_data: Path, tmp_path: Path) -> None:
    options = PrepareOptions(min_item_count=1)
    log = prepare_log("frappe", tmp_path / "log", path=published_data / "frappe", options=options)
    owners = np.repeat(np.arange(log.n_users), log.lengths)
    rows = pl.DataFrame(np.column_stack([owners, log.ids]))
    logs, negatives = (rows.filter(pl.Series(log.labels == label)) for label in (1, 0))
    assert negatives.join(logs, on=rows.columns, how="semi").is_empty()
