"""Files of named tensors with JSON facts in the header: nothing that executes."""

import json
import os
import re
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor

from resus.errors import ArtifactError
from resus.files import atomic_path


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
        with safetensors.safe_open(path, framework="pt") as stored:
            facts = (stored.metadata() or {}).get("resus")
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118  # not a mapping
    except FileNotFoundError:
        raise ArtifactError(f"{path} does not exist: check the path, or train again") from None
    except (safetensors.SafetensorError, OSError) as error:
        raise ArtifactError(f"{path} is not a whole safetensors file ({error}): train again") from None
    if facts is None:
        raise ArtifactError(f"{path} was not written by resus: point to a run folder that 'resus train' made")
    return tensors, json.loads(facts)
