"""The processes that train one model together: each holds all weights, and each user's rows belong to one process.

All workers go through the same batches. Each computes the gradients of its own users in a batch; the sum of these
gradients is the gradient of the batch, and every worker takes the same step. So two workers learn what one learns, up
to rounding.
"""

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from resus.arrays import Booleans, Floats, Ids, Integers
from resus.data.log.log import InteractionLog
from resus.episodes.batch import EpisodeBatch
from resus.training.rowwise_adam import RowwiseAdam


class Workers:
    """One process, which owns all users; the contract of several. `rank` is the number of this one."""

    rank, size = 0, 1

    def owns(self, users: Integers) -> Booleans:
        """Which of these users belong to this worker."""
        return np.ones(len(users), dtype=np.bool_)

    def sum_gradients(self, optimizer: torch.optim.Optimizer, loss: Tensor) -> Tensor:  # noqa: ARG002  # only one
        """Replace the gradients by the sum over all workers, and return the sum of the losses."""
        return loss

    def combine(self, values: Floats) -> Floats:
        """Fill an array of which each worker has filled its own rows and left the others 0."""
        return values

    def wait(self) -> None:
        """Wait until all workers are here."""


class TorchWorkers(Workers):
    """The members of torch's process group, which must be set up before."""

    def __init__(self) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def owns(self, users: Integers) -> Booleans:
        own: Booleans = users % self.size == self.rank
        return own

    def sum_gradients(self, optimizer: torch.optim.Optimizer, loss: Tensor) -> Tensor:
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

    def _gather(self, rows: Ids, gradients: Tensor) -> tuple[Ids, Tensor]:
        """The rows and gradients of all workers, in order of rank. All must send arrays of one length, so they pad."""
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


def own_rows(workers: Workers, log: InteractionLog, rows: Integers) -> Integers:
    """The rows of this worker's users."""
    return rows[workers.owns(log.owners_of(rows))] if workers.size > 1 else rows


def own_episodes(workers: Workers, log: InteractionLog, batch: EpisodeBatch) -> EpisodeBatch:
    """The episodes of this worker's users."""
    return batch.part(workers.owns(log.owners_of(batch.rows[batch.starts]))) if workers.size > 1 else batch


def no_loss() -> Tensor:
    """The loss of a worker that owns no row of a batch."""
    return torch.zeros((), requires_grad=True)
