"""Base-learners Λ. To add one: `LEARNERS.add(MySettings)`."""

from resus.checking import Registry
from resus.model.encoders import ENCODERS
from resus.model.learners.nearest.settings import NearestSettings
from resus.model.learners.plus.settings import FactorSettings, PlusSettings
from resus.model.learners.ridge.settings import RidgeSettings
from resus.model.learners.settings import LearnerSettings

LEARNERS: Registry[LearnerSettings] = Registry("learner", RidgeSettings, NearestSettings, PlusSettings, default="ridge")
ENCODERS.add(FactorSettings)  # only RESUS+ works on it
