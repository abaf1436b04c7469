"""One training stage: epochs of batches, early stopping on a validation score, a checkpoint after each epoch."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn

from resus.errors import TrainingError
from resus.progress import Progress, silent
from resus.training.checkpoint import StageState, load_checkpoint, save_checkpoint

Batch = TypeVar("Batch")
Yielded = TypeVar("Yielded", covariant=True)
Report = Callable[[list[dict[str, Any]]], None]


class Batches(Protocol[Yielded]):
    """The batches of one epoch; they may be made one by one."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Yielded]: ...


@dataclass(frozen=True)
class Keeper:
    """Where a stage keeps its checkpoint, and of which run it is."""

    path: Path
    fingerprint: str


@dataclass(frozen=True)
class Schedule:
    """How long a stage runs, what judges it, and who is told; `start` is the score to beat of what it starts from."""

    validate: Callable[[], float]
    epochs: int
    patience: int
    start: float = float("-inf")
    keeper: Keeper | None = None
    progress: Progress = silent
    report: Report | None = None


def run_stage(
    name: str,
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    schedule: Schedule,
    *,
    batches: Callable[[int], Batches[Batch]],
    loss: Callable[[Batch], Tensor],
) -> StageState:
    """Train until the validation score has not grown for `patience` epochs; leave the best weights in `module`."""
    keeper = schedule.keeper
    state, best = StageState(best_auc=schedule.start), _copy(module)
    if keeper and keeper.path.exists():
        state, best = load_checkpoint(keeper.path, module, optimizer, keeper.fingerprint)
    while not state.finished:
        began = time.perf_counter()
        task = f"{name}, epoch {state.epoch + 1} of at most {schedule.epochs}"
        mean_loss = _run_epoch(task, module, optimizer, batches(state.epoch), loss, schedule.progress)
        score = schedule.validate()
        state.epoch += 1
        _check_finite(task, torch.tensor(score))
        if score > state.best_auc:
            state.best_auc, state.best_epoch, best = score, state.epoch, _copy(module)
        state.finished = state.epoch >= schedule.epochs or state.epoch - state.best_epoch >= schedule.patience
        state.history.append(
            {
                "stage": name,
                "epoch": state.epoch,
                "loss": mean_loss,
                "validation_auc": score,
                "seconds": round(time.perf_counter() - began, 3),
            }
        )
        if keeper:
            save_checkpoint(keeper.path, state, module, best, optimizer, keeper.fingerprint)
        if schedule.report:
            schedule.report(state.history)
    module.load_state_dict(best)
    module.eval()  # also where a finished stage was only loaded
    return state


def _run_epoch(
    task: str,
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: Batches[Batch],
    loss: Callable[[Batch], Tensor],
    progress: Progress,
) -> float:
    module.train()
    total = torch.zeros(())
    for done, batch in enumerate(batches, start=1):
        optimizer.zero_grad(set_to_none=True)
        value = loss(batch)
        _check_finite(task, value)
        value.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        total += value.detach()
        progress(task, done, len(batches))
    module.eval()
    _check_finite(task, *module.parameters())
    return float(total) / len(batches)


def _check_finite(task: str, *values: Tensor) -> None:
    if not all(bool(value.isfinite().all()) for value in values):
        raise TrainingError(
            f"{task}: numbers are not finite any more; "
            "lower the learning rate, raise learner.ridge or check the numeric fields"
        )


def _copy(module: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}
