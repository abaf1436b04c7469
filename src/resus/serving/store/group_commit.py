"""What waits is committed together: one sync for all of it, and no answer before that sync."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from resus.errors import StorageError

GROUP = 256  # calls at most in one transaction
WAITING = 4096  # calls that may wait at a time
Work = TypeVar("Work")
Returned = TypeVar("Returned")


@dataclass(eq=False)
class Call(Generic[Work]):
    """Work that waits for its commit. `error` is set if it failed; otherwise `outcome` is its answer."""

    work: Work | None
    outcome: Any = None
    error: BaseException | None = None
    leads: bool = False
    done: bool = False
    awake: threading.Event = field(default_factory=threading.Event)


class GroupCommit(Generic[Work]):
    """The first caller that finds nobody at work commits what waits; the others wait for their outcome.

    `commit` runs a group in one transaction and sets outcome or error of each of its calls. It must not raise.
    """

    def __init__(self, commit: Callable[[Sequence[Call[Work]]], None], *, wait: float, place: str) -> None:
        self._commit = commit
        self._wait = wait
        self._place = place
        self._lock = threading.Lock()
        self._queue: deque[Call[Work]] = deque()
        self._busy = False

    @property
    def is_busy(self) -> bool:
        """Whether something is being committed, which may take as long as the disk takes."""
        return self._busy

    def run(self, work: Work) -> Any:
        """The outcome of the work, once it is durable. If this raises an exception that `commit` set, nothing is
        stored; if the store was too slow, nobody knows."""
        call = Call(work)
        with self._lock:
            if len(self._queue) >= WAITING:
                raise self._too_slow("too many requests wait for it")
            self._queue.append(call)
            call.leads = not self._busy
            self._busy = True
        if not call.leads:
            self._wait_for(call)
        if call.leads:
            self._lead(call)
        if call.error is not None:
            raise call.error
        return call.outcome

    def alone(self, work: Callable[[], Returned]) -> Returned:
        """Run work while nothing is being committed. It must not take long: others wait."""
        deadline = time.monotonic() + self._wait
        while True:
            with self._lock:
                if not self._busy:
                    self._busy = True
                    break
                call: Call[Work] = Call(None)
                self._queue.appendleft(call)  # before what waits
            self._wait_for(call, deadline - time.monotonic())
            if call.leads:
                with self._lock:
                    self._queue.remove(call)
                break
        try:
            return work()
        finally:
            self._pass_on()

    def _wait_for(self, call: Call[Work], seconds: float | None = None) -> None:
        if call.awake.wait(self._wait if seconds is None else max(seconds, 0)):
            return
        with self._lock:
            if call.done or call.leads:
                return
            if call in self._queue:
                self._queue.remove(call)
        raise self._too_slow(f"it has not answered for {self._wait:g} seconds")

    def _lead(self, leader: Call[Work]) -> None:
        with self._lock:
            self._queue.remove(leader)
            group = [leader, *(self._queue.popleft() for _ in range(min(GROUP - 1, len(self._queue))))]
        try:
            self._commit([call for call in group if call.work is not None])
        except BaseException as error:
            for call in group:
                call.error = call.error or error
            raise
        finally:
            self._pass_on()
            for call in group:
                call.done = True
                call.awake.set()

    def _pass_on(self) -> None:
        with self._lock:
            self._busy = bool(self._queue)
            if self._busy:
                self._queue[0].leads = True
                self._queue[0].awake.set()

    def _too_slow(self, reason: str) -> StorageError:
        return StorageError(
            f"the store {self._place} is too slow: {reason}; check its disk",
            public=f"the store is too slow: {reason}; send the request again later",
        )
