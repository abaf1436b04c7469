"""Several workers on one listener: each takes its share of the connections.

The kernel wakes all workers for a new connection, and the quickest would take nearly all. Here a worker that has more
connections than another lets the others go first for a moment. (With a listener per worker, SO_REUSEPORT, the clients
of a worker that hangs would hang with it.)
"""

import asyncio
import logging
import multiprocessing
import socket
from typing import Any

import uvicorn

YIELD_SECONDS = 0.002  # for each connection that a worker has more than another
LONGEST_YIELD = 0.02
PAUSE_SECONDS = 1  # after the system refused a connection, for example because too many files are open
AWAY = -1

log = logging.getLogger("resus.serving")


class Shares:
    """How many connections each worker has, in memory that all of them see."""

    def __init__(self, workers: int) -> None:
        self._counts = multiprocessing.get_context("spawn").RawArray("q", [AWAY] * workers)

    def set(self, worker: int, count: int) -> None:
        self._counts[worker] = count

    def ahead(self, worker: int) -> int:
        """How many connections a worker has more than the one with the fewest."""
        fewest: int = min((count for count in self._counts if count > AWAY), default=0)
        return int(self._counts[worker]) - fewest


class SharingServer(uvicorn.Server):
    """A worker's server, which accepts connections itself."""

    def __init__(self, config: uvicorn.Config, shares: Shares, worker: int) -> None:
        super().__init__(config)
        self._shares, self._worker = shares, worker
        self._listeners: list[socket.socket] = []
        self._connecting: set[asyncio.Task[Any]] = set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=[])
        self._count()
        for listener in sockets or []:
            listener.setblocking(False)
            self._listeners.append(listener)
            asyncio.get_running_loop().add_reader(listener, self._ready, listener)

    async def on_tick(self, counter: int) -> bool:
        self._count()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._shares.set(self._worker, AWAY)
        for listener in self._listeners:
            asyncio.get_running_loop().remove_reader(listener)
        self._listeners.clear()
        await super().shutdown(sockets)

    def _count(self) -> None:
        self._shares.set(self._worker, len(self.server_state.connections) + len(self._connecting))

    def _ready(self, listener: socket.socket) -> None:
        ahead = self._shares.ahead(self._worker)
        if ahead > 0:
            self._pause(listener, min(ahead * YIELD_SECONDS, LONGEST_YIELD))
        else:
            self._accept(listener)

    def _pause(self, listener: socket.socket, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(listener)
        loop.call_later(seconds, self._resume, listener)

    def _resume(self, listener: socket.socket) -> None:
        if listener in self._listeners:
            asyncio.get_running_loop().add_reader(listener, self._ready, listener)
            self._accept(listener)

    def _accept(self, listener: socket.socket) -> None:
        try:
            connection, _ = listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return  # another worker was quicker, or the client has gone
        except OSError as error:
            log.error("cannot take connections: %s", (error.strerror or type(error).__name__).lower())
            self._pause(listener, PAUSE_SECONDS)
            return
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        task = asyncio.get_running_loop().create_task(self._connect(connection))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)
        self._count()

    async def _connect(self, connection: socket.socket) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(self._protocol, connection)
        except OSError:  # the client has gone
            connection.close()

    def _protocol(self) -> asyncio.Protocol:
        build: Any = self.config.http_protocol_class
        protocol: asyncio.Protocol = build(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return protocol
