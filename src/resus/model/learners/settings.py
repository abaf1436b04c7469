"""What a learner is called, how it is trained and what comes with it; torch is imported only to build it."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from resus.checking import Settings

if TYPE_CHECKING:
    from resus.model.learners.base import Learner

KIND = "ridge (RESUS-RR), nearest (RESUS-NN) or plus (RESUS+)"


class LearnerSettings(Settings):
    """Λ, which fits one user."""

    kind: str
    title: ClassVar[str]  # RESUS-<title> in tables
    recipe: ClassVar[str] = "paper"  # in training/recipes
    encoder: ClassVar[str | None] = None  # the only kind of encoder that it works on
    has_beta: ClassVar[bool] = True  # fusion learns a scale of its answers
    cross_fits: ClassVar[bool] = False  # its training users may get logits of predictors that never saw them
    uses_validation_users: ClassVar[bool] = False  # it learns numbers from the labels of validation users

    @abstractmethod
    def build_learner(self, width: int) -> "Learner":
        """The learner for encodings of `width` numbers."""

    @classmethod
    def presets(cls, protocol: str) -> Mapping[str, Any]:  # noqa: ARG003  # some learners differ by protocol
        """Defaults of other settings that come with it, by dotted keys."""
        return {}

    @classmethod
    def model_name(cls, *, shared: bool) -> str:
        """The whole model as tables call it, on a shared predictor or alone."""
        return f"{'RESUS' if shared else 'MUS'}-{cls.title}"
