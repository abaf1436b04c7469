"""Every tensor is made on the model's device: training and answers on a device that refuses to mix with others."""

from functools import cache
from typing import Any

import polars as pl
import pytest
import torch
from planted_models import events, small_log, tiny
from pretended_device import DEVICE, Elsewhere, MixedDevicesError, pretended_device

from resus import ConfigError, Resus, load
from resus.model import devices, personalizer
from resus.model.encoders import ENCODERS
from resus.model.learners import LEARNERS
from resus.training import rowwise_adam

CONFIGURATIONS: dict[str, dict[str, Any]] = {
    **{
        f"ridge on {kind}": {"learner": "ridge", "predictor": kind, "encoder": kind}
        for kind in ENCODERS
        if kind not in ("own", "factors")
    },
    **{kind: {"learner": kind} for kind in LEARNERS},
    "cosine": {"learner": "nearest", "settings": {"learner.similarity": "cosine"}},
    "ridge with a bias": {"learner": "ridge", "settings": {"learner.bias": True, "fusion.bias": True}},
    "monotone": {"learner": "ridge", "settings": {"fusion.monotone": True}},
    "joint": {"learner": "ridge", "settings": {"predictor.pretrain": False}},
    "no shared model": {"learner": "plus", "predictor": "none"},
    "trees": {"learner": "plus", "predictor": "lightgbm"},
}
EVENTS = events()
SUPPORT, QUERY = EVENTS.filter(pl.col("time") < 5), EVENTS.filter(pl.col("time") >= 5)


def on(device: torch.device, options: dict[str, Any]) -> Resus:
    model = tiny(**options)
    model._device = device
    return model


def everything(model: Resus) -> tuple[Any, pl.DataFrame]:
    """All that runs in torch: training, every support size, posteriors and answers to tables."""
    model.fit(small_log())
    return model.evaluate(small_log(), draws=40), model.predict(SUPPORT, QUERY)


@cache
def on_the_processor(name: str) -> tuple[Any, pl.DataFrame]:
    return everything(tiny(**CONFIGURATIONS[name]))


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_no_tensor_is_elsewhere(name: str) -> None:
    expected, scores = on_the_processor(name)
    with pretended_device() as device:
        results, answers = everything(on(device, CONFIGURATIONS[name]))
    assert results == expected
    assert answers.equals(scores)


@pytest.mark.parametrize("learner", list(LEARNERS))
def test_a_device_without_float64_keeps_the_algebra_on_the_processor(
    learner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, scores = on_the_processor(learner)
    monkeypatch.setattr(personalizer, "device_of_algebra", lambda _: torch.device("cpu"))
    with pretended_device(float64=False) as device:
        model = on(device, {"learner": learner})
        results, answers = everything(model)
        assert model._fitted().model.device == DEVICE
    assert results == expected
    assert answers.equals(scores)


def test_rows_of_large_tables_are_updated_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rowwise_adam, "LARGE", 1)
    for learner in ("ridge", "plus"):
        expected, scores = everything(tiny(learner=learner))
        with pretended_device() as device:
            results, answers = everything(on(device, {"learner": learner}))
        assert results == expected
        assert answers.equals(scores)


def test_a_run_on_a_device_resumes_explains_and_is_saved(tmp_path: Any) -> None:
    here = tiny(learner="plus").fit(small_log(), folder=tmp_path / "here")
    with pretended_device() as device:
        there = on(device, {"learner": "plus"}).fit(small_log(), folder=tmp_path / "there")
        explained = there.predict(SUPPORT.head(20), QUERY.head(20), explain=True)
    files = [(tmp_path / folder / "model.safetensors").read_bytes() for folder in ("here", "there")]
    assert files[0] == files[1]
    assert explained.equals(here.predict(SUPPORT.head(20), QUERY.head(20), explain=True))
    assert load(tmp_path / "there").predict(SUPPORT, QUERY).equals(here.predict(SUPPORT, QUERY))


def test_the_pretended_device_refuses_what_an_accelerator_refuses() -> None:
    with pretended_device(float64=False) as device:
        there = torch.ones(3, device=device)
        assert isinstance(there, Elsewhere)
        with pytest.raises(MixedDevicesError):
            _ = there + torch.ones(3)
        with pytest.raises(MixedDevicesError):
            there.double()
        with pytest.raises((TypeError, RuntimeError)):
            there.numpy()
        assert there.cpu().numpy().tolist() == [1, 1, 1]


def test_the_names_of_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    def there(cuda: bool, mps: bool) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)

    there(cuda=False, mps=False)
    assert devices.device_of("auto") == devices.device_of(None) == devices.device_of("cpu") == torch.device("cpu")
    for name in ("cuda", "mps"):
        with pytest.raises(
            ConfigError, match=f"the device is '{name}', and torch finds no such device here: choose cpu"
        ):
            Resus(device=name)
    with pytest.raises(ConfigError, match="the device is 'gpu': choose auto, cpu, cuda or mps"):
        Resus(device="gpu")  # type: ignore[arg-type]
    there(cuda=False, mps=True)
    assert devices.device_of("auto") == torch.device("mps")
    there(cuda=True, mps=True)
    assert devices.device_of("auto") == torch.device("cuda")
    assert devices.device_of_algebra(torch.device("mps")) == torch.device("cpu")
    assert devices.device_of_algebra(torch.device("cuda")) == torch.device("cuda")
