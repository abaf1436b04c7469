"""Carry out the steps of the Dockerfile without a container engine, and ask the service that they make.

Debian's `debootstrap` makes a clean root, in which each step runs with chroot. Needs root, debootstrap and a network:

    python scripts/check_dockerfile.py EXPORT [--folder resus-image] [--arg EXTRAS=serve,redis,trees]

EXPORT is a folder that `resus export` wrote. What only an engine does is not checked: layers, mounts, networks, limits.
"""

import argparse
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[1]
MIRROR = "http://deb.debian.org/debian"
IMAGE = re.compile(r"debian:(\w+)-slim")
TOKEN = "token-of-this-check-alone"  # noqa: S105
PATIENCE = 120  # seconds
CERTIFICATES = "/etc/certificates-of-this-machine.pem"


@dataclass
class Stage:
    """A root folder, and what later steps and the engine know about it."""

    root: Path
    environment: dict[str, str] = field(default_factory=lambda: {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
    arguments: dict[str, str] = field(default_factory=dict)
    folder: str = "/"
    user: str = "0:0"
    health: list[str] = field(default_factory=list)
    entry: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)

    def run(self, command: list[str], *, user: str | None = None) -> subprocess.CompletedProcess[str]:
        words = self.words(command, user)
        return subprocess.run(words, env=self.variables(), text=True, check=False, capture_output=True)  # noqa: S603

    def words(self, command: list[str], user: str | None = None) -> list[str]:
        inside = 'cd "$1" && shift && exec "$@"'
        chroot = [program("chroot"), f"--userspec={user or self.user}", str(self.root)]
        return [*chroot, "/bin/sh", "-c", inside, "sh", self.folder, *command]

    def variables(self) -> dict[str, str]:
        trusted = {"PIP_CERT": CERTIFICATES} if "PIP_CERT" in os.environ else {}
        return {**trusted, **self.arguments, **self.environment}

    def path(self, place: str) -> Path:
        return self.root / (place if place.startswith("/") else f"{self.folder}/{place}").lstrip("/")


def steps_of(dockerfile: Path) -> list[tuple[str, str]]:
    """Instructions with their words; comments are left out, and continued lines joined."""
    lines = [line for line in dockerfile.read_text(encoding="utf-8").splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in joined.splitlines() if line.strip()]


def carry_out(steps: list[tuple[str, str]], folder: Path, given: dict[str, str]) -> Stage:
    """The last stage, after all steps."""
    stages: dict[str, Stage] = {}
    stage: Stage | None = None
    for instruction, words in steps:
        say(f"{instruction} {words[:100]}")
        if instruction == "FROM":
            image, _, name = words.partition(" AS ")
            stage = stages[name or "last"] = Stage(clean_root(image, folder, name or "last"))
            continue
        assert stage is not None, "a Dockerfile begins with FROM"
        take(stage, stages, instruction, words, given)
    assert stage is not None
    return stage


def take(stage: Stage, stages: dict[str, Stage], instruction: str, words: str, given: dict[str, str]) -> None:  # noqa: C901
    """One step."""
    match instruction:
        case "RUN":
            done = stage.run(["/bin/sh", "-c", words])
            if done.returncode:
                raise SystemExit(f"the step fails: {words}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
        case "COPY":
            copy(stage, stages, words.split())
        case "ENV":
            stage.environment |= dict(pair.split("=", 1) for pair in words.split())
        case "ARG":
            name, _, default = words.partition("=")
            stage.arguments[name] = given.get(name, default)
        case "WORKDIR":
            stage.folder = words
            stage.path(words).mkdir(parents=True, exist_ok=True)
        case "USER":
            stage.user = words
        case "HEALTHCHECK":
            stage.health = json.loads(words[words.index("CMD ") + 4 :])
        case "ENTRYPOINT":
            stage.entry = json.loads(words)
        case "CMD":
            stage.command = json.loads(words)
        case "VOLUME" | "EXPOSE":
            pass  # for the engine
        case _:
            raise SystemExit(f"this check does not know the instruction {instruction}: teach it, or leave it out")


def copy(stage: Stage, stages: dict[str, Stage], words: list[str]) -> None:
    origin = stages[words.pop(0).removeprefix("--from=")].root if words[0].startswith("--from=") else REPOSITORY
    *sources, target = words
    place = stage.path(target)
    for source in sources:
        found = origin / source.lstrip("/")
        if found.is_dir():
            shutil.copytree(
                found, place, symlinks=True, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__")
            )
        else:
            place.mkdir(parents=True, exist_ok=True) if target.endswith("/") else None
            shutil.copy2(found, place)


def clean_root(image: str, folder: Path, name: str) -> Path:
    """A copy of a clean Debian, as the image would begin."""
    suite = IMAGE.fullmatch(image)
    if suite is None:
        raise SystemExit(f"the image {image} cannot be made with debootstrap: name debian:SUITE-slim")
    base, root = folder / f"clean-{suite[1]}", folder / name
    if not (base / "complete").exists():
        shutil.rmtree(base, ignore_errors=True)
        run(program("debootstrap"), "--variant=minbase", suite[1], str(base), MIRROR)
        (base / "complete").touch()
    shutil.rmtree(root, ignore_errors=True)
    run("cp", "--archive", str(base), str(root))
    (root / "complete").unlink()
    shutil.copy(Path("/etc/resolv.conf").resolve(), root / "etc/resolv.conf")  # an engine gives each container one
    if "PIP_CERT" in os.environ:  # the network of this machine has a certificate of its own
        shutil.copy(os.environ["PIP_CERT"], root / CERTIFICATES.lstrip("/"))
    return root


def ask_the_service(stage: Stage, export: Path) -> None:
    """Start it as the image would, and ask it as the engine and as a client."""
    shutil.copytree(export, stage.path(stage.environment["RESUS_RUN"]))
    alone = stage.run([*stage.entry, *stage.command])
    if not alone.returncode:
        raise SystemExit("the image serves without a token")
    say(f"without a token it refuses to start: {alone.stderr.strip()}")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    stage.environment |= {"RESUS_PORT": str(port), "RESUS_TOKEN": TOKEN, "RESUS_HOST": "127.0.0.1"}
    started = stage.root / "data" / "started"
    started.touch()
    words = stage.words([*stage.entry, *stage.command])
    process = subprocess.Popen(words, env=stage.variables(), text=True)  # noqa: S603
    try:
        deadline = time.monotonic() + PATIENCE
        while (healthy := stage.run(stage.health)).returncode:
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"the service does not become ready: {healthy.stderr[-500:]}")
            time.sleep(0.5)
        say("the health check of the image succeeds")
        status = Path(f"/proc/{process.pid}/status").read_text()
        say("uid and gid of the service: " + " ".join(re.findall(r"^[UG]id:\t(\d+)", status, re.MULTILINE)))
        catalogue = ask(port, "GET", "/v1/catalogue?limit=3")
        items = [item["item"] for item in catalogue["items"]]
        context = {
            field["name"]: field["values"][0] for field in ask(port, "GET", "/v1/model")["fields"] if in_context(field)
        }
        events = [{"item": items[0], "label": 1, "features": context}]
        answer = ask(port, "POST", "/v1/predict", {"events": events, "items": items, "context": context})
        say(f"POST /v1/predict answers {json.dumps(answer['answers'])[:200]}")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)
    if process.returncode not in (0, -signal.SIGTERM):
        raise SystemExit(f"after SIGTERM the service ends with status {process.returncode}")
    outside = ["-newer", str(started), "-not", "-path", "*/data*", "-not", "-path", "*/tmp*"]
    written = run("find", str(stage.root), "-xdev", "-type", "f", *outside)
    if written:
        raise SystemExit(f"the service writes outside /data and /tmp: {written}")
    say("after SIGTERM the service ends, and it wrote nothing outside /data and /tmp")


def in_context(field: dict[str, Any]) -> bool:
    """Whether a request brings the field."""
    return field["role"] != "item" and bool(field["values"])


def ask(port: int, method: str, address: str, body: object = None) -> dict[str, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
    connection.request(method, address, None if body is None else json.dumps(body), headers)
    answer = connection.getresponse()
    content = answer.read()
    if answer.status != 200:
        raise SystemExit(f"{method} {address} answers {answer.status}: {content[:500]!r}")
    return dict(json.loads(content))


def run(*words: str) -> str:
    return subprocess.run(words, text=True, check=True, stdout=subprocess.PIPE).stdout  # noqa: S603


def program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise SystemExit(f"{name} is missing: install it, and run this as root")
    return found


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("export", type=Path)
    parser.add_argument("--folder", type=Path, default=Path("resus-image"), help="for the roots")
    parser.add_argument("--arg", action="append", default=[], help="NAME=VALUE, as in docker build")
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    given = dict(pair.split("=", 1) for pair in chosen.arg)
    stage = carry_out(steps_of(REPOSITORY / "Dockerfile"), chosen.folder, given)
    say(f"size of the image's files: {int(run('du', '-sm', str(stage.root)).split()[0])} MiB")
    if not stage.run(["python3", "-c", "import torch"]).returncode:
        raise SystemExit("torch is in the image")
    say("torch is not in the image")
    ask_the_service(stage, chosen.export)


if __name__ == "__main__":
    main()
