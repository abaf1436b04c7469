"""The processes that train one model together: each holds all weights, and a user's rows stay with one of them.

All of them walk through the same batches of the same epoch. A batch's users are shared out, the gradients of the shares
add up to the batch's, and every process takes the same step: two workers learn what one learns, but for rounding.
"""

from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist
from torch import Tensor

from resus.training.rowwise_adam import Ints, RowwiseAdam

Floats = npt.NDArray[np.float32]


class Crew(Protocol):
    """What training asks of its fellow workers."""

    rank: int
    size: int

    def owns(self, users: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Which of these users are this worker's."""

    def share(self, optimizer: torch.optim.Optimizer, loss: Tensor) -> Tensor:
        """Add up everyone's gradients, in place, and the losses."""

    def combine(self, values: Floats) -> Floats:
        """An array of which each worker filled its own rows, and left the others zero, with all rows filled."""

    def wait(self) -> None:
        """Until all are here."""


class Alone:
    """One worker, who owns everybody."""

    rank, size = 0, 1

    def owns(self, users: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        return np.ones(len(users), dtype=np.bool_)

    def share(self, optimizer: torch.optim.Optimizer, loss: Tensor) -> Tensor:  # noqa: ARG002 - nobody to share with
        return loss

    def combine(self, values: Floats) -> Floats:
        return values

    def wait(self) -> None:
        pass


class TorchCrew:
    """The members of torch's process group, which whoever started them has set up."""

    def __init__(self) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def owns(self, users: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        own: npt.NDArray[np.bool_] = users % self.size == self.rank
        return own

    def share(self, optimizer: torch.optim.Optimizer, loss: Tensor) -> Tensor:
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        flat = torch.cat([loss.detach().reshape(1), *(gradient.reshape(-1) for gradient in gradients)])
        dist.all_reduce(flat)
        parts = torch.split(flat[1:], [parameter.numel() for parameter in parameters])
        for parameter, part in zip(parameters, parts, strict=True):
            parameter.grad = part.view_as(parameter)
        if isinstance(optimizer, RowwiseAdam):
            for table in optimizer.tables:
                table.use_gradients(*self._gather(*table.gradients()))
        return flat[0]

    def combine(self, values: Floats) -> Floats:
        total = torch.from_numpy(values)
        dist.all_reduce(total)
        return values

    def wait(self) -> None:
        dist.barrier()

    def _gather(self, rows: Ints, gradients: Tensor) -> tuple[Ints, Tensor]:
        """Everyone's rows, one worker after the other, padded on the way to the longest."""
        counts = [torch.zeros(1, dtype=torch.int64) for _ in range(self.size)]
        dist.all_gather(counts, torch.tensor([len(rows)]))
        lengths = [int(count) for count in counts]
        padded_rows = torch.zeros(max(lengths), dtype=torch.int32)
        padded_rows[: len(rows)] = torch.from_numpy(rows)
        padded = gradients.new_zeros(max(lengths), gradients.shape[1])
        padded[: len(rows)] = gradients
        all_rows = [torch.empty_like(padded_rows) for _ in lengths]
        every = [torch.empty_like(padded) for _ in lengths]
        dist.all_gather(all_rows, padded_rows)
        dist.all_gather(every, padded)
        kept = [part[:length].numpy() for part, length in zip(all_rows, lengths, strict=True)]
        return np.concatenate(kept), torch.cat([part[:n] for part, n in zip(every, lengths, strict=True)])
