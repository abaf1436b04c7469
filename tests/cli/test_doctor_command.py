"""`resus doctor`: all problems of a file at once, with row and column."""

import shutil
from pathlib import Path

import pytest
from resus_process import resus_here

pytestmark = pytest.mark.integration

SCHEMA = "user: who\nitem: what\nlabel: click\ntime: at\nfields: {price: numeric}\n"
GOOD = "who,what,click,at,price\na,x,1,1,0.5\na,y,0,2,1.5\nb,x,0,1,2.5\nb,y,1,2,0\n"
BAD = GOOD + ",x,1,3,1\nb,,0,4,1\nb,x,7,5,1\nb,z,1,soon,1\nb,w,1,7,[dear]\na,x,1,1,0.5\nlonely,x,1,9,1\n"
PROBLEMS = (
    ("6", "who", "the user is empty"),
    ("7", "what", "the item is empty"),
    ("8", "click", "neither 0 nor 1"),
    ("9", "at", "'soon'"),
    ("10", "price", "'[dear]'"),
    ("11", "who", "the same user, item and time as in row 2"),
    ("12", "who", "'lonely' has a single row"),
)


def test_every_problem_is_listed_with_row_and_column(tmp_path: Path) -> None:
    (tmp_path / "schema.yaml").write_text(SCHEMA)
    (tmp_path / "events.csv").write_text(BAD)
    done = resus_here("doctor", "events.csv", "--schema", "schema.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == ""
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in done.stdout.splitlines() if "│" in line]
    for row, column, what in PROBLEMS:
        found = [cells for cells in rows if cells[1:3] == [row, column]]
        assert len(found) == 1, done.stdout
        assert what in found[0][3]
        assert found[0][4]
    assert f"{len(PROBLEMS)} problems in events.csv" in done.stdout


def test_a_good_file_is_taken(tmp_path: Path) -> None:
    (tmp_path / "schema.yaml").write_text(SCHEMA)
    (tmp_path / "events.csv").write_text(GOOD)
    done = resus_here("doctor", "events.csv", "--schema", "schema.yaml", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("events.csv: no problems found")


@pytest.mark.parametrize("part", ["ids.npy", "labels.npy"])
def test_a_log_with_a_flipped_bit_is_damaged(workplace: Path, tmp_path: Path, part: str) -> None:
    shutil.copytree(workplace / "log", tmp_path / "log")
    assert "log is a complete prepared log" in resus_here("doctor", "log", cwd=tmp_path).stdout
    content = bytearray((tmp_path / "log" / part).read_bytes())
    content[-6] ^= 1
    (tmp_path / "log" / part).write_bytes(content)
    done = resus_here("doctor", "log", cwd=tmp_path)
    assert done.returncode == 2
    assert "log is a damaged prepared log (its rows changed after they were written)" in done.stderr
