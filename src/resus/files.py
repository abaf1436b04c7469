"""Files that are either complete or absent: write to a temporary name, fsync, rename."""

import contextlib
import errno
import glob
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from resus.errors import ArtifactError, StorageError

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_WRITE_REFUSED = {
    errno.EACCES,
    errno.EDQUOT,
    errno.EEXIST,
    errno.EFBIG,
    errno.EISDIR,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.ENOSPC,
    errno.ENOTDIR,
    errno.EPERM,
    errno.EROFS,
}


@contextlib.contextmanager
def atomic_path(target: Path) -> Iterator[Path]:
    """Yield a path to write to. It replaces `target` only if the block succeeds."""
    with storage_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        aside = _aside(target)
        try:
            yield aside
            _fsync(aside)
            aside.replace(target)
            _fsync(target.parent)
        finally:
            aside.unlink(missing_ok=True)


@contextlib.contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[bool]:
    """Hold a lock that ends with this process. With `wait=False`, yield False if another process holds it."""
    import fcntl  # not available on Windows, where everything that needs no lock still works

    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        # without following a link or emptying a file: the name may be somebody else's
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "rb+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
        else:
            yield True


def append_line(path: Path, line: str) -> None:
    """Append one line durably. Several processes may append to one file; a line that a kill cut short is dropped."""
    assert "\n" not in line
    with locked(path.with_name(f".{path.name}.lock")), storage_errors(path), path.open("ab+") as stream:
        stream.seek(0)
        kept = stream.read().rfind(b"\n") + 1
        stream.truncate(kept)
        stream.write(line.encode() + b"\n")
        stream.flush()
        os.fsync(stream.fileno())


@contextlib.contextmanager
def atomic_folder(target: Path) -> Iterator[Path]:
    """Yield a folder to fill. It replaces `target` only if the block succeeds."""
    with storage_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        aside = _aside(target)
        aside.mkdir()
        try:
            yield aside
            for path in aside.rglob("*"):
                _fsync(path)
            _fsync(aside)
            _swap_in(aside, target)
            _fsync(target.parent)
        finally:
            shutil.rmtree(aside, ignore_errors=True)


def write_text(target: Path, text: str) -> None:
    with atomic_path(target) as aside:
        aside.write_text(text, encoding="utf-8")


def write_json(target: Path, value: Any) -> None:
    write_text(target, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ArtifactError(f"{path} does not exist: check the path, or create it again") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ArtifactError(
            f"{path} is not valid JSON ({error}): it was truncated or edited; create it again"
        ) from None


def sha256_of(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _swap_in(aside: Path, target: Path) -> None:
    """Replace the folder `target` by `aside`. One rename cannot do that, so the old folder is renamed first."""
    if not target.exists():
        aside.rename(target)
        return
    old = aside.with_name(f"{aside.name}-old")
    target.rename(old)
    aside.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def _aside(target: Path) -> Path:
    """A temporary name next to `target` for this process. Deletes what killed processes left behind."""
    for stale in target.parent.glob(f".{glob.escape(target.name)}.aside-*"):
        owner = stale.name.rpartition("aside-")[2].partition("-")[0]
        if owner != str(os.getpid()) and _is_running(owner):
            continue
        if stale.name.endswith("-old") and not target.exists():
            stale.rename(target)  # a process was killed between the two renames
        else:
            shutil.rmtree(stale) if stale.is_dir() else stale.unlink()
    return target.with_name(f".{target.name}.aside-{os.getpid()}")


def _is_running(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, ValueError):
        return False
    except PermissionError:
        pass
    return True


def _fsync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def storage_errors(target: Path) -> Iterator[None]:
    """Turn a failed write into one sentence that names the path."""
    try:
        yield
    except OSError as error:
        in_words = re.search(r"\(os error (\d+)\)", str(error))  # how polars, written in Rust, reports it
        number = int(in_words[1]) if in_words else error.errno or 0
        if number not in _WRITE_REFUSED:
            raise
        raise StorageError(
            f"cannot write {target}: {os.strerror(number).lower()}; "
            + ("free some space or choose another path" if number in _NO_SPACE else "choose another path")
        ) from error
