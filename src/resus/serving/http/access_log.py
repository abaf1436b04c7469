"""A line per request, if it is asked for. A thread writes, so that no answer waits for whoever reads the log."""

import queue
import sys
import threading
import time
from typing import TextIO

from resus.serving.http.log_settings import LogSettings, json_line

WAITING = 4096  # lines
PER_SECOND = 2000  # lines of one worker
PATH = 300  # characters
FLUSH_SECONDS = 1


class AccessLog:
    """Names the route of a request, never its path, which may hold the id of a user; unless `ids` are asked for.

    What comes too fast is counted and left out.
    """

    def __init__(self, settings: LogSettings, stream: TextIO | None = None) -> None:
        self._settings = settings
        self._stream = stream if stream is not None else sys.stderr
        self._lines: queue.Queue[str] = queue.Queue(WAITING)
        self._second, self._noted, self._left_out = 0, 0, 0
        self._thread = threading.Thread(target=self._write, name="access-log", daemon=True)
        self._thread.start()

    def note(self, method: str, route: str, path: str, status: int, seconds: float, version: str | None = None) -> None:
        """Called by one thread, the one that answers. `version` is that of the model which answered, if one did."""
        now = time.time()
        if int(now) != self._second:
            self._second, self._noted = int(now), 0
            if self._left_out and self._put(self._summary(now)):
                self._left_out = 0
        self._noted += 1
        if self._noted > PER_SECOND or not self._put(self._line(now, method, route, path, status, seconds, version)):
            self._left_out += 1

    def flush(self, seconds: float = FLUSH_SECONDS) -> None:
        """Wait until all lines are written, but not for long."""
        written = self._lines.all_tasks_done
        with written:
            written.wait_for(lambda: not self._lines.unfinished_tasks, seconds)

    def _put(self, line: str) -> bool:
        try:
            self._lines.put_nowait(line)
        except queue.Full:
            return False
        return True

    def _line(
        self, now: float, method: str, route: str, path: str, status: int, seconds: float, version: str | None
    ) -> str:
        milliseconds = round(seconds * 1000, 3)
        where = path[:PATH] if self._settings.ids else route
        if self._settings.as_json:
            key = "path" if self._settings.ids else "route"
            facts = {"method": method, key: where, "status": status, "milliseconds": milliseconds}
            facts |= {"model": version} if version else {}
            return json_line("INFO", {"message": "request", **facts}, now)
        shown = where.encode("ascii", "backslashreplace").decode()
        return f"{_clock(now)} INFO {method} {shown} {status} {milliseconds} ms{f' {version}' if version else ''}"

    def _summary(self, now: float) -> str:
        said = f"{self._left_out:,} further requests were not logged"
        if self._settings.as_json:
            return json_line("WARNING", {"message": said}, now)
        return f"{_clock(now)} WARNING {said}"

    def _write(self) -> None:
        while True:
            line = self._lines.get()
            try:
                self._stream.write(f"{line}\n")
                self._stream.flush()
            except (OSError, ValueError):
                pass  # nobody reads the log any more
            finally:
                self._lines.task_done()


def _clock(now: float) -> str:
    """As `logging` writes the time."""
    return f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(now))},{int(now % 1 * 1000):03d}"
