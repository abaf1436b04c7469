"""A run that is killed or interrupted, at any moment and more than once, ends as if nothing had happened."""

import json
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from resus_process import SMALL, resus_here, start, succeed, workplace_in

pytestmark = pytest.mark.integration


LONG = [*SMALL, "--set", "predictor.epochs=8", "--set", "training.epochs=8"]
LONG += ["--set", "predictor.patience=8", "--set", "training.patience=8"]
MOMENTS = (
    ("predictor, epoch 1 ", signal.SIGKILL),
    ("predictor, epoch 4 ", signal.SIGKILL),
    ("residuals, epoch 1 ", signal.SIGINT),
    ("residuals, epoch 4 ", signal.SIGKILL),
)


@pytest.fixture
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return workplace_in(tmp_path_factory.getbasetemp())


def history(folder: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "seconds"} for line in lines]


def stop_when(line: str, sign: signal.Signals, words: list[str], cwd: Path, pause: float) -> tuple[int, str]:
    """Start, wait for a line of progress, wait a little more, send the signal: exit code and all that was said."""
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


def test_a_run_killed_again_and_again_ends_as_an_undisturbed_one(workplace: Path, tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1000)
    print("seed of the pauses:", seed)  # noqa: T201
    draw = random.Random(seed)
    log = str(workplace / "log")
    succeed("train", log, *LONG, "--out", "calm", cwd=tmp_path)
    train = ["train", log, *LONG, "--out", "killed"]
    for number, (moment, sign) in enumerate(MOMENTS):
        words = train if number == 0 else [*train, "--resume"]
        code, said = stop_when(moment, sign, words, tmp_path, draw.uniform(0, 0.02))
        assert code == (130 if sign == signal.SIGINT else -sign), said
        assert "Traceback" not in said
        assert not (tmp_path / "killed" / "artifact.json").exists()

    refused = resus_here(*train, cwd=tmp_path)
    assert refused.returncode == 2
    assert refused.stderr == (
        "resus: killed holds an unfinished run: resume it with --resume, or choose another folder with --out\n"
    )
    refused = resus_here(*train, "--resume", "--seed", 7, cwd=tmp_path)
    assert refused.returncode == 2
    assert "killed holds an unfinished run with other settings" in refused.stderr

    succeed(*train, "--resume", cwd=tmp_path)
    assert sorted(path.name for path in (tmp_path / "killed").iterdir()) == [
        "artifact.json",
        "metrics.jsonl",
        "model.safetensors",
    ]
    assert history(tmp_path / "killed") == history(tmp_path / "calm")
    for run in ("calm", "killed"):
        assert resus_here("evaluate", run, cwd=tmp_path).returncode == 0
    assert (tmp_path / "killed" / "results.json").read_bytes() == (tmp_path / "calm" / "results.json").read_bytes()
    weights = [(tmp_path / run / "model.safetensors").read_bytes() for run in ("calm", "killed")]
    assert weights[0] == weights[1]
