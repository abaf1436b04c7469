"""A run that is killed or interrupted, at any moment and more than once, ends as if nothing had happened."""

import json
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from resus_process import SMALL, resus_here, start

LONG = [*SMALL, "--set", "predictor.epochs=6", "--set", "training.epochs=6"]
LONG += ["--set", "predictor.patience=6", "--set", "training.patience=6"]
MOMENTS = (
    ("predictor, epoch 3 ", signal.SIGKILL),
    ("residuals, epoch 1 ", signal.SIGINT),
    ("residuals, epoch 4 ", signal.SIGKILL),
)


def history(folder: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [line | {"seconds": 0} for line in lines]


def stop_when(line: str, sign: signal.Signals, words: list[str], cwd: Path, pause: float) -> tuple[int, str]:
    """Start, wait for a line of progress and a little longer, send the signal; return the exit code and all lines."""
    said = []
    with start(*words, cwd=cwd) as process:
        assert process.stderr is not None
        for progress in process.stderr:
            said.append(progress)
            if progress.startswith(line):
                time.sleep(pause)
                process.send_signal(sign)
                break
        said += process.stderr.readlines()
    return process.returncode, "".join(said)


@pytest.mark.integration
def test_a_run_killed_again_and_again_ends_like_one_that_ran_through(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1000)
    print("seed of the pauses:", seed)  # noqa: T201
    draw = random.Random(seed)

    def run(*words: object, code: int = 0) -> str:
        done = resus_here(*words, cwd=tmp_path)
        assert done.returncode == code, done.stderr
        return done.stderr

    run("prepare", "planted", "--set", "users=120", "--set", "items=40", "--out", "log")
    run("train", "log", *LONG, "--out", "calm")
    train = ["train", "log", *LONG, "--out", "killed"]
    for number, (moment, sign) in enumerate(MOMENTS):
        words = train if number == 0 else [*train, "--resume"]
        code, said = stop_when(moment, sign, words, tmp_path, draw.uniform(0, 0.02))
        assert code == (130 if sign == signal.SIGINT else -sign), said
        assert "Traceback" not in said
        assert not (tmp_path / "killed" / "artifact.json").exists()

    refused = run(*train, code=2)
    assert all(word in refused for word in ("killed", "--resume", "--out"))
    refused = run(*train, "--resume", "--seed", 7, code=2)
    assert all(word in refused for word in ("killed", "other settings", "--out"))

    run(*train, "--resume")
    assert sorted(path.name for path in (tmp_path / "killed").iterdir()) == [
        "artifact.json",
        "metrics.jsonl",
        "model.safetensors",
        "users.safetensors",
    ]
    assert history(tmp_path / "killed") == history(tmp_path / "calm")
    for name in ("calm", "killed"):
        run("evaluate", name)
    for name in ("results.json", "model.safetensors"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "calm" / name).read_bytes()
