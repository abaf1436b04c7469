"""One training stage: epochs of batches, early stopping on a validation score, a checkpoint now and then."""

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn

from resus.errors import TrainingError
from resus.progress import Progress, silent
from resus.training.checkpoint import StageState, load_checkpoint, save_checkpoint
from resus.training.crew import Alone, Crew
from resus.training.rowwise_adam import RowwiseAdam

CHECKPOINT_SECONDS = 120.0  # between two checkpoints within an epoch; one is written after every epoch in any case

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
    crew: Crew = field(default_factory=Alone)


def run_stage(
    name: str,
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    schedule: Schedule,
    *,
    batches: Callable[[int], Batches[Batch]],
    loss: Callable[[Batch], Tensor],
    rows: int | None = None,
) -> StageState:
    """Train until the validation score has not grown for `patience` epochs; leave the best weights in `module`.

    `rows`, those of an epoch, are what progress counts where they are given.
    """
    stage = _Stage(name, module, optimizer, schedule, loss, rows)
    stage.load()
    state = stage.state
    while not state.finished:
        stage.run_epoch(batches(state.epoch))
    if isinstance(optimizer, RowwiseAdam):
        optimizer.release()
    module.load_state_dict(stage.best)
    module.eval()  # also where a finished stage was only loaded
    return state


class _Stage:
    """A stage under way."""

    def __init__(
        self,
        name: str,
        module: nn.Module,
        optimizer: torch.optim.Optimizer,
        schedule: Schedule,
        loss: Callable[[Any], Tensor],
        rows: int | None,
    ) -> None:
        self.name, self.module, self.optimizer, self.schedule = name, module, optimizer, schedule
        self.loss, self.rows = loss, rows
        self.state = StageState(best_auc=schedule.start)
        self.best = _copy(module)

    def load(self) -> None:
        keeper = self.schedule.keeper
        if keeper and keeper.path.exists():
            self.state, self.best = load_checkpoint(keeper.path, self.module, self.optimizer, keeper.fingerprint)
        self.schedule.crew.wait()  # nobody goes on, and writes, before everyone has read

    def save(self) -> None:
        keeper = self.schedule.keeper
        if keeper and self.schedule.crew.rank == 0:
            save_checkpoint(keeper.path, self.state, self.module, self.best, self.optimizer, keeper.fingerprint)

    def run_epoch(self, batches: Batches[Any]) -> None:
        state, schedule = self.state, self.schedule
        began = time.perf_counter() - state.seconds
        task = f"{self.name}, epoch {state.epoch + 1} of at most {schedule.epochs}"
        mean_loss = self._train(task, batches, began)
        score = schedule.validate()
        state.epoch, state.batch, state.loss, state.seconds = state.epoch + 1, 0, 0.0, 0.0
        _check_finite(task, torch.tensor(score))
        if score > state.best_auc:
            state.best_auc, state.best_epoch, self.best = score, state.epoch, _copy(self.module)
        state.finished = state.epoch >= schedule.epochs or state.epoch - state.best_epoch >= schedule.patience
        state.history.append(
            {
                "stage": self.name,
                "epoch": state.epoch,
                "loss": mean_loss,
                "validation_auc": score,
                "seconds": round(time.perf_counter() - began, 3),
            }
        )
        self.save()
        if schedule.report:
            schedule.report(state.history)

    def _train(self, task: str, batches: Batches[Any], began: float) -> float:
        state, schedule, total = self.state, self.schedule, torch.tensor(self.state.loss)
        self.module.train()
        saved = time.perf_counter()
        for done, batch in enumerate(itertools.islice(batches, state.batch, None), start=state.batch + 1):
            self.optimizer.zero_grad(set_to_none=True)
            value = self.loss(batch)
            value.backward()  # type: ignore[no-untyped-call]
            shared = schedule.crew.share(self.optimizer, value.detach())
            _check_finite(task, shared)
            self.optimizer.step()
            total += shared
            self._tell(task, done, len(batches))
            now = time.perf_counter()
            if schedule.keeper and now - saved >= CHECKPOINT_SECONDS and done < len(batches):
                state.batch, state.loss, state.seconds = done, float(total), now - began
                self.save()
                saved = time.perf_counter()
        if isinstance(self.optimizer, RowwiseAdam):
            self.optimizer.settle()
        self.module.eval()
        _check_finite(task, *self.module.parameters())
        return float(total) / len(batches)

    def _tell(self, task: str, done: int, batches: int) -> None:
        if self.rows is None:
            self.schedule.progress(task, done, batches)
        else:
            self.schedule.progress(task, self.rows * done // batches, self.rows, "rows")


def _check_finite(task: str, *values: Tensor) -> None:
    if not all(bool(value.isfinite().all()) for value in values):
        raise TrainingError(
            f"{task}: numbers are not finite any more; "
            "lower the learning rate, raise learner.ridge or check the numeric fields"
        )


def _copy(module: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}
