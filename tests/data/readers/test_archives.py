import zipfile
from pathlib import Path

import pytest

from resus.data.readers.archives import unpack
from resus.errors import DataError


def test_only_wanted_members_are_written_and_never_outside(tmp_path: Path) -> None:
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w") as stored:
        for name in ("set/../../evil.dat", "set/rows.dat", "set/README"):
            stored.writestr(name, name)
    folder = unpack(archive, ["set/rows.dat", "set/../../evil.dat"], tmp_path / "deep" / "out")
    assert {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.dat")} == {
        "deep/out/rows.dat",
        "deep/out/evil.dat",
    }
    assert (folder / "rows.dat").read_text() == "set/rows.dat"


def test_a_damaged_archive_leaves_nothing_behind(tmp_path: Path) -> None:
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w") as stored:
        stored.writestr("rows.dat", "0123456789" * 100)
        stored.writestr("more.dat", "9876543210" * 100)
    whole = archive.read_bytes()
    with pytest.raises(DataError, match=r"has no member other\.dat"):
        unpack(archive, ["rows.dat", "other.dat"], tmp_path / "out")
    archive.write_bytes(whole.replace(b"9876543210", b"9876543211", 1))
    with pytest.raises(DataError, match="not a whole zip archive"):
        unpack(archive, ["rows.dat", "more.dat"], tmp_path / "out")
    archive.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="not a whole zip archive"):
        unpack(archive, ["rows.dat"], tmp_path / "out")
    with pytest.raises(DataError, match="does not exist"):
        unpack(tmp_path / "no.zip", ["rows.dat"], tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["a.zip"]
