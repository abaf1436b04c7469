"""Settings: frozen, strict, chosen by `kind` where there are several, and every mistake in one sentence."""

import difflib
import reprlib
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from resus.errors import ConfigError
from resus.spaces import Space

Model = TypeVar("Model", bound=BaseModel)
Kind = TypeVar("Kind", bound="Settings")
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 100
MOST_FINDINGS = 12  # in one sentence
PLAIN = {  # what pydantic finds, by its type, as what to do
    "missing": "missing; add it",
    "extra_forbidden": "unknown key; correct it, or leave it out",
    "greater_than": "give a number above {gt}",
    "greater_than_equal": "give a number of at least {ge}",
    "less_than": "give a number below {lt}",
    "less_than_equal": "give a number of at most {le}",
    "int_type": "give a whole number",
    "int_parsing": "give a whole number",
    "int_from_float": "give a whole number",
    "float_type": "give a number",
    "float_parsing": "give a number",
    "finite_number": "give a finite number",
    "bool_type": "give true or false",
    "bool_parsing": "give true or false",
    "string_type": "give a text",
    "string_too_short": "give a text of at least {min_length} characters",
    "string_too_long": "give a text of at most {max_length} characters",
    "list_type": "give a list",
    "dict_type": "give an object",
    "too_short": "give at least {min_length}, not {actual_length}",
    "too_long": "give at most {max_length}, not {actual_length}",
}
CLOSE = 0.75  # similarity from which a known key is suggested for a wrong one


class Settings(BaseModel):
    """Cannot be changed, refuses unknown keys and infinite numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    space: ClassVar[Mapping[str, Space]] = {}  # what a search may try for keys of this class

    @classmethod
    def searched(cls) -> dict[str, Space]:
        """The keys that a search may set, those of the bases included."""
        found: dict[str, Space] = {}
        for base in reversed(cls.__mro__):
            found |= vars(base).get("space", {})
        return {key: space for key, space in found.items() if key in cls.model_fields}

    @classmethod
    def of(cls, settings: "Settings") -> Self:
        """The same settings, for code that only ever gets settings of this class."""
        assert isinstance(settings, cls), f"{type(settings).__name__} are not {cls.__name__}"
        return settings

    @classmethod
    def sharing(cls, settings: "Settings") -> Self:
        """Settings of this class with the values that others have under the same keys; `kind` is its own."""
        return cls(**{key: value for key, value in settings if key in cls.model_fields and key != "kind"})


class Registry(Mapping[str, type[Kind]]):
    """Settings classes by the `kind` that they are chosen by. To add one: `REGISTRY.add(MySettings)`."""

    def __init__(self, section: str, *classes: type[Kind], default: str) -> None:
        self.section, self.default = section, default
        self._classes: dict[str, type[Kind]] = {}
        for settings in classes:
            self.add(settings)

    def add(self, settings: type[Kind]) -> type[Kind]:
        """Under the class's default for `kind`."""
        self._classes[settings.model_fields["kind"].default] = settings
        return settings

    def __getitem__(self, kind: str) -> type[Kind]:
        if kind not in self:
            nearest = difflib.get_close_matches(str(kind), self, n=1)
            hint = f", did you mean '{nearest[0]}'?" if nearest else ""
            raise ConfigError(f"unknown '{self.section}.kind' {kind!r}{hint} (choose from {', '.join(self)})")
        return self._classes[kind]

    def __contains__(self, kind: object) -> bool:
        return isinstance(kind, str) and kind in self._classes

    def __iter__(self) -> Iterator[str]:
        return iter(self._classes)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def chosen(self, value: Any) -> Any:
        """Settings of the kind that a mapping names; the mistakes in it keep their place."""
        if not isinstance(value, Mapping):
            return value
        kind = value.get("kind", self.default)
        try:
            settings = self[kind]
        except ConfigError as error:
            raise ValueError(str(error)) from None
        return settings.model_validate(dict(value) | {"kind": kind})

    @property
    def by_kind(self) -> BeforeValidator:
        """For the annotation of a field that takes any of these settings."""
        return BeforeValidator(self.chosen)

    def owners(self, key: str) -> list[str]:
        """The kinds that take a key."""
        return [kind for kind, settings in self.items() if key in settings.model_fields]


def known_keys(model: type[BaseModel], prefix: str = "", *, in_python: bool = False) -> list[str]:
    """Every dotted key that a settings model takes, whatever kinds are chosen.

    `in_python` adds those that only Python can set.
    """
    keys = []
    for name, field in model.model_fields.items():
        if field.exclude and not in_python:
            continue
        nested = _nested_model(field.annotation)
        keys.append(prefix + name)
        registry = registry_of(model, name)
        classes = [nested] if registry is None else list(registry.values())
        for each in classes:
            keys += [] if each is None else known_keys(each, f"{prefix}{name}.", in_python=in_python)
    return list(dict.fromkeys(keys))


def registry_of(model: type[BaseModel], name: str) -> Registry[Any] | None:
    """The kinds that a field chooses from, if it does."""
    for validator in model.model_fields[name].metadata:
        owner = getattr(getattr(validator, "func", None), "__self__", None)
        if isinstance(owner, Registry):
            return owner
    return None


def described_settings(settings: BaseModel, prefix: str = "") -> list[tuple[str, Any, str]]:
    """Every dotted key with its value and its meaning."""
    found: list[tuple[str, Any, str]] = []
    for name, field in type(settings).model_fields.items():
        value = getattr(settings, name)
        if field.exclude:
            continue
        if isinstance(value, BaseModel):
            found += described_settings(value, f"{prefix}{name}.")
        else:
            found.append((prefix + name, value, field.description or ""))
    return found


def nearest_key(wrong: str, known: Iterable[str]) -> str | None:
    """The known key whose last part is most like that of `wrong`, if it is close; of several, the nearest section."""
    section, _, last = wrong.rpartition(".")

    def similarity(key: str) -> tuple[float, float]:
        its_section, _, its_last = key.rpartition(".")
        return _ratio(last, its_last), _ratio(section, its_section)

    nearest = max(known, key=similarity, default=None)
    return nearest if nearest is not None and similarity(nearest)[0] >= CLOSE else None


def _ratio(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one, other).ratio()


def unknown_keys(keys: Iterable[str], known: Sequence[str], hint: str | None = None) -> list[str]:
    """A finding for each unknown key; if one resembles no known key, also where to find those, once."""
    nearest = {key: nearest_key(key, known) for key in keys}
    found = [f"unknown key {key!r}" + (f", did you mean '{near}'?" if near else "") for key, near in nearest.items()]
    return [*found, hint or f"known: {', '.join(known)}"] if None in nearest.values() else found


def key_of_other_kinds(key: str, model: type[BaseModel]) -> str | None:
    """Which kinds take a key that the chosen kind does not; None if no kind does."""
    section, _, name = key.partition(".")
    registry = registry_of(model, section) if section in model.model_fields else None
    owners = registry.owners(name) if registry is not None else []
    return f"{key} belongs to {section}.kind={', '.join(owners)}" if owners else None


def checked(model: type[Model], values: Mapping[str, Any]) -> Model:
    """Settings of the given model, or one sentence about everything that is wrong with them."""
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        raise ConfigError(sentence_of(error, model)) from None


def sentence_of(error: ValidationError, model: type[BaseModel]) -> str:
    """The findings of one validation, together."""
    findings: list[str] = []
    unknown: list[str] = []
    for finding in error.errors():
        key = ".".join(str(part) for part in finding["loc"])
        if finding["type"] == "extra_forbidden":
            misplaced = key_of_other_kinds(key, model)
            (findings if misplaced else unknown).append(misplaced or key)
        elif finding["type"] == "missing":
            findings.append(f"key '{key}' is missing")
        elif finding["type"] == "value_error":
            findings.append(str(finding["ctx"]["error"]))
        else:
            findings.append(f"'{key}' is {shortened(finding['input'])}: {in_plain_words(finding)}")
    findings += unknown_keys(unknown, known_keys(model))
    more = [f"and {len(findings) - MOST_FINDINGS:,} more"] if len(findings) > MOST_FINDINGS else []
    return "; ".join(findings[:MOST_FINDINGS] + more)


def in_plain_words(finding: Mapping[str, Any]) -> str:
    """What a finding of pydantic says is wrong, as what to do."""
    if finding["type"] in PLAIN:
        return PLAIN[finding["type"]].format_map(finding.get("ctx", {}))
    message = str(finding["msg"]).removeprefix("Value error, ")
    return message[:1].lower() + message[1:]


def shortened(value: object) -> str:
    """A value as it is written in Python, or the beginning and the end of it."""
    return _SHORT.repr(value)


def on_one_line(error: Exception) -> str:
    """A parser's message, which may span lines, as part of one sentence."""
    return " ".join(str(error).split())


def _nested_model(annotation: object) -> type[BaseModel] | None:
    candidates = (annotation, *typing.get_args(annotation))
    return next((part for part in candidates if isinstance(part, type) and issubclass(part, BaseModel)), None)
