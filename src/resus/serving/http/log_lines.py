"""A bounded log: a line that repeats is counted, and nothing in it can reveal what a user did."""

import logging
import threading
import time
from collections import Counter
from types import TracebackType

from resus.serving.http.guard import kind_and_place

WINDOW_SECONDS = 60
LINES = 200  # different lines per window


class Line(logging.Formatter):
    """One line per record. Of an exception it shows kind and place; its message could reveal what a user did."""

    def formatException(  # noqa: N802  # the name in logging
        self, ei: tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
    ) -> str:
        return kind_and_place(ei[1]) if isinstance(ei[1], Exception) else type(ei[1]).__name__


class CountingHandler(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes a line to stderr when it first comes in a window of time, and at its end how often it came again."""

    def __init__(self, *, window: float = WINDOW_SECONDS, lines: int = LINES) -> None:
        super().__init__()
        self._window, self._lines = window, lines
        self._seen: Counter[tuple[int, str]] = Counter()
        self._left_out = 0
        self._ends = 0.0
        self._timer: threading.Timer | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if time.monotonic() >= self._ends:
            self._begin_window()
        key = record.levelno, record.getMessage()
        if key not in self._seen and len(self._seen) >= self._lines:
            self._left_out += 1
        else:
            self._seen[key] += 1
            if self._seen[key] == 1:
                super().emit(record)
                return
        if self._timer is None:
            self._timer = threading.Timer(self._window, self._end_window)
            self._timer.daemon = True
            self._timer.start()

    def _end_window(self) -> None:
        with self.lock:  # type: ignore[union-attr]
            self._begin_window()

    def _begin_window(self) -> None:
        seen, left_out = self._seen, self._left_out
        self._seen, self._left_out, self._timer = Counter(), 0, None
        self._ends = time.monotonic() + self._window
        for (level, text), count in seen.items():
            if count > 1:
                self._say(level, f"{text} ({count - 1:,} more times)")
        if left_out:
            self._say(logging.WARNING, f"{left_out:,} further lines were not written")

    def _say(self, level: int, text: str) -> None:
        super().emit(logging.LogRecord("resus.serving", level, __file__, 0, text, None, None))
