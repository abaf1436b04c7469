"""A device that is not there: tensors on it hold their values on the processor, and refuse to mix with others.

torch's own fake tensors know no values, and cannot go backward on `cuda` in a build without CUDA. Here every operation
runs with real numbers. A tensor says that it is on the device `meta`, which every build of torch knows; it cannot
become a numpy array, and an operation with a tensor that is elsewhere fails, as it would on an accelerator.
"""

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
from torch.utils._python_dispatch import TorchDispatchMode

DEVICE = torch.device("meta")
OPTIMIZER = importlib.import_module("torch.optim.optimizer")
COPIES = (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default)


class MixedDevicesError(RuntimeError):
    """An operation on tensors of two devices."""


class Elsewhere(torch.Tensor):
    """A tensor on the pretended device."""

    held: torch.Tensor

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> "Elsewhere":
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            held.shape,
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=DEVICE,
        )
        made.held = held
        return made

    def tolist(self) -> Any:
        return self.held.tolist()

    def __deepcopy__(self, memo: dict[int, Any]) -> torch.Tensor:
        copied = Elsewhere(self.held.clone()).requires_grad_(self.requires_grad)
        if isinstance(self, torch.nn.Parameter):
            return torch.nn.Parameter(copied, requires_grad=self.requires_grad)
        return copied

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        return _run(func, args, kwargs or {})


class _Pretending(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Makes tensors on the pretended device where they are asked for."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


@contextlib.contextmanager
def pretended_device(*, float64: bool = True) -> Iterator[torch.device]:
    """The device, as long as the block lasts; without `float64` it refuses such tensors, as Apple's does."""
    fused = [*OPTIMIZER._get_fused_kernels_supported_devices(), DEVICE.type]
    with (
        mock.patch.object(torch, "tensor", _tensor),
        mock.patch.object(OPTIMIZER, "_get_fused_kernels_supported_devices", return_value=fused),
        mock.patch.dict(_refused, {torch.float64: not float64}),
        _Pretending(),  # type: ignore[no-untyped-call]
    ):
        yield DEVICE


def _tensor(data: Any, *, device: Any = None, **options: Any) -> torch.Tensor:
    """`torch.tensor`, which would make a tensor without values there."""
    made = _MADE_HERE(data, **options)
    return made if device is None else made.to(device)


_MADE_HERE = torch.tensor
_refused: dict[torch.dtype, bool] = {}


def _run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    there: dict[int, Elsewhere] = {}
    here: list[torch.Tensor] = []
    options = {key: _plain(value, there, here) for key, value in kwargs.items()}
    plain = _plain(args, there, here)
    if there and here and func not in COPIES:
        raise MixedDevicesError(f"{func} got tensors of {DEVICE} and of the processor, of shape {list(here[0].shape)}")
    asked = kwargs.get("device")
    goes_there = bool(there) if asked is None else torch.device(asked) == DEVICE
    if func is torch.ops.aten.copy_.default:
        goes_there = isinstance(args[0], Elsewhere)
    if asked is not None:
        options["device"] = torch.device("cpu")
    found = func(*plain, **options)
    if not goes_there or func is torch.ops.aten._local_scalar_dense.default:
        return found
    return _placed(found, there, func)


def _plain(value: Any, there: dict[int, Elsewhere], here: list[torch.Tensor]) -> Any:
    """An argument as the processor takes it; adds its tensors to those of the device, by what they hold, or to `here`.

    torch's own walks through arguments take most of the time of a test: they know dataclasses, named tuples and more.
    """
    if isinstance(value, Elsewhere):
        there[id(value.held)] = value
        return value.held
    if isinstance(value, torch.Tensor):
        if value.dim() > 0:
            here.append(value)
    elif isinstance(value, list | tuple):
        return [_plain(one, there, here) for one in value]
    return value


def _placed(value: Any, there: dict[int, Elsewhere], func: Any) -> Any:
    """What an operation made, on the device."""
    if isinstance(value, list | tuple):
        return type(value)(_placed(one, there, func) for one in value)
    if not isinstance(value, torch.Tensor):
        return value
    if id(value) in there:  # changed in place
        return there[id(value)]
    if _refused.get(value.dtype):
        raise MixedDevicesError(f"{func} makes a tensor of {value.dtype}, which the device does not have")
    return Elsewhere(value)
