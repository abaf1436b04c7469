"""Run `resus` commands: in a separate process, or faster, within the test."""

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

from resus.cli.main import main

# By default, Ray's workers yield to every other process. Next to other tests they would hardly run at all.
PROMPT_RAY = {"RAY_worker_niceness": "0"}
COMMAND = [sys.executable, "-c", "from resus.cli.main import main; main()"]
SETTINGS = {
    "predictor.hidden_units": "[8]",
    "encoder.hidden_units": "[8]",
    "predictor.epochs": 2,
    "training.epochs": 2,
    "evaluation.max_size": 6,
}
WITHOUT_NETWORK = ["--set", "training.epochs=2", "--set", "evaluation.max_size=6"]
SHORT = [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]
SMALL = ["--learner", "ridge", *SHORT]  # trains faster than RESUS+, the default


def environment() -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", **PROMPT_RAY}


def resus(*words: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command to its end in a separate process."""
    command = [*COMMAND, *map(str, words)]
    return subprocess.run(command, cwd=cwd, env=environment(), capture_output=True, text=True, check=False)


def succeed(*words: object, cwd: Path) -> str:
    """The output of a command that must succeed."""
    done = resus(*words, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def start(*words: object, cwd: Path) -> subprocess.Popen[str]:
    """Start a command; its progress comes line by line on standard error."""
    return subprocess.Popen([*COMMAND, *map(str, words)], cwd=cwd, env=environment(), stderr=subprocess.PIPE, text=True)


def resus_here(*words: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command within the test, which saves the seconds that a new process takes to load torch."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    command = ["resus", *map(str, words)]
    with (
        contextlib.chdir(cwd),
        mock.patch.object(sys, "argv", command),
        mock.patch.dict(os.environ, environment()),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as ended:
            code = int(ended.code or 0)
    return subprocess.CompletedProcess(command, code, out.getvalue(), err.getvalue())


def succeed_here(*words: object, cwd: Path) -> str:
    """The output of a command that must succeed, run within the test."""
    done = resus_here(*words, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def refused_here(*words: object, cwd: Path) -> str:
    """The one sentence of a command that must end with 2, run within the test."""
    done = resus_here(*words, cwd=cwd)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    (sentence,) = (line for line in done.stderr.splitlines() if not line.endswith("…"))
    return sentence.removeprefix("resus: ")


def workplace_in(base: Path) -> Path:
    """A folder with a prepared log in `log` and a finished run in `run`, made once per session."""
    folder = base / "workplace"
    if not folder.exists():
        folder.mkdir()
        succeed_here("prepare", "planted", "--set", "users=120", "--set", "items=40", "--out", "log", cwd=folder)
        succeed_here("train", "log", *SMALL, "--out", "run", cwd=folder)
    return folder
