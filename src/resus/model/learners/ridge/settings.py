"""Settings of the ridge learner, RESUS-RR."""

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from resus.model.learners.settings import KIND, LearnerSettings

if TYPE_CHECKING:
    from resus.model.learners.ridge.learner import RidgeLearner


class RidgeSettings(LearnerSettings):
    kind: Literal["ridge"] = Field(default="ridge", description=KIND)
    ridge: float = Field(default=1.0, ge=1e-6, description="initial strength λ of the ridge")
    learn_ridge: bool = Field(default=True, description="learn λ, or keep it")
    bias: bool = Field(default=False, description="fit a bias for each user")
    title: ClassVar[str] = "RR"

    def build_learner(self, width: int) -> "RidgeLearner":  # noqa: ARG002  # its parameters do not depend on the width
        from resus.model.learners.ridge.learner import RidgeLearner

        return RidgeLearner(ridge=self.ridge, learn_ridge=self.learn_ridge, bias=self.bias)
