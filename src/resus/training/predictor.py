"""The shared predictor Ψ: learn it from everyone's events (equation 19), then compute its logits once."""

import time
from collections.abc import Sequence

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from resus.arrays import Floats, Integers
from resus.data.log.column_files import ColumnWriter, row_blocks
from resus.data.log.log import InteractionLog
from resus.episodes.batch import features_of, labels_of
from resus.files import atomic_path
from resus.history import EpochRecord, best_epoch
from resus.model.predictors import GradientSettings
from resus.model.predictors.average import AveragePredictor
from resus.model.predictors.base import Predictor
from resus.randomness import Purpose, generator
from resus.tensor_files import load_tensors, save_tensors
from resus.training.checkpoint import StageState
from resus.training.loop import Schedule, run_stage
from resus.training.rowwise_adam import adam_of
from resus.training.run import Run
from resus.training.workers import no_loss, own_rows

STAGE = "predictor"
WORTHWHILE = 0.002  # of the Logloss
BLOCK_ROWS = 1 << 16


def pretrain(run: Run, predictor: Predictor) -> None:
    """Learn from the rows of the training users, unless the predictor is given."""
    if run.given is None:
        _fit(run, predictor, run.split.train, STAGE, continues=True)


def open_logits(run: Run) -> Floats:
    """One logit per row of the log, NaN where it is not known yet.

    In a run with a folder this is a memory-mapped file, which holds what a killed run has computed before.
    """
    rows, path = run.log.n_rows, run.logits_file
    if path is None:
        return np.full(rows, np.nan, dtype=np.float32)
    if not path.exists():  # all of it is written now, so that a full disk shows at once
        with atomic_path(path) as aside, ColumnWriter(aside, np.float32) as column:
            for block in row_blocks(np.arange(rows), BLOCK_ROWS):
                column.add(np.full(len(block), np.nan, dtype=np.float32))
    return np.asarray(np.lib.format.open_memmap(path, mode="r+"))


def cross_fit(run: Run, logits: Floats) -> list[Predictor]:
    """Fill in each training user's logits by a predictor that never saw the user; return these predictors.

    Their errors are then as large as those for a new user. Each fold of users has its own predictor, trained on the
    other folds for as many epochs as were best for the predictor of all: the AUC over all users is too noisy to choose
    for each fold anew, and an early stop costs what later epochs learn within users. A warm start serves these
    predictors only if it met none of the users; else they are trained anew.
    """
    if not run.config.cross_fitted:
        return []
    fitted = []
    seed, folds, users = run.config.seed, run.config.training.folds, run.split.train
    known = run.given.history if run.given else run.history_of(STAGE)
    start = run.start if run.start and not run.start.met_some_of(run.log) else None
    epochs = best_epoch(known).epoch if known and bool(start) == bool(run.start) else None
    fold_of = generator(Purpose.FOLDS, seed).permutation(len(users)) % folds
    for fold in range(folds):
        stage = f"predictor without fold {fold + 1} of {folds}"
        rows = run.own_rows(users[fold_of == fold])
        missing = run.workers.combine(np.array([np.isnan(logits[rows]).sum()], dtype=np.float32))[0]
        checkpoint = run.checkpoint(stage)
        torch.manual_seed(seed)
        predictor = run.config.predictor.build_predictor(run.log.features)
        if start is not None:
            start.into_predictor(predictor, run.log.features)
        predictor.move(run.device)
        kept = run.logits_file and run.logits_file.with_suffix(f".{fold + 1}-of-{folds}.safetensors")
        fitted.append(predictor)
        if kept and kept.exists() and not missing and not (checkpoint and checkpoint.exists()):
            predictor.load_state_dict(load_tensors(kept)[0])  # of another run, which has its history
            continue
        _fit(run, predictor, users[fold_of != fold], stage, epochs)
        _fill(run, logits, predictor, rows)
        if kept:
            save_tensors(kept, dict(predictor.state_dict()), {})
    return fitted


def better_of(run: Run, predictor: Predictor, fitted: Sequence[Predictor]) -> Predictor:
    """The predictor alone, or the mean of it and the cross-fitted ones where validation users gain from it.

    Every answer of the mean costs as much as those of all its members, so a tiny gain is not enough.
    """
    if not fitted or isinstance(predictor, AveragePredictor) or run.config.training.average == "never":
        return predictor
    average = AveragePredictor([predictor, *fitted])
    alone, together = (run.validation.logloss_of_predictor(one) for one in (predictor, average))
    if run.config.training.average == "auto" and together > (1 - WORTHWHILE) * alone:
        return predictor
    stage = "mean of all predictors"
    run.record(stage, [EpochRecord(stage, 1, run.validation.auc_of_predictor(average))])
    return average


def fill_logits(run: Run, logits: Floats, predictor: Predictor) -> None:
    """Compute the logits of training and validation users that are not known yet; those of test users stay NaN."""
    _fill(run, logits, predictor, run.own_rows(np.concatenate([run.split.train, run.split.validation])))


def _fill(run: Run, logits: Floats, predictor: Predictor, rows: Integers) -> None:
    missing = rows[np.isnan(logits[rows])]
    done = 0
    for block in row_blocks(missing, BLOCK_ROWS):
        logits[block] = predictor.logits_of_rows(run.log, block)
        done += len(block)
        run.progress("logits of the shared model", done, len(missing), "rows")


def _fit(
    run: Run, predictor: Predictor, users: Integers, stage: str, epochs: int | None = None, *, continues: bool = False
) -> None:
    """Learn from the rows of some users: a network by gradients, anything else in its own way."""
    rows = run.log.rows_of(users)
    if predictor.network is not None:
        chosen = GradientSettings.sharing(run.config.predictor)
        schedule = run.schedule(
            stage,
            epochs=chosen.epochs if epochs is None else max(1, epochs),
            patience=chosen.patience,
            validate=lambda: run.validation.auc_of_predictor(predictor),
            keep_last=epochs is not None,
            continues=continues,
        )
        fit_network(predictor.network, run.log, rows, schedule, chosen, seed=run.config.seed)
    elif run.config.predictor.trainable:
        if run.workers.rank:
            run.workers.wait()
        _fit_or_load(run, predictor, rows, stage)  # the first worker fits, the others load
        if not run.workers.rank:
            run.workers.wait()


def fit_network(
    network: nn.Module,
    log: InteractionLog,
    rows: Integers,
    schedule: Schedule,
    chosen: GradientSettings,
    *,
    seed: int,
) -> StageState:
    """Minimise the mean cross-entropy; keep the epoch with the best validation AUC."""

    def batches(epoch: int) -> Sequence[Integers]:
        shuffled = generator(Purpose.PREDICTOR_BATCHES, seed, epoch).permutation(rows)
        return np.split(shuffled, range(chosen.batch_size, len(shuffled), chosen.batch_size))

    def loss(batch: Integers) -> torch.Tensor:
        own = own_rows(schedule.workers, log, batch)
        if not len(own):
            return no_loss()
        logits = network(features_of(log, own).to(device))
        labels = labels_of(log, own).to(device)
        mean = functional.binary_cross_entropy_with_logits(logits, labels)
        return mean if len(own) == len(batch) else mean * (len(own) / len(batch))

    device = next(network.parameters()).device
    parameters = [{"params": list(network.parameters()), "lr": chosen.learning_rate}]
    optimizer = adam_of(network, parameters, table_rate=chosen.learning_rate)
    return run_stage(network, optimizer, schedule, batches=batches, loss=loss, rows=len(rows))


def _fit_or_load(run: Run, predictor: Predictor, rows: Integers, stage: str) -> None:
    checkpoint = run.checkpoint(stage)
    if checkpoint and checkpoint.exists():
        tensors, facts = load_tensors(checkpoint.path)
        predictor.load_state_dict(tensors)
        record = EpochRecord(**facts["record"])
    else:
        run.progress(f"{stage}, fitting", 0, None)
        began = time.perf_counter()
        held_out = run.log.rows_of(run.split.validation)
        reached = predictor.fit(run.log, rows, held_out, seed=run.config.seed, threads=torch.get_num_threads())
        record = EpochRecord(stage, 1, reached, seconds=round(time.perf_counter() - began, 3))
        if checkpoint:
            save_tensors(checkpoint.path, predictor.state_dict(), {"record": record.to_json()})
    run.record(stage, [record])
