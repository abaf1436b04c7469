"""`Resus`: the whole method behind fit, evaluate, predict, save and load."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any, Self, Unpack, overload

import polars as pl

from resus.arrays import Array
from resus.artifact import FACTS, Artifact, rebuild
from resus.config.resolve import resolve
from resus.config.settings import Config
from resus.data.given import Data
from resus.data.log.known_users import KnownUsers, Users
from resus.data.log.log import InteractionLog
from resus.data.log.news import News
from resus.data.log.recoded import recoded
from resus.data.negatives.support import NegativeItems
from resus.data.options import TableOptions
from resus.data.readers.frames import SameFrame, like
from resus.data.schema import SchemaLike, TableSchema
from resus.data.split import Protocol
from resus.errors import ArtifactError, ConfigError, DataError
from resus.estimator.answering import answered
from resus.estimator.choices import Encoder, Learner, SideTables, Wishes, choice_of
from resus.estimator.comparing import check_rivals, check_same_log, met_by, side_by_side
from resus.estimator.fitted import Fitted
from resus.estimator.logs import as_table, facts_of, log_as_learned, log_to_learn_from, remembered
from resus.estimator.results import Results, WarmUp
from resus.estimator.taking import finished_run, predictor_to_take, score_of_before
from resus.estimator.warm_start import inherited_from, source_of, warm_start_from, with_own_encoder
from resus.evaluation.evaluate import Part, evaluate
from resus.evaluation.intervals import DRAWS
from resus.evaluation.warm_up import Rival, warm_up
from resus.external.score_column import ScoreColumn
from resus.history import History, best_of_stages
from resus.model.devices import Device, device_of
from resus.model.inference.in_torch import inference_of
from resus.model.predictors.base import Predictor
from resus.progress import Progress, silent
from resus.scoring.scorer import Scorer
from resus.serving.catalogue import Catalogue
from resus.serving.exploring import Rule, exploring_of
from resus.serving.offline import recommendations
from resus.training.run import Run, delete_checkpoints
from resus.training.train import train
from resus.training.workers import Workers
from resus.wording import advice


class Resus:
    """Makes a click model personal from a user's first few events.

    >>> model = Resus().fit(log)
    >>> print(model.evaluate(log).models["RESUS+"].stages["I"].auc)
    >>> model.predict(support, query)

    The `learner` is plus (RESUS+, the default), or ridge or nearest for the paper's RESUS-RR and RESUS-NN; the default
    with protocol="authors-release" is ridge. `settings` takes any key that the config file takes, dotted:
    {"training.epochs": 5}. A `predictor` is a name, or a model of your own that reads raw columns: a function of a
    polars frame that gives logits, a fitted estimator with `predict_proba`, or the Path of a LightGBM, XGBoost,
    CatBoost or ONNX file. An `encoder`, for ridge and nearest, is a name, or a class that makes a torch module from a
    feature map; the module has `width` and maps N rows to `[N, width]`. A learner or an encoder of a kind that you
    registered is given by its settings: Resus(learner=MySettings()). The `device` is cpu, cuda, mps, or auto for the
    first that is there of cuda, mps and cpu.
    """

    def __init__(
        self,
        *,
        predictor: Any = None,
        encoder: Encoder | None = None,
        learner: Learner | None = None,
        protocol: Protocol | None = None,
        seed: int | None = None,
        settings: Mapping[str, Any] | None = None,
        device: Device | None = None,
    ) -> None:
        self._device = device_of(device)
        overrides, self._own_model = choice_of(
            predictor=predictor,
            encoder=encoder,
            learner=learner,
            settings=settings or {},
            protocol=protocol,
            seed=seed,
        )
        self._overrides: dict[str, Any] | None = overrides
        self.config: Config = resolve(self._overrides)
        self._result: Fitted | None = None
        self._score: ScoreColumn | None = None

    @classmethod
    def from_config(cls, config: Config, *, device: Device | None = None) -> Self:
        """A model with exactly these settings."""
        model = cls(device=device)
        model.config, model._overrides = config, None
        return model

    def __repr__(self) -> str:
        state = "fitted" if self._result else "not fitted"
        return f"<Resus {self.name} on {self.config.predictor_name}, {state}>"

    @property
    def name(self) -> str:
        """The name in tables, such as RESUS+."""
        return self.config.model_name

    @property
    def history(self) -> History:
        """One record per epoch: stage, epoch, loss, validation AUC, seconds."""
        return self._fitted().history

    def _repr_html_(self) -> str:
        """What a notebook shows: the model, and how its stages of training went."""
        title = f"<b>{escape(self.name)}</b> on {escape(self.config.predictor_name)}"
        if self._result is None:
            return f"<p>{title}, not fitted</p>"
        lines = "".join(
            f"<tr><td>{escape(stage)}</td><td>{best.epoch}</td><td>{best.validation_auc:.4f}</td></tr>"
            for stage, best in best_of_stages(self._result.history).items()
        )
        heads = "<tr><th>stage</th><th>best epoch</th><th>validation AUC</th></tr>"
        return f"<table><caption>{title}, trained on {escape(self._result.log.name)}</caption>{heads}{lines}</table>"

    def fit(
        self,
        log: Data,
        *,
        schema: SchemaLike | None = None,
        folder: Path | str | None = None,
        resume: bool = False,
        predictor_from: "Resus | None" = None,
        warm_start: "Resus | Path | str | None" = None,
        progress: Progress = silent,
        watch: Callable[[History], None] | None = None,
        workers: Workers | None = None,
        **options: Unpack[TableOptions],
    ) -> Self:
        """Train on the training users of a log, of a prepared log's folder, or of a table with its `schema`.

        A table is a polars or pandas frame, an Arrow table, a mapping of arrays, or a CSV or Parquet file; its `schema`
        is a path, a mapping or a `TableSchema`, and its `options` are those of `build_log`, such as
        duplicates="first". With a `folder`, everything is kept there and a killed run can resume. `predictor_from` is a
        model that lends its predictor and the settings of it, except for those given here. `warm_start` is a
        model, or its folder, whose weights, settings and vocabularies training starts from; users that it has met stay
        training or validation users. `watch` is called with the history of a stage after each of its epochs, and at
        first with an empty one. Several `workers` train it together.
        """
        workers = workers or Workers()
        opened = log_to_learn_from(log, schema, options, self._own_model)
        source = source_of(warm_start, Resus)
        if self._overrides is not None:
            inherited = inherited_from(source) if source else None
            if predictor_from is not None:
                inherited = predictor_from.config.settings_of_predictor()
            self.config = resolve(self._overrides, data_set=opened.data_set, inherited=inherited)
        self.config = with_own_encoder(self.config, source) if source else self.config
        read, start = warm_start_from(source, opened) if source else (opened, None)
        kept = Path(folder) if folder is not None else None
        if kept is not None and (kept / FACTS).is_file():
            artifact = finished_run(self, kept, opened, start, resume=resume)
            self._take(replace(artifact, config=self.config))
            self._score = self._own_model or self._score
            return self
        given = predictor_to_take(self, predictor_from, opened) if predictor_from else None
        trained = train(
            self.config,
            read,
            folder=kept,
            resume=resume,
            given=given,
            progress=progress,
            workers=workers,
            start=start,
            device=self._device,
            watch=watch,
        )
        facts = facts_of(opened, log, start)
        users = KnownUsers.of(opened, trained.split, start.users if start else None)
        drawn = NegativeItems.of(read)
        self._result = Fitted(trained.model, trained.history, read.features, facts, users, drawn)
        self._score = self._own_model or remembered(facts)
        if kept is not None and workers.rank == 0:
            self.save(kept)
            delete_checkpoints(kept, on_a_cluster=workers.size > 1)
        workers.wait()
        return self

    def claim(
        self,
        log: Path,
        *,
        folder: Path,
        resume: bool = False,
        predictor_from: "Resus | None" = None,
        warm_start: "Resus | None" = None,
    ) -> None:
        """Do what `fit` does first: refuse what it would refuse, and reserve the folder for this run."""
        opened = InteractionLog.open(log)
        given = predictor_to_take(self, predictor_from, opened) if predictor_from else None
        read, start = warm_start_from(warm_start, opened) if warm_start else (opened, None)
        Run(self.config, read, folder=folder, given=given, start=start).open(resume=resume)

    def evaluate(
        self,
        log: Data,
        *,
        part: Part = "test",
        users: Users = "unseen",
        against: "Mapping[str, Resus] | None" = None,
        base: str | None = None,
        draws: int = DRAWS,
        progress: Progress = silent,
        **options: Unpack[TableOptions],
    ) -> Results:
        """Results by support size and stage on users that training never saw; `against` adds models to compare with.

        `log` is what `fit` takes. A table is read with the schema and the options of training, unless others are given.
        A log or table other than that of the training is read by the model's vocabularies. Its test users are those on
        whom the model was neither trained nor validated; or, as `users` says, only those `new` to it, or `all`. The
        results' `news` says what the log holds that the model did not know.

        The gains over `base` have 95 % intervals from `draws` random draws of users. With 0 there are no gains and no
        coverage of a learner's intervals.
        """
        others = dict(against or {})
        if self.name in others:
            raise ConfigError(f"two models are named '{self.name}': give the other one another name")
        models = {self.name: self, **others}
        return Resus.compare(models, log, part=part, users=users, base=base, draws=draws, progress=progress, **options)

    @staticmethod
    def compare(
        models: "Mapping[str, Resus]",
        log: Data,
        *,
        part: Part = "test",
        users: Users = "unseen",
        base: str | None = None,
        draws: int = DRAWS,
        progress: Progress = silent,
        **options: Unpack[TableOptions],
    ) -> Results:
        """Compare several models by name, and their predictors, on the same users and queries."""
        beside = side_by_side(models, log, options, users=users, part=part)
        found = evaluate(
            beside.rows,
            beside.first.config,
            beside.log,
            beside.population,
            part=part,
            base=base,
            draws=draws,
            news=beside.news,
            progress=progress,
        )
        return Results.of(found)

    @staticmethod
    def warm_up(
        models: "Mapping[str, Resus]",
        log: Data,
        *,
        up_to: int = 300,
        rivals: Mapping[str, Rival] | None = None,
        part: Part = "test",
        progress: Progress = silent,
    ) -> WarmUp:
        """AUC and GAUC of the same queries after 0 to `up_to` events, also beyond the sizes of training.

        `rivals` are fitted methods' `score_prefixes`, by name.
        """
        beside = side_by_side(models, log, part=part)
        check_rivals(beside, models, rivals or {})
        first, opened, rows = beside.first, beside.log, beside.rows
        trained_up_to = {name: model.config.max_support for name, model in models.items()}
        curve = warm_up(
            rows,
            first.config,
            opened,
            beside.population,
            up_to=up_to,
            trained_up_to=trained_up_to,
            rivals=rivals,
            part=part,
            progress=progress,
        )
        return WarmUp.of(curve)

    @overload
    def predict(
        self, support: Data, query: Path | str | InteractionLog, *, explain: bool = ..., **tables: Unpack[SideTables]
    ) -> pl.DataFrame: ...

    @overload
    def predict(
        self, support: Data, query: Mapping[str, Any], *, explain: bool = ..., **tables: Unpack[SideTables]
    ) -> dict[str, Array]: ...

    @overload
    def predict(
        self, support: Data, query: SameFrame, *, explain: bool = ..., **tables: Unpack[SideTables]
    ) -> SameFrame: ...

    def predict(
        self, support: Data, query: Data, *, explain: bool = False, users: Any = None, items: Any = None
    ) -> Any:
        """Probability, basis, residual and support size of each query row, in the kind of table that `query` is.

        `support` holds the users' events with the label, `query` the rows to score. Both have the user and all fields,
        or what a model of your own reads to write its score. Fields of a side table may be left out: they come from the
        tables of the schema, or from `users` and `items`, which are frames or files that replace these; a column of
        `support` or `query` itself wins. Each is a polars or pandas frame, an Arrow table, a
        mapping of arrays, a CSV or Parquet file, or a log with the values of training; for a file or a log the answer
        is a polars frame. `explain` adds two columns of JSON: `causes`, what each cause adds to the residual, and
        `because`, the events that moved it most.
        """
        scorer = self.scorer.with_sides(users=users, items=items)
        return answered(self, scorer, support, query, explain=explain)

    @overload
    def recommend(self, support: Path | str, log: Data | None = ..., **options: Unpack[Wishes]) -> pl.DataFrame: ...

    @overload
    def recommend(
        self, support: Mapping[str, Any], log: Data | None = ..., **options: Unpack[Wishes]
    ) -> dict[str, Array]: ...

    @overload
    def recommend(self, support: SameFrame, log: Data | None = ..., **options: Unpack[Wishes]) -> SameFrame: ...

    def recommend(
        self,
        support: Data,
        log: Data | None = None,
        *,
        top: int = 10,
        exclude_seen: bool = True,
        context: Mapping[str, Any] | None = None,
        filter: Mapping[str, Any] | None = None,  # noqa: A002  # as the service calls it
        explore: Rule | None = None,
        seed: int | None = None,
        width: float | None = None,
        draws: int | None = None,
        users: Any = None,
        items: Any = None,
    ) -> Any:
        """The `top` best items of the log for each user of the support, in the kind of table that `support` is.

        `log` is the log of the training, by default at its place on disk. `filter` keeps items by their fields: one
        value, a list of which one must hold, or for a number {"at_least": 1, "at_most": 5}. Fields that do not describe
        an item are those of the user's last event, unless `context` sets them. `users` and `items` are as in `predict`;
        the ranked items have the fields that they have in the log.

        `explore` ranks by "thompson", a draw from the posterior, or "ucb", an upper bound, stretched by `width`. The
        answer then has the columns ranked_by, propensity (from `draws` draws), greedy, seed and draws. The first user
        explores with the `seed`, the next one with the next, so that users are independent; a request to the service
        with the seed of a row gives the same answer.
        """
        fitted = self._fitted()
        if self.config.predictor.score_column:
            raise ConfigError(
                f"the shared model's score is the column '{self.config.predictor.score_column}', which each candidate "
                "must bring: score candidates with predict"
            )
        if top < 1:
            raise ConfigError(f"top is {top}: give 1 or more")
        exploring = exploring_of(explore, seed=seed, width=width, draws=draws)
        opened = log_as_learned(self, self.log_path if log is None else log, users=users, items=items)
        check_same_log(self, opened)
        table = recommendations(
            self.scorer.with_sides(users=users, items=items),
            replace(inference_of(self.config, fitted.features, fitted.model.on_cpu()), negatives=fitted.negatives),
            Catalogue.of(recoded(opened, fitted.features), met_by(self, opened).split()),
            as_table(support, self, "the support"),
            name=self.name,
            top=top,
            exclude_seen=exclude_seen,
            context=context or {},
            wanted=filter or {},
            exploring=exploring,
        )
        return like(support, table, same_rows=False)

    @property
    def scorer(self) -> Scorer:
        """Scores tables for `predict` and for the command of this name."""
        fitted = self._fitted()
        return Scorer(fitted.model, fitted.features, self.schema, self._score, fitted.negatives)

    def news(self, log: Data) -> News:
        """What a log or table holds that this model does not know: users, items and other values."""
        opened = log_as_learned(self, log)
        return News.of(opened, self._fitted().features, met_by(self, opened))

    def unknown_values(self, table: Any) -> dict[str, int]:
        """For each field, the number of rows with a value that the model does not know. A missing value is not one."""
        return self._fitted().features.unknown(self._with_score(table))

    def save(self, folder: Path | str) -> None:
        """Write the model as a folder that `resus.load`, the command line and the service read."""
        fitted = self._fitted()
        tensors = {f"predictor.{name}": tensor for name, tensor in fitted.model.predictor.state_dict().items()}
        tensors |= {f"model.{name}": tensor for name, tensor in fitted.model.state_dict().items()}
        weights = {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}
        log, users, negatives = fitted.log, fitted.users, fitted.negatives
        artifact = Artifact(self.config, fitted.features, weights, log, fitted.history, users, negatives)
        artifact.save(Path(folder))

    @classmethod
    def load(
        cls,
        folder: Path | str,
        *,
        predictor: Any = None,
        encoder: Callable[..., Any] | None = None,
        device: Device | None = None,
    ) -> Self:
        """Read what `save` or `resus train` wrote.

        A predictor or the class of an encoder of your own is not in it: hand it over again. The model runs on
        the `device`.
        """
        artifact = Artifact.load(Path(folder))
        if encoder is not None:
            handed = artifact.config.encoder.handed_over(encoder)
            artifact = replace(artifact, config=artifact.config.model_copy(update={"encoder": handed}))
        model = cls.from_config(artifact.config, device=device)._take(artifact)
        if predictor is not None:
            model._score = score_of_before(model, folder).again(predictor)
        return model

    @property
    def schema(self) -> TableSchema:
        """The roles of the columns in the tables that this model was trained on and that `predict` expects."""
        roles = self._fitted().log.table
        if roles is None:
            raise DataError("this model was fitted on a log without column names: build the log from a table")
        return roles

    @property
    def log_path(self) -> Path:
        """The folder of the log that this model was trained on."""
        path = self._fitted().log.path
        if path is None:
            raise ArtifactError(
                "the model was trained on a log that is not on disk: say which log with "
                + advice(python="log=", command="--data")
            )
        return Path(path)

    @property
    def pretrained(self) -> Predictor | None:
        """The predictor, if it is a model by itself: neither absent nor trained jointly with the rest."""
        alone = not (self.config.predictor.absent or self.config.predictor.joint)
        return self._fitted().model.predictor if alone else None

    def _fitted(self) -> "Fitted":
        if self._result is None:
            raise ArtifactError("the model is not fitted yet: call fit(log), or resus.load(folder)")
        return self._result

    def _take(self, artifact: Artifact) -> Self:
        taken = (artifact.features, artifact.log, artifact.users, artifact.negatives)
        self._result = Fitted(rebuild(artifact).move(self._device), artifact.history, *taken)
        self._score = remembered(artifact.log)
        return self

    def _with_score(self, table: Any) -> pl.DataFrame:
        """A table with the fields of its side tables and the column of the user's own model."""
        frame: pl.DataFrame = self.scorer.sides.of(as_table(table, self, "the table"), "the table")
        return frame if self._score is None else self._score.on(frame, self.schema, "the table")
