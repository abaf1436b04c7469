"""Bytes of text files, also of compressed ones (.gz, .zst), as a stream."""

import contextlib
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from resus.files import open_regular

CODECS = {".gz": "gzip", ".zst": "zstd"}
_BLOCK = 1 << 20

_DAMAGE = (OSError, EOFError, zlib.error, pa.ArrowException)


class DamagedError(Exception):
    """A compressed file ends too early or is not one; `lines` were read before."""

    def __init__(self, lines: int, reason: str) -> None:
        super().__init__(reason)
        self.lines = lines


class TextBytes:
    """The bytes of a file as they were before it was compressed. `taken` bytes of the file itself were read so far."""

    def __init__(self, file: BinaryIO, codec: str | None) -> None:
        self._file = file
        self._codec = codec
        self._stream = file if codec is None else pa.CompressedInputStream(file, codec)
        self._lines = self._read = 0
        self.size = os.fstat(file.fileno()).st_size

    @property
    def taken(self) -> int:
        return self._file.tell()

    def read(self, size: int) -> bytes:
        """The next `size` bytes; fewer at the end."""
        if self._codec is None:
            return self._file.read(min(size, self.size - self._file.tell() + 1))
        parts, missing = [], size
        while missing > 0:
            try:
                part = self._stream.read(min(missing, _BLOCK))
            except _DAMAGE as error:
                raise DamagedError(self._lines + self._lines_of_the_rest(), str(error).partition("\n")[0]) from None
            if not part:
                break
            parts.append(part)
            missing -= len(part)
            self._read += len(part)
            self._lines += part.count(b"\n")
        return b"".join(parts)

    def _lines_of_the_rest(self) -> int:
        """How many lines a damaged file still has: a read that fails keeps back what it had read."""
        self._file.seek(0)
        again, lines = pa.CompressedInputStream(self._file, self._codec), 0
        with contextlib.suppress(*_DAMAGE):
            for start in range(0, self._read, _BLOCK):
                again.read(min(_BLOCK, self._read - start))
            while part := again.read(1):
                lines += part.count(b"\n")
        return lines


@contextlib.contextmanager
def open_text(path: Path) -> Iterator[TextBytes]:
    """Open a regular file, which its ending says to be compressed or not."""
    with open_regular(path) as file:
        yield TextBytes(file, CODECS.get(path.suffix.lower()))
