"""A trained model on disk: weights, hashes of the users it has met and `artifact.json`; nothing that executes."""

import platform
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from resus.arrays import Array
from resus.checked_folder import FACTS, CheckedFolder, write_facts
from resus.checking import Settings, on_one_line, sentence_of
from resus.config.settings import Config
from resus.data.fields.feature_map import FeatureMap
from resus.data.log.known_users import KnownUsers
from resus.data.log.manifest import ScoreFacts
from resus.data.negatives.settings import DrawnNegatives
from resus.data.negatives.support import NegativeItems
from resus.data.options import PrepareOptions
from resus.data.schema import TableSchema
from resus.errors import ArtifactError
from resus.history import EpochRecord, History
from resus.model.inference.model import Inference
from resus.tensor_files import parse_arrays, save_arrays
from resus.version import __version__

if TYPE_CHECKING:
    from resus.model.personalizer import Personalizer

__all__ = [
    "FACTS",
    "NEGATIVES",
    "USERS",
    "WEIGHTS",
    "Artifact",
    "TrainingLogFacts",
    "history_of",
    "inference",
    "rebuild",
]

WEIGHTS = "model.safetensors"
USERS = "users.safetensors"
NEGATIVES = "negatives.safetensors"  # the items to draw, if the log has drawn negatives
_HISTORY = TypeAdapter(list[EpochRecord])


class TrainingLogFacts(Settings):
    """The log that a model was trained on: its hash, its folder if it has one, and what its tables hold."""

    name: str
    hash: str
    path: str | None
    table: TableSchema | None
    options: PrepareOptions | None = None
    score: ScoreFacts | None
    warm_start: str | None = None  # a hash of the weights that training started from
    negatives: DrawnNegatives | None = None


@dataclass(frozen=True, eq=False)
class Artifact:
    """Everything needed to score again: settings, feature map and weights; and where they came from."""

    config: Config
    features: FeatureMap
    weights: dict[str, Array]
    log: TrainingLogFacts
    history: History
    users: KnownUsers | None = None  # an export has none
    negatives: NegativeItems | None = None

    def save(self, folder: Path) -> None:
        """Write the weights first and the facts with their hash last, so that a folder with facts is complete."""
        if (folder / FACTS).exists():
            raise ArtifactError(f"{folder} holds a model already: choose another folder, or delete it")
        save_arrays(folder / WEIGHTS, self.weights, {})
        files = [WEIGHTS]
        if self.users is not None:
            save_arrays(folder / USERS, self.users.to_arrays(), {})
            files.append(USERS)
        if self.negatives is not None:
            save_arrays(folder / NEGATIVES, self.negatives.arrays(), {})
            files.append(NEGATIVES)
        facts = {
            "resus": __version__,
            "model": self.config.model_name,
            "config": self.config.model_dump(mode="json"),
            "features": self.features.to_json(),
            "log": self.log.model_dump(mode="json"),
            "history": [record.to_json() for record in self.history],
            "versions": {"python": platform.python_version(), "torch": version("torch"), "numpy": version("numpy")},
        }
        write_facts(folder, facts, files)

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
        weights = parse_arrays(folder.read(WEIGHTS), folder.path / WEIGHTS)
        negatives = _negatives_in(folder, log, features)
        return cls(config, features, weights, log, history, _users_of(folder), negatives)


def _users_of(folder: CheckedFolder) -> KnownUsers | None:
    """The users that a run has met; an export does not say."""
    if USERS not in folder:
        return None
    path = folder.path / USERS
    try:
        return KnownUsers.from_arrays(parse_arrays(folder.read(USERS), path))
    except ValueError as error:
        raise ArtifactError(f"{path} cannot be used ({error}): train again") from None


def config_of(folder: CheckedFolder) -> Config:
    """The settings of a run, without the weights."""
    try:
        return Config.model_validate(folder.facts["config"])
    except (KeyError, ValidationError):
        raise ArtifactError(f"{folder.path / FACTS} is of another version of resus: train again") from None


def _negatives_in(folder: CheckedFolder, log: TrainingLogFacts, features: FeatureMap) -> NegativeItems | None:
    if log.negatives is None:
        return None
    path = folder.path / NEGATIVES
    try:
        return NegativeItems.read(parse_arrays(folder.read(NEGATIVES), path), log.negatives, features)
    except (ValueError, KeyError) as error:
        raise ArtifactError(f"{path} does not fit the model ({on_one_line(error)}): train again") from None


def history_of(folder: CheckedFolder) -> History:
    """How training went, without the weights."""
    try:
        Config.model_validate(folder.facts["config"])
        return _HISTORY.validate_python(folder.facts["history"])
    except (KeyError, ValidationError):
        raise ArtifactError(f"{folder.path / FACTS} is of another version of resus: train again") from None


def inference(artifact: Artifact) -> Inference:
    """The model for live users, without torch if each of its parts can do without."""
    try:
        found = Inference.of(artifact.config, artifact.features, artifact.weights)
    except (KeyError, IndexError, ValueError, TypeError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise ArtifactError(f"the artifact's weights do not fit its settings ({reason}): train again") from None
    if found is None:
        from resus.model.inference.in_torch import inference_in_torch

        found = inference_in_torch(rebuild(artifact))
    return replace(found, negatives=artifact.negatives)


def rebuild(artifact: Artifact) -> "Personalizer":
    """The model in torch, as it was trained."""
    from resus.model.restore import restored

    return restored(artifact.config, artifact.features, artifact.weights)
