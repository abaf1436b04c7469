"""Files that are either complete or absent: write to a temporary name, fsync, rename. Reading never waits or bloats."""

import contextlib
import errno
import glob
import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import yaml

from resus.errors import ArtifactError, StorageError

MAX_JSON_BYTES = 1 << 29  # the features of 16 million values take less
MAX_YAML_BYTES = 1 << 20
MAX_YAML_VALUES = 100_000
_BLOCK = 1 << 20
_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a folder",
}
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
        # neither emptied nor followed: a link in its place may lead to a file of another kind
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "rb+", buffering=0) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
        else:
            yield True


def lock_of(path: Path) -> Path:
    """The lock of a file to which several processes append."""
    return path.with_name(f".{path.name}.lock")


def append_line(path: Path, line: str) -> None:
    """Append one line durably. Several processes may append to one file; a line that a kill cut short is dropped."""
    assert "\n" not in line
    with locked(lock_of(path)), storage_errors(path), path.open("ab+") as stream:
        stream.truncate(_end_of_lines(stream))
        stream.write(line.encode() + b"\n")
        stream.flush()
        os.fsync(stream.fileno())


def _end_of_lines(stream: BinaryIO) -> int:
    """The position after the last whole line; found from the end, because the file may be long."""
    end = stream.seek(0, os.SEEK_END)
    while end:
        start = max(end - _BLOCK, 0)
        stream.seek(start)
        last = stream.read(end - start).rfind(b"\n")
        if last >= 0:
            return start + last + 1
        end = start
    return 0


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
        return parse_json(read_bounded(path, MAX_JSON_BYTES), path)
    except FileNotFoundError:
        raise ArtifactError(f"{path} does not exist: check the path, or create it again") from None
    except OSError as error:
        raise ArtifactError(f"{path} cannot be read ({reason_of(error)}): create it again") from None


def parse_json(content: bytes, path: Path) -> Any:
    """The value that the bytes of a file hold."""
    try:
        return json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # ValueError: not UTF-8, not JSON, or a number of too many digits
        raise ArtifactError(
            f"{path} is not valid JSON ({error}): it was truncated or edited; create it again"
        ) from None


def read_yaml(path: Path) -> Any:
    """The value of a YAML file; OSError, YAMLError or ValueError if there is none."""
    try:
        value = yaml.safe_load(read_bounded(path, MAX_YAML_BYTES).decode("utf-8"))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    waiting, count = [value], 0
    while waiting:  # an alias can stand for any number of values, even for itself
        one = waiting.pop()
        inside = list(one.values()) if isinstance(one, dict) else one if isinstance(one, list) else []
        count += 1 + len(inside)
        if count > MAX_YAML_VALUES:
            raise ValueError(f"it has more than {MAX_YAML_VALUES:,} values")
        waiting += inside
    return value


def memory_bytes() -> int:
    """How much memory the machine has; no file that must fit in it may be larger."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):  # unknown to the system
        return 1 << 36


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file, or a link to one. A pipe or a device, which may never end, is an OSError."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    kind = stat.S_IFMT(os.fstat(handle).st_mode)
    if kind != stat.S_IFREG:
        os.close(handle)
        number = errno.EISDIR if kind == stat.S_IFDIR else errno.EINVAL
        raise OSError(number, f"it is {_KINDS.get(kind, 'something else')}, not a regular file", str(path))
    return os.fdopen(handle, "rb")


def check_regular(path: Path) -> None:
    """Refuse what `open_regular` refuses, before a library opens the path."""
    open_regular(path).close()


def read_bounded(path: Path, limit: int) -> bytes:
    """All bytes of a regular file. More than `limit` bytes are an OSError, before any of them is read."""
    with open_regular(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        if size > limit:
            raise OSError(errno.EINVAL, f"it has {size:,} bytes, more than {limit:,}", str(path))
        content = stream.read(size + 1)
    if len(content) != size:
        raise OSError(errno.EINVAL, "it changed while it was read", str(path))
    return content


def reason_of(error: OSError) -> str:
    """Why the system, or `open_regular`, refused."""
    return (error.strerror or str(error) or "no reason given").lower()


def sha256_of(path: Path) -> str:
    digest = hashlib.sha256()
    with open_regular(path) as stream:
        while block := stream.read(_BLOCK):
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
