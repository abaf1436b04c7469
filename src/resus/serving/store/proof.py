"""Whether what SQLite has written can be read again. Its page cache would hide damage until the next start.

The head of the file and the head of its write-ahead log are compared at each call, which costs microseconds. The
checksums of the whole log are compared from time to time, and when another program wrote to a file. SQLite itself
compares them only after a crash, and then drops all that comes after the first wrong one.

See https://www.sqlite.org/fileformat2.html#the_write_ahead_log and https://www.sqlite.org/walformat.html.
"""

import os
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from resus.arrays import Array
from resus.serving.store.slots import PAGE, DamagedError

HEAD_BYTES = 24  # of the file; those that no transaction changes
LOG_HEAD_BYTES = 32
FRAME_HEAD_BYTES = 24
INDEX_HEAD_BYTES = 48  # of the log's index, twice in a row
MAGIC = (0x377F0682, 0x377F0683)  # of a log whose checksums are those of little-endian and of big-endian words
FRAMES = 1024  # of the log at a time
TRIES = 5  # another process may start the log anew while it is read


class _Index(NamedTuple):
    """The head of the log's index: how many pages of the log count, and the log's salt."""

    frames: int
    salt: bytes


class Proof:
    """Looks at the files of one store without SQLite.

    Its files stay open: to close one would drop the locks of SQLite on it, which belong to the whole process.
    """

    def __init__(self, path: Path) -> None:
        names = [path.with_name(path.name + end) for end in ("", "-wal", "-shm")]
        self._handles = [os.open(name, os.O_RDONLY | os.O_CLOEXEC) for name in names]
        self._file, self._log, self._index = self._handles
        self._head = os.pread(self._file, HEAD_BYTES, 0)
        self._log_head = b""  # the last one that was found right
        self._looks = self._look()

    def close(self) -> None:
        """After the last connection of this process is closed."""
        for handle in self._handles:
            os.close(handle)

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

    def check_log(self) -> None:
        """Raise DamagedError unless each page of the log follows from the one before it."""
        for _ in range(TRIES):
            index = self._index_head()
            if index is None:
                continue
            if self._is_whole(index):
                return
            if self._index_head() == index:
                raise DamagedError("its log does not match its checksums")

    def _look(self) -> tuple[tuple[int, int], bytes]:
        """When the file and its log were written, and what their index says."""
        times = os.fstat(self._file).st_mtime_ns, os.fstat(self._log).st_mtime_ns
        return times, os.pread(self._index, 2 * INDEX_HEAD_BYTES + 4, 0)  # and how much the file has of the log

    def _index_head(self) -> _Index | None:
        """None while another process writes it."""
        both = os.pread(self._index, 2 * INDEX_HEAD_BYTES, 0)
        first, second = both[:INDEX_HEAD_BYTES], both[INDEX_HEAD_BYTES:]
        return _Index(int(np.frombuffer(first, np.uint32)[4]), first[32:40]) if first == second else None

    def _is_whole(self, index: _Index) -> bool:
        head = os.pread(self._log, LOG_HEAD_BYTES, 0)
        if not index.frames:
            return True
        if not _is_log_head(head) or head[16:24] != index.salt:
            return False
        before, size = head[24:32], FRAME_HEAD_BYTES + PAGE
        for first in range(0, index.frames, FRAMES):
            count = min(FRAMES, index.frames - first)
            content = os.pread(self._log, count * size, LOG_HEAD_BYTES + first * size)
            if len(content) < count * size:
                return False
            frames = np.frombuffer(content, np.uint8).reshape(count, size)
            if not _follow(frames, before, head):
                return False
            before = frames[-1, 16:24].tobytes()
        return True


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
