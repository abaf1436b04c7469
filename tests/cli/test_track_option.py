"""What TensorBoard and MLflow read back is what `metrics.jsonl` says, also after a kill."""

import json
import signal
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import pytest
from resus_process import SMALL, refused_here, resus_here, succeed_here
from test_killed_runs import stop_when

from resus.history import EpochRecord
from resus.tracking import TRACKERS
from resus.tracking.base import Tracker

pytestmark = pytest.mark.integration

Points = dict[tuple[str, str], list[tuple[int, float]]]  # by measure and stage: epoch and value


def told_by_file(run: Path) -> Points:
    found: Points = {}
    for line in map(json.loads, (run / "metrics.jsonl").read_text().splitlines()):
        for name in ("validation_auc", "loss"):
            found.setdefault((name, line["stage"]), []).append((line["epoch"], line[name]))
    return found


def told_by_tensorboard(place: Path) -> tuple[Points, dict[str, float]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    read = EventAccumulator(str(place))
    read.Reload()
    found: Points = {}
    final: dict[str, float] = {}
    for tag in read.Tags()["scalars"]:
        name, _, stage = tag.partition("/")
        points = [(event.step, event.value) for event in read.Scalars(tag)]
        if name == "final":
            final[stage] = points[-1][1]
        else:
            found[name, stage] = points
    assert read.Tags()["tensors"] == ["settings/text_summary"]
    return found, final


def told_by_mlflow(folder: Path) -> tuple[Points, dict[str, float], dict[str, str], str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from mlflow.tracking import MlflowClient

        client = MlflowClient(tracking_uri=f"sqlite:///{folder.resolve()}/mlflow.db")
        experiment = client.get_experiment_by_name("resus")
        assert experiment is not None
        (run,) = client.search_runs([experiment.experiment_id])
        found: Points = {}
        for key in run.data.metrics:
            stage, _, name = key.partition(".")
            history = client.get_metric_history(run.info.run_id, key)
            if stage != "final":
                found[name, stage] = [(point.step, point.value) for point in history]
    final = {key.removeprefix("final."): value for key, value in run.data.metrics.items() if key.startswith("final.")}
    return found, final, run.data.params, run.info.status


def check(points: Points, run: Path) -> None:
    expected = told_by_file(run)
    assert points.keys() == expected.keys()
    for key, values in expected.items():
        assert [epoch for epoch, _ in points[key]] == [epoch for epoch, _ in values]
        assert [value for _, value in points[key]] == pytest.approx([value for _, value in values], rel=1e-6)


def test_tensorboard_reads_every_epoch_once_although_the_run_was_killed(workplace: Path, tmp_path: Path) -> None:
    words = ["train", workplace / "log", *SMALL, "--out", "run", "--track", "tensorboard", "--track-dir", "board"]
    code, said = stop_when("residuals, epoch 2 ", signal.SIGKILL, list(map(str, words)), tmp_path, 0.0)
    assert code == -signal.SIGKILL, said
    told = succeed_here(*words, "--resume", cwd=tmp_path)
    assert f"see it with: tensorboard --logdir {tmp_path / 'board'}" in told
    assert [path.name for path in (tmp_path / "board").iterdir()] == ["run"]
    assert not (tmp_path / "run" / "checkpoints").exists()
    points, final = told_by_tensorboard(tmp_path / "board" / "run")
    check(points, tmp_path / "run")
    assert final["validation_auc.residuals"] == pytest.approx(
        max(auc for _, auc in points["validation_auc", "residuals"])
    )


def test_mlflow_reads_settings_epochs_and_results(
    workplace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    words = ["train", workplace / "log", *SMALL, "--out", "run", "--track", "mlflow"]
    told = succeed_here(*words, cwd=tmp_path)
    assert "see it with: mlflow ui --backend-store-uri sqlite:///" in told
    points, final, settings, status = told_by_mlflow(tmp_path / "runs" / "mlflow")
    check(points, tmp_path / "run")
    assert status == "FINISHED"
    assert settings["predictor.kind"] == "deepfm"
    assert settings["evaluation.max_size"] == "6"
    assert final["validation_auc.predictor"] == max(auc for _, auc in points["validation_auc", "predictor"])
    assert "tracked" not in succeed_here(*words, "--resume", cwd=tmp_path), "a finished run is not told again"


class _Failing(Tracker):
    kind, extra = "failing", "trees"

    @classmethod
    def begin(cls, folder: Path | None, name: str, settings: Mapping[str, Any]) -> Self:
        return cls()

    @classmethod
    def again(cls, folder: Path | None, place: str) -> Self:
        return cls()

    place = shown_by = "nowhere"

    def epoch(self, record: EpochRecord) -> None:
        raise OSError("the server is away")

    def finish(self, results: Mapping[str, float]) -> None:
        raise AssertionError("not asked again")

    def close(self, *, failed: bool = False) -> None:
        raise AssertionError("not asked again")


def test_a_tool_that_fails_is_told_in_one_sentence_and_stops_nothing(
    workplace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TRACKERS, "failing", _Failing)
    done = resus_here("train", workplace / "log", *SMALL, "--out", "run", "--track", "failing", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("failing could not be told about the run (the server is away)") == 1
    assert (tmp_path / "run" / "artifact.json").is_file()


def test_mistakes_get_one_sentence_and_leave_nothing(
    workplace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = ("train", workplace / "log", *SMALL, "--out", "run")
    assert "choose mlflow or tensorboard" in refused_here(*train, "--track", "wandb", cwd=tmp_path)
    assert "--track-dir needs --track" in refused_here(*train, "--track-dir", "here", cwd=tmp_path)
    words = ("train", workplace / "log", *SMALL, "--out", workplace / "run", "--track", "tensorboard")
    assert "finished run" in refused_here(*words, cwd=tmp_path)
    for kind, module in (("tensorboard", "tensorboard"), ("mlflow", "mlflow")):
        monkeypatch.setitem(sys.modules, module, None)
        told = refused_here(*train, "--track", kind, cwd=tmp_path)
        assert told == f"--track {kind} needs {module}, which is not installed: pip install 'resus[{kind}]'"
    assert list(tmp_path.iterdir()) == []
