"""A model in torch from saved weights, whose shapes are compared with the settings before any memory is taken."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from resus.arrays import Array
from resus.config.settings import Config
from resus.data.fields.feature_map import FeatureMap
from resus.errors import ArtifactError, ResusError
from resus.model.build import build_fusion, build_personalizer
from resus.model.personalizer import Personalizer
from resus.model.predictors.average import build_for_state

_PLANNED = ("encoder", "fusion")


def restored(config: Config, features: FeatureMap, weights: Mapping[str, Array]) -> Personalizer:
    """The model, as it was trained. Settings that ask for other shapes than those of the weights get no memory."""
    tensors = {name: torch.from_numpy(array) for name, array in weights.items()}
    state, rest = _part(tensors, "predictor"), _part(tensors, "model")
    try:
        planned, parts = _planned(config, features, state)
        _check_shapes(planned, state)
        _check_shapes(parts, {name: value for name, value in rest.items() if name.partition(".")[0] in _PLANNED})
        predictor = build_for_state(config.predictor, features, state)
        model = build_personalizer(config, features, predictor)
        predictor.load_state_dict(state)
        model.load_state_dict(rest)
    except (RuntimeError, ValueError, KeyError, IndexError, TypeError, AssertionError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[-1].strip()
        raise ArtifactError(f"the artifact's weights do not fit its settings ({reason}): train again") from error
    return model.eval()


def _part(tensors: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    """The tensors of one part, `predictor` or `model`."""
    prefix = f"{name}."
    return {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}


def _planned(
    config: Config, features: FeatureMap, state: Mapping[str, Tensor]
) -> tuple[dict[str, Tensor] | None, dict[str, Tensor] | None]:
    """Tensors without memory, only with shapes: those of a predictor that is a network, and those of Φ and β.

    None if there is no network, or if a module of the user's own cannot do without memory.
    """
    try:
        with torch.device("meta"):
            predictor = build_for_state(config.predictor, features, state)
            parts = nn.ModuleDict({"encoder": config.encoder.build_encoder(features), "fusion": build_fusion(config)})
    except ResusError:
        raise
    except Exception:  # whatever the code of others raises
        return None, None
    return predictor.state_dict() if predictor.network is not None else None, parts.state_dict()


def _check_shapes(planned: Mapping[str, Tensor] | None, found: Mapping[str, Tensor]) -> None:
    if planned is None:
        return
    for name in sorted(planned.keys() | found.keys()):
        theirs, mine = (list(part[name].shape) if name in part else "no tensor" for part in (found, planned))
        if theirs != mine:
            raise ValueError(f"{name} is {theirs}, not {mine}")
