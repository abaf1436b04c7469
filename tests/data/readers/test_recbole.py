from pathlib import Path

import pytest

from resus.data.doctor import diagnose
from resus.data.options import PrepareOptions
from resus.data.prepare import prepare_log
from resus.errors import DataError

INTER = """user_id:token\titem_id:token\trating:float\ttimestamp:float
u1\ti1\t5\t30.0
u1\ti2\t2\t10.0
u2\ti1\t3\t7
u2\ti2\t4\t9.5
"""
USER = "user_id:token\tage:float\tjob:token\nu1\t30\tcook\nu2\t50\t\n"
ITEM = 'item_id:token\tclass:token_seq\tplace:float_seq\ni1\t"war drama\t0.5 1\ni2\tdrama\t2 3\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    for suffix, text in ((".inter", INTER), (".user", USER), (".item", ITEM)):
        (folder / f"shop{suffix}").write_text(text)
    return folder


@pytest.mark.parametrize("named", ["shop", "shop/shop.inter"])
def test_types_in_the_header_become_fields(folder: Path, tmp_path: Path, named: str) -> None:
    options = PrepareOptions(label_threshold=4)
    log = prepare_log(str(tmp_path / named), tmp_path / "log", options=options)
    kinds = {field.name: field.kind for field in log.features.fields}
    assert kinds == {
        "item_id": "categorical",
        "age": "numeric",
        "job": "categorical",
        "class": "multi",
        "place_0": "numeric",
        "place_1": "numeric",
    }
    assert log.labels.tolist() == [0, 1, 0, 1]
    words = {field.name: set(field.values) for field in log.features.fields}
    assert words["class"] == {'"war', "drama"}
    assert words["job"] == {"cook"}
    assert len(log.manifest.files) == 3


def test_a_label_column_keeps_the_rating_away_from_the_model(folder: Path, tmp_path: Path) -> None:
    lines = INTER.splitlines()
    labels = ["label:float", "1", "0", "0", "1"]
    (folder / "shop.inter").write_text("".join(f"{a}\t{b}\n" for a, b in zip(lines, labels, strict=True)))
    log = prepare_log(str(folder), tmp_path / "log")
    assert log.labels.tolist() == [0, 1, 0, 1]
    assert "rating" not in {field.name for field in log.features.fields}


def test_a_column_of_the_interactions_stays_if_another_file_has_one_of_its_name(folder: Path, tmp_path: Path) -> None:
    (folder / "shop.item").write_text("item_id:token\trating:float\ttimestamp:float\ni1\t1\t9\ni2\t1\t8\n")
    log = prepare_log(str(folder), tmp_path / "log", options=PrepareOptions(label_threshold=4))
    assert log.labels.tolist() == [0, 1, 0, 1]


def test_what_is_wrong_with_the_files(folder: Path, tmp_path: Path) -> None:
    (folder / "shop.inter").write_text(INTER.replace("timestamp:float", "timestamp") + "u2\t\t4\t11\nu2\ti1\n")
    (folder / "shop.user").write_text(USER + "u2\t1\tx\n")
    (folder / "shop.item").write_text(ITEM.replace("2 3", "2"))
    found = {(Path(problem.where).suffix, problem.row, problem.column) for problem in diagnose(folder)}
    assert found == {
        (".inter", 7, None),
        (".inter", 1, "timestamp"),
        (".inter", 6, "item_id"),
        (".inter", 2, "rating"),
        (".user", 4, "user_id"),
        (".item", 3, "place"),
    }


def test_two_interaction_files_in_one_folder_are_ambiguous(folder: Path, tmp_path: Path) -> None:
    (folder / "other.inter").write_text(INTER)
    assert "2 .inter files" in diagnose(folder)[0].what
    with pytest.raises(DataError, match="name the one to read"):
        prepare_log(str(folder), tmp_path / "log")
