"""Early stopping with given scores, on a weight that counts the steps."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from resus.errors import ArtifactError, TrainingError
from resus.tensor_files import load_tensors, save_tensors
from resus.training.checkpoint import Checkpoint, StageState
from resus.training.loop import Schedule, run_stage


class Counter(nn.Module):
    """Each step of gradient descent lowers the weight by 1."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))


def run(module: Counter, scores: Iterator[float], **settings: Any) -> StageState:
    loss = settings.pop("loss", lambda _: 1.0 * module.weight)
    chosen: dict[str, Any] = {"epochs": 10, "patience": 2} | settings
    return run_stage(
        module,
        torch.optim.SGD(module.parameters(), lr=1.0),
        Schedule("counting", validate=lambda: next(scores), **chosen),
        batches=lambda epoch: [epoch] * 3,
        loss=loss,
    )


@pytest.mark.parametrize(
    ("scores", "epochs", "patience", "best", "last"),
    [
        ([0.5, 0.6, 0.7, 0.8], 4, 2, 4, 4),
        ([0.5, 0.6, 0.4, 0.3, 0.9], 10, 2, 2, 4),
        ([0.5, 0.4, 0.6, 0.6, 0.6], 10, 2, 3, 5),
        ([0.5, 0.4], 10, 1, 1, 2),
        ([0.9, 0.1, 0.2, 0.3], 3, 5, 1, 3),
        ([0.5], 1, 2, 1, 1),
    ],
)
def test_it_stops_by_patience_or_at_the_cap_and_keeps_the_best(
    scores: list[float], epochs: int, patience: int, best: int, last: int
) -> None:
    module = Counter()
    state = run(module, iter(scores), epochs=epochs, patience=patience)
    assert (state.epoch, state.best_epoch, state.best_auc, state.finished) == (last, best, scores[best - 1], True)
    assert module.weight.item() == -3.0 * best
    assert [line.validation_auc for line in state.history] == scores[:last]
    assert [line.epoch for line in state.history] == list(range(1, last + 1))
    assert [line.loss for line in state.history] == [-3.0 * epoch - 1 for epoch in range(last)]
    assert {line.stage for line in state.history} == {"counting"}
    assert not module.training


@settings(deadline=None)
@given(st.lists(st.sampled_from([0.1, 0.2, 0.3]), min_size=8, max_size=8), st.integers(1, 8), st.integers(1, 4))
def test_any_scores_leave_the_first_best_of_those_seen(scores: list[float], epochs: int, patience: int) -> None:
    module = Counter()
    state = run(module, iter(scores), epochs=epochs, patience=patience)
    seen = scores[: state.epoch]
    assert state.best_epoch == 1 + seen.index(max(seen))
    assert module.weight.item() == -3.0 * state.best_epoch
    assert state.epoch == epochs or state.epoch - state.best_epoch == patience
    assert all(max(seen[: n - patience]) < max(seen[n - patience : n]) for n in range(patience + 1, state.epoch))


def test_each_epoch_gets_its_own_batches_and_reports_progress() -> None:
    epochs: list[int] = []
    steps: list[tuple[str, int, int | None]] = []
    module = Counter()

    def loss(batch: int) -> Tensor:
        epochs.append(batch)
        return module.weight

    run(module, iter([0.1, 0.2]), epochs=2, loss=loss, progress=lambda *step: steps.append(step))
    assert epochs == [0, 0, 0, 1, 1, 1]
    assert steps[0] == ("counting, epoch 1 of at most 2", 1, 3)
    assert steps[-1] == ("counting, epoch 2 of at most 2", 3, 3)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_ends_training(tmp_path: Path, bad: float) -> None:
    module, checkpoint = Counter(), Checkpoint(tmp_path / "stage.safetensors", "mine")
    with pytest.raises(TrainingError, match="counting, epoch 2 of at most 10: the numbers are not finite any more"):
        run(module, iter([0.5]), loss=lambda epoch: module.weight * (bad if epoch == 1 else 1.0), checkpoint=checkpoint)
    assert load_tensors(checkpoint.path)[1]["state"]["epoch"] == 1


def test_a_score_that_is_not_a_number_ends_training() -> None:
    with pytest.raises(TrainingError, match="counting, epoch 2 of at most 10: the numbers are not finite any more"):
        run(Counter(), iter([0.5, float("nan")]))


def test_a_finished_stage_is_not_run_again(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "stage.safetensors", "mine")
    first = run(Counter(), iter([0.5, 0.6, 0.4, 0.3]), checkpoint=checkpoint)
    module = Counter()
    again = run(module, iter([]), checkpoint=checkpoint)
    assert again == first
    assert module.weight.item() == -6.0


def test_a_checkpoint_of_other_settings_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "stage.safetensors"
    run(Counter(), iter([0.5]), epochs=1, checkpoint=Checkpoint(path, "mine"))
    module = Counter()
    with pytest.raises(ArtifactError, match="belongs to a run with other settings or other data"):
        run(module, iter([]), checkpoint=Checkpoint(path, "theirs"))
    assert module.weight.item() == 0


@pytest.mark.parametrize("kept", [0.0, 0.02, 0.5, 0.99])
def test_a_truncated_checkpoint_is_named(tmp_path: Path, kept: float) -> None:
    checkpoint = Checkpoint(tmp_path / "stage.safetensors", "mine")
    run(Counter(), iter([0.5]), epochs=1, checkpoint=checkpoint)
    whole = checkpoint.path.read_bytes()
    checkpoint.path.write_bytes(whole[: int(kept * len(whole))])
    with pytest.raises(ArtifactError, match=r"stage.safetensors is not a whole safetensors file .*: train again"):
        run(Counter(), iter([]), checkpoint=checkpoint)


def test_any_flipped_bit_of_a_checkpoint_is_named(tmp_path: Path) -> None:
    tensors = {
        "a": torch.randn(3, 2),
        "b": torch.tensor(4, dtype=torch.int64),
        "none": torch.zeros(0, 3),
        "c": torch.ones(2) > 0,
    }
    save_tensors(tmp_path / "mine", tensors, {"epoch": 3})
    whole = (tmp_path / "mine").read_bytes()
    for place in range(len(whole)):
        bent = bytearray(whole)
        bent[place] ^= 1
        (tmp_path / "mine").write_bytes(bent)
        try:
            loaded, told = load_tensors(tmp_path / "mine")
        except ArtifactError:
            continue
        assert told == {"epoch": 3}, place
        assert loaded.keys() == tensors.keys(), place
        assert all(torch.equal(loaded[name], tensor) for name, tensor in tensors.items()), place


def test_tensors_and_facts_come_back_and_foreign_files_do_not(tmp_path: Path) -> None:
    tensors = {"a": torch.randn(3, 2).T, "b": torch.tensor(4, dtype=torch.int64)}
    facts = {"score": float("-inf"), "names": ["ü"]}
    save_tensors(tmp_path / "mine", tensors, facts)
    loaded, told = load_tensors(tmp_path / "mine")
    assert told == facts
    (tmp_path / "plain").touch()
    assert (tmp_path / "mine").stat().st_mode == (tmp_path / "plain").stat().st_mode, (
        "the permissions of the folder apply"
    )
    assert all(torch.equal(loaded[name], tensor) for name, tensor in tensors.items())
    safetensors.torch.save_file({"a": torch.zeros(1)}, tmp_path / "theirs")
    with pytest.raises(ArtifactError, match="theirs was not written by resus"):
        load_tensors(tmp_path / "theirs")
    with pytest.raises(ArtifactError, match="absent does not exist"):
        load_tensors(tmp_path / "absent")
