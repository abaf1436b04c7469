"""resus: make any click-through-rate model personal from a user's first few events.

import resus

log = resus.open_log("data/ml-1m")
model = resus.Resus().fit(log)
print(model.evaluate(log).models["RESUS+"].stages)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from resus.errors import (
    ArtifactError,
    ConfigError,
    DataError,
    DownloadError,
    ResusError,
    ResusWarning,
    ServiceError,
    StorageError,
    TrainingError,
)
from resus.version import __version__

if TYPE_CHECKING:
    from resus.client import AsyncClient, Client
    from resus.config.settings import Config
    from resus.data.datasets.planted import PlantedWorld, planted_log
    from resus.data.given import build_log
    from resus.data.log.log import InteractionLog
    from resus.data.options import BuildOptions, PrepareOptions
    from resus.data.schema import FieldSchema, TableSchema
    from resus.estimator import Resus
    from resus.estimator.classifier import ResusClassifier, after_events
    from resus.estimator.results import Results
    from resus.estimator.verdict import compare
    from resus.evaluation.comparison import Comparison
    from resus.external.prepare import prepare

    load = Resus.load
    open_log = InteractionLog.open

__all__ = [
    "ArtifactError",
    "AsyncClient",
    "BuildOptions",
    "Client",
    "Comparison",
    "Config",
    "ConfigError",
    "DataError",
    "DownloadError",
    "FieldSchema",
    "InteractionLog",
    "PlantedWorld",
    "PrepareOptions",
    "Results",
    "Resus",
    "ResusClassifier",
    "ResusError",
    "ResusWarning",
    "ServiceError",
    "StorageError",
    "TableSchema",
    "TrainingError",
    "__version__",
    "after_events",
    "build_log",
    "compare",
    "load",
    "open_log",
    "planted_log",
    "prepare",
]

_HOMES = {
    "AsyncClient": "resus.client",
    "BuildOptions": "resus.data.options",
    "Client": "resus.client",
    "Comparison": "resus.evaluation.comparison",
    "Config": "resus.config.settings",
    "FieldSchema": "resus.data.schema",
    "InteractionLog": "resus.data.log.log",
    "PlantedWorld": "resus.data.datasets.planted",
    "PrepareOptions": "resus.data.options",
    "Results": "resus.estimator.results",
    "Resus": "resus.estimator",
    "ResusClassifier": "resus.estimator.classifier",
    "TableSchema": "resus.data.schema",
    "after_events": "resus.estimator.classifier",
    "build_log": "resus.data.given",
    "compare": "resus.estimator.verdict",
    "planted_log": "resus.data.datasets.planted",
    "prepare": "resus.external.prepare",
}


def __getattr__(name: str) -> Any:
    """Names load on first use, so that `import resus` is instant and torch loads only when needed."""
    if name == "load":
        return import_module("resus.estimator").Resus.load
    if name == "open_log":
        return import_module("resus.data.log.log").InteractionLog.open
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'resus' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
