"""One training run: its folder, the users it may learn from, its checkpoints and its history."""

import hashlib
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import safetensors.torch

from resus.arrays import Integers
from resus.config.settings import Config
from resus.data.log.log import InteractionLog
from resus.episodes.prefixes import OrderedUsers
from resus.episodes.sampling import EpisodeSampler
from resus.errors import ArtifactError, ConfigError, DataError
from resus.extras import need
from resus.files import read_json, write_json, write_text
from resus.history import EpochRecord, History
from resus.model.predictors.base import Predictor
from resus.progress import Progress, silent
from resus.training.checkpoint import Checkpoint
from resus.training.loop import Schedule
from resus.training.own_model import check_own_model, warn_of_own_model
from resus.training.validation import Validation
from resus.training.warm_start import WarmStart
from resus.training.workers import Workers
from resus.wording import advice

METRICS_FILE = "metrics.jsonl"
CHECKPOINTS = "checkpoints"
CLAIM = "run.json"
CLUSTER = ".cluster"  # exists while a run is on a cluster


@dataclass(frozen=True, eq=False)
class TrainedPredictor:
    """A shared predictor that was trained before, and its history; `logits` is the file of its cross-fitted logits."""

    predictor: Predictor
    history: Sequence[EpochRecord] = ()
    logits: Path | None = None


class Run:
    """Training of one model on one log. A run with a `folder` keeps its history and checkpoints there.

    `given` is a trained shared predictor to use, `start` a model whose weights training starts from. `watch` is
    called with an empty history when training begins, and with the history of a stage after each of its epochs.
    """

    def __init__(
        self,
        config: Config,
        log: InteractionLog,
        *,
        folder: Path | None = None,
        given: TrainedPredictor | None = None,
        progress: Progress = silent,
        workers: Workers | None = None,
        start: WarmStart | None = None,
        watch: Callable[[History], None] | None = None,
    ) -> None:
        check_log(config, log)
        self.config, self.log, self.folder, self.given, self.progress = config, log, folder, given, progress
        self.workers = workers or Workers()
        self.start, self._watch = start, watch
        self.split = start.split(config, log) if start else config.user_split(log.n_users)
        self.episodes = EpisodeSampler(
            log,
            self.split.validation if config.learner.uses_validation_users else self.split.train,
            max_size=config.max_support,
            batch_size=config.training.batch_size,
            sizes=config.training.support_sizes,
            seed=config.seed,
        )
        ordered = OrderedUsers.of(log, self.split.validation, config.seed)
        self.validation = Validation(log, ordered, self.workers, progress)
        self.validation.check(config.evaluation.sizes[1])
        self.fingerprint = config.fingerprint(f"{log.content_hash} {start.mark}" if start else log.content_hash)
        self._histories: dict[str, History] = {}

    @property
    def history(self) -> History:
        """The epochs of all stages so far."""
        return [record for records in self._histories.values() for record in records]

    def history_of(self, stage: str) -> History:
        return self._histories.get(stage, [])

    def open(self, *, resume: bool) -> None:
        """Make the folder this run's own, or resume the unfinished run in it; never mix two runs."""
        if self.config.predictor.extra:
            need(self.config.predictor.extra, f"the predictor '{self.config.predictor.kind}'")
        if self.folder is not None and self.workers.rank == 0:
            self._claim(self.folder, resume)
        self.workers.wait()
        if self._watch is not None and self.workers.rank == 0:
            self._watch([])  # nothing would be refused from here on
        if self.workers.size == 1 and self.config.predictor.score_column:
            warn_of_own_model(self.config.predictor, self.log, self.split.train)

    def schedule(
        self,
        stage: str,
        *,
        epochs: int,
        patience: int,
        validate: Callable[[], float],
        keep_last: bool = False,
        continues: bool = False,
    ) -> Schedule:
        """The schedule of a stage that reports to this run.

        A stage that `continues` keeps the weights of a warm start if no epoch is better.
        """
        checkpoint = self.checkpoint(stage)
        begun = checkpoint is not None and checkpoint.exists()  # its state has the score of the start
        starts_warm = continues and self.start is not None and not begun
        return Schedule(
            stage,
            validate,
            epochs,
            patience,
            keep_last=keep_last,
            start=validate() if starts_warm else float("-inf"),
            tells_start=starts_warm,
            checkpoint=checkpoint,
            progress=self.progress,
            report=lambda history: self.record(stage, history),
            workers=self.workers,
        )

    def checkpoint(self, stage: str) -> Checkpoint | None:
        if self.folder is None:
            return None
        return Checkpoint(self.folder / CHECKPOINTS / f"{stage.replace(' ', '-')}.safetensors", self.fingerprint)

    def record(self, stage: str, history: History) -> None:
        """Take the epochs of a stage. Writes all of `metrics.jsonl` each time, so a resumed run repeats no line."""
        self._histories[stage] = history
        if self.folder is not None and self.workers.rank == 0:
            lines = (json.dumps(record.to_json()) + "\n" for record in self.history)
            write_text(self.folder / METRICS_FILE, "".join(lines))
        if self._watch is not None and self.workers.rank == 0:
            self._watch(history)

    def own_rows(self, users: Integers) -> Integers:
        """The rows, in order, of those users that belong to this worker."""
        return self.log.rows_of(np.sort(users[self.workers.owns(users)]))

    @property
    def logits_file(self) -> Path | None:
        """Where the shared predictor's logits are kept; each worker has its own file."""
        if self.given is not None and self.given.logits is not None:
            return self.given.logits
        share = "" if self.workers.size == 1 else f"-{self.workers.rank}-of-{self.workers.size}"
        return self.folder / CHECKPOINTS / f"basis{share}.npy" if self.folder else None

    def _claim(self, folder: Path, resume: bool) -> None:
        path = folder / CHECKPOINTS / CLAIM
        given = _hash_of(self.given.predictor) if self.given else None
        claim = {"fingerprint": self.fingerprint, "predictor_from": given}
        resuming, with_out = advice(python="resume=True", command="--resume"), advice(python="", command=" with --out")
        if not path.is_file():
            write_json(path, claim)
        elif not resume:
            raise ArtifactError(
                f"{folder} holds an unfinished run: resume it with {resuming}, or choose another folder{with_out}"
            )
        elif read_json(path) != claim:
            raise ArtifactError(
                f"{folder} holds an unfinished run with other settings or other data: "
                f"use the same ones, or choose another folder{with_out}"
            )


def check_log(config: Config, log: InteractionLog) -> None:
    """Refuse a log that was prepared for other settings, or that has only one label."""
    prepared = log.manifest.protocol
    if prepared is not None and prepared != config.protocol:
        again = advice(python=f"protocol='{config.protocol}'", command=f"--protocol {config.protocol}")
        raise ConfigError(
            f"the log '{log.name}' was prepared for protocol '{prepared}', but the run asks for '{config.protocol}': "
            f"set protocol={prepared}, or prepare the data again with {again}"
        )
    if config.predictor.score_column:
        check_own_model(config.predictor, log)
    if log.labels.min() == log.labels.max():
        raise DataError(f"all labels of '{log.name}' are {log.labels[0]:.0f}: a model needs events of both labels")


def delete_checkpoints(folder: Path, *, on_a_cluster: bool = False) -> None:
    """Delete what a finished run no longer needs, and what a killed cluster left."""
    shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)
    if not on_a_cluster:
        shutil.rmtree(folder / CLUSTER, ignore_errors=True)


def _hash_of(predictor: Predictor) -> str:
    return hashlib.sha256(safetensors.torch.save(dict(predictor.state_dict()))).hexdigest()
