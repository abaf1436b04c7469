"""A trained model on disk: `model.safetensors` and `artifact.json`, and nothing that executes."""

import hashlib
import json
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import ValidationError
from torch import Tensor

from resus.checking import Settings, sentence_of
from resus.config.settings import Config
from resus.data.fields.feature_map import FeatureMap
from resus.data.log.manifest import ScoreFacts
from resus.data.schema import TableSchema
from resus.errors import ArtifactError
from resus.files import read_json, sha256_of, write_json
from resus.history import EpochRecord, History
from resus.model.build import build_personalizer
from resus.model.personalizer import Personalizer
from resus.model.predictors.average import build_for_state
from resus.tensor_files import load_tensors, save_tensors
from resus.version import __version__

FORMAT = 1
FACTS = "artifact.json"
WEIGHTS = "model.safetensors"


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
            "format": FORMAT,
            "resus": __version__,
            "model": self.config.model_name,
            "config": self.config.model_dump(mode="json"),
            "features": self.features.to_json(),
            "log": self.log.model_dump(mode="json"),
            "history": [record.to_json() for record in self.history],
            "versions": {"python": platform.python_version(), "torch": torch.__version__, "numpy": np.__version__},
            "weights_sha256": sha256_of(folder / WEIGHTS),
        }
        write_json(folder / FACTS, facts | {"facts_sha256": _hash(facts)})

    def part(self, name: str) -> dict[str, Tensor]:
        """The tensors of one part, `predictor` or `model`."""
        prefix = f"{name}."
        return {key.removeprefix(prefix): value for key, value in self.tensors.items() if key.startswith(prefix)}

    @classmethod
    def load(cls, folder: Path) -> "Artifact":
        if folder.is_file():
            raise ArtifactError(f"{folder} is a file, not a folder with a model: give a folder that 'resus train' made")
        if not folder.is_dir():
            raise ArtifactError(f"{folder} does not exist: train a model with 'resus train', or check the path")
        if not (folder / FACTS).is_file():
            advice = "point to a folder that 'resus train' made"
            if (folder / "checkpoints").is_dir():
                advice = "finish it with the same 'resus train' command and --resume"
            raise ArtifactError(f"{folder} holds no trained model (no {FACTS}): {advice}")
        facts = read_json(folder / FACTS)
        if not isinstance(facts, dict) or facts.get("format") != FORMAT or "weights_sha256" not in facts:
            raise ArtifactError(f"{folder / FACTS} is not a resus artifact of format {FORMAT}: train again")
        if facts.pop("facts_sha256", None) != _hash(facts):
            raise ArtifactError(f"{folder / FACTS} was changed after it was written: restore it, or train again")
        tensors, _ = load_tensors(folder / WEIGHTS)
        if sha256_of(folder / WEIGHTS) != facts["weights_sha256"]:
            raise ArtifactError(f"{folder / WEIGHTS} is not the file that {FACTS} describes: train again")
        try:
            config, log = Config.model_validate(facts["config"]), TrainingLogFacts.model_validate(facts["log"])
        except ValidationError as error:
            raise ArtifactError(
                f"{folder / FACTS} is of another version of resus ({sentence_of(error, Config)}): train again"
            ) from None
        history = [EpochRecord(**record) for record in facts["history"]]
        return cls(config, FeatureMap.from_json(facts["features"]), tensors, log, history)


def rebuild(artifact: Artifact) -> Personalizer:
    """The model, as it was trained."""
    state = artifact.part("predictor")
    predictor = build_for_state(artifact.config.predictor, artifact.features, state)
    model = build_personalizer(artifact.config, artifact.features, predictor)
    try:
        predictor.load_state_dict(state)
        model.load_state_dict(artifact.part("model"))
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip()
        raise ArtifactError(f"the artifact's weights do not fit its settings ({reason}): train again") from None
    return model.eval()


def _hash(facts: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
