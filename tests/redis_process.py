"""A real redis-server on a free port of loopback, which syncs every command to disk before it answers."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

DURABLE = ("appendonly yes", "appendfsync always")  # the rest by default


def program() -> str:
    found = shutil.which("redis-server")
    if found is None:
        sentence = "redis-server is not on the PATH: run scripts/install-test-programs.sh"
        if os.environ.get("CI") == "true":
            pytest.fail(sentence)
        pytest.skip(sentence)
    return found


class RedisProcess:
    """Can be killed and started again on the files in its folder."""

    def __init__(self, folder: Path, *settings: str) -> None:
        self.folder = folder
        self._port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"redis://127.0.0.1:{self._port}/0"
        self.socket = folder / "redis.sock"
        network = ("bind 127.0.0.1", f"port {self._port}", f'unixsocket "{self.socket}"')
        lines = [*network, f'dir "{folder}"', 'save ""', *(settings or DURABLE)]
        (folder / "redis.conf").write_text("\n".join(lines))

    def start(self) -> None:
        self._process = subprocess.Popen([program(), self.folder / "redis.conf"])
        while not self._answers():
            assert self._process.poll() is None, "redis-server did not start: see what it wrote above"
            time.sleep(0.02)

    def _answers(self) -> bool:
        """Whether it has loaded its files; a server that asks for a password has."""
        try:
            with socket.create_connection(("127.0.0.1", self._port)) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(64).startswith((b"+PONG", b"-NOAUTH"))
        except OSError:
            return False

    def empty(self) -> None:
        with redis.Redis(port=self._port) as client:
            client.flushall()

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """It hangs for a while: connections stay open, and nothing is answered."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@contextlib.contextmanager
def redis_process(folder: Path, *settings: str) -> Iterator[RedisProcess]:
    server = RedisProcess(folder, *settings)
    try:
        server.start()
        yield server
    finally:
        server.kill()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
