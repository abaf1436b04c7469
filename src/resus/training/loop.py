"""One training stage: epochs of batches, early stopping by a validation score, and checkpoints."""

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from resus.errors import TrainingError
from resus.history import EpochRecord, History
from resus.progress import Progress, silent
from resus.training.checkpoint import Checkpoint, StageState
from resus.training.rowwise_adam import RowwiseAdam
from resus.training.workers import Workers

CHECKPOINT_SECONDS = 120.0  # between two checkpoints within an epoch; the end of an epoch always writes one
REMEDIES = "lower the learning rate, check the numeric fields or, with learner.kind=ridge, raise learner.ridge"
UNSOLVABLE = (np.linalg.LinAlgError, torch.linalg.LinAlgError)  # type: ignore[attr-defined]  # documented

Batch = TypeVar("Batch")
Yielded = TypeVar("Yielded", covariant=True)


class Batches(Protocol[Yielded]):
    """The batches of one epoch; they may be made one by one."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Yielded]: ...


@dataclass(frozen=True)
class Schedule:
    """The name of a stage, how long it runs, what judges it, where it saves its state and who is told.

    `start` is the validation score of the weights that the stage starts from. If no epoch beats it, they stay; if it
    `tells_start`, the history begins with it, as epoch 0. With `keep_last` all epochs run and the last one counts: for
    a stage with too few parameters to overfit. `report` gets the history of the stage after each epoch, and when a
    checkpoint is loaded.
    """

    stage: str
    validate: Callable[[], float]
    epochs: int
    patience: int
    start: float = float("-inf")
    tells_start: bool = False
    keep_last: bool = False
    checkpoint: Checkpoint | None = None
    progress: Progress = silent
    report: Callable[[History], None] = lambda _: None
    workers: Workers = field(default_factory=Workers)


def run_stage(
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    schedule: Schedule,
    *,
    batches: Callable[[int], Batches[Batch]],
    loss: Callable[[Batch], Tensor],
    rows: int | None = None,
) -> StageState:
    """Train until the validation score has not grown for `patience` epochs, then put the best weights into `module`.

    Progress counts rows if `rows`, the number of rows in an epoch, is given, else batches.
    """
    stage = _Stage(module, optimizer, schedule, loss, rows)
    stage.load()
    state = stage.state
    while not state.finished:
        stage.run_epoch(batches(state.epoch))
    if isinstance(optimizer, RowwiseAdam):
        optimizer.release()
    module.load_state_dict(stage.best)
    module.eval()  # also after a finished stage was only loaded
    return state


class _Stage:
    """A stage that is running."""

    def __init__(
        self,
        module: nn.Module,
        optimizer: torch.optim.Optimizer,
        schedule: Schedule,
        loss: Callable[[Any], Tensor],
        rows: int | None,
    ) -> None:
        self.module, self.optimizer, self.schedule = module, optimizer, schedule
        self.loss, self.rows = loss, rows
        self.state = StageState(best_auc=schedule.start)
        if schedule.tells_start:
            self.state.history.append(EpochRecord(schedule.stage, 0, schedule.start))
        self.best = _copy(module)

    def load(self) -> None:
        checkpoint = self.schedule.checkpoint
        if checkpoint and checkpoint.exists():
            self.state, self.best = checkpoint.load(self.module, self.optimizer)
            self.schedule.report(self.state.history)
        self.schedule.workers.wait()  # no worker may write before all have read

    def save(self) -> None:
        checkpoint = self.schedule.checkpoint
        if checkpoint and self.schedule.workers.rank == 0:
            checkpoint.save(self.state, self.module, self.best, self.optimizer)

    def run_epoch(self, batches: Batches[Any]) -> None:
        state, schedule = self.state, self.schedule
        began = time.perf_counter() - state.seconds
        task = f"{schedule.stage}, epoch {state.epoch + 1} of at most {schedule.epochs}"
        loss = self._train(task, batches, began)
        score = schedule.validate()
        state.epoch, state.batch, state.loss, state.seconds = state.epoch + 1, 0, 0.0, 0.0
        _check_finite(task, torch.tensor(score))
        if score > state.best_auc or schedule.keep_last:
            state.best_auc, state.best_epoch, self.best = score, state.epoch, _copy(self.module)
        state.finished = state.epoch >= schedule.epochs or state.epoch - state.best_epoch >= schedule.patience
        seconds = round(time.perf_counter() - began, 3)
        state.history.append(EpochRecord(schedule.stage, state.epoch, score, loss, seconds))
        self.save()
        schedule.report(state.history)

    def _train(self, task: str, batches: Batches[Any], began: float) -> float:
        state, schedule, total = self.state, self.schedule, torch.tensor(self.state.loss)
        self.module.train()
        saved = time.perf_counter()
        for done, batch in enumerate(itertools.islice(batches, state.batch, None), start=state.batch + 1):
            self.optimizer.zero_grad(set_to_none=True)
            own = self.loss(batch)
            own.backward()  # type: ignore[no-untyped-call]
            whole = schedule.workers.sum_gradients(self.optimizer, own.detach())
            _check_finite(task, whole)
            self.optimizer.step()
            total += whole.cpu()
            self._tell(task, done, len(batches))
            now = time.perf_counter()
            if schedule.checkpoint and now - saved >= CHECKPOINT_SECONDS and done < len(batches):
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
        raise TrainingError(f"{task}: the numbers are not finite any more; {REMEDIES}")


def _copy(module: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}
