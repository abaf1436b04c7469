"""What may be chosen when a `Resus` is made, and the settings that the choice stands for."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, TypedDict

from resus.checking import Registry, Settings
from resus.config.settings import flatten
from resus.errors import ConfigError
from resus.external.choice import refuse_path_as_text
from resus.external.score_column import SCORE, ScoreColumn
from resus.model.encoders import ENCODERS, EncoderSettings, OwnEncoderSettings
from resus.model.learners import LEARNERS, LearnerSettings
from resus.serving.exploring import Rule

LearnerKind = Literal["plus", "ridge", "nearest"]
EncoderKind = Literal["lr", "fm", "wide-deep", "deepfm", "xdeepfm"]
Learner = LearnerKind | LearnerSettings
Encoder = EncoderKind | EncoderSettings | Callable[..., Any]


class SideTables(TypedDict, total=False):
    """Tables of users and items that replace those of the schema: frames or files."""

    users: Any
    items: Any


class Wishes(SideTables, total=False):
    """What `Resus.recommend` takes besides the tables."""

    top: int
    exclude_seen: bool
    context: Mapping[str, Any] | None
    filter: Mapping[str, Any] | None
    explore: Rule | None
    seed: int | None
    width: float | None
    draws: int | None


class Choice(NamedTuple):
    """Settings by dotted keys, and the column of the user's own model, if there is one."""

    overrides: dict[str, Any]
    own_model: ScoreColumn | None


def choice_of(*, predictor: Any, encoder: Any, learner: Any, settings: Mapping[str, Any], **named: Any) -> Choice:
    """What the arguments of `Resus` mean; those that are None choose nothing."""
    chosen = flatten(settings)
    own_model: ScoreColumn | None = None
    if isinstance(predictor, str):
        refuse_path_as_text(predictor)
    elif predictor is not None:
        own_model = ScoreColumn.of(predictor, chosen.get("predictor.column", SCORE))
        if "predictor.kind" in chosen:
            raise ConfigError(
                f"{own_model.written_by} is given as the predictor, and the settings say "
                f"predictor.kind={chosen['predictor.kind']}: leave one of them out"
            )
        predictor = f"logits:{own_model.name}"
    if encoder is not None and not isinstance(encoder, str | EncoderSettings):
        encoder = OwnEncoderSettings.made_by(encoder)
    named |= {
        "predictor.kind": predictor,
        **_section("encoder", encoder, ENCODERS, EncoderSettings),
        **_section("learner", learner, LEARNERS, LearnerSettings),
    }
    return Choice({**{key: value for key, value in named.items() if value is not None}, **chosen}, own_model)


def _section(name: str, value: Any, registry: Registry[Any], expected: type[Settings]) -> dict[str, Any]:
    """The dotted keys of one section, from the name of a kind or from settings."""
    if value is None or isinstance(value, str):
        return {f"{name}.kind": value}
    if not isinstance(value, expected):
        raise ConfigError(
            f"the {name} is a {type(value).__name__}: give the name of a kind ({', '.join(registry)}) or its settings"
        )
    given = dict(value)
    kind = given["kind"]
    if kind not in registry or registry[kind] is not type(value):
        raise ConfigError(
            f"the {name} kind '{kind}' is not registered: call {name.upper()}S.add({type(value).__name__}) first"
        )
    return {f"{name}.{key}": part for key, part in given.items()}
