"""Settings of the nearest-neighbour learner, RESUS-NN."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from resus.model.learners.settings import KIND, LearnerSettings

if TYPE_CHECKING:
    from resus.model.learners.nearest.learner import NearestLearner


class NearestSettings(LearnerSettings):
    kind: Literal["nearest"] = Field(default="nearest", description=KIND)
    similarity: Literal["learned", "cosine"] = Field(default="learned", description="of two events: learned or cosine")
    title: ClassVar[str] = "NN"

    def build_learner(self, width: int) -> "NearestLearner":
        from resus.model.learners.nearest.learner import NearestLearner
        from resus.model.learners.nearest.similarity import CosineSimilarity, LearnedSimilarity

        return NearestLearner(LearnedSimilarity(width) if self.similarity == "learned" else CosineSimilarity())

    @classmethod
    def presets(cls, protocol: str) -> Mapping[str, Any]:
        return {"fusion.scale": 3.0} if protocol == "authors-release" else {}

    @classmethod
    def model_name(cls, *, shared: bool) -> str:
        return "RESUS-NN" if shared else "MUS"
