"""A trained model on disk: `model.safetensors` and `artifact.json`, and nothing that executes."""

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from pydantic import TypeAdapter, ValidationError
from torch import Tensor, nn

from resus.checked_folder import FACTS, MAX_FILE_BYTES, CheckedFolder, write_facts
from resus.checking import Settings, on_one_line, sentence_of
from resus.config.settings import Config
from resus.data.fields.feature_map import FeatureMap
from resus.data.log.manifest import ScoreFacts
from resus.data.schema import TableSchema
from resus.errors import ArtifactError, ResusError
from resus.history import EpochRecord, History
from resus.model.build import build_fusion, build_personalizer
from resus.model.personalizer import Personalizer
from resus.model.predictors.average import build_for_state
from resus.tensor_files import parse_tensors, save_tensors
from resus.version import __version__

__all__ = ["FACTS", "WEIGHTS", "Artifact", "TrainingLogFacts", "history_of", "rebuild"]

WEIGHTS = "model.safetensors"
_HISTORY = TypeAdapter(list[EpochRecord])
_PLANNED = ("encoder", "fusion")
_ROOM = 1 << 26  # for the header, and for a learner, which has few weights


class TrainingLogFacts(Settings):
    """The log that a model was trained on: its hash, its folder if it has one, and what its tables hold."""

    name: str
    hash: str
    path: str | None
    table: TableSchema | None
    score: ScoreFacts | None


@dataclass(frozen=True, eq=False)
class Artifact:
    """Everything needed to score again: settings, feature map and weights; and where they came from."""

    config: Config
    features: FeatureMap
    tensors: dict[str, Tensor]
    log: TrainingLogFacts
    history: History

    def save(self, folder: Path) -> None:
        """Write the weights first and the facts with their hash last, so that a folder with facts is complete."""
        if (folder / FACTS).exists():
            raise ArtifactError(f"{folder} holds a model already: choose another folder, or delete it")
        save_tensors(folder / WEIGHTS, self.tensors, {})
        facts = {
            "resus": __version__,
            "model": self.config.model_name,
            "config": self.config.model_dump(mode="json"),
            "features": self.features.to_json(),
            "log": self.log.model_dump(mode="json"),
            "history": [record.to_json() for record in self.history],
            "versions": {"python": platform.python_version(), "torch": torch.__version__, "numpy": np.__version__},
        }
        write_facts(folder, facts, [WEIGHTS])

    def part(self, name: str) -> dict[str, Tensor]:
        """The tensors of one part, `predictor` or `model`."""
        prefix = f"{name}."
        return {key.removeprefix(prefix): value for key, value in self.tensors.items() if key.startswith(prefix)}

    @classmethod
    def load(cls, folder: Path) -> "Artifact":
        return cls.of(CheckedFolder.open(folder))

    @classmethod
    def of(cls, folder: CheckedFolder) -> "Artifact":
        """The model in a folder whose facts are read."""
        path, facts = folder.path / FACTS, folder.facts
        try:
            config, log = Config.model_validate(facts["config"]), TrainingLogFacts.model_validate(facts["log"])
            features = FeatureMap.from_json(facts["features"])
            history = _HISTORY.validate_python(facts["history"])
        except ValidationError as error:
            raise ArtifactError(
                f"{path} is of another version of resus ({sentence_of(error, Config)}): train again"
            ) from None
        except (KeyError, ValueError, TypeError, AttributeError, RecursionError) as error:
            raise ArtifactError(f"{path} cannot be used ({on_one_line(error)}): train again") from None
        content = folder.read(WEIGHTS, limit=_weight_limit(config, features))
        tensors, _ = parse_tensors(content, folder.path / WEIGHTS)
        return cls(config, features, tensors, log, history)


def history_of(folder: CheckedFolder) -> History:
    """How training went, without the weights."""
    try:
        Config.model_validate(folder.facts["config"])
        return _HISTORY.validate_python(folder.facts["history"])
    except (KeyError, ValidationError):
        raise ArtifactError(f"{folder.path / FACTS} is of another version of resus: train again") from None


def rebuild(artifact: Artifact) -> Personalizer:
    """The model, as it was trained. Settings that ask for other shapes than those of the weights get no memory."""
    config, features = artifact.config, artifact.features
    state, rest = artifact.part("predictor"), artifact.part("model")
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


def _weight_limit(config: Config, features: FeatureMap) -> int:
    """More bytes than the weights of these settings can have."""
    try:
        planned = _planned(config, features, {})
    except ResusError:  # an encoder of the user's own is not given yet
        planned = None, None
    predictor, parts = (
        MAX_FILE_BYTES if part is None else sum(tensor.nbytes for tensor in part.values()) for part in planned
    )
    return predictor * max(1, config.training.folds) + parts + _ROOM
