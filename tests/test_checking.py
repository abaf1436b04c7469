"""The sentences that pydantic's findings become."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from resus.checking import checked, known_keys, nearest_key, on_one_line
from resus.errors import ConfigError


class Engine(BaseModel):
    model_config = ConfigDict(extra="forbid")

    cylinders: int = Field(default=4, ge=1)
    fuel: str = "petrol"


class Car(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str
    wheels: int = 4
    engine: Engine | None = None


def test_nested_models_have_dotted_keys() -> None:
    assert known_keys(Car) == ["name", "wheels", "engine", "engine.cylinders", "engine.fuel"]


@pytest.mark.parametrize(
    ("wrong", "nearest"),
    [
        ("wheel", "wheels"),
        ("engine.cylinder", "engine.cylinders"),
        ("cylinders", "engine.cylinders"),
        ("motor.fuel", "engine.fuel"),
        ("fule", "engine.fuel"),
        ("engine.user", None),
        ("qqqqqqqq", None),
    ],
)
def test_the_nearest_key(wrong: str, nearest: str | None) -> None:
    assert nearest_key(wrong, known_keys(Car)) == nearest


@given(st.sampled_from(known_keys(Car)))
def test_a_known_key_is_nearest_to_itself(key: str) -> None:
    assert nearest_key(key, known_keys(Car)) == key


@given(st.text(), st.lists(st.text()))
def test_the_nearest_key_is_a_known_one(wrong: str, known: list[str]) -> None:
    assert nearest_key(wrong, known) in {*known, None}


def test_all_findings_are_in_one_sentence() -> None:
    with pytest.raises(ConfigError) as caught:
        checked(Car, {"wheles": 3, "engine": {"cylinders": 0, "fule": "x"}})
    said = str(caught.value)
    assert "key 'name' is missing" in said
    assert "unknown key 'wheles', did you mean 'wheels'?" in said
    assert "unknown key 'engine.fule', did you mean 'engine.fuel'?" in said
    assert "'engine.cylinders' is 0: give a number of at least 1" in said
    assert "\n" not in said


def test_known_keys_are_listed_once() -> None:
    with pytest.raises(ConfigError) as caught:
        checked(Car, {"name": "2cv", "roof": 1, "sky": 2})
    assert str(caught.value).count("engine.cylinders") == 1


def test_right_values_come_back_as_the_model() -> None:
    assert checked(Car, {"name": "2cv", "engine": {"cylinders": 2}}) == Car(name="2cv", engine=Engine(cylinders=2))


@given(st.text())
def test_a_message_keeps_its_words_on_one_line(text: str) -> None:
    line = on_one_line(ValueError(text))
    assert line.split() == text.split()
    assert len(line.splitlines()) <= 1
