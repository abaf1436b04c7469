from collections import Counter
from pathlib import Path

import pytest

from resus.data.datasets import movielens
from resus.data.doctor import diagnose
from resus.data.fields.numeric import NumericField
from resus.data.log.log import InteractionLog
from resus.data.options import PrepareOptions
from resus.data.prepare import prepare_log

USERS = {"1": ("F", "1", "10"), "2": ("M", "56", "16"), "10": ("M", "25", "0")}
MOVIES = {"7": ("Été (1919)", "Drama|War"), "3": ("A: B (1999)", "Comedy"), "5": ("C (the) (2000)", "War|Comedy|Drama")}
RATINGS = [
    ("2", "5", 5, 300),
    ("2", "3", 2, 100),
    ("10", "7", 3, 50),
    ("1", "3", 4, 20),
    ("1", "7", 1, 20),
    ("1", "5", 3, 10),
    ("10", "3", 1, 40),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "ml-1m"
    folder.mkdir()
    users = [f"{user}::{'::'.join(facts)}::12345\n" for user, facts in USERS.items()]
    movies = [f"{movie}::{title}::{genres}\n" for movie, (title, genres) in MOVIES.items()]
    ratings = ["::".join(map(str, rating)) + "\n" for rating in RATINGS]
    for name, lines in (("users.dat", users), ("movies.dat", movies), ("ratings.dat", ratings)):
        (folder / name).write_bytes("".join(lines).encode("latin-1"))
    return folder


def cells(log: InteractionLog, name: str) -> list[object]:
    """A field's values, decoded from ids and weights."""
    assert log.weights is not None
    block = log.features.block(name)
    return [block.field.decode(*block.of(*row)) for row in zip(log.ids, log.weights, strict=True)]


def test_the_paper_protocol_row_by_row(folder: Path, tmp_path: Path) -> None:
    log = prepare_log("ml-1m", tmp_path / "log", path=folder, options=PrepareOptions(min_item_count=1))
    rows = sorted(RATINGS, key=lambda row: (int(row[0]), row[3]))
    assert log.user_ids.to_pylist() == ["1", "2", "10"]
    assert log.lengths.tolist() == [3, 2, 2]
    assert cells(log, "movie") == [movie for _, movie, _, _ in rows]
    assert log.labels.tolist() == [float(rating >= 3) for _, _, rating, _ in rows]
    assert cells(log, "gender") == [USERS[user][0] for user, *_ in rows]
    assert cells(log, "age") == [USERS[user][1] for user, *_ in rows]
    assert cells(log, "occupation") == [USERS[user][2] for user, *_ in rows]
    assert cells(log, "year") == [MOVIES[movie][0][-5:-1] for _, movie, _, _ in rows]
    assert cells(log, "genres") == [MOVIES[movie][1].split("|") for _, movie, _, _ in rows]
    assert log.ordered


def test_the_release_protocol_row_by_row(folder: Path, tmp_path: Path) -> None:
    log = prepare_log("movielens-1m", tmp_path / "log", path=folder, options=PrepareOptions(protocol="authors-release"))
    first_seen = list(dict.fromkeys(movie for _, movie, _, _ in RATINGS))
    rows = sorted(RATINGS, key=lambda row: (int(row[0]), first_seen.index(row[1])))
    assert cells(log, "movie") == [movie for _, movie, _, _ in rows]
    assert log.labels.tolist() == [float(rating >= 4) for _, _, rating, _ in rows]
    assert cells(log, "age") == [int(USERS[user][1]) for user, *_ in rows]
    assert cells(log, "year") == [int(MOVIES[movie][0][-5:-1]) for _, movie, _, _ in rows]
    scales = {
        field.name: (field.center, field.scale) for field in log.features.fields if isinstance(field, NumericField)
    }
    assert scales == {"age": (0, 56), "year": (1919, 81)}
    assert cells(log, "genres") == [MOVIES[movie][1].split("|")[0] for _, movie, _, _ in rows]


def test_the_label_rule_and_the_item_filter_are_settings(folder: Path, tmp_path: Path) -> None:
    options = PrepareOptions(label_threshold=5, min_item_count=3)
    log = prepare_log("ml-1m", tmp_path / "log", path=folder, options=options)
    kept = {movie for movie, count in Counter(movie for _, movie, _, _ in RATINGS).items() if count >= 3}
    assert set(cells(log, "movie")) == kept
    assert log.n_rows == sum(movie in kept for _, movie, _, _ in RATINGS)
    assert log.labels.sum() == sum(rating >= 5 for _, movie, rating, _ in RATINGS if movie in kept)


def test_every_broken_file_is_named_at_once(folder: Path) -> None:
    assert diagnose(folder) == []
    (folder / "users.dat").write_text("1::F::1::10::1\n1::F::1::10::1\n2::M::56::16::1\n")
    (folder / "movies.dat").write_text("7::Été::Drama\n3::A (1999)\n5::C (2000)::War\n", encoding="latin-1")
    with (folder / "ratings.dat").open("a") as ratings:
        ratings.write("::3::4::7\n1::3::good::8\n1::3")
    found = {(Path(problem.where).name, problem.row, problem.column) for problem in diagnose(folder / "ratings.dat")}
    assert found == {
        ("ratings.dat", 10, None),
        ("ratings.dat", 8, "user"),
        ("ratings.dat", 9, "rating"),
        ("users.dat", 2, "user"),
        ("users.dat", None, "user"),
        ("movies.dat", 2, None),
        ("movies.dat", None, "movie"),
    }


def test_another_layout_is_recognised_by_its_separator(folder: Path) -> None:
    text = (folder / "ratings.dat").read_text()
    (folder / "ratings.dat").write_text(text.replace("::", ","))
    (folder / "users.dat").unlink()
    separator, missing = diagnose(folder)
    assert "separated by ',', not by '::'" in separator.what
    assert Path(missing.where).name == "users.dat"


@pytest.mark.reproduction
def test_the_published_facts(published_data: Path, tmp_path: Path) -> None:
    folder = published_data / "ml-1m"
    log = prepare_log("ml-1m", tmp_path / "log", path=folder, options=PrepareOptions(protocol="authors-release"))
    counts = log.manifest.counts
    assert counts is not None
    assert (counts.rows, counts.users, counts.items) == (1_000_209, 6_040, 3_706)
    assert counts.positives == 348_971 + 226_310
    table = movielens.read(folder, PrepareOptions())
    assert table.problems == ()
    assert table.frame is not None
    ratings = Counter(table.frame["rating"])
    assert ratings == {"1": 56_174, "2": 107_557, "3": 261_197, "4": 348_971, "5": 226_310}


@pytest.mark.reproduction
def test_the_paper_protocol_on_the_published_data(published_data: Path, tmp_path: Path) -> None:
    log = prepare_log("ml-1m", tmp_path / "log", path=published_data / "ml-1m")
    lines = (published_data / "ml-1m" / "ratings.dat").read_text().splitlines()
    ratings = [line.split("::") for line in lines]
    often = {movie for movie, count in Counter(row[1] for row in ratings).items() if count >= 100}
    kept = [row for row in ratings if row[1] in often]
    assert log.n_rows == len(kept)
    counts = log.manifest.counts
    assert counts is not None
    assert counts.items == len(often)
    assert counts.positives == sum(int(row[2]) >= 3 for row in kept)
    kept.sort(key=lambda row: (int(row[0]), int(row[3])))
    assert cells(log, "movie") == [row[1] for row in kept]
