"""The state of an unfinished stage in one file, replaced whole from time to time: a killed run goes on from there."""

import json
import os
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from resus.errors import ArtifactError
from resus.files import atomic_path
from resus.training.rowwise_adam import RowwiseAdam


@dataclass
class StageState:
    """Everything besides the weights that a stage needs to go on."""

    epoch: int = 0
    batch: int = 0  # of the epoch under way
    loss: float = 0.0  # summed over its batches so far
    seconds: float = 0.0  # spent on them
    best_epoch: int = 0
    best_auc: float = float("-inf")
    finished: bool = False
    history: list[dict[str, Any]] = field(default_factory=list)


def save_tensors(path: Path, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
    """Tensors with JSON facts in the header, whole or not at all."""
    packed = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    with atomic_path(path) as aside:
        aside.touch()
        readers = aside.stat().st_mode  # safetensors would keep the file to its owner
        try:
            safetensors.torch.save_file(packed, aside, metadata={"resus": json.dumps(facts)})
        except safetensors.SafetensorError as error:
            refused = re.search(r"os error (\d+)", str(error))  # as Rust says why the system would not write
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


def save_checkpoint(
    path: Path,
    state: StageState,
    module: torch.nn.Module,
    best: dict[str, Tensor],
    optimizer: torch.optim.Optimizer,
    fingerprint: str,
) -> None:
    tensors = {f"module.{name}": tensor for name, tensor in module.state_dict().items()}
    tensors |= {f"best.{name}": tensor for name, tensor in best.items()}
    for number, entries in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{number}.{name}": torch.as_tensor(value) for name, value in entries.items()}
    if isinstance(optimizer, RowwiseAdam):
        tensors |= {f"tables.{name}": tensor for name, tensor in optimizer.table_state().items()}
    save_tensors(path, tensors, {"state": asdict(state), "fingerprint": fingerprint})


def load_checkpoint(
    path: Path, module: torch.nn.Module, optimizer: torch.optim.Optimizer, fingerprint: str
) -> tuple[StageState, dict[str, Tensor]]:
    """Put module and optimizer where they were; refuse the checkpoint of another configuration."""
    tensors, facts = load_tensors(path)
    if facts.get("fingerprint") != fingerprint:
        raise ArtifactError(
            f"{path} belongs to a run with other settings or other data: use the same ones, or start afresh elsewhere"
        )
    parts: dict[str, dict[str, Tensor]] = {"module": {}, "best": {}, "optimizer": {}, "tables": {}}
    for name, tensor in tensors.items():
        part, _, rest = name.partition(".")
        parts[part][rest] = tensor
    module.load_state_dict(parts["module"])
    entries: dict[int, dict[str, Tensor]] = {}
    for name, tensor in parts["optimizer"].items():
        number, _, entry = name.partition(".")
        entries.setdefault(int(number), {})[entry] = tensor
    optimizer.load_state_dict({"state": entries, "param_groups": optimizer.state_dict()["param_groups"]})
    if isinstance(optimizer, RowwiseAdam):
        optimizer.load_table_state(parts["tables"])
    return StageState(**facts["state"]), parts["best"]
