"""From a trial to the settings that it tries."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from resus.checking import known_keys, unknown_keys
from resus.config.resolve import known_settings, read_file, resolve
from resus.config.settings import REGISTRIES, Config, flatten, keys_of_kinds
from resus.errors import ConfigError
from resus.extras import missing
from resus.model.learners import LEARNERS
from resus.model.predictors import PREDICTORS
from resus.spaces import OneOf, Space, Suggests


@dataclass(frozen=True)
class Suggestions:
    """What a search varies: the kinds of learner and shared model, and the keys in their spaces; `fixed` keys stay."""

    learners: tuple[str, ...]
    predictors: tuple[str, ...]
    fixed: Mapping[str, Any] = field(default_factory=dict)
    file: Path | None = None
    data_set: str = ""

    def __post_init__(self) -> None:
        for registry, kinds in ((LEARNERS, self.learners), (PREDICTORS, self.predictors)):
            for kind in kinds:
                registry[kind]  # refuses an unknown one
        known = known_keys(Config)
        unknown = [key for key in self.base if key not in known]
        if unknown:
            raise ConfigError("; ".join(unknown_keys(unknown, known, known_settings())))
        self.config_of(self._first)

    def settings_of(self, trial: Suggests) -> dict[str, Any]:
        """All settings of a trial that are not the defaults, by dotted keys."""
        chosen = {key: space.suggest(trial, key) for key, space in self._kinds.items() if key not in self.base}
        spaces = self._spaces(self.config_of(chosen))
        sizes = {key: space.suggest(trial, key) for key, space in spaces.items() if key not in self.base}
        return {**self._fitting(chosen), **chosen, **sizes}

    def defaults(self) -> dict[str, Any]:
        """The default settings as a trial holds them, as far as they lie in the spaces."""
        config = self.config_of(self._first)
        values = flatten(config.model_dump())
        spaces: dict[str, Space] = {**self._kinds, **self._spaces(config)}
        found = {key: space.known_as(values[key]) for key, space in spaces.items() if key not in self.base}
        return {key: value for key, value in found.items() if value is not None}

    def config_of(self, chosen: Mapping[str, Any]) -> Config:
        """The settings of a trial."""
        return resolve({**self._fitting(chosen), **chosen}, data_set=self.data_set)

    def _fitting(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """What stays as it is, without what the chosen kinds do not take."""
        kinds = {key: value for key, value in {**chosen, **self.base}.items() if key.endswith(".kind")}
        own = {key: value for key, value in self.base.items() if key in ("predictor.column", "predictor.scale")}
        first = resolve(kinds | own, data_set=self.data_set)
        taken = {f"{section}.kind": getattr(first, section).kind for section in REGISTRIES}
        return keys_of_kinds(self.base, taken)

    @property
    def _first(self) -> dict[str, Any]:
        """The kinds that are tried first."""
        return {key: space.values[0] for key, space in self._kinds.items() if key not in self.base}

    @property
    def base(self) -> dict[str, Any]:
        """What stays as it is."""
        return {**(read_file(self.file) if self.file else {}), **self.fixed}

    @property
    def _kinds(self) -> dict[str, OneOf]:
        return {"learner.kind": OneOf(self.learners), "predictor.kind": OneOf(self.predictors)}

    @staticmethod
    def _spaces(config: Config) -> dict[str, Space]:
        """The space of every dotted key of the chosen kinds."""
        found: dict[str, Space] = {}
        for section in REGISTRIES:
            spaces = type(getattr(config, section)).searched()
            found |= {f"{section}.{key}": space for key, space in spaces.items()}
        return found | {f"training.{key}": space for key, space in config.learner.training_space.items()}


def kinds_to_try() -> tuple[str, ...]:
    """The shared models that resus trains, if what they need is installed."""
    kinds = (kind for kind, settings in PREDICTORS.items() if settings.trainable)
    return tuple(kind for kind in kinds if kind != "lightgbm" or not missing("trees"))


def kinds_named(text: str | None, known: Sequence[str], option: str, first: str) -> tuple[str, ...]:
    """The kinds in a list with commas; without one all that are known, the default first."""
    if text is None:
        return tuple(sorted(known, key=lambda kind: kind != first))
    kinds = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    if not kinds:
        raise ConfigError(f"{option} names no kind: choose from {', '.join(known)}")
    return kinds
