"""Threads for work that may wait, each kind of work in its own few."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Returned = TypeVar("Returned")


class PoolFullError(Exception):
    """So much work waits already that more is refused."""


class Pool:
    """A few threads, and a bounded queue before them. Work that is cancelled in the queue is never begun."""

    def __init__(self, kind: str, threads: int, *, waiting: int) -> None:
        self._kind = kind
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=kind)
        self._bound = threads + waiting
        self._asked = 0

    async def run(self, work: Callable[[], Returned]) -> Returned:
        if self._asked >= self._bound:
            raise PoolFullError(f"too many requests to {self._kind} wait already: try again in a moment")
        self._asked += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._asked -= 1

    def start(self, work: Callable[[], object]) -> None:
        """Run without waiting for the end."""
        self._threads.submit(work)
