"""Whether what SQLite has written can be read again. Its page cache would hide damage until the next start.

The head of the file and the head of its write-ahead log are compared at each call, which costs microseconds. The
checksums of the log are compared from time to time, and when another program wrote to a file. SQLite itself
compares them only after a crash, and then drops all that comes after the first wrong one.

See https://www.sqlite.org/fileformat2.html#the_write_ahead_log and https://www.sqlite.org/walformat.html.
"""

import contextlib
import os
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from resus.arrays import Array
from resus.serving.store.directory import DamagedError
from resus.serving.store.slots import PAGE

HEAD_BYTES = 24  # of the file; those that no transaction changes
LOG_HEAD_BYTES = 32
FRAME_HEAD_BYTES = 24
FRAME_BYTES = FRAME_HEAD_BYTES + PAGE
INDEX_HEAD_BYTES = 48  # of the log's index, twice in a row
MAGIC = (0x377F0682, 0x377F0683)  # of a log whose checksums are those of little-endian and of big-endian words
FRAMES = 1024  # of the log at a time
NEWEST = 4096  # frames, more than a log has unless a reader lets it grow
TRIES = 5  # another process may start the log anew while it is read


class _Index(NamedTuple):
    """The head of the log's index: how many pages of the log count, how many the whole file has, and the log's salt."""

    frames: int
    pages: int
    salt: bytes


class Proof:
    """Looks at the files of one store without SQLite."""

    def __init__(self, path: Path) -> None:
        with contextlib.ExitStack() as opened:
            names = [path.with_name(path.name + end) for end in ("", "-wal", "-shm")]
            self._file, self._log, self._index = (opened.enter_context(_handle(name)) for name in names)
            self._opened = opened.pop_all()
        self._head = os.pread(self._file, HEAD_BYTES, 0)
        self._log_head = b""  # the last one that was found right
        self._looks = self._look()

    def close(self) -> None:
        """After the last connection of this process is closed."""
        self._opened.close()

    def check_heads(self) -> None:
        """Raise DamagedError if the file or its log begin with other bytes than SQLite wrote."""
        if os.pread(self._file, HEAD_BYTES, 0) != self._head:
            raise DamagedError("its first bytes were overwritten")
        for _ in range(TRIES):
            head = os.pread(self._log, LOG_HEAD_BYTES, 0)
            if head and (head == self._log_head or _is_log_head(head)):
                self._log_head = head
                return
            index = self._index_head()
            if index is not None and not index.frames:  # the log is empty, and its old bytes do not count
                return
        raise DamagedError("its log was overwritten")

    def was_touched(self) -> bool:
        """Whether the file or its log were written since the last call although SQLite wrote nothing.

        SQLite says in the index of the log what it writes. If it has yet to say so, this is a false alarm.
        """
        (times, index), (now, its_index) = self._looks, self._look()
        self._looks = now, its_index
        return times != now and index == its_index

    def check_log(self, *, whole: bool) -> None:
        """Raise DamagedError unless each page of the log follows from the one before it. Of a long log, only the
        newest pages are compared, unless it is to be compared as a whole."""
        for _ in range(TRIES):
            index = self._index_head()
            if index is None:
                continue
            if self._follows(index, 0 if whole else max(0, index.frames - NEWEST)):
                return
            if self._index_head() == index:
                raise DamagedError("its log does not match its checksums")

    def size(self) -> int:
        """Of the file, in bytes."""
        return os.fstat(self._file).st_size

    def is_cut(self) -> bool:
        """Whether the file ends before a page that is not in the log either. A file may shrink by a VACUUM."""
        for _ in range(TRIES):
            index = self._index_head()
            if index is None:
                continue
            end = self.size() // PAGE
            heads = [frames[:, :4].copy() for frames in self._frames(index, 0)]
            logged = {int(page) for some in heads for page in some.view(">u4").ravel()}
            after = self._index_head()
            if after is not None and after.salt == index.salt:  # the log was not started anew meanwhile
                return not index.pages or not logged.issuperset(range(end + 1, index.pages + 1))
        return True

    def _look(self) -> tuple[tuple[int, int], bytes]:
        """When the file and its log were written, and what their index says."""
        times = os.fstat(self._file).st_mtime_ns, os.fstat(self._log).st_mtime_ns
        return times, os.pread(self._index, 2 * INDEX_HEAD_BYTES + 4, 0)  # and how much the file has of the log

    def _index_head(self) -> _Index | None:
        """None while another process writes it."""
        both = os.pread(self._index, 2 * INDEX_HEAD_BYTES, 0)
        first, second = both[:INDEX_HEAD_BYTES], both[INDEX_HEAD_BYTES:]
        if first != second:
            return None
        frames, pages = np.frombuffer(first, np.uint32)[4:6].tolist()
        return _Index(frames, pages, first[32:40])

    def _follows(self, index: _Index, first: int) -> bool:
        """Whether the pages of the log from the `first` one on have the right checksums."""
        head = os.pread(self._log, LOG_HEAD_BYTES, 0)
        if not index.frames:
            return True
        if not _is_log_head(head) or head[16:24] != index.salt:
            return False
        before = os.pread(self._log, 8, _place(first - 1) + 16) if first else head[24:32]
        for frames in self._frames(index, first):
            if not len(frames) or not _follow(frames, before, head):
                return False
            before = frames[-1, 16:24].tobytes()
        return True

    def _frames(self, index: _Index, first: int) -> Iterator[Array]:
        """The pages of the log with their heads, `[N, bytes]`, from the `first` one on; none if the log ends early."""
        for start in range(first, index.frames, FRAMES):
            count = min(FRAMES, index.frames - start)
            content = os.pread(self._log, count * FRAME_BYTES, _place(start))
            count = count if len(content) == count * FRAME_BYTES else 0
            yield np.frombuffer(content, np.uint8, count * FRAME_BYTES).reshape(count, FRAME_BYTES)


_handles: dict[tuple[int, int], tuple[int, int]] = {}  # by device and inode: an open file, and how many proofs use it
_opening = threading.Lock()


@contextlib.contextmanager
def _handle(path: Path) -> Iterator[int]:
    """A file to read, open as long as any proof of this process uses it: to close it would drop the locks of SQLite,
    which belong to the whole process."""
    with _opening:
        handle, uses = _handles.get(_identity(path.stat()), (-1, 0))
        if not uses:
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        key = _identity(os.fstat(handle))
        _handles[key] = handle, uses + 1
    try:
        yield handle
    finally:
        with _opening:
            _, uses = _handles.pop(key)
            if uses > 1:
                _handles[key] = handle, uses - 1
            else:
                os.close(handle)


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _place(frame: int) -> int:
    return LOG_HEAD_BYTES + frame * FRAME_BYTES


def _is_log_head(head: bytes) -> bool:
    if len(head) < LOG_HEAD_BYTES or int.from_bytes(head[:4], "big") not in MAGIC:
        return False
    words = np.frombuffer(head[:24], _order(head))[None]
    return bool((_checksums(words, np.zeros((1, 2), np.uint32)) == np.frombuffer(head[24:], ">u4")).all())


def _follow(frames: Array, before: bytes, head: bytes) -> bool:
    """Whether pages of the log `[N, bytes]` have the log's salt and the checksums that follow from those before."""
    if (frames[:, 8:16] != np.frombuffer(head[16:24], np.uint8)).any():
        return False
    stored = np.concatenate([np.frombuffer(before, np.uint8)[None], frames[:, 16:24]]).view(">u4")
    words = np.concatenate([frames[:, :8], frames[:, FRAME_HEAD_BYTES:]], axis=1).view(_order(head))
    return bool((_checksums(words, stored[:-1].astype(np.uint32)) == stored[1:]).all())


def _order(head: bytes) -> str:
    return "<u4" if int.from_bytes(head[:4], "big") == MAGIC[0] else ">u4"


def _checksums(words: Array, start: Array) -> Array:
    """The two sums `[N, 2]` after rows of words `[N, 2P]`, from the sums before, all modulo 2³².

    A pair (x, y) takes (a, b) to (a + x + b, b + y + a + x + b), which is M (a, b) + (x, x + y).
    """
    first, rest = _powers(words.shape[1] // 2)
    pairs = words.astype(np.uint32).reshape(len(words), -1, 2)
    pairs[:, :, 1] += pairs[:, :, 0]
    sums: Array = start @ first + pairs.reshape(len(words), -1) @ rest
    return sums


@cache
def _powers(pairs: int) -> tuple[Array, Array]:
    """(Mᴾ)ᵀ `[2, 2]`, and the transposed powers P − 1, …, 0 of M below each other, `[2P, 2]`."""
    step, powers = np.array([[1, 1], [1, 2]], dtype=np.uint32), [np.eye(2, dtype=np.uint32)]
    for _ in range(pairs):
        powers.append(powers[-1] @ step)
    stacked = np.stack(powers[::-1])  # M and its powers are symmetric
    return stacked[0], stacked[1:].reshape(-1, 2)
