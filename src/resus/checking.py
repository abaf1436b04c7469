"""Pydantic's findings in one sentence, with the nearest known key for a wrong one."""

import difflib
import typing
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from resus.errors import ConfigError

Model = TypeVar("Model", bound=BaseModel)


def known_keys(model: type[BaseModel], prefix: str = "") -> list[str]:
    """Every dotted key that a settings model takes."""
    keys = []
    for name, field in model.model_fields.items():
        nested = _nested_model(field.annotation)
        keys.append(prefix + name)
        if nested is not None:
            keys += known_keys(nested, f"{prefix}{name}.")
    return keys


def described_settings(settings: BaseModel, prefix: str = "") -> list[tuple[str, Any, str]]:
    """Every dotted key that takes a value, with its value and its meaning."""
    found: list[tuple[str, Any, str]] = []
    for name, field in type(settings).model_fields.items():
        value = getattr(settings, name)
        if isinstance(value, BaseModel):
            found += described_settings(value, f"{prefix}{name}.")
        else:
            found.append((prefix + name, value, field.description or ""))
    return found


def nearest_key(wrong: str, known: Iterable[str]) -> str | None:
    """The known key that looks most like `wrong`, by its whole path or by its last part."""
    known = list(known)
    last = wrong.rpartition(".")[2]
    same_last = [key for key in known if key.rpartition(".")[2] == last]
    if same_last:
        return max(same_last, key=lambda key: difflib.SequenceMatcher(None, wrong, key).ratio())
    close = difflib.get_close_matches(wrong, known, n=1, cutoff=0.6)
    if close:
        return close[0]
    by_last = {key.rpartition(".")[2]: key for key in reversed(known)}
    close = difflib.get_close_matches(last, by_last, n=1, cutoff=0.5)
    return by_last[close[0]] if close else None


def checked(model: type[Model], values: Mapping[str, Any]) -> Model:
    """Settings of the given model, or one sentence on all that is wrong with them."""
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        raise ConfigError(sentence_of(error, model)) from None


def sentence_of(error: ValidationError, model: type[BaseModel]) -> str:
    """All findings of one validation, together."""
    known = known_keys(model)
    findings = []
    for finding in error.errors():
        key = ".".join(str(part) for part in finding["loc"])
        if finding["type"] == "extra_forbidden":
            nearest = nearest_key(key, known)
            hint = f"did you mean '{nearest}'?" if nearest else f"known keys: {', '.join(known)}"
            findings.append(f"unknown key '{key}', {hint}")
        elif finding["type"] == "missing":
            findings.append(f"key '{key}' is missing")
        elif finding["type"] == "value_error":
            findings.append(str(finding["ctx"]["error"]))
        else:
            message = finding["msg"][:1].lower() + finding["msg"][1:]
            findings.append(f"'{key}' is {finding['input']!r}: {message}")
    return "; ".join(findings)


def on_one_line(error: Exception) -> str:
    """A parser's message, which may span lines, as part of one sentence."""
    return " ".join(str(error).split())


def _nested_model(annotation: object) -> type[BaseModel] | None:
    candidates = (annotation, *typing.get_args(annotation))
    return next((part for part in candidates if isinstance(part, type) and issubclass(part, BaseModel)), None)
