"""A source: lines of a file, each with one event. What was acknowledged is in a second file."""

import time
from collections.abc import Sequence
from pathlib import Path

from resus.ingest.sources import Address, Entry, Refused


class LinesOfFile:
    def __init__(self, address: Address, *, group: str, consumer: str, create: bool) -> None:
        self._lines = Path(address.option("path"))
        self._done = self._lines.with_suffix(f".{group}")
        self._done.touch()
        self._read = len(self._done.read_text())

    def read(self, limit: int, wait: float) -> Sequence[Entry]:
        lines = self._lines.read_bytes().splitlines()[self._read : self._read + limit]
        if not lines:
            time.sleep(wait)
        self._read += len(lines)
        return [Entry("a line", line) for line in lines]

    def done(self, entries: Sequence[Entry], refused: Sequence[Refused]) -> None:
        with self._done.open("a") as file:
            file.write("." * len(entries))

    def close(self) -> None:
        pass
