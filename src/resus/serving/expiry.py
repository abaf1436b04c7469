"""Deletes old events in the background, in steps so small that no request waits for them."""

import logging
import re
import threading
import time
from collections.abc import Callable

from resus.errors import ConfigError, StorageError
from resus.serving.store import EventStore, ExpiringStore
from resus.serving.store.protocol import TURN_SECONDS

UNITS = {"m": 60, "h": 3600, "d": 86_400}
LEAST_REST = 0.02  # seconds between two steps
SHARE = 0.1  # of the time that steps may take
STOP_SECONDS = 5.0
BETWEEN = 600.0  # seconds at most from one pass over all users to the next
PASSES = 20  # over all users at least, in the time after which events are deleted

log = logging.getLogger("resus.serving")


def seconds_in(age: str) -> float:
    """The seconds in a time such as `90d`, `12h` or `30m`."""
    found = re.fullmatch(r"([1-9][0-9]{0,5})([mhd])", age.strip())
    if found is None:
        raise ConfigError(f"{age!r} is no time after which events are deleted: write it as 90d, 12h or 30m")
    return float(int(found[1]) * UNITS[found[2]])


def expiring(store: EventStore) -> ExpiringStore:
    """The store, if it can delete old events."""
    if not isinstance(store, ExpiringStore):
        raise ConfigError(f"a {type(store).__name__} cannot delete old events: use SQLite or Redis")
    return store


class Expiry:
    """Passes over all users again and again, in one process at a time of all that use the store."""

    def __init__(self, store: EventStore, age: float, *, count: Callable[[int, int], None]) -> None:
        """`count` gets the numbers of events and of users that were deleted."""
        self._store, self._age, self._count = expiring(store), age, count
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="expiry", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns once no step is under way, or after a while."""
        self._stopping.set()
        self._thread.join(STOP_SECONDS)

    def run_pass(self) -> bool:
        """One pass over all users. False if another process has the turn, or if it is stopped."""
        before, cursor, events, users = time.time() - self._age, "", 0, 0
        while not self._stopping.is_set():
            if not self._store.is_turn_to_expire():
                return False
            began = time.monotonic()
            step = self._store.expire(before, cursor)
            self._count(step.events, step.users)
            events, users, cursor = events + step.events, users + step.users, step.cursor
            if not cursor:
                if events:
                    log.info("deleted old events: %d; users deleted with their last event: %d", events, users)
                return True
            took = time.monotonic() - began
            self._stopping.wait(max(LEAST_REST, took * (1 - SHARE) / SHARE))
        return False

    def _run(self) -> None:
        rest = min(BETWEEN, self._age / PASSES)
        while not self._stopping.is_set():
            pause = TURN_SECONDS / 2
            try:
                if self.run_pass():
                    pause = rest
            except StorageError as error:
                log.error("old events are not deleted for now: %s", error)
            self._wait_with_the_turn(pause)

    def _wait_with_the_turn(self, seconds: float) -> None:
        """Wait, and keep the turn if this process has it, so that another one does not begin again at once."""
        until = time.monotonic() + seconds
        while not self._stopping.is_set() and (left := until - time.monotonic()) > 0:
            self._stopping.wait(min(left, TURN_SECONDS / 3))
            if time.monotonic() < until:
                try:
                    self._store.is_turn_to_expire()
                except StorageError:
                    continue
