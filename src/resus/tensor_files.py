"""Files of named tensors with JSON facts in the header: nothing that executes."""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import safetensors
import safetensors.numpy

from resus.arrays import Array
from resus.checking import on_one_line
from resus.errors import ArtifactError
from resus.files import atomic_path, memory_bytes, read_bounded, reason_of

if TYPE_CHECKING:
    from torch import Tensor

LENGTH_BYTES = 8
MAX_HEADER_BYTES = 100_000_000  # safetensors' own bound
_BAD = (ValueError, TypeError, KeyError, AttributeError, AssertionError, RuntimeError)  # of bent headers


def save_tensors(path: Path, tensors: "dict[str, Tensor]", facts: dict[str, Any]) -> None:
    """Write the whole file or nothing."""
    save_arrays(path, {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}, facts)


def save_arrays(path: Path, arrays: dict[str, Array], facts: dict[str, Any]) -> None:
    """The same without torch."""
    packed = {name: np.ascontiguousarray(array).reshape(array.shape) for name, array in arrays.items()}
    with atomic_path(path) as aside:
        aside.touch()
        readers = aside.stat().st_mode  # safetensors would let only the owner read the file
        try:
            told = json.dumps([_digest(packed, facts), facts])  # one entry: several would stand in any order
            safetensors.numpy.save_file(packed, aside, metadata={"resus": told})
        except safetensors.SafetensorError as error:
            refused = re.search(r"os error (\d+)", str(error))  # Rust's text of the system error
            if refused is None:
                raise
            raise OSError(int(refused[1]), os.strerror(int(refused[1]))) from None
        aside.chmod(readers)


def load_tensors(path: Path) -> "tuple[dict[str, Tensor], dict[str, Any]]":
    """What `save_tensors` wrote, if its tensors and facts still have the hash in its header."""
    import torch

    try:
        content = read_bounded(path, memory_bytes())
        arrays, wanted, facts = _parse(content, path)
    except FileNotFoundError:
        raise ArtifactError(f"{path} does not exist: check the path, or train again") from None
    except OSError as error:
        raise ArtifactError(f"{path} cannot be read ({reason_of(error)}): train again") from None
    if wanted is not None and wanted != _digest(arrays, facts):
        raise ArtifactError(f"{path} was changed after it was written: delete it, and train again")
    return {name: torch.from_numpy(array) for name, array in arrays.items()}, facts


def parse_arrays(content: bytes, path: Path) -> dict[str, Array]:
    """The arrays in the bytes of a file whose hash was compared, without torch."""
    return _parse(content, path)[0]


def _parse(content: bytes, path: Path) -> tuple[dict[str, Array], str | None, dict[str, Any]]:
    """Arrays, their hash (files of before have none) and facts."""
    try:
        told = _header(content).get("__metadata__", {}).get("resus")
        arrays = {name: array.copy() for name, array in safetensors.numpy.load(content).items()}
        if told is None:
            raise ArtifactError(f"{path} was not written by resus: point to a run folder that 'resus train' made")
        facts = json.loads(told)
        wanted, facts = facts if isinstance(facts, list) else (None, facts)
        if not isinstance(facts, dict):
            raise TypeError("its facts are not a mapping")
        return arrays, wanted, facts
    except (*_BAD, safetensors.SafetensorError) as error:
        raise ArtifactError(f"{path} is not a whole safetensors file ({on_one_line(error)}): train again") from None


def _digest(arrays: Mapping[str, Array], facts: dict[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(facts).encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype} {list(array.shape)}".encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _header(content: bytes) -> Any:
    """The JSON before the tensors, after its length in 8 bytes."""
    length = int.from_bytes(content[:LENGTH_BYTES], "little")
    if length > min(len(content) - LENGTH_BYTES, MAX_HEADER_BYTES):
        raise ValueError("its header is cut short or too long")
    return json.loads(content[LENGTH_BYTES : LENGTH_BYTES + length])
