"""An ONNX file, as the converters of scikit-learn, LightGBM, XGBoost and torch write it."""

import functools
import operator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import polars as pl

from resus.arrays import Array, Doubles
from resus.errors import ConfigError, RowError
from resus.external.columns import numbers, text
from resus.external.probabilities import logits_of, not_binary, of_the_click, refuse_named_classes
from resus.external.scoring_model import broken_file, library

KINDS = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(string)": np.object_,
}
WEIGHTS_FOLDER = "session.model_external_initializers_file_folder_path"
PROBABILITY, LOGIT = ("prob",), ("logit", "margin", "raw")  # parts of the names of outputs


@dataclass(frozen=True, eq=False)
class OnnxFile:
    """It has one input per column, with the name of the column, or one `[N, F]` input without names."""

    name: str
    reads: tuple[str, ...] | int
    graph: Any
    output: str
    is_logit: bool

    @classmethod
    def read(cls, path: Path, data: bytes, threads: int) -> Self:
        graph = _graph(path, data, threads)
        output = _output(graph.get_outputs(), path.name)
        return cls(path.name, _reads(graph.get_inputs(), path), graph, output.name, _is_logit(output, path.name))

    def logits(self, frame: pl.DataFrame) -> Doubles:
        inputs = self.graph.get_inputs()
        if isinstance(self.reads, int):
            kind = KINDS[inputs[0].type]
            fed = {inputs[0].name: np.column_stack([_values(series, kind) for series in frame])}
        else:
            fed = {place.name: _fed(place, series) for place, series in zip(inputs, frame, strict=True)}
        try:
            (said,) = self.graph.run([self.output], fed)
        except Exception as error:  # see _graph
            reason = str(error).partition("\n")[0]
            raise ConfigError(f"{self.name} cannot be run on these columns ({reason}): export it again") from None
        return self._of_rows(_of_maps(said, self.name) if isinstance(said, list) else np.asarray(said, np.float64))

    def _of_rows(self, said: Doubles) -> Doubles:
        if said.ndim == 2 and said.shape[1] == 1:
            said = said[:, 0]
        if said.ndim == 2 and self.is_logit and said.shape[1] == 2:
            return said[:, 1] - said[:, 0]  # a softmax of two is a sigmoid of their difference
        if said.ndim != 1:
            said = of_the_click(said, self.name)
        return said if self.is_logit else logits_of(said, self.name)


def _graph(path: Path, data: bytes, threads: int) -> Any:
    """Load these bytes alone, because the hash covers only them."""
    onnxruntime = library("onnxruntime", path.name)
    alone = onnxruntime.SessionOptions()
    alone.intra_op_num_threads = alone.inter_op_num_threads = threads
    alone.add_session_config_entry(WEIGHTS_FOLDER, str(path))  # this is not a folder, so no other files are found
    start = functools.partial(onnxruntime.InferenceSession, providers=["CPUExecutionProvider"])
    try:
        return start(data, sess_options=alone)
    except Exception as error:  # its errors have no class in common
        reason = error
    try:
        start(str(path))
    except Exception:
        raise broken_file(path, "ONNX", reason) from None
    raise ConfigError(
        f"{path} keeps weights in other files, which could change unnoticed: save it as one file, with "
        "onnx.save(onnx.load(path), path), or give a function that calls it"
    )


def _reads(inputs: list[Any], path: Path) -> tuple[str, ...] | int:
    for place in inputs:
        if place.type not in KINDS:
            raise ConfigError(f"{path}: its input '{place.name}' is a {place.type}: known are {', '.join(KINDS)}")
    widths = [place.shape[1] if len(place.shape) == 2 else 1 for place in inputs]
    if len(inputs) == 1 and isinstance(widths[0], int) and widths[0] > 1:
        return widths[0]
    wide = [place.name for place, width in zip(inputs, widths, strict=True) if width != 1 or len(place.shape) > 2]
    if wide:
        raise ConfigError(
            f"{path}: its input '{wide[0]}' is neither one column nor a matrix of a known number of columns: "
            "export it with one such matrix, or with an input per column"
        )
    return tuple(place.name for place in inputs)


def _output(outputs: list[Any], name: str) -> Any:
    """The output with the probability of a click. There may be others, such as the class."""
    fractions = [out for out in outputs if out.type.startswith(("seq(map", "tensor(float", "tensor(double"))]
    for candidates in (fractions, *([out for out in fractions if _says(out, words)] for words in (PROBABILITY, LOGIT))):
        if len(candidates) == 1:
            return candidates[0]
    raise not_binary(name, f"of its outputs {', '.join(out.name for out in outputs)} none is the one probability")


def _is_logit(output: Any, name: str) -> bool:
    if output.type.startswith("seq(map") or _says(output, PROBABILITY):
        return False
    if _says(output, LOGIT):
        return True
    raise ConfigError(
        f"the output '{output.name}' of {name} may be a logit or a probability: "
        "name it 'logits' or 'probabilities' when you export it"
    )


def _says(output: Any, words: tuple[str, ...]) -> bool:
    return any(word in output.name.lower() for word in words)


def _fed(place: Any, series: pl.Series) -> Array:
    """A column in the shape that its input has, `[N]` or `[N, 1]`."""
    values = _values(series, KINDS[place.type])
    return values if len(place.shape) == 1 else values[:, None]


def _values(series: pl.Series, kind: npt.DTypeLike) -> Array:
    if kind is np.object_:
        return text(series, missing="")
    values = numbers(series)
    if np.issubdtype(kind, np.integer):
        odd = np.flatnonzero(values != np.trunc(values))  # NaN too
        if len(odd):
            what = f"{series[int(odd[0])]!r} is not a whole number"
            raise RowError(int(odd[0]), series.name, what, "the model reads a whole number here: write one")
    return values.astype(kind)


def _of_maps(rows: list[dict[Any, float]], name: str) -> Doubles:
    """`[N, 2]` from ZipMap's maps of class to probability, with the classes in order."""
    classes = sorted(rows[0]) if rows else [0, 1]
    if len(classes) != 2:
        raise not_binary(name, f"it has the {len(classes)} classes {', '.join(map(str, classes))}")
    refuse_named_classes(classes, name)
    columns = [np.fromiter(map(operator.itemgetter(each), rows), np.float64, len(rows)) for each in classes]
    return np.column_stack(columns)
