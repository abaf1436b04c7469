"""Where a model runs: the processor, or an accelerator that torch knows."""

from typing import Literal, get_args

import torch

from resus.errors import ConfigError
from resus.wording import advice

Device = Literal["auto", "cpu", "cuda", "mps"]


def device_of(name: str | None) -> torch.device:
    """The device of this name; `auto` is the first that is there of cuda, mps and cpu, and None is cpu."""
    found = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name is None:
        return torch.device("cpu")
    if name == "auto":
        return torch.device(next(kind for kind, there in found.items() if there))
    said = advice(python=f"the device is {name!r}", command=f"--device is '{name}'")
    if name not in found:
        raise ConfigError(f"{said}: choose {', '.join(get_args(Device)[:-1])} or {get_args(Device)[-1]}")
    if not found[name]:
        raise ConfigError(f"{said}, and torch finds no such device here: choose cpu, or auto for the best one there is")
    return torch.device(name)


def device_of_algebra(device: torch.device) -> torch.device:
    """Where learners and fusion run: Apple's mps has no float64, which their systems of equations need."""
    return torch.device("cpu") if device.type == "mps" else device
