"""A worker's share of a batch: the rows of its own users."""

import numpy as np
import torch
from torch import Tensor

from resus.data.log.log import InteractionLog
from resus.episodes.batch import EpisodeBatch
from resus.episodes.tensors import Rows
from resus.training.crew import Crew


def own_rows(crew: Crew, log: InteractionLog, rows: Rows) -> Rows:
    return rows[crew.owns(users_of(log, rows))] if crew.size > 1 else rows


def own_episodes(crew: Crew, log: InteractionLog, batch: EpisodeBatch) -> EpisodeBatch:
    return batch.part(crew.owns(users_of(log, batch.rows[batch.starts]))) if crew.size > 1 else batch


def users_of(log: InteractionLog, rows: Rows) -> Rows:
    """Whose rows these are."""
    users: Rows = np.searchsorted(log.offsets, rows, side="right") - 1
    return users


def no_loss() -> Tensor:
    """Of a share without any row."""
    return torch.zeros((), requires_grad=True)
