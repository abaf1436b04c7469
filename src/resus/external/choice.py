"""Which kind of model a file, an estimator or a function is."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from resus.errors import ConfigError
from resus.external.catboost_file import CatboostFile
from resus.external.in_python import Estimator, Function
from resus.external.lightgbm_file import LightgbmFile
from resus.external.onnx_file import OnnxFile
from resus.external.scoring_model import ScoringModel
from resus.external.xgboost_file import XgboostFile

FILES: dict[str, Callable[[Path], ScoringModel]] = {
    ".txt": LightgbmFile.read,
    ".lgb": LightgbmFile.read,
    ".lgbm": LightgbmFile.read,
    ".json": XgboostFile.read,
    ".ubj": XgboostFile.read,
    ".cbm": CatboostFile.read,
    ".onnx": OnnxFile.read,
}
PICKLES = (".pkl", ".pickle", ".joblib", ".dill", ".sav")


def model_that_scores(what: Any) -> ScoringModel:
    """A model from a file (by its ending), an estimator with `predict_proba`, or a function of a polars frame."""
    if isinstance(what, str):
        refuse_path_as_text(what)
    if isinstance(what, Path):
        return _of_file(what)
    if hasattr(what, "predict_proba") and not isinstance(what, type):
        return Estimator(what)
    if callable(what) and not isinstance(what, type):
        return Function(what)
    given = f"the class {what.__name__}" if isinstance(what, type) else f"a value of the type {type(what).__name__}"
    raise ConfigError(
        f"{given} cannot score rows: give a function of a polars frame, a fitted estimator with predict_proba, "
        "or the Path of a model file"
    )


def refuse_path_as_text(name: str) -> None:
    """Refuse the path of a model file as the name of a predictor: it needs a `Path`."""
    column = name.startswith(("logits:", "probabilities:"))
    if not column and Path(name).suffix.lower() in (*FILES, *PICKLES):
        raise ConfigError(f"'{name}' is text, which names a predictor: for the model file, give Path('{name}')")


def _of_file(path: Path) -> ScoringModel:
    ending = path.suffix.lower()
    if ending in PICKLES:
        raise ConfigError(
            f"{path} is a pickle, which can run any code, so resus never opens one: load it yourself, and give "
            "the object with Resus(predictor=…)"
        )
    if ending not in FILES:
        known = "LightGBM's .txt, .lgb, .lgbm, XGBoost's .json, .ubj, CatBoost's .cbm, .onnx"
        raise ConfigError(f"{path} has none of the known endings ({known}): rename it, or give another file")
    if not path.is_file():
        raise ConfigError(f"{path} does not exist: check the path of the model")
    return FILES[ending](path)
