"""Every setting of a run, with the paper's values as defaults. `resolve` adds what a chosen learner brings along."""

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, SerializeAsAny, model_validator

from resus.checking import Registry, Settings, checked, registry_of
from resus.data.split import Protocol, UserSplit, split_users
from resus.model.encoders import ENCODERS, EncoderSettings
from resus.model.learners import LEARNERS, LearnerSettings, RidgeSettings
from resus.model.predictors import MOST_MEMBERS, PREDICTORS, PredictorSettings

MOST_EVENTS = 10_000  # of a user, in training and evaluation


class FusionConfig(Settings):
    """β, which scales the residual before it is added to Ψ's logit."""

    per_size: bool = Field(default=True, description="one β for each number of events; false: one β for all")
    bias: bool = Field(default=False, description="add a constant for each β")
    scale: float = Field(default=1.0, description="initial β")
    monotone: bool = Field(default=False, description="keep β from falling as the number of events grows")


class TrainingConfig(Settings):
    """Meta-training of Φ, Λ and β."""

    learning_rate: float = Field(default=1e-3, gt=0, description="learning rate of Adam")
    scalar_learning_rate: float = Field(default=1e-2, gt=0, description="learning rate of λ, β and RESUS+'s scales")
    batch_size: int = Field(default=1024, ge=1, description="rows of a batch; users are never cut")
    epochs: int = Field(default=10, ge=1, description="maximum number of passes over the data")
    patience: int = Field(default=2, ge=1, description="stop after this many epochs without a better validation AUC")
    support_sizes: Literal["uniform", "observed"] = Field(
        default="uniform", description="events per training episode: uniform, or as observed in new users"
    )
    max_support: int | None = Field(
        default=None,
        ge=1,
        le=MOST_EVENTS,
        description="most events of a training episode; default: evaluation.max_size",
    )
    folds: int = Field(
        default=1,
        ge=1,
        le=MOST_MEMBERS,
        description="RESUS+: train this many shared models, each without some training users",
    )
    average: Literal["auto", "always", "never"] = Field(
        default="auto", description="with folds: answer with their mean; auto: if validation users clearly gain"
    )


class SplitConfig(Settings):
    """Which users train, validate and test."""

    ratios: tuple[float, float, float] = Field(default=(7, 2, 1), description="shares of train, validation and test")
    order: Literal["random", "ascending"] = Field(default="random", description="random by seed, or ascending by id")

    @model_validator(mode="after")
    def _every_part_has_a_share(self) -> Self:
        if min(self.ratios) <= 0:
            raise ValueError(f"split.ratios {self.ratios}: every part needs a positive share")
        return self


class EvaluationConfig(Settings):
    """Support sizes 0, step, 2·step, … max_size; the stages are their thirds."""

    max_size: int = Field(default=30, ge=3, le=MOST_EVENTS, description="the largest number of events before a score")
    step: int = Field(default=1, ge=1, description="difference between two sizes")

    @model_validator(mode="after")
    def _three_stages_fit(self) -> Self:
        if self.max_size // self.step < 3:
            raise ValueError(
                f"evaluation.max_size={self.max_size} with evaluation.step={self.step} gives fewer than three sizes "
                "for three stages: choose a smaller step"
            )
        return self

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(range(0, self.max_size + 1, self.step))

    @property
    def stages(self) -> dict[str, list[int]]:
        """I, II and III: the sizes except 0, in thirds."""
        sizes = list(self.sizes[1:])
        third = len(sizes) / 3
        cuts = [round(third * part) for part in range(4)]
        return {name: sizes[cuts[part] : cuts[part + 1]] for part, name in enumerate(("I", "II", "III"))}


class Config(Settings):
    """All settings of one run. Without any it is the paper's RESUS-RR; the default of `Resus` is `resolve`'s."""

    protocol: Protocol = Field(default="paper", description="paper or authors-release")
    seed: int = Field(default=1, ge=0, le=2**31 - 1, description="draws the user split, the episodes and the weights")
    predictor: Annotated[SerializeAsAny[PredictorSettings], PREDICTORS.by_kind] = PREDICTORS.chosen({})
    encoder: Annotated[SerializeAsAny[EncoderSettings], ENCODERS.by_kind] = ENCODERS.chosen({})
    learner: Annotated[SerializeAsAny[LearnerSettings], LEARNERS.by_kind] = RidgeSettings()
    fusion: FusionConfig = FusionConfig()
    training: TrainingConfig = TrainingConfig()
    split: SplitConfig = SplitConfig()
    evaluation: EvaluationConfig = EvaluationConfig()

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        learner, encoder = self.learner, self.encoder
        if learner.encoder not in (None, encoder.kind):
            raise ValueError(
                f"learner.kind={learner.kind} works with encoder.kind={learner.encoder}, not {encoder.kind}: leave "
                f"encoder.kind out, or choose learner.kind={_learners(lambda other: other.encoder is None)}"
            )
        if encoder.learner not in (None, learner.kind):
            raise ValueError(
                f"encoder.kind={encoder.kind} works with learner.kind={encoder.learner}, not {learner.kind}: leave "
                "encoder.kind out, or choose that learner"
            )
        if self.training.folds > 1 and not learner.cross_fits:
            fitting = _learners(lambda other: other.cross_fits)
            raise ValueError(f"training.folds is for learner.kind={fitting}: leave it at 1")
        if not learner.has_beta:
            brought = flatten({"fusion": FusionConfig().model_dump()}) | dict(learner.presets(self.protocol))
            unused = [
                key for key, value in flatten({"fusion": self.fusion.model_dump()}).items() if value != brought[key]
            ]
            if unused:
                raise ValueError(
                    f"learner.kind={learner.kind} has no β: leave out {', '.join(unused)}, or choose "
                    f"learner.kind={_learners(lambda other: other.has_beta)}"
                )
        if self.fusion.monotone and (self.fusion.bias or not self.fusion.per_size):
            raise ValueError("fusion.monotone needs fusion.per_size=true and fusion.bias=false")
        if self.fusion.monotone and self.fusion.scale <= 0:
            raise ValueError("fusion.monotone needs a fusion.scale above 0")
        if learner.cross_fits and self.predictor.joint:
            raise ValueError(
                f"learner.kind={learner.kind} needs a trained shared model: leave predictor.pretrain at true, "
                f"or choose learner.kind={_learners(lambda other: not other.cross_fits)}"
            )
        return self

    @property
    def max_support(self) -> int:
        return self.training.max_support or self.evaluation.max_size

    def user_split(self, n_users: int) -> UserSplit:
        """Which users train, validate and test; the seed draws them."""
        return split_users(n_users, ratios=self.split.ratios, order=self.split.order, seed=self.seed)

    @property
    def cross_fitted(self) -> bool:
        """Whether the logits of training users come from predictors that never saw them."""
        return self.training.folds > 1 and self.predictor.trainable

    @property
    def predictor_name(self) -> str:
        """Ψ as tables call it."""
        return self.predictor.name

    @property
    def model_name(self) -> str:
        """The whole model as tables call it."""
        return self.learner.model_name(shared=not self.predictor.absent) + " (w/o pretrain)" * self.predictor.joint

    @property
    def slug(self) -> str:
        """The model and seed as a folder name."""
        words = self.model_name.lower().replace("+", "-plus").replace("(w/o pretrain)", "joint")
        return "-".join([*words.split(), self.predictor.slug, str(self.seed)])

    def changed(self, changes: Mapping[str, Any]) -> "Config":
        """Other values for some dotted keys. A section that changes its kind keeps the keys that both kinds have."""
        kept = keys_of_kinds(flatten(self.model_dump()), changes)
        return checked_config(kept | dict(changes))

    def without_learner(self) -> "Config":
        """The defaults in place of what came with the learner, for a method that has its own."""
        plain = flatten(Config().model_dump())
        brought = self.learner.presets(self.protocol)
        return self.changed({key: plain[key] for key in ("learner.kind", *brought)})

    def settings_of_predictor(self) -> dict[str, Any]:
        """Settings, by dotted keys, for a run with the predictor of this one. Each run chooses `pretrain` itself."""
        return {f"predictor.{key}": value for key, value in self.predictor.model_dump(exclude={"pretrain"}).items()}

    def fingerprint(self, log_hash: str) -> str:
        """One hash of the settings and the data: equal runs have equal ones."""
        content = json.dumps([self.model_dump(mode="json"), log_hash], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()


REGISTRIES: dict[str, Registry[Any]] = {
    name: registry for name in Config.model_fields if (registry := registry_of(Config, name)) is not None
}


def keys_of_kinds(values: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
    """The values that fit the kinds which `chosen`, or else `values`, or else the defaults name."""
    taken = {}
    for section, registry in REGISTRIES.items():
        key = f"{section}.kind"
        kind = chosen.get(key, values.get(key, registry.default))
        taken[section] = registry[kind].model_fields if isinstance(kind, str) and kind in registry else {}
    return {
        key: value
        for key, value in values.items()
        if (section := key.partition(".")[0]) not in taken or key.partition(".")[2] in taken[section]
    }


def _learners(fits: Callable[[type[LearnerSettings]], bool]) -> str:
    return " or ".join(kind for kind, settings in LEARNERS.items() if fits(settings))


def checked_config(values: Mapping[str, Any]) -> Config:
    """The settings of dotted keys, or one sentence about all mistakes."""
    return checked(Config, _nest(values))


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
