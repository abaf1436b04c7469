"""A run that is stopped between two batches goes on from the last checkpoint and ends as one undisturbed."""

from pathlib import Path
from typing import Any

import pytest
import torch
from planted_models import events, log_of, tiny

from resus.tensor_files import load_tensors
from resus.training import loop, rowwise_adam


class StoppedError(Exception):
    pass


@pytest.mark.parametrize("large", [1, 1_000_000])
@pytest.mark.parametrize(("stage", "batch"), [("predictor, epoch 1", 3), ("predictor, epoch 2", 1), ("residuals", 4)])
def test_it_goes_on_between_two_batches(
    stage: str, batch: int, large: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(rowwise_adam, "LARGE", large)
    log = log_of(events())
    settings: dict[str, Any] = {"predictor.batch_size": 64, "training.batch_size": 64}
    undisturbed = tiny(settings=settings).fit(log)
    calls: list[int] = []

    def stop(task: str, done: int, total: int | None, unit: str = "") -> None:
        if task.startswith(stage) and "validation" not in task:
            calls.append(done)
            if len(calls) == batch + 1:
                raise StoppedError

    with pytest.raises(StoppedError):
        tiny(settings=settings).fit(log, folder=tmp_path, progress=stop)
    kept = tmp_path / "checkpoints" / f"{stage.partition(',')[0]}.safetensors"
    assert load_tensors(kept)[1]["state"]["batch"] == batch
    stopped = calls[-1]
    calls.clear()

    def watch(task: str, done: int, total: int | None, unit: str = "") -> None:
        if task.startswith(stage) and "validation" not in task:
            calls.append(done)

    resumed = tiny(settings=settings).fit(log, folder=tmp_path, resume=True, progress=watch)
    assert calls[0] == stopped, "it does not begin the epoch again"
    without = [{key: line[key] for key in line if key != "seconds"} for line in resumed.history]
    assert without == [{key: line[key] for key in line if key != "seconds"} for line in undisturbed.history]
    resumed.save(tmp_path / "resumed")
    undisturbed.save(tmp_path / "undisturbed")
    one, other = (load_tensors(tmp_path / name / "model.safetensors")[0] for name in ("resumed", "undisturbed"))
    assert all(torch.equal(one[name], other[name]) for name in one)
