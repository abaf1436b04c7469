"""Learn from episodes (equation 18): predict a user's later events from the first few."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from resus.arrays import Floats
from resus.config.settings import TrainingConfig
from resus.data.log.log import InteractionLog
from resus.episodes.batch import EpisodeBatch, features_of, labels_of
from resus.model.personalizer import Personalizer
from resus.training.checkpoint import StageState
from resus.training.loop import Batches, Schedule, run_stage
from resus.training.rowwise_adam import adam_of
from resus.training.run import Run
from resus.training.workers import no_loss, own_episodes


def metatrain(run: Run, model: Personalizer, logits: Floats | None, stage: str) -> None:
    """Learn with the settings and from the episodes of a run; `logits` as for `fit_on_episodes`."""
    chosen, sizes = run.config.training, run.config.evaluation.sizes[1:]
    fit_on_episodes(
        model,
        logits,
        run.log,
        run.episodes.epoch,
        run.schedule(
            stage,
            epochs=chosen.epochs,
            patience=chosen.patience,
            validate=lambda: run.validation.auc_of_model(model, logits, sizes),
            continues=True,
        ),
        chosen,
        rows=run.episodes.n_rows,
    )


def fit_on_episodes(
    model: Personalizer,
    logits: Floats | None,
    log: InteractionLog,
    episodes: Callable[[int], Batches[EpisodeBatch]],
    schedule: Schedule,
    chosen: TrainingConfig,
    *,
    rows: int | None = None,
    cooling: float = 1.0,
) -> StageState:
    """Minimise the cross-entropy over all queries by the parameters that require gradients.

    `logits` are the shared predictor's, for every row of the log. Without it, the predictor learns with the rest.
    `episodes` gives the batches of an epoch, of so many `rows`. `cooling` multiplies the learning rates in each epoch.
    """
    joint = model.predictor.network if logits is None else None
    trained: nn.Module = nn.ModuleDict({"model": model, "predictor": joint}) if joint else model

    def basis_of(batch: EpisodeBatch) -> Tensor:
        if logits is not None:
            return torch.from_numpy(logits[batch.rows])
        assert joint is not None, "only a network can learn with the rest"
        basis: Tensor = joint(features_of(log, batch.rows))
        return basis

    def loss(whole: EpisodeBatch) -> Tensor:
        batch = own_episodes(schedule.workers, log, whole)
        if not batch.n_queries:
            return no_loss()
        labels = labels_of(log, batch.rows)
        answers = model(batch, features_of(log, batch.rows), basis_of(batch), labels)
        mean = functional.binary_cross_entropy_with_logits(answers, labels.index_select(0, batch.query))
        return mean if batch is whole else mean * (batch.n_queries / whole.n_queries)

    learned = [parameter for parameter in trained.parameters() if parameter.requires_grad]
    scales = {id(parameter) for parameter in (*model.fusion.parameters(), *model.learner.scales())}
    scalars = [parameter for parameter in learned if parameter.dim() == 0 or id(parameter) in scales]
    others = [parameter for parameter in learned if not any(parameter is scalar for scalar in scalars)]
    groups = [{"params": scalars, "lr": chosen.scalar_learning_rate}]
    if others:
        groups.insert(0, {"params": others, "lr": chosen.learning_rate})
    optimizer = adam_of(trained, groups, table_rate=chosen.learning_rate)
    rates = [group["lr"] for group in optimizer.param_groups]

    def batches(epoch: int) -> Batches[EpisodeBatch]:
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate * cooling**epoch
        return episodes(epoch)

    return run_stage(trained, optimizer, schedule, batches=batches, loss=loss, rows=rows)
