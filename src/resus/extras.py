"""Packages that only some users need: which extra of `resus` brings them, and the sentence if they are missing."""

import importlib.util

from resus.errors import ConfigError

# extra → the modules that it brings, as pyproject.toml says
EXTRAS: dict[str, tuple[str, ...]] = {
    "client": ("anyio", "httpx"),
    "kafka": ("confluent_kafka",),
    "large": ("duckdb",),
    "mlflow": ("alembic", "mlflow", "sqlalchemy"),
    "models": ("catboost", "onnxruntime", "xgboost"),
    "onnx": ("onnx", "onnxscript"),
    "paper": ("jinja2", "lightgbm", "matplotlib", "scipy"),
    "ray": ("ray",),
    "redis": ("redis",),
    "report": ("jinja2", "matplotlib"),
    "serve": ("fastapi", "jinja2", "msgspec", "prometheus_client", "uvicorn"),
    "tensorboard": ("tensorboard",),
    "trees": ("lightgbm",),
    "tune": ("optuna", "sqlalchemy"),
}


def missing(extra: str) -> list[str]:
    """The modules of an extra that are not installed."""
    return [module for module in EXTRAS[extra] if importlib.util.find_spec(module) is None]


def need(extra: str, what: str) -> None:
    """Raise ConfigError if a module of the extra is not installed; `what` begins the sentence."""
    if modules := missing(extra):
        raise _refusal(extra, what, modules)


def need_module(module: str, what: str) -> None:
    """The same for one module of an extra."""
    if importlib.util.find_spec(module) is None:
        extra = min((extra for extra in EXTRAS if module in EXTRAS[extra]), key=lambda extra: len(EXTRAS[extra]))
        raise _refusal(extra, what, [module])


def _refusal(extra: str, what: str, modules: list[str]) -> ConfigError:
    names = " and ".join([", ".join(modules[:-1]), modules[-1]] if len(modules) > 1 else modules)
    verb = "is" if len(modules) == 1 else "are"
    return ConfigError(f"{what} needs {names}, which {verb} not installed: pip install 'resus[{extra}]'")
