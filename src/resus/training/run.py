"""A whole run: split the users, learn Ψ, then Φ, Λ and β, each stage resumable."""

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import safetensors.torch
import torch

from resus.config.settings import Config
from resus.data.log.log import InteractionLog
from resus.episodes.prefixes import OrderedUsers
from resus.episodes.sampling import EpisodeSampler
from resus.episodes.tensors import Rows
from resus.errors import ArtifactError, ConfigError, DataError
from resus.evaluation.metrics import auc
from resus.files import read_json, write_json, write_text
from resus.model.build import build_personalizer, build_predictor
from resus.model.learners.plus.settings import FactorSettings, PlusSettings
from resus.model.personalizer import Personalizer
from resus.model.predictors.base import Predictor
from resus.model.predictors.gradient_boosting import GradientBoosting
from resus.model.predictors.neural import NeuralPredictor
from resus.model.predictors.settings import GradientSettings
from resus.progress import Progress, silent
from resus.randomness import Purpose, generator
from resus.tensor_files import load_tensors, save_tensors
from resus.training.basis import fill_logits, open_logits
from resus.training.crew import Alone, Crew
from resus.training.loop import Keeper, Schedule
from resus.training.own_model import check_own_model, warn_of_own_model
from resus.training.shares import users_of
from resus.training.stages.factorize import factorize
from resus.training.stages.metatrain import metatrain
from resus.training.stages.pretrain import pretrain
from resus.training.stages.refine import refine

Floats = npt.NDArray[np.float32]
Users = npt.NDArray[np.int64]

METRICS = "metrics.jsonl"
CHECKPOINTS = "checkpoints"
CLAIM = "run.json"
CLUSTERS_OWN = ".cluster"  # while a run is on one


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained model and one record per epoch of its training."""

    model: Personalizer
    history: list[dict[str, Any]]


def train(
    config: Config,
    log: InteractionLog,
    *,
    folder: Path | None = None,
    resume: bool = False,
    pretrained: Predictor | None = None,
    known: Sequence[dict[str, Any]] = (),
    basis_from: Path | None = None,
    progress: Progress = silent,
    crew: Crew | None = None,
) -> Trained:
    """Train on the training users, choose epochs on the validation users, never look at the test users.

    With a `folder`, metrics and checkpoints are kept there. `pretrained` is a Ψ of another run, used as it is, `known`
    how it came about, and `basis_from` the file of its cross-fitted logits (see `cross_fit`). A `crew` trains one model
    in several processes that see the same folder.
    """
    if pretrained is not None and config.predictor.joint:
        raise ConfigError(
            "predictor.pretrain=false trains Ψ jointly, so it cannot be taken from another run: choose one"
        )
    check_log(config, log)
    run = _Run(config, log, folder, progress, crew or Alone(), known)
    run.open(resume, pretrained)
    if run.crew.size == 1:
        run.warn()
    torch.manual_seed(config.seed)
    fresh = build_predictor(config, log.features)  # drawn in any case, so that the model's start does not depend on it
    model = build_personalizer(config, log.features, pretrained or fresh)
    if not config.predictor.joint:
        if pretrained is None:
            run.learn_predictor(model.predictor)
        run.learn_residuals(model, basis_from)
    else:
        run.learn_jointly(model)
    return Trained(model, run.history)


def claim_folder(
    config: Config, log: InteractionLog, folder: Path, *, resume: bool, pretrained: Predictor | None
) -> None:
    """What `train` would begin with: refuse all that can be refused beforehand, and make the folder this run's."""
    check_log(config, log)
    run = _Run(config, log, folder, silent, Alone())
    run.open(resume, pretrained)
    run.warn()


def train_predictor(
    config: Config, log: InteractionLog, *, folder: Path | None = None, progress: Progress = silent
) -> tuple[Predictor, list[dict[str, Any]]]:
    """Ψ alone, the same that `train` would begin with, and how it came about; an unfinished one is gone on with."""
    check_log(config, log)
    run = _Run(config, log, folder, progress, Alone())
    run.open(True, None)
    torch.manual_seed(config.seed)
    predictor = build_predictor(config, log.features)
    run.learn_predictor(predictor)
    return predictor, run.history


def cross_fit(
    config: Config, log: InteractionLog, path: Path, *, folder: Path, history: list[dict[str, Any]], progress: Progress
) -> list[dict[str, Any]]:
    """Write the training users' cross-fitted logits, and tell how their Ψs came about; `history` is that of Ψ itself.

    For methods that share them; an unfinished one is gone on with.
    """
    run = _Run(config, log, folder, progress, Alone(), history)
    run.open(True, None)
    run.cross_fit(open_logits(log.n_rows, path))
    return run.history


def forget_checkpoints(folder: Path, *, on_a_cluster: bool = False) -> None:
    """Once the artifact is written, the checkpoints have done their work; so has what a killed cluster left."""
    shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)
    if not on_a_cluster:
        shutil.rmtree(folder / CLUSTERS_OWN, ignore_errors=True)


@dataclass
class _Run:
    """The stages of one run over one log; `known` is how a Ψ of another run came about."""

    config: Config
    log: InteractionLog
    folder: Path | None
    progress: Progress
    crew: Crew
    known: Sequence[dict[str, Any]] = ()

    def __post_init__(self) -> None:
        self.split = self.config.user_split(self.log.n_users)
        self.histories: dict[str, list[dict[str, Any]]] = {}
        self.validation = OrderedUsers.of(self.log, self.split.validation, self.config.seed)
        self.sampler = EpisodeSampler(
            self.log,
            self.split.validation if self.config.learner.uses_validation_users else self.split.train,
            max_size=self.config.max_support,
            batch_size=self.config.training.batch_size,
            sizes=self.config.training.support_sizes,
            seed=self.config.seed,
        )
        self._refuse_one_label()
        self.fingerprint = self.config.fingerprint(self.log.content_hash)

    @property
    def history(self) -> list[dict[str, Any]]:
        return [line for lines in self.histories.values() for line in lines]

    def open(self, resume: bool, pretrained: Predictor | None) -> None:
        """Start a run folder, or go on in one; never mix two runs."""
        if self.folder is not None and self.crew.rank == 0:
            self._claim(self.folder, resume, pretrained)
        self.crew.wait()

    def _claim(self, folder: Path, resume: bool, pretrained: Predictor | None) -> None:
        path = folder / CHECKPOINTS / CLAIM
        claim = {"fingerprint": self.fingerprint, "predictor_from": _hash_of(pretrained) if pretrained else None}
        if not path.is_file():
            write_json(path, claim)
        elif not resume:
            raise ArtifactError(
                f"{folder} holds an unfinished run: go on with --resume, or choose another folder with --out"
            )
        elif read_json(path) != claim:
            raise ArtifactError(
                f"{folder} holds an unfinished run with other settings or other data: "
                "use the same ones, or choose another folder with --out"
            )

    def warn(self) -> None:
        """Of what can be seen before anything is learned; for a crew, whoever claims its folder is told."""
        if self.config.predictor.score_column:
            warn_of_own_model(self.config.predictor, self.log, self.split.train)

    def learn_predictor(self, predictor: Predictor) -> None:
        self._learn_predictor(predictor, self.split.train, "predictor", None)

    def _learn_predictor(self, predictor: Predictor, users: Users, stage: str, epochs: int | None) -> None:
        rows = self.log.rows_of(users)
        held_out = self.log.rows_of(self.split.validation)
        if isinstance(predictor, NeuralPredictor):
            chosen = GradientSettings.sharing(self.config.predictor)
            epochs = epochs or chosen.epochs
            state = pretrain(
                predictor,
                self.log,
                rows,
                self._schedule(stage, epochs, chosen.patience, lambda: self._predictor_auc(predictor, held_out)),
                learning_rate=chosen.learning_rate,
                batch_size=chosen.batch_size,
                seed=self.config.seed,
                name=stage,
            )
            self._record(stage, state.history)
        elif isinstance(predictor, GradientBoosting):
            self._boost(predictor, rows, held_out, stage)

    def learn_residuals(self, model: Personalizer, basis_from: Path | None) -> None:
        """Ψ is frozen, so its logits are computed once; those of test users stay unknown."""
        share = "" if self.crew.size == 1 else f"-{self.crew.rank}-of-{self.crew.size}"
        path = self.folder / CHECKPOINTS / f"basis{share}.npy" if self.folder else None
        basis = open_logits(self.log.n_rows, basis_from or path)
        self.cross_fit(basis)
        users = np.concatenate([self.split.train, self.split.validation])
        fill_logits(basis, model.predictor, self.log, self._own_rows(users), self.progress)
        if self.config.learner.recipe == "plus":
            self._learn_factors(model, basis)
        self._metatrain(model, basis, "residuals")

    def cross_fit(self, basis: Floats) -> None:
        """A training user's logits from a Ψ that did not see that user, so that they miss as those of a stranger do."""
        if not self.config.cross_fitted:
            return
        folds = self.config.training.folds
        known = self.histories.get("predictor", self.known)
        epochs = max(known, key=lambda line: line["validation_auc"])["epoch"] if known else None
        fold_of = generator(Purpose.FOLDS, self.config.seed).permutation(len(self.split.train)) % folds
        for fold in range(folds):
            rows = self._own_rows(self.split.train[fold_of == fold])
            missing = np.array([np.isnan(basis[rows]).sum()], dtype=np.float32)
            stage = f"predictor without fold {fold + 1} of {folds}"
            keeper = self._keeper(stage)
            if not self.crew.combine(missing)[0] and not (keeper and keeper.path.exists()):
                continue  # of another run, which tells how they came about
            torch.manual_seed(self.config.seed)
            others = build_predictor(self.config, self.log.features)
            self._learn_predictor(others, self.split.train[fold_of != fold], stage, epochs)
            fill_logits(basis, others, self.log, rows, self.progress)

    def _own_rows(self, users: Users) -> Rows:
        return self.log.rows_of(np.sort(users[self.crew.owns(users)]))

    def _learn_factors(self, model: Personalizer, basis: Floats) -> None:
        """φ from the training users; then the prior's scales from the validation users, and φ once more under these."""
        chosen, users = self.config, self.split.train
        middles = self._middle_sizes()
        model.fusion.requires_grad_(False)  # a posterior mean needs no β

        def schedule(stage: str) -> Schedule:
            return self._schedule(
                stage,
                FactorSettings.of(chosen.encoder).epochs,
                chosen.training.patience,
                lambda: self._validation_auc(model, basis, middles),
            )

        torch.manual_seed(chosen.seed)
        state = factorize(model, basis, self.log, users, schedule("factors"), seed=chosen.seed)
        self._record("factors", state.history)
        model.encoder.requires_grad_(False)
        if not (FactorSettings.of(chosen.encoder).refine and PlusSettings.of(chosen.learner).taste):
            return
        self._metatrain(model, basis, "scales")
        model.encoder.requires_grad_(True)
        refining = schedule("evidence")
        state = refine(model, basis, self.log, users, replace(refining, start=refining.validate()), seed=chosen.seed)
        self._record("evidence", state.history)
        model.encoder.requires_grad_(False)

    def _middle_sizes(self) -> list[int]:
        """The middle one of each stage's sizes after which validation users have both labels."""
        labels, positions = self.log.labels[self.validation.rows], self.validation.positions
        found = []
        for stage in self.config.evaluation.stages.values():
            asked = [size for size in stage if len(np.unique(labels[positions >= size])) == 2]
            found += asked[len(asked) // 2 : len(asked) // 2 + 1]
        return found

    def learn_jointly(self, model: Personalizer) -> None:
        self._metatrain(model, None, "residuals")

    def _metatrain(self, model: Personalizer, basis: Floats | None, stage: str) -> None:
        chosen = self.config.training
        state = metatrain(
            model,
            basis,
            self.log,
            self.sampler,
            self._schedule(
                stage,
                chosen.epochs,
                chosen.patience,
                lambda: self._validation_auc(model, basis, self.config.evaluation.sizes[1:]),
            ),
            learning_rate=chosen.learning_rate,
            scalar_learning_rate=chosen.scalar_learning_rate,
            name=stage,
        )
        self._record(stage, state.history)

    def _schedule(self, stage: str, epochs: int, patience: int, validate: Callable[[], float]) -> Schedule:
        return Schedule(
            validate=validate,
            epochs=epochs,
            patience=patience,
            keeper=self._keeper(stage),
            progress=self.progress,
            report=lambda history: self._record(stage, history),
            crew=self.crew,
        )

    def _validation_auc(self, model: Personalizer, basis: Floats | None, sizes: Sequence[int]) -> float:
        """The mean AUC over some support sizes, as the stages weigh them."""
        own = self.crew.owns(self.validation.users)
        users = self.validation.part(own)
        own_basis = None if basis is None else basis[users.rows]
        task = "residuals, validation"
        logits = model.score_prefixes(self.log, users, sizes, basis=own_basis, progress=self.progress, task=task)
        if self.crew.size > 1:  # asked of the crew, not of the share: all must meet here, or none
            everyone = np.zeros((len(self.validation.rows), len(sizes)), dtype=np.float32)
            everyone[np.repeat(own, self.validation.lengths)] = logits
            logits = self.crew.combine(everyone)
        labels, positions = self.log.labels[self.validation.rows], self.validation.positions
        if not np.isfinite(logits).all():
            return float("nan")
        aucs = [auc(labels[positions >= k], logits[positions >= k, j]) for j, k in enumerate(sizes)]
        return float(np.nanmean(aucs))

    def _predictor_auc(self, predictor: NeuralPredictor, rows: Rows) -> float:
        own = self.crew.owns(users_of(self.log, rows))
        logits = np.zeros(len(rows), dtype=np.float32)
        logits[own] = predictor.logits_of_rows(self.log, rows[own])
        logits = self.crew.combine(logits)
        return auc(self.log.labels[rows], logits) if np.isfinite(logits).all() else float("nan")

    def _refuse_one_label(self) -> None:
        """Of all support sizes the smallest leaves the most queries: where it can be validated, so can training."""
        smallest = self.config.evaluation.sizes[1]
        labels = self.log.labels[self.validation.rows][self.validation.positions >= smallest]
        if len(np.unique(labels)) < 2:
            raise DataError(
                f"the {len(self.validation.users)} validation users do not have both labels after their first "
                f"{smallest} rows: give more or longer users, or other 'split.ratios'"
            )

    def _boost(self, predictor: GradientBoosting, rows: Rows, held_out: Rows, stage: str) -> None:
        """Trees are grown by one worker; the others take them from its checkpoint."""
        if self.crew.rank:
            self.crew.wait()
        self._boost_or_load(predictor, rows, held_out, stage)
        if not self.crew.rank:
            self.crew.wait()

    def _boost_or_load(self, predictor: GradientBoosting, rows: Rows, held_out: Rows, stage: str) -> None:
        keeper = self._keeper(stage)
        if keeper and keeper.path.exists():
            tensors, facts = load_tensors(keeper.path)
            predictor.load_state_dict(tensors)
            self._record(stage, facts["history"])
            return
        self.progress(f"{stage}, boosting", 0, None)
        began = time.perf_counter()
        best = predictor.fit(self.log, rows, held_out, seed=self.config.seed, threads=torch.get_num_threads())
        seconds = round(time.perf_counter() - began, 3)
        history = [{"stage": stage, "epoch": 1, "validation_auc": best, "seconds": seconds}]
        if keeper:
            save_tensors(keeper.path, predictor.state_dict(), {"history": history})
        self._record(stage, history)

    def _keeper(self, stage: str) -> Keeper | None:
        if self.folder is None:
            return None
        return Keeper(self.folder / CHECKPOINTS / f"{stage.replace(' ', '-')}.safetensors", self.fingerprint)

    def _record(self, stage: str, history: list[dict[str, Any]]) -> None:
        """`metrics.jsonl` is rewritten whole, so a resumed run repeats no line."""
        self.histories[stage] = history
        if self.folder is not None and self.crew.rank == 0:
            write_text(self.folder / METRICS, "".join(json.dumps(line) + "\n" for line in self.history))


def _hash_of(predictor: Predictor) -> str:
    return hashlib.sha256(safetensors.torch.save(dict(predictor.state_dict()))).hexdigest()


def check_log(config: Config, log: InteractionLog) -> None:
    """Refuse a log that these settings were not made for, or that holds nothing to learn."""
    prepared = log.manifest.protocol
    if prepared is not None and prepared != config.protocol:
        raise ConfigError(
            f"the log '{log.name}' was prepared for protocol '{prepared}', but the run asks for '{config.protocol}': "
            f"set protocol={prepared}, or prepare the data again with --protocol {config.protocol}"
        )
    if config.predictor.score_column:
        check_own_model(config.predictor, log)
    if log.labels.min() == log.labels.max():
        raise DataError(f"all labels of '{log.name}' are {log.labels[0]:.0f}: there is nothing to learn to tell apart")
