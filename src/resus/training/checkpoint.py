"""The state of an unfinished stage in one file, replaced whole from time to time: a killed run goes on from there."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from resus.errors import ArtifactError
from resus.tensor_files import load_tensors, save_tensors
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
