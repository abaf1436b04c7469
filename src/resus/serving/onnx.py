"""Ψ and Φ as ONNX files, so that other runtimes can score the same rows."""

import contextlib
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor, nn

from resus.data.fields.feature_map import FeatureMap
from resus.episodes.batch import Features
from resus.extras import need
from resus.model.personalizer import Personalizer

PREDICTOR = "predictor.onnx"
ENCODER = "encoder.onnx"


class _OfTensors(nn.Module):
    """A network that takes ids and weights as two tensors, as ONNX does."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, ids: Tensor, weights: Tensor) -> Tensor:
        return self.network(Features(ids, weights))  # type: ignore[no-any-return]


def export_onnx(model: Personalizer, features: FeatureMap, folder: Path) -> None:
    """Write Φ (ids `[N, C]` int32, weights `[N, C]` float32 → encoded `[N, K]`) and Ψ (→ logits `[N]`).

    A predictor that is not a network writes its own files, if it has any.
    """
    need("onnx", "writing ONNX files")
    _export(model.encoder, "encoded", features, folder / ENCODER)
    if model.predictor.network is not None:
        _export(model.predictor.network, "logits", features, folder / PREDICTOR)
    for name, content in model.predictor.files().items():
        (folder / name).write_bytes(content)


def _export(network: nn.Module, output: str, features: FeatureMap, path: Path) -> None:
    shape = (2, features.n_columns)  # two rows, because the exporter treats a single row as a constant
    rows = torch.export.Dim("N")
    with _quiet():
        torch.onnx.export(
            _OfTensors(network).eval(),
            (torch.zeros(shape, dtype=torch.int32), torch.ones(shape)),
            path,
            input_names=["ids", "weights"],
            output_names=[output],
            dynamic_shapes=({0: rows}, {0: rows}),
            dynamo=True,
            external_data=False,
            verbose=False,
        )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hide the exporter's remarks on torch's internals, and on constants that it computes at run time instead."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript.optimizer._constant_folding")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
