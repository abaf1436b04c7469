"""Files and folders are complete or absent, whatever happens to the process or the disk."""

import json
import os
import resource
import signal
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resus.errors import ArtifactError, StorageError
from resus.files import (
    append_line,
    atomic_folder,
    atomic_path,
    locked,
    read_json,
    sha256_of,
    write_json,
    write_text,
)

NAMES = ["plain.txt", "with space", "brackets[1]*?", "ünï", ".hidden"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
WRITERS = {"path": "aside.write_text('new')", "folder": "(aside / 'part').write_text('new')"}
HEAD = "import os, signal, sys\nfrom pathlib import Path\nfrom resus.files import *\ntarget = Path(sys.argv[1])\n"


def writer(kind: str, target: Path) -> AbstractContextManager[Path]:
    return atomic_path(target) if kind == "path" else atomic_folder(target)


def fill(kind: str, place: Path, text: str) -> None:
    (place if kind == "path" else place / "part").write_text(text)


def content(kind: str, target: Path) -> str:
    return (target if kind == "path" else target / "part").read_text()


def write(kind: str, target: Path, text: str) -> None:
    with writer(kind, target) as aside:
        fill(kind, aside, text)


def write_half(kind: str, target: Path) -> None:
    with writer(kind, target) as aside:
        fill(kind, aside, "half")
        raise ZeroDivisionError


def run_python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", HEAD + code, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("name", NAMES)
def test_a_new_file_replaces_the_old_and_leaves_no_temporary_file(kind: str, name: str, tmp_path: Path) -> None:
    target = tmp_path / "not yet there" / name
    for text in ("old", "new"):
        write(kind, target, text)
        assert content(kind, target) == text
        assert list(target.parent.iterdir()) == [target]


@pytest.mark.parametrize("kind", WRITERS)
def test_a_block_that_raises_leaves_the_old(kind: str, tmp_path: Path) -> None:
    target = tmp_path / "target"
    write(kind, target, "old")
    with pytest.raises(ZeroDivisionError):
        write_half(kind, target)
    assert content(kind, target) == "old"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("kind", WRITERS)
def test_a_block_that_raises_leaves_no_new_file(kind: str, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        write_half(kind, tmp_path / "target")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.integration
@pytest.mark.parametrize("kind", WRITERS)
def test_a_killed_write_leaves_the_old_and_the_next_write_cleans_up(kind: str, tmp_path: Path) -> None:
    target = tmp_path / "brackets[1]"
    write(kind, target, "old")
    code = f"with atomic_{kind}(target) as aside:\n    {WRITERS[kind]}\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    assert run_python(code, str(target)).returncode == -signal.SIGKILL
    assert content(kind, target) == "old"
    assert len(list(tmp_path.iterdir())) == 2
    write(kind, target, "newer")
    assert content(kind, target) == "newer"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.integration
def test_a_folder_killed_in_the_middle_of_the_swap_comes_back(tmp_path: Path) -> None:
    target = tmp_path / "target"
    write("folder", target, "old")
    code = (
        "rename = Path.rename\n"
        "def die_on_second(path, to):\n"
        "    if path.name != target.name: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return rename(path, to)\n"
        "Path.rename = die_on_second\n"
        f"with atomic_folder(target) as aside:\n    {WRITERS['folder']}\n"
    )
    assert run_python(code, str(target)).returncode == -signal.SIGKILL
    with pytest.raises(ZeroDivisionError), atomic_folder(target):
        raise ZeroDivisionError
    assert content("folder", target) == "old"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.integration
def test_the_temporary_file_of_a_running_process_is_kept(tmp_path: Path) -> None:
    target = tmp_path / "target"
    block = "    aside.write_text('slow'); print(flush=True); sys.stdin.read()\n"
    code = f"{HEAD}with atomic_path(target) as aside:\n{block}"
    slow = subprocess.Popen([sys.executable, "-c", code, str(target)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with slow:
        assert slow.stdout is not None
        slow.stdout.readline()
        write("path", target, "quick")
        assert content("path", target) == "quick"
        slow.communicate()
    assert slow.returncode == 0
    assert content("path", target) == "slow"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.integration
@pytest.mark.parametrize("kind", WRITERS)
def test_a_full_disk_is_one_sentence_and_leaves_the_old(kind: str, tiny_disk: Path) -> None:
    target = tiny_disk / "target"
    write(kind, target, "old")
    with pytest.raises(StorageError) as caught:
        write(kind, target, "x" * 100_000)
    assert f"cannot write {target}: no space left on device" in str(caught.value)
    assert content(kind, target) == "old"
    assert list(tiny_disk.iterdir()) == [target]


@pytest.mark.integration
@pytest.mark.parametrize("kind", WRITERS)
def test_a_file_beyond_the_size_limit_is_one_sentence_and_leaves_the_old(kind: str, tmp_path: Path) -> None:
    target = tmp_path / "target"
    write(kind, target, "old")
    block = "aside.write_text('x' * 5000)" if kind == "path" else "(aside / 'part').write_text('x' * 5000)"
    code = (
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1000, {resource.RLIM_INFINITY}))\n"
        f"try:\n    with atomic_{kind}(target) as aside:\n        {block}\n"
        "except StorageError as error:\n    sys.exit(str(error))\n"
    )
    done = run_python(code, str(target))
    assert f"cannot write {target}: file too large" in done.stderr
    assert content(kind, target) == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_path_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    for place in (tmp_path / "file" / "below", tmp_path / "folder", tmp_path / ("long" * 100)):
        with pytest.raises(StorageError, match="choose another path") as caught:
            write_text(place, "text")
        assert str(place) in str(caught.value)


def test_other_errors_pass_through(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), atomic_path(tmp_path / "target"):
        (tmp_path / "no such file").read_text()


@given(JSON)
def test_json_round_trip(tmp_path_factory: pytest.TempPathFactory, value: object) -> None:
    path = tmp_path_factory.getbasetemp() / "value.json"
    write_json(path, value)
    assert read_json(path) == value


def test_json_refuses_nan_and_leaves_the_old(tmp_path: Path) -> None:
    path = tmp_path / "value.json"
    write_json(path, 1)
    with pytest.raises(ValueError, match="Out of range"):
        write_json(path, float("nan"))
    assert read_json(path) == 1


@pytest.mark.parametrize("cut", range(1, 16, 3))
def test_truncated_json_is_named(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "value.json"
    path.write_text(json.dumps({"key": [1, 2, 3]})[:-cut])
    with pytest.raises(ArtifactError, match="is not valid JSON") as caught:
        read_json(path)
    assert str(path) in str(caught.value)


def test_missing_json_is_named(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="does not exist"):
        read_json(tmp_path / "no.json")


@given(st.binary(max_size=3000))
def test_the_checksum_is_that_of_the_system(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "data"
    path.write_bytes(data)
    same = tmp_path_factory.getbasetemp() / "same"
    same.write_bytes(data)
    assert sha256_of(path) == sha256_of(same)
    other = tmp_path_factory.getbasetemp() / "other"
    other.write_bytes(data + b"x")
    assert sha256_of(other) != sha256_of(path)


def test_a_known_checksum(tmp_path: Path) -> None:
    (tmp_path / "abc").write_bytes(b"abc")
    assert sha256_of(tmp_path / "abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_text_is_utf8_and_owned_by_the_user(tmp_path: Path) -> None:
    write_text(tmp_path / "text", "ü\n")
    assert (tmp_path / "text").read_bytes() == "ü\n".encode()
    assert (tmp_path / "text").stat().st_uid == os.getuid()


def test_lines_of_several_processes_are_all_written(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from resus.files import append_line\n"
        "for number in range(50): append_line(Path(sys.argv[1]), f'{sys.argv[2]} {number}')"
    )
    path = tmp_path / "lines.txt"
    writers = [subprocess.Popen([sys.executable, "-c", program, str(path), name]) for name in "abc"]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    assert sorted(path.read_text().splitlines()) == sorted(f"{name} {number}" for name in "abc" for number in range(50))


def test_a_truncated_line_is_replaced_by_the_next(tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    for cut in ("cut sho", "", "long " * 500_000):
        for whole in ("whole\n", "", "long " * 500_000 + "\n"):
            path.write_text(whole + cut)
            append_line(path, "next")
            assert path.read_text() == f"{whole}next\n"


def test_a_lock_is_exclusive_and_ends_with_its_process(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    program = (
        "import sys, time; from pathlib import Path; from resus.files import locked\n"
        "with locked(Path(sys.argv[1])): print('mine', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    with holder.stdout as told:
        assert told.readline() == "mine\n"
        with locked(path, wait=False) as mine:
            assert not mine
        holder.kill()
        holder.wait()
    with locked(path, wait=False) as mine:
        assert mine


def test_a_lock_is_neither_emptied_nor_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("years of work")
    (tmp_path / "lock").write_text("kept")
    with locked(tmp_path / "lock") as alone, locked(tmp_path / "lock", wait=False) as second:
        assert (alone, second) == (True, False)
    assert (tmp_path / "lock").read_text() == "kept"
    (tmp_path / "link").symlink_to("precious")
    with (
        pytest.raises(StorageError, match=r"cannot write .*link: too many levels of symbolic links"),
        locked(tmp_path / "link"),
    ):
        pytest.fail("it is a link")
    assert (tmp_path / "precious").read_text() == "years of work"
