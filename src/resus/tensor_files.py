"""Files of named tensors with JSON facts in the header: nothing that executes."""

import json
import os
import re
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor

from resus.checking import on_one_line
from resus.errors import ArtifactError
from resus.files import atomic_path, read_bounded, reason_of

LENGTH_BYTES = 8
MAX_HEADER_BYTES = 100_000_000  # safetensors' own bound
MAX_BYTES = 1 << 36
_BAD = (ValueError, TypeError, KeyError, AttributeError, AssertionError, RuntimeError)  # of bent headers


def save_tensors(path: Path, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
    """Write the whole file or nothing."""
    packed = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    with atomic_path(path) as aside:
        aside.touch()
        readers = aside.stat().st_mode  # safetensors would let only the owner read the file
        try:
            safetensors.torch.save_file(packed, aside, metadata={"resus": json.dumps(facts)})
        except safetensors.SafetensorError as error:
            refused = re.search(r"os error (\d+)", str(error))  # Rust's text of the system error
            if refused is None:
                raise
            raise OSError(int(refused[1]), os.strerror(int(refused[1]))) from None
        aside.chmod(readers)


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What `save_tensors` wrote."""
    try:
        return parse_tensors(read_bounded(path, MAX_BYTES), path)
    except FileNotFoundError:
        raise ArtifactError(f"{path} does not exist: check the path, or train again") from None
    except OSError as error:
        raise ArtifactError(f"{path} cannot be read ({reason_of(error)}): train again") from None


def parse_tensors(content: bytes, path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The same from the bytes of the file."""
    try:
        facts = _header(content).get("__metadata__", {}).get("resus")
        tensors = safetensors.torch.load(content)
        if facts is None:
            raise ArtifactError(f"{path} was not written by resus: point to a run folder that 'resus train' made")
        return tensors, json.loads(facts)
    except (*_BAD, safetensors.SafetensorError) as error:
        raise ArtifactError(f"{path} is not a whole safetensors file ({on_one_line(error)}): train again") from None


def _header(content: bytes) -> Any:
    """The JSON before the tensors, after its length in 8 bytes."""
    length = int.from_bytes(content[:LENGTH_BYTES], "little")
    if length > min(len(content) - LENGTH_BYTES, MAX_HEADER_BYTES):
        raise ValueError("its header is cut short or too long")
    return json.loads(content[LENGTH_BYTES : LENGTH_BYTES + length])
