"""The mean of several predictors, such as those that cross-fitting trains on different users."""

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

import torch
from torch import Tensor, nn

from resus.data.fields.feature_map import FeatureMap
from resus.episodes.batch import Features
from resus.errors import ArtifactError
from resus.model.predictors import MOST_MEMBERS, PredictorSettings
from resus.model.predictors.base import Predictor
from resus.model.predictors.in_numpy import MEMBER


class AveragePredictor(Predictor):
    """Ψ(x) is the mean of its members' logits."""

    def __init__(self, members: Sequence[Predictor]) -> None:
        self.members = list(members)

    def logits(self, features: Features) -> Tensor:
        return torch.stack([member.logits(features) for member in self.members]).mean(dim=0)

    def state_dict(self) -> dict[str, Tensor]:
        states = (member.state_dict() for member in self.members)
        return {f"{MEMBER}{n}.{name}": value for n, state in enumerate(states) for name, value in state.items()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        for number, member in enumerate(self.members):
            prefix = f"{MEMBER}{number}."
            own = {name.removeprefix(prefix): value for name, value in state_dict.items() if name.startswith(prefix)}
            member.load_state_dict(own)

    @property
    def network(self) -> nn.Module | None:
        networks = [member.network for member in self.members if member.network is not None]
        return _Mean(networks) if len(networks) == len(self.members) else None

    @property
    def lead(self) -> Predictor:
        return self.members[0]

    def files(self) -> dict[str, bytes]:
        files = [(n, name, content) for n, one in enumerate(self.members, 1) for name, content in one.files().items()]
        return {f"{PurePath(name).stem}-{n}{PurePath(name).suffix}": content for n, name, content in files}

    def check(self, features: Features) -> None:
        for member in self.members:
            member.check(features)


class _Mean(nn.Module):
    """The networks of all members as one, to export."""

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)

    def forward(self, features: Features) -> Tensor:
        return torch.stack([network(features) for network in self.networks]).mean(dim=0)


def build_for_state(settings: PredictorSettings, features: FeatureMap, state: Mapping[str, Tensor]) -> Predictor:
    """A predictor into which `state` fits: a single one, or the mean of several."""
    members = {name.partition(".")[0] for name in state if name.startswith(MEMBER)}
    if not members:
        return settings.build_predictor(features)
    if len(members) > MOST_MEMBERS or members != {f"{MEMBER}{number}" for number in range(len(members))}:
        raise ArtifactError(
            "the artifact's weights do not fit its settings (members of a mean are missing): train again"
        )
    return AveragePredictor([settings.build_predictor(features) for _ in members])
