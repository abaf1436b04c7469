"""A file is read only if it is the one that `artifact.json` lists, and reading never waits or bloats."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resus import checked_folder
from resus.checked_folder import FACTS, CheckedFolder, write_facts
from resus.errors import ArtifactError
from resus.files import open_regular, read_bounded, read_json, sha256_of

FILES = {"one.bin": b"\x00\x01" * 700, "two.txt": b"second", "empty": b""}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    write_facts(tmp_path, {"resus": "1.2", "answer": 42}, FILES)
    return tmp_path


def refused(act: Callable[[], object]) -> str:
    with pytest.raises(ArtifactError) as caught:
        act()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_files_and_facts_come_back(folder: Path) -> None:
    opened = CheckedFolder.open(folder)
    assert {name: opened.read(name) for name in opened.files} == FILES
    assert opened.facts["answer"] == 42
    assert opened.sha256 == sha256_of(folder / FACTS)
    assert ("one.bin" in opened, "three" in opened) == (True, False)
    assert "lists no file three" in refused(lambda: opened.read("three"))


@given(st.data())
def test_a_changed_file_is_refused_and_named(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.getbasetemp()
    content = data.draw(st.binary(min_size=1, max_size=300))
    (folder / "file").write_bytes(content)
    write_facts(folder, {"resus": "1"}, ["file"])
    opened = CheckedFolder.open(folder)
    other = data.draw(st.binary(max_size=301).filter(lambda drawn: drawn != content))
    (folder / "file").write_bytes(other)
    said = refused(lambda: opened.read("file"))
    assert f"{folder / 'file'} is not the file that {FACTS} describes" in said


def test_a_missing_file_is_named(folder: Path) -> None:
    (folder / "two.txt").unlink()
    assert f"{folder / 'two.txt'} is missing" in refused(lambda: CheckedFolder.open(folder).read("two.txt"))


def test_a_link_to_the_same_bytes_is_read(folder: Path) -> None:
    (folder / "two.txt").rename(folder / "elsewhere")
    (folder / "two.txt").symlink_to("elsewhere")
    assert CheckedFolder.open(folder).read("two.txt") == FILES["two.txt"]


def put_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def put_device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def put_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


ODD = {"a named pipe": put_pipe, "a device": put_device, "a folder": put_folder}


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("name", [FACTS, "two.txt"])
def test_what_is_not_a_file_is_refused_at_once(folder: Path, kind: str, name: str) -> None:
    opened = CheckedFolder.open(folder)
    ODD[kind](folder / name)
    said = refused(lambda: CheckedFolder.open(folder) if name == FACTS else opened.read(name))
    assert f"it is {kind}, not a regular file" in said
    assert str(folder / name) in said


@pytest.mark.parametrize("kind", ODD)
def test_every_reader_of_whole_files_refuses_them(tmp_path: Path, kind: str) -> None:
    (tmp_path / "odd").touch()
    ODD[kind](tmp_path / "odd")
    for read in (open_regular, sha256_of, lambda path: read_bounded(path, 10)):
        with pytest.raises(OSError, match=f"it is {kind}, not a regular file"):
            read(tmp_path / "odd")
    assert kind in refused(lambda: read_json(tmp_path / "odd"))


def test_a_file_beyond_the_bound_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "ten").write_bytes(b"0123456789")
    assert read_bounded(tmp_path / "ten", 10) == b"0123456789"
    with pytest.raises(OSError, match="it has 10 bytes, more than 9"):
        read_bounded(tmp_path / "ten", 9)
    with pytest.raises(OSError, match="it changed while it was read"):
        read_bounded(Path("/proc/self/status"), 1 << 20)  # says that it has no bytes


def test_a_huge_file_takes_no_memory(folder: Path) -> None:
    os.truncate(folder / "two.txt", 1 << 40)
    os.truncate(folder / FACTS, 1 << 40)
    assert "more than" in refused(lambda: CheckedFolder.open(folder))
    listed = {"two.txt": checked_folder.ListedFile(bytes=1 << 40, sha256="0" * 64)}
    huge = CheckedFolder(folder, {}, listed, "")
    assert "more than the 4,294,967,296 that it can need" in refused(lambda: huge.read("two.txt"))


@pytest.mark.parametrize("content", ["[" * 100_000, '{"format": ' + "9" * 5000 + "}", "\ud800", "{", "", "null", "NaN"])
def test_text_that_is_no_artifact_is_refused(folder: Path, content: str) -> None:
    (folder / FACTS).write_text(content, errors="surrogatepass")
    assert FACTS in refused(lambda: CheckedFolder.open(folder))


@pytest.mark.parametrize(
    "files", [None, [], 3, {"one.bin": None}, {"one.bin": {"bytes": "x", "sha256": ""}}, {"one.bin": {"bytes": 1}}]
)
def test_a_bent_list_of_files_is_refused(folder: Path, files: object) -> None:
    facts = json.loads((folder / FACTS).read_text()) | {"files": files}
    del facts["facts_sha256"]
    (folder / FACTS).write_text(json.dumps(facts | {"facts_sha256": checked_folder._hash(facts)}))
    assert "has no list of its files" in refused(lambda: CheckedFolder.open(folder))


def test_every_changed_fact_is_refused(folder: Path) -> None:
    facts = json.loads((folder / FACTS).read_text())
    for key, value in (("answer", 43), ("more", 1), ("files", {})):
        (folder / FACTS).write_text(json.dumps({**facts, key: value}))
        assert "was changed after it was written" in refused(lambda: CheckedFolder.open(folder))


@pytest.mark.parametrize("name", ["../beside", "deeper/file", "/tmp/file"])
def test_a_list_names_no_file_of_another_folder(folder: Path, name: str) -> None:
    """Else a copy of the folder would be written outside of the copy."""
    facts = json.loads((folder / FACTS).read_text())
    facts["files"][name] = facts["files"]["one.bin"]
    del facts["facts_sha256"]
    (folder / FACTS).write_text(json.dumps(facts | {"facts_sha256": checked_folder._hash(facts)}))
    assert f"lists '{name}', which is no file of its folder" in refused(lambda: CheckedFolder.open(folder))
