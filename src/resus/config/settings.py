"""Every setting of a run, with the paper's values as defaults."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError, model_validator

from resus.checking import known_keys, nearest_key, on_one_line, sentence_of
from resus.data.split import Protocol, UserSplit, split_users
from resus.errors import ConfigError

Architecture = Literal["lr", "fm", "wide-deep", "deepfm", "xdeepfm"]


class Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class NetworkConfig(Settings):
    """The shape of a network, for Ψ or Φ."""

    embedding_dim: int = Field(default=10, ge=1, description="width of a field's vector")
    embedding_std: float = Field(default=0.01, gt=0, description="spread of the embeddings at the start")
    hidden_units: tuple[PositiveInt, ...] = Field(
        default=(400, 400, 400), min_length=1, description="of the perceptron"
    )
    cin_maps: tuple[PositiveInt, ...] = Field(
        default=(100, 100), min_length=1, description="xdeepfm only: feature maps per layer"
    )


class PredictorConfig(NetworkConfig):
    """Ψ, the same for every user. `none` makes the model the paper's MUS."""

    kind: Literal["lr", "fm", "wide-deep", "deepfm", "xdeepfm", "lightgbm", "none", "external"] = Field(
        default="deepfm",
        description="lr, fm, wide-deep, deepfm, xdeepfm, lightgbm, none (MUS), logits:COLUMN or probabilities:COLUMN",
    )
    column: str = Field(default="", description="external only: the numeric field that holds what your model says")
    scale: Literal["logits", "probabilities"] = Field(default="logits", description="external only: what it holds")
    pretrain: bool = Field(default=True, description="false: train Ψ jointly with the rest ('w/o pretrain')")
    learning_rate: float = Field(default=1e-3, gt=0, description="of Adam")
    batch_size: int = Field(default=1024, ge=1, description="rows")
    epochs: int = Field(default=10, ge=1, description="at most")
    patience: int = Field(default=2, ge=1, description="epochs without a better validation AUC before stopping")
    rounds: int = Field(default=500, ge=1, description="lightgbm only: boosting rounds at most")
    num_leaves: int = Field(default=63, ge=2, description="lightgbm only: leaves per tree")
    boosting_patience: int = Field(default=20, ge=1, description="lightgbm only: rounds without a better AUC")
    boosting_rate: float = Field(default=0.1, gt=0, description="lightgbm only: shrinkage")

    @model_validator(mode="after")
    def _joint_training_needs_gradients(self) -> Self:
        if (self.kind == "external") != bool(self.column):
            raise ValueError("predictor.kind=external and predictor.column go together: write logits:COLUMN")
        if not self.pretrain and self.kind in ("lightgbm", "none", "external"):
            raise ValueError(f"predictor.pretrain=false needs a neural predictor, not '{self.kind}'")
        return self


class EncoderConfig(NetworkConfig):
    """Φ, from a row to the vector that the learner works on."""

    kind: Architecture | Literal["factors"] = Field(
        default="deepfm", description="lr, fm, wide-deep, deepfm, xdeepfm, or factors (RESUS+)"
    )
    epochs: int = Field(default=10, ge=1, description="factors only: at most")
    refine: bool = Field(
        default=True, description="factors only: go on with them by the evidence, without user vectors"
    )
    embedding_std: float = Field(default=0.1, gt=0, description="spread of the embeddings at the start")


class LearnerConfig(Settings):
    """Λ, which fits one user's residuals."""

    kind: Literal["ridge", "nearest", "plus"] = Field(
        default="ridge", description="ridge (RESUS-RR), nearest (RESUS-NN) or plus (RESUS+)"
    )
    similarity: Literal["learned", "cosine"] = Field(default="learned", description="nearest only: learned or cosine")
    ridge: float = Field(default=1.0, ge=1e-6, description="ridge only: λ at the start")
    learn_ridge: bool = Field(default=True, description="ridge only: learn λ, or keep it")
    bias: bool = Field(default=False, description="ridge and plus: a constant feature, the user's bias")
    taste: bool = Field(default=True, description="plus only: taste for what the factors describe")
    repeats: bool = Field(default=True, description="plus only: what the user did with the very same item")
    steps: int = Field(default=6, ge=1, description="plus only: the most weighted ridges to a user's logistic fit")

    @model_validator(mode="after")
    def _plus_needs_a_part(self) -> Self:
        if self.kind == "plus" and not (self.bias or self.taste or self.repeats):
            raise ValueError("learner.kind=plus needs learner.bias, learner.taste or learner.repeats")
        return self


class FusionConfig(Settings):
    """β, which scales the residual before it joins Ψ's logit."""

    per_size: bool = Field(default=True, description="one β per support size; false: one β for all")
    bias: bool = Field(default=False, description="a constant per β")
    scale: float = Field(default=1.0, description="β at the start")


class TrainingConfig(Settings):
    """Meta-training of Φ, Λ and β."""

    learning_rate: float = Field(default=1e-3, gt=0, description="of Adam")
    scalar_learning_rate: float = Field(default=1e-2, gt=0, description="of λ, β and RESUS+'s scales")
    batch_size: int = Field(default=1024, ge=1, description="rows; users are never cut")
    epochs: int = Field(default=10, ge=1, description="at most")
    patience: int = Field(default=2, ge=1, description="epochs without a better validation AUC before stopping")
    support_sizes: Literal["uniform", "observed"] = Field(
        default="uniform", description="uniform on 1..τ, or as the observed cold users have them"
    )
    max_support: int | None = Field(default=None, ge=1, description="τ; default: evaluation.max_size")
    folds: int = Field(
        default=1,
        ge=1,
        description="plus only: so many Ψs, each asked about the training users that it never saw",
    )


class SplitConfig(Settings):
    """Which users train, validate and test."""

    ratios: tuple[float, float, float] = Field(default=(7, 2, 1), description="train, validation, test")
    order: Literal["random", "ascending"] = Field(default="random", description="random by seed, or ascending by id")

    @model_validator(mode="after")
    def _every_part_has_a_share(self) -> Self:
        if min(self.ratios) <= 0:
            raise ValueError(f"split.ratios {self.ratios}: every part needs a positive share")
        return self


class EvaluationConfig(Settings):
    """Support sizes 0, step, 2·step, … max_size; the stages are their thirds."""

    max_size: int = Field(default=30, ge=3, description="the largest support size")
    step: int = Field(default=1, ge=1, description="between two sizes")

    @model_validator(mode="after")
    def _three_stages_fit(self) -> Self:
        if self.max_size // self.step < 3:
            raise ValueError(
                f"evaluation.max_size={self.max_size} with evaluation.step={self.step} leaves no three sizes for "
                "three stages: choose a smaller step"
            )
        return self

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(range(0, self.max_size + 1, self.step))

    @property
    def stages(self) -> dict[str, list[int]]:
        """I, II and III: the sizes but 0, in thirds."""
        sizes = list(self.sizes[1:])
        third = len(sizes) / 3
        cuts = [round(third * part) for part in range(4)]
        return {name: sizes[cuts[part] : cuts[part + 1]] for part, name in enumerate(("I", "II", "III"))}


class Config(Settings):
    """All settings of one run."""

    protocol: Protocol = Field(default="paper", description="paper, or authors-release")
    seed: int = Field(default=1, ge=0, le=2**31 - 1, description="draws the user split, the episodes and the weights")
    predictor: PredictorConfig = PredictorConfig()
    encoder: EncoderConfig = EncoderConfig()
    learner: LearnerConfig = LearnerConfig()
    fusion: FusionConfig = FusionConfig()
    training: TrainingConfig = TrainingConfig()
    split: SplitConfig = SplitConfig()
    evaluation: EvaluationConfig = EvaluationConfig()

    @model_validator(mode="after")
    def _plus_is_whole(self) -> Self:
        plus = self.learner.kind == "plus"
        if plus != (self.encoder.kind == "factors"):
            raise ValueError("learner.kind=plus and encoder.kind=factors go together")
        if self.training.folds > 1 and not plus:
            raise ValueError("training.folds is for learner.kind=plus: leave it at 1")
        if plus and self.fusion.scale != 1:
            raise ValueError("learner.kind=plus has no β: leave fusion.scale at 1")
        if plus and not self.predictor.pretrain:
            raise ValueError("learner.kind=plus stands on a trained Ψ: leave predictor.pretrain at true")
        return self

    @property
    def max_support(self) -> int:
        return self.training.max_support or self.evaluation.max_size

    def user_split(self, n_users: int) -> UserSplit:
        """Which users train, validate and test; the seed draws them."""
        return split_users(n_users, ratios=self.split.ratios, order=self.split.order, seed=self.seed)

    @property
    def cross_fitted(self) -> bool:
        """Whether training users' logits come from Ψs that never saw them.

        Someone else's Ψ cannot be trained anew: whether it knows the training users is not ours to say.
        """
        return self.training.folds > 1 and self.predictor.kind not in ("external", "none")

    @property
    def predictor_name(self) -> str:
        """Ψ as tables call it."""
        return self.predictor.column or PREDICTOR_NAMES[self.predictor.kind]

    @property
    def model_name(self) -> str:
        """The whole model as tables call it."""
        if self.learner.kind == "plus":
            return "MUS+" if self.predictor.kind == "none" else "RESUS+"
        learner = {"ridge": "RR", "nearest": "NN"}[self.learner.kind]
        if self.predictor.kind == "none":
            return "MUS" if learner == "NN" else f"MUS-{learner}"
        return f"RESUS-{learner}" + ("" if self.predictor.pretrain else " (w/o pretrain)")

    @property
    def slug(self) -> str:
        """The model and seed as a folder name."""
        words = (
            self.model_name.lower()
            .replace("+", "-plus")
            .replace("(w/o pretrain)", "joint")
            .replace("(", "")
            .replace(")", "")
        )
        return "-".join([*words.split(), self.predictor.column or self.predictor.kind, str(self.seed)])

    def changed(self, changes: Mapping[str, Any]) -> Self:
        """The same settings but for some, by dotted keys."""
        values = flatten(self.model_dump()) | dict(changes)
        try:
            return type(self).model_validate(_nest(values))
        except ValidationError as error:
            raise ConfigError(sentence_of(error, Config)) from None

    def without_learner(self) -> Self:
        """The defaults in place of what the learner brought along, for a method that has its own."""
        plain = flatten(Config().model_dump())
        return self.changed({key: plain[key] for key in ("learner.kind", *LEARNERS.get(self.learner.kind, {}))})

    def fingerprint(self, log_hash: str) -> str:
        """One hash of the settings and the data: equal runs have equal ones."""
        content = json.dumps([self.model_dump(mode="json"), log_hash], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()


PREDICTOR_NAMES = {
    "lr": "LR",
    "fm": "FM",
    "wide-deep": "Wide&Deep",
    "deepfm": "DeepFM",
    "xdeepfm": "xDeepFM",
    "lightgbm": "LightGBM",
    "none": "no predictor",
}

PROTOCOLS: dict[str, dict[str, Any]] = {
    "paper": {},
    "authors-release": {
        "split.ratios": (7, 1, 2),
        "split.order": "ascending",
        "predictor.epochs": 1,
        "learner.bias": True,
        "learner.learn_ridge": False,
        "fusion.bias": True,
    },
}

LEARNERS: dict[str, dict[str, Any]] = {
    "plus": {
        "encoder.kind": "factors",
        "encoder.embedding_dim": 32,
        "learner.bias": True,
        "fusion.per_size": False,
        "training.folds": 4,
        "training.batch_size": 4096,
        "training.scalar_learning_rate": 0.05,
    }
}

DATA_SETS: dict[str, dict[str, Any]] = {
    "taobao": {"evaluation.max_size": 150, "evaluation.step": 10},
    "planted": {
        "predictor.hidden_units": (64, 64),
        "encoder.hidden_units": (64, 64),
        "predictor.embedding_dim": 8,
        "encoder.embedding_dim": 8,
    },
}


def resolve(
    overrides: Mapping[str, Any] | None = None,
    *,
    data_set: str = "",
    file: Path | None = None,
    inherited: Mapping[str, Any] | None = None,
) -> Config:
    """Defaults, then the protocol's, the data set's, the learner's, `inherited`, the config file's, `overrides`.

    Keys are dotted; `inherited` are settings of another run, as `settings_of_predictor` tells them.
    """
    chosen = _read_file(file) if file else {}
    chosen |= flatten(overrides or {})
    chosen |= _external(chosen)
    values = dict(PROTOCOLS.get(str(chosen.get("protocol", "paper")), {}))
    values |= DATA_SETS.get(data_set, {})
    values |= LEARNERS.get(str(chosen.get("learner.kind")), {})
    values |= inherited or {}
    values |= chosen
    if values.get("predictor.kind") == "external":
        values["training.folds"] = _folds_of_external(chosen)
    if "fusion.scale" not in values and values.get("protocol") == "authors-release":
        values["fusion.scale"] = 3.0 if values.get("learner.kind") == "nearest" else 1.0
    known = known_keys(Config)
    unknown = [key for key in values if key not in known]
    if unknown:
        raise ConfigError("; ".join(_unknown(key, known) for key in unknown))
    sections = [key for key in values if any(other.startswith(f"{key}.") for other in known)]
    if sections:
        raise ConfigError(
            f"'{sections[0]}' is a section, not a setting: set one of "
            + ", ".join(key for key in known if key.startswith(f"{sections[0]}."))
        )
    try:
        return Config.model_validate(_nest(values))
    except ValidationError as error:
        raise ConfigError(sentence_of(error, Config)) from None


def settings_of_predictor(config: Config) -> dict[str, Any]:
    """How its Ψ was made, for a run that takes this Ψ over; whether it is trained beforehand each run says itself."""
    return {f"predictor.{key}": value for key, value in config.predictor.model_dump().items() if key != "pretrain"}


def _external(chosen: Mapping[str, Any]) -> dict[str, Any]:
    """`logits:COLUMN` in place of a predictor's kind."""
    kind = str(chosen.get("predictor.kind", ""))
    scale, colon, column = kind.partition(":")
    if kind in ("logits", "probabilities") or (kind == "external" and not chosen.get("predictor.column")):
        raise ConfigError(
            f"the predictor '{kind}' does not say which column holds what your model says: write logits:COLUMN or "
            "probabilities:COLUMN"
        )
    if not colon and "." in kind:
        raise ConfigError(
            f"the predictor '{kind}' looks like a file: let it score the table with 'resus prepare --score-with {kind}'"
            ", or in Python give its Path"
        )
    if not colon:
        return {}
    if scale not in ("logits", "probabilities") or not column:
        raise ConfigError(f"the predictor '{scale}:{column}' is none: write logits:COLUMN or probabilities:COLUMN")
    meant = {"predictor.kind": "external", "predictor.scale": scale, "predictor.column": column}
    for key in ("predictor.scale", "predictor.column"):
        if chosen.get(key, meant[key]) != meant[key]:
            raise ConfigError(f"the predictor is '{kind}', and {key} is '{chosen[key]}': leave one of them out")
    return meant


def _folds_of_external(chosen: Mapping[str, Any]) -> Any:
    """One, whatever the learner brings along: a model of one's own is not ours to train anew."""
    folds = chosen.get("training.folds", 1)
    if isinstance(folds, int | float) and folds > 1:
        raise ConfigError(
            f"training.folds={folds} trains Ψ anew without some of the users, which a model of your own cannot be: "
            "leave training.folds out"
        )
    return folds


def parse_assignments(assignments: list[str]) -> dict[str, Any]:
    """`key=value` texts, values read as YAML."""
    parsed = {}
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"{assignment!r} is not of the form key=value, such as learner.kind=nearest")
        try:
            parsed[key.strip()] = yaml.safe_load(value)
        except (yaml.YAMLError, ValueError) as error:  # ValueError: such as a date of month 13
            raise ConfigError(f"the value of {key!r} cannot be read: {on_one_line(error)}") from None
    return parsed


def _read_file(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except OSError as error:
        raise ConfigError(f"config file {path}: {(error.strerror or '').lower()}; check the path") from None
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(f"config file {path} is not valid YAML: {on_one_line(error)}") from None
    if not isinstance(content, dict):
        raise ConfigError(f"config file {path} must be a mapping of settings, such as 'learner: {{kind: nearest}}'")
    return flatten(content)


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Settings in sections, by dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _nest(values: Mapping[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for key, value in values.items():
        *groups, name = key.split(".")
        group = nested
        for part in groups:
            group = group.setdefault(part, {})
        group[name] = value
    return nested


def _unknown(key: str, known: list[str]) -> str:
    nearest = nearest_key(key, known)
    return f"unknown key {key!r}" + (f", did you mean '{nearest}'?" if nearest else f"; known: {', '.join(known)}")
