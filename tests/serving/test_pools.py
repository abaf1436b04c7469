"""Pools of threads: work waits in a bounded queue, and what is cancelled there is never begun."""

import asyncio
import threading
from functools import partial

import pytest

from resus.serving.http.pools import Pool, PoolFullError


def test_work_beyond_the_queue_is_refused_and_cancelled_work_is_not_begun() -> None:
    done: list[int] = []
    go = threading.Event()

    def note(number: int) -> None:
        if number == 1:
            go.wait()
        done.append(number)

    async def rush() -> None:
        pool = Pool("write", 1, waiting=2)
        first, second, third = (asyncio.create_task(pool.run(partial(note, number))) for number in (1, 2, 3))
        await asyncio.sleep(0)
        with pytest.raises(PoolFullError, match="too many requests to write"):
            await pool.run(partial(note, 4))
        second.cancel()
        await asyncio.wait([second])
        go.set()
        await asyncio.gather(first, third, pool.run(partial(note, 5)))

    asyncio.run(rush())
    assert done == [1, 3, 5]
