"""φ once more, by the evidence: how well the prior foretells whole training users, with no user vector to overfit."""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from resus.data.log.log import InteractionLog
from resus.episodes.batch import EpisodeBatch
from resus.episodes.sampling import Epoch
from resus.episodes.tensors import features_of, labels_of
from resus.model.learners.plus.learner import PlusLearner
from resus.model.personalizer import Personalizer
from resus.randomness import Purpose, generator
from resus.training.checkpoint import StageState
from resus.training.loop import Schedule, run_stage
from resus.training.rowwise_adam import adam_of
from resus.training.shares import no_loss, own_episodes

BATCH_ROWS = 4096
EVENTS = 64  # of a user at most
LEARNING_RATE = 5e-3


def refine(
    model: Personalizer,
    basis: npt.NDArray[np.float32],
    log: InteractionLog,
    users: npt.NDArray[np.int64],
    schedule: Schedule,
    *,
    seed: int,
) -> StageState:
    """Go on with factors that `factorize` began, under the prior as it is; `basis` is Ψ of every row."""
    learner = model.learner
    assert isinstance(learner, PlusLearner)

    def batches(number: int) -> Epoch:
        return _some_of_everyone(log, users, generator(Purpose.EVIDENCE_BATCHES, seed, number))

    def loss(whole: EpisodeBatch) -> Tensor:
        batch = own_episodes(schedule.crew, log, whole)
        if not batch.n_users:
            return no_loss()
        rows = batch.rows[batch.support[batch.mask].numpy()]
        support = _spread(model.encoder(features_of(log, rows)), batch.mask)
        outcomes = _spread(learner.outcomes(labels_of(log, rows), torch.from_numpy(basis[rows])), batch.mask)
        evidence = learner.evidence(support, batch.mask, outcomes).sum()
        return -evidence.float() / float(whole.support_sizes.sum())  # a crew adds up losses of one kind

    factors = [{"params": list(model.encoder.parameters()), "lr": LEARNING_RATE}]
    return run_stage(
        "evidence",
        model,
        adam_of(model, factors, table_rate=LEARNING_RATE),
        schedule,
        batches=batches,
        loss=loss,
        rows=int(np.minimum(log.lengths[users], EVENTS).sum()),
    )


def _some_of_everyone(log: InteractionLog, users: npt.NDArray[np.int64], random: np.random.Generator) -> Epoch:
    """Each user's events as a support, in no order; of one who has many, some."""
    users = random.permutation(users)
    lengths = log.lengths[users]
    shuffled = log.rows_of(users)[np.lexsort((random.random(lengths.sum()), np.repeat(np.arange(len(users)), lengths)))]
    places = np.arange(len(shuffled)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    kept = np.minimum(lengths, EVENTS)
    batch_of_user = (np.cumsum(kept) - kept) // BATCH_ROWS
    edges = np.append(np.flatnonzero(np.diff(batch_of_user, prepend=-1)), len(users))
    return Epoch(shuffled[places < EVENTS], kept, kept, edges)


def _spread(values: Tensor, mask: Tensor) -> Tensor:
    """`[n, …]` values of the filled slots, user by user, as `[U, S, …]`."""
    spread = values.new_zeros(*mask.shape, *values.shape[1:])
    return spread.index_put((mask,), values)
