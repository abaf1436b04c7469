"""A model of MovieLens-1M behind `resus serve`, in its own process."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.published import RAW, published_log

EXPORT = Path("runs/benchmarks/service")
ROOT = Path(__file__).parents[2]
LEARNERS = ("plus", "ridge")
ANSWER_SECONDS = 120


@dataclass(frozen=True)
class Served:
    """A running service."""

    process: subprocess.Popen[str]
    address: str

    def peak_and_now(self) -> tuple[int, int]:
        """Resident bytes of the process: at the peak, and now."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        sizes = dict(line.split(":", 1) for line in status.splitlines() if line.startswith("Vm"))
        peak, now = (int(sizes[name].split()[0]) * 1024 for name in ("VmHWM", "VmRSS"))
        return peak, now


def exported(learner: str, *, source: Path = ROOT) -> Path:
    """An export, made once. One epoch per stage is enough: the time of a score does not depend on its quality.

    `source` is the checkout that makes it, from a log of its own, because another one may write other files.
    """
    home = EXPORT if source == ROOT else EXPORT / _commit(source)
    folder = home / learner
    if folder.is_dir():
        return folder
    log = published_log("ml-1m")[0] if source == ROOT else home / "log"
    if not log.is_dir():
        words = ["prepare", "ml-1m", "--path", RAW / "ml-1m", "--protocol", "paper", "--out", log]
        subprocess.run(_resus(*words), env=_environment(source), check=True)
    run = home / f"{learner}-run"
    stage = "encoder" if learner == "plus" else "training"
    short = ["--set", "predictor.epochs=1", "--set", f"{stage}.epochs=1"]
    command = ["train", log, "--learner", learner, "--out", run, *short]
    for words in (command, ["export", run, "--data", log, "--out", folder]):
        subprocess.run(_resus(*words), env=_environment(source), check=True)
    return folder


def _resus(*words: object) -> list[str]:
    return [sys.executable, "-m", "resus", *map(str, words)]


def _environment(source: Path) -> dict[str, str]:
    """In which Python imports the package of a checkout."""
    return {**os.environ, "PYTHONPATH": str(source / "src")}


def _commit(source: Path) -> str:
    command = ["git", "-C", str(source), "rev-parse", "--short=12", "HEAD"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def items_of(address: str, count: int) -> list[str]:
    """The most frequent items of the catalogue."""
    return [item["item"] for item in ask(address, f"/v1/catalogue?limit={count}")["items"]]


def ask(address: str, path: str, body: Any = None, *, method: str | None = None) -> Any:
    """The answer to a GET, to a POST if there is a body, or to `method`. Any status but 200 raises an exception."""
    sent = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address + path, sent, {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:
        return json.load(answer)


@contextlib.contextmanager
def served(
    run: Path,
    store: str,
    *,
    workers: int = 1,
    port: int = 0,
    log: int | None = None,
    source: Path = ROOT,
    shadow: Path | None = None,
) -> Iterator[Served]:
    """`resus serve` of a checkout once it is ready, until the block ends or it is killed."""
    words = _resus("serve", run, "--store", store, "--workers", workers, "--port", port)
    words += [] if shadow is None else ["--shadow", str(shadow)]
    environment = _environment(source)
    process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=log, text=True)
    assert process.stdout is not None
    try:
        said = process.stdout.readline()
        if " on http://" not in said:
            sys.exit(f"the service did not start: {said}")
        address = said.split(" on ")[1].split(",")[0]
        ask(address, "/readyz")  # the socket listens before the first worker answers
        yield Served(process, address)
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(ANSWER_SECONDS)
        process.stdout.close()


def serves(worker: int) -> bool:
    """A worker handles SIGHUP as soon as it answers."""
    status = Path(f"/proc/{worker}/status").read_text(encoding="ascii")
    caught = int(status.split("SigCgt:")[1].split()[0], 16)
    return bool(caught >> (signal.SIGHUP - 1) & 1)


def workers_of(process: int) -> list[int]:
    children = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="ascii").split()
    return [int(child) for child in children if b"spawn_main" in _words_of(child)]


def _words_of(process: str) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:  # it has just ended
        return b""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
