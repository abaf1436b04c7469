"""The service as one process, or as several workers behind one socket that answer as one."""

import contextlib
import errno
import logging
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn
from fastapi import FastAPI
from prometheus_client.multiprocess import mark_process_dead
from uvicorn.supervisors.multiprocess import Multiprocess, Process

from resus.errors import ConfigError, ResusError
from resus.serving.http.guard import Access, kind_and_place
from resus.serving.http.log_settings import LogSettings
from resus.serving.http.metrics import SHARED_FOLDER
from resus.serving.http.protocol import HEAD_BYTES, protocol
from resus.serving.http.sharing import AWAY, Shares, SharingServer
from resus.serving.store import open_store

if TYPE_CHECKING:
    from resus.serving.experiment.split import Split
    from resus.serving.loaded import Meaning

DRAIN_SECONDS = 30
END_SECONDS = DRAIN_SECONDS + 15  # for a worker to end, with the time to close its store
KEEP_ALIVE_SECONDS = 30
BACKLOG = 512
HEALTH_SECONDS = 60  # a worker may be busy for long, or still load torch, without being stuck


@dataclass(frozen=True)
class Worker:
    """Builds the service in its own process."""

    runs: tuple[Path, ...]  # of the first model and, if there is one, of the second
    home: Path  # of the copies of models
    store: str
    access: Access = field(repr=False)
    meaning: "Meaning"
    capacity: int
    logs: LogSettings
    split: "Split | None" = None
    memory: Any = field(default=None, repr=False)  # of the predictions of two models
    forget_after: float | None = None  # seconds

    def __call__(self) -> FastAPI:
        """uvicorn calls this in a new process, where an error can only be logged."""
        for number in (signal.SIGHUP, signal.SIGUSR1):
            signal.signal(number, signal.SIG_IGN)  # until the service handles it
        threading.Thread(target=_end_with_supervisor, daemon=True).start()
        try:
            return self.build(_tell_supervisor)
        except Exception as error:
            reason = error if isinstance(error, ResusError) else kind_and_place(error)
            logging.getLogger("resus.serving").error("a worker cannot start: %s", reason)
            raise SystemExit(1) from None

    def build(self, announce: Callable[[], None] = lambda: None) -> FastAPI:
        # imported here: the supervisor gets no sign of life from a process that still imports this module
        from resus.serving.engine import Engine
        from resus.serving.http.app import build_app
        from resus.serving.http.service import Setup
        from resus.serving.lineup import ModelFolders

        folders = ModelFolders(self.runs, self.home)
        number, models = folders.load()
        store = open_store(self.store, capacity=self.capacity)
        for loaded in models:
            loaded.check_meaning(self.meaning)  # a worker that replaces another accepts what a reload would accept
        first, *others = [Engine(loaded, store, capacity=self.capacity) for loaded in models]
        second = others[0] if others else None
        setup = Setup(folders, number, second, self.split, self.memory)
        return build_app(
            first,
            self.runs[0],
            self.access,
            announce=announce,
            logs=self.logs,
            setup=setup,
            forget_after=self.forget_after,
        )


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 selects a free port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends at once only if the protocol is named; otherwise an answer in two parts waits 40 ms for the client
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise ConfigError(f"port {port} of {host} is in use: choose another one with --port") from None
        raise ConfigError(
            f"cannot listen on port {port} of {host} ({(error.strerror or str(error)).lower()}): "
            "check --host and --port"
        ) from None
    listener.set_inheritable(True)
    return listener


def run_one(worker: Worker, listener: socket.socket) -> None:
    """Serve in this process until SIGTERM or SIGINT, then answer the open requests and end."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # uvicorn raises it again at the end, and others clean up
    uvicorn.Server(_settings(worker.build(), worker.logs)).run(sockets=[listener])


def run_several(worker: Worker, listener: socket.socket, count: int) -> None:
    """Serve in `count` processes, and replace a process that dies."""
    with contextlib.ExitStack() as stack:
        if not os.environ.get(SHARED_FOLDER):
            os.environ[SHARED_FOLDER] = stack.enter_context(tempfile.TemporaryDirectory(prefix="resus-metrics-"))
        _Supervisor(_settings(worker, worker.logs, factory=True, workers=count), sockets=[listener]).run()


class _Process(Process):
    """A worker, seen by its supervisor."""

    def __init__(self, config: uvicorn.Config, sockets: list[socket.socket], shares: Shares, place: int) -> None:
        self._shares, self._place = shares, place
        self._asked: float | None = None
        self._serves = False
        super().__init__(config, sockets)

    @property
    def server(self) -> uvicorn.Server:
        if self._server is None:
            self._server = SharingServer(self.config, self._shares, self._place)
        return self._server

    def is_alive(self, timeout: float = HEALTH_SECONDS) -> bool:
        """Ask for a sign of life and look for the answer later, so that one worker that hangs delays no other."""
        if not self.process.is_alive():
            return False
        now = time.monotonic()
        try:
            if self._asked is None:
                self.parent_conn.send(b"ping")
                self._asked = now
            if self.parent_conn.poll():
                self._serves = bool(self.parent_conn.recv())
                self._asked = None
                return True
        except (OSError, EOFError):
            return False
        return now - self._asked < timeout

    def tell(self, number: signal.Signals) -> bool:
        """Send a signal; False if the worker does not serve yet."""
        if self._serves and self.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)
        return self._serves

    def end(self, seconds: float) -> None:
        """Wait for the end, and force it after a while."""
        self.process.join(seconds)
        if self.process.is_alive():
            logging.getLogger("resus.serving").error("a worker did not end in time and was killed")
            self.process.kill()
            self.process.join()


class _Supervisor(Multiprocess):
    """Passes signals on to the workers, which load the new model next to the old one. uvicorn would restart them.

    SIGHUP asks for a reload. With SIGUSR1, a worker tells the others that it has changed the model.
    """

    def __init__(self, config: uvicorn.Config, sockets: list[socket.socket]) -> None:
        super().__init__(config, sockets)
        self._shares = Shares(config.workers)
        self._workers: list[_Process] = []
        self._untold: list[tuple[_Process, signal.Signals]] = []

    def init_processes(self) -> None:
        self._workers = [self._start(place) for place in range(self.processes_num)]

    def terminate_all(self) -> None:
        for worker in self._workers:
            worker.terminate()

    def join_all(self) -> None:
        deadline = time.monotonic() + END_SECONDS
        for worker in self._workers:
            worker.end(max(deadline - time.monotonic(), 0))

    def handle_hup(self) -> None:
        self._tell_all(signal.SIGHUP)

    def handle_usr1(self) -> None:
        self._tell_all(signal.SIGUSR1)

    def keep_subprocess_alive(self) -> None:
        """uvicorn calls this again and again. A worker gets the signal once it is ready; a newer worker needs none."""
        self._untold = [
            (worker, number) for worker, number in self._untold if worker in self._workers and not worker.tell(number)
        ]
        for place, worker in enumerate(self._workers):
            worker.child_conn.close()  # while our copy of its end is open, the death of a worker goes unnoticed
            if not worker.is_alive():
                worker.kill()
                worker.join()
                mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]  # its gauges go, its counts stay
                self._workers[place] = self._start(place)

    def _tell_all(self, number: signal.Signals) -> None:
        self._untold += [(worker, number) for worker in self._workers if (worker, number) not in self._untold]

    def _start(self, place: int) -> _Process:
        self._shares.set(place, AWAY)
        worker = _Process(self.config, self.sockets, self._shares, place)
        worker.start()
        return worker


def _settings(app: Any, logs: LogSettings, **options: Any) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        access_log=False,  # paths hold user ids; see `AccessLog`
        backlog=BACKLOG,
        h11_max_incomplete_event_size=HEAD_BYTES,
        http=protocol(),
        interface="asgi3",
        log_config=logs.config(),
        proxy_headers=False,  # the service never asks who the client is
        server_header=False,
        timeout_graceful_shutdown=DRAIN_SECONDS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_worker_healthcheck=HEALTH_SECONDS,
        ws="none",
        **options,
    )


def _tell_supervisor() -> None:
    """Announce a change of the model, unless the supervisor has ended: the parent of an orphan is another process."""
    supervisor = multiprocessing.parent_process()
    assert supervisor is not None
    if supervisor.pid == os.getppid():
        os.kill(os.getppid(), signal.SIGUSR1)


def _end_with_supervisor() -> None:
    """End this worker when its supervisor is killed, so that the port becomes free."""
    supervisor = multiprocessing.parent_process()
    assert supervisor is not None
    supervisor.join()
    os.kill(os.getpid(), signal.SIGTERM)
