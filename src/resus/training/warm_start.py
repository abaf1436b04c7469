"""Training that goes on from the weights of an earlier run instead of random ones."""

import hashlib
import warnings
from dataclasses import dataclass

import safetensors.torch

from resus.config.settings import Config
from resus.data.fields.feature_map import FeatureMap
from resus.data.log.known_users import KnownUsers
from resus.data.log.log import InteractionLog
from resus.data.split import UserSplit, split_further
from resus.errors import ConfigError, ResusWarning
from resus.model.growing import Growth
from resus.model.personalizer import Personalizer
from resus.model.predictors.base import Predictor


@dataclass(frozen=True, eq=False)
class WarmStart:
    """A trained model, the settings and features it was trained with, and the users that it has met."""

    model: Personalizer
    config: Config
    features: FeatureMap
    users: KnownUsers

    @property
    def mark(self) -> str:
        """One hash of all its weights."""
        state = {f"predictor.{name}": value for name, value in self.model.predictor.state_dict().items()}
        state |= {f"model.{name}": value for name, value in self.model.state_dict().items()}
        return hashlib.sha256(safetensors.torch.save(state)).hexdigest()

    def split(self, config: Config, log: InteractionLog) -> UserSplit:
        """Users that the model has met stay in their parts."""
        met, chosen = self.users.among(log), config.split
        if not met.unseen.any():
            raise ConfigError(
                f"the run to start from was trained on every user of the log '{log.name}', so none is left to test on: "
                "take a log that also has other users"
            )
        return split_further(met.train, met.validation, ratios=chosen.ratios, order=chosen.order, seed=config.seed)

    def met_some_of(self, log: InteractionLog) -> bool:
        """Whether users of a log trained it."""
        return bool(self.users.among(log).train.any())

    def growth(self, features: FeatureMap) -> Growth:
        return Growth(self.features, features)

    def into(self, config: Config, model: Personalizer, features: FeatureMap) -> None:
        """Put the weights into a fresh model of the same kinds, which may know more values."""
        for part in ("predictor", "encoder", "learner"):
            here, there = getattr(config, part).kind, getattr(self.config, part).kind
            if here != there:
                raise ConfigError(
                    f"{part}.kind is {here}, and the run to start from has {there}: leave it out, or train without a "
                    "warm start"
                )
        self.into_predictor(model.predictor, features)
        model.load_state_dict(self.growth(features).state(self.model.state_dict(), model.state_dict(), "model"))

    def into_predictor(self, predictor: Predictor, features: FeatureMap) -> None:
        why = predictor.start_from(self.model.predictor.lead, self.growth(features))
        if why is not None:
            warnings.warn(why, ResusWarning, stacklevel=2)
