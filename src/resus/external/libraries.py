"""The libraries of models, each loaded when a model of its kind is met."""

import importlib
from pathlib import Path
from typing import Any

from resus.errors import ConfigError


def library(module: str, name: str) -> Any:
    """The module, or a sentence that says how to get it; `name` is what needs it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        raise ConfigError(f"{name} needs {module}, which is not installed: pip install {module}") from None


def no_model(path: Path, kind: str, error: Exception | str) -> ConfigError:
    """A file that the library refused; of its message the first line, without the place in the library's source."""
    reason = str(error).strip().partition("\n")[0]
    return ConfigError(f"{path} is not a whole {kind} model ({reason}): save the model again, or name another file")
