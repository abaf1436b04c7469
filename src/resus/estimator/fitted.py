"""What `fit` or `load` leaves behind."""

from dataclasses import dataclass

from resus.artifact import TrainingLogFacts
from resus.data.fields.feature_map import FeatureMap
from resus.data.log.known_users import KnownUsers
from resus.data.negatives.support import NegativeItems
from resus.history import History
from resus.model.personalizer import Personalizer


@dataclass(frozen=True, eq=False)
class Fitted:
    """A trained model, how training went, the log that it was trained on, and the users it has met."""

    model: Personalizer
    history: History
    features: FeatureMap
    log: TrainingLogFacts
    users: KnownUsers | None = None
    negatives: NegativeItems | None = None  # to draw for users whose events are all positive
