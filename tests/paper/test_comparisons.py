"""Comparisons as they are kept."""

from pathlib import Path

import pytest

from resus.errors import ArtifactError
from resus.paper.comparisons import COMPARISONS, Comparison, add_comparison, read_comparisons

ONE = Comparison(
    data_set="mine",
    method="resus-rr",
    against="melu",
    stage="I",
    metric="auc",
    seeds=(1, 2, 3),
    difference=0.1 + 0.2,
    low=-0.1,
    high=0.7,
    p_bootstrap=1 / 201,
    p_ttest=None,
    replicates=200,
)


def test_a_comparison_is_read_as_it_was_written(tmp_path: Path) -> None:
    other = ONE.model_copy(update={"stage": "II", "low": None, "p_ttest": 0.04})
    assert read_comparisons(tmp_path) == []
    for comparison in (ONE, other):
        add_comparison(tmp_path, comparison)
    assert read_comparisons(tmp_path) == [ONE, other]


def test_of_one_subject_the_last_counts(tmp_path: Path) -> None:
    more = ONE.model_copy(update={"seeds": (1, 2, 3, 4), "difference": 0.2, "replicates": 1000})
    for comparison in (ONE, more):
        add_comparison(tmp_path, comparison)
    assert read_comparisons(tmp_path) == [more]


@pytest.mark.parametrize("field", ["data_set", "method", "against", "stage"])
def test_other_subjects_stand_beside_each_other(tmp_path: Path, field: str) -> None:
    other = ONE.model_copy(update={field: "other"})
    for comparison in (ONE, other):
        add_comparison(tmp_path, comparison)
    assert read_comparisons(tmp_path) == [ONE, other]


def test_a_line_cut_short_by_a_kill_is_not_read(tmp_path: Path) -> None:
    add_comparison(tmp_path, ONE)
    path = tmp_path / COMPARISONS
    path.write_text(path.read_text() + path.read_text()[:40])
    assert read_comparisons(tmp_path) == [ONE]


def test_a_foreign_line_is_refused_with_its_number(tmp_path: Path) -> None:
    add_comparison(tmp_path, ONE)
    path = tmp_path / COMPARISONS
    path.write_text(path.read_text() + path.read_text().replace("p_ttest", "p_test"))
    with pytest.raises(ArtifactError, match=r"line 2 .*did you mean 'p_ttest'.*delete the line"):
        read_comparisons(tmp_path)
