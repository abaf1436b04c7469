"""Which kind of model a file, an estimator or a function is, and how a file is opened without trusting it."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from resus.errors import ConfigError, ResusError
from resus.external.catboost_file import CatboostFile
from resus.external.in_python import Estimator, Function
from resus.external.lightgbm_file import LightgbmFile
from resus.external.onnx_file import OnnxFile
from resus.external.scoring_model import EVERY_THREAD, ScoringModel, broken_file, library
from resus.external.trial import try_in_a_process
from resus.external.xgboost_file import XgboostFile
from resus.files import read_bounded, reason_of

MAX_MODEL_BYTES = 1 << 31


@dataclass(frozen=True)
class _Format:
    """The library of a kind of file, what messages call it, and how its bytes become a model."""

    module: str
    title: str
    read: Callable[[Path, bytes, int], ScoringModel]


LIGHTGBM = _Format("lightgbm", "LightGBM", LightgbmFile.read)
XGBOOST = _Format("xgboost", "XGBoost", XgboostFile.read)
CATBOOST = _Format("catboost", "CatBoost", CatboostFile.read)
ONNX = _Format("onnxruntime", "ONNX", OnnxFile.read)
FILES = {
    ".txt": LIGHTGBM,
    ".lgb": LIGHTGBM,
    ".lgbm": LIGHTGBM,
    ".json": XGBOOST,
    ".ubj": XGBOOST,
    ".cbm": CATBOOST,
    ".onnx": ONNX,
}
_TRIED: set[tuple[str, str]] = set()  # libraries and hashes of files that another process has opened
PICKLES = (".pkl", ".pickle", ".joblib", ".dill", ".sav")


def model_that_scores(what: Any) -> ScoringModel:
    """A model from a file (by its ending), an estimator with `predict_proba`, or a function of a polars frame."""
    if isinstance(what, str):
        refuse_path_as_text(what)
    if isinstance(what, Path):
        return ModelFile.read(what).model()
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


@dataclass(frozen=True)
class ModelFile:
    """The bytes of a model file, read once, and their hash."""

    path: Path
    content: bytes
    sha256: str

    @classmethod
    def read(cls, path: Path) -> "ModelFile":
        ending = path.suffix.lower()
        if ending in PICKLES:
            raise ConfigError(
                f"{path} is a pickle, which can run any code, so resus never opens one: load it yourself, and give "
                "the object with Resus(predictor=…)"
            )
        if ending not in FILES:
            known = "LightGBM's .txt, .lgb, .lgbm, XGBoost's .json, .ubj, CatBoost's .cbm, .onnx"
            raise ConfigError(f"{path} has none of the known endings ({known}): rename it, or give another file")
        try:
            content = read_bounded(path, MAX_MODEL_BYTES)
        except FileNotFoundError:
            raise ConfigError(f"{path} does not exist: check the path of the model") from None
        except OSError as error:
            raise ConfigError(f"{path} cannot be read ({reason_of(error)}): check the path of the model") from None
        return cls(path, content, hashlib.sha256(content).hexdigest())

    def model(self, *, known: bool = False, threads: int = EVERY_THREAD) -> ScoringModel:
        """The model. Unless these very bytes are `known` to be sound, another process opens them first."""
        kind = FILES[self.path.suffix.lower()]
        library(kind.module, self.path.name)
        if not known and (kind.module, self.sha256) not in _TRIED:
            try_in_a_process(self.path, self.content, kind.title)
            _TRIED.add((kind.module, self.sha256))
        return open_here(self.path, self.content, threads)


def open_here(path: Path, content: bytes, threads: int = EVERY_THREAD) -> ScoringModel:
    """The model of these bytes, opened in this process, which a library may end. It scores in so many threads."""
    kind = FILES[path.suffix.lower()]
    try:
        return kind.read(path, content, threads)
    except ResusError:
        raise
    except Exception as error:  # whatever a library raises for bytes that it does not expect
        raise broken_file(path, kind.title, f"{type(error).__name__}: {error}") from None
