"""What `Resus` can be told: names that a type checker knows, and settings of one's own kinds."""

from collections.abc import Iterator
from typing import Any, get_args

import pytest
from extending.architecture import SumOfFieldsSettings
from extending.learner import MeanSettings
from planted_models import TINY, small_log

from resus import ConfigError, Resus
from resus.estimator.choices import EncoderKind, LearnerKind
from resus.model.encoders import ENCODERS
from resus.model.learners import LEARNERS, NearestSettings

SHORT = {key: value for key, value in TINY.items() if key.startswith(("predictor.", "training.", "evaluation."))}
SHORT.pop("predictor.cin_maps")


@pytest.fixture
def _registries() -> Iterator[None]:
    """After the test, the registries are as before."""
    before = dict(ENCODERS._classes), dict(LEARNERS._classes)
    yield
    ENCODERS._classes, LEARNERS._classes = before


def test_the_types_name_every_kind_that_is_built_in() -> None:
    assert set(get_args(LearnerKind)) == set(LEARNERS)
    own = {"own", "factors"}  # one is a class, one comes with RESUS+
    assert set(get_args(EncoderKind)) == set(ENCODERS) - own


@pytest.mark.usefixtures("_registries")
def test_a_kind_of_ones_own_is_given_by_its_settings() -> None:
    LEARNERS.add(MeanSettings)
    ENCODERS.add(SumOfFieldsSettings)
    model = Resus(learner=MeanSettings(prior=3.0), encoder=SumOfFieldsSettings(width=2), settings=SHORT).fit(
        small_log()
    )
    assert model.config.learner == MeanSettings(prior=3.0)
    assert model.config.encoder == SumOfFieldsSettings(width=2)
    assert model.name == "RESUS-mean"


def test_settings_of_a_built_in_kind_are_taken_too() -> None:
    assert Resus(learner=NearestSettings(similarity="cosine")).config.learner == NearestSettings(similarity="cosine")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"learner": "rigde"}, "unknown 'learner.kind' 'rigde', did you mean 'ridge'"),
        ({"learner": MeanSettings()}, r"the learner kind 'mean' is not registered: call LEARNERS.add\(MeanSettings\)"),
        ({"learner": 3}, "the learner is a int: give the name of a kind"),
        ({"learner": NearestSettings(), "settings": {"learner.kind": "ridge"}}, "learner.similarity belongs to"),
    ],
)
def test_a_wrong_choice_is_one_sentence(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        Resus(**options)
