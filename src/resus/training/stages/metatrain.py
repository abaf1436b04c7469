"""Φ, Λ and β from episodes (equation 18); Ψ is frozen, or trained along with them ("w/o pretrain")."""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from resus.data.log.log import InteractionLog
from resus.episodes.batch import EpisodeBatch
from resus.episodes.sampling import EpisodeSampler
from resus.episodes.tensors import features_of, labels_of
from resus.model.personalizer import Personalizer
from resus.training.checkpoint import StageState
from resus.training.loop import Schedule, run_stage
from resus.training.rowwise_adam import adam_of
from resus.training.shares import no_loss, own_episodes


def metatrain(
    model: Personalizer,
    basis: npt.NDArray[np.float32] | None,
    log: InteractionLog,
    sampler: EpisodeSampler,
    schedule: Schedule,
    *,
    learning_rate: float,
    scalar_learning_rate: float,
    name: str = "residuals",
) -> StageState:
    """Minimise the cross-entropy over all queries, which weighs a user by |Q_u|.

    `basis` is Ψ's logits of every row of the log, computed once; without it Ψ is trained jointly.
    """
    trained: nn.Module = model
    network = model.predictor.network
    if basis is None:
        assert network is not None, "only a network can be trained jointly"
        trained = nn.ModuleDict({"model": model, "predictor": network})

    def loss(whole: EpisodeBatch) -> Tensor:
        batch = own_episodes(schedule.crew, log, whole)
        if not batch.n_queries:
            return no_loss()
        features, labels = features_of(log, batch.rows), labels_of(log, batch.rows)
        if basis is not None:
            own = torch.from_numpy(basis[batch.rows])
        elif network is not None:
            own = network(features)
        logits = model(batch, features, own, labels)
        mean = functional.binary_cross_entropy_with_logits(logits, labels.index_select(0, batch.query))
        return mean if batch is whole else mean * (batch.n_queries / whole.n_queries)

    scalars = [parameter for parameter in trained.parameters() if parameter.requires_grad and parameter.dim() == 0]
    scalars += [parameter for parameter in model.fusion.parameters() if parameter.requires_grad]
    apart = {id(parameter) for parameter in scalars}
    rest = [parameter for parameter in trained.parameters() if parameter.requires_grad and id(parameter) not in apart]
    groups = [{"params": scalars, "lr": scalar_learning_rate}]
    if rest:  # RESUS+ has its factors already
        groups.insert(0, {"params": rest, "lr": learning_rate})
    optimizer = adam_of(trained, groups, table_rate=learning_rate)
    return run_stage(
        name,
        trained,
        optimizer,
        schedule,
        batches=sampler.epoch,
        loss=loss,
        rows=sampler.n_rows,
    )
