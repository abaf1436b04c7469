"""The state of an unfinished stage in one file, replaced as a whole: a killed run resumes from it."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from resus.errors import ArtifactError
from resus.history import EpochRecord, History
from resus.tensor_files import load_tensors, save_tensors
from resus.training.rowwise_adam import RowwiseAdam


@dataclass
class StageState:
    """Everything besides the weights that a stage needs to resume."""

    epoch: int = 0  # finished epochs
    batch: int = 0  # finished batches of the current epoch
    loss: float = 0.0  # summed over these batches
    seconds: float = 0.0  # spent on them
    best_epoch: int = 0
    best_auc: float = float("-inf")
    finished: bool = False
    history: History = field(default_factory=list)

    @classmethod
    def from_json(cls, facts: dict[str, Any]) -> "StageState":
        return cls(**facts | {"history": [EpochRecord(**record) for record in facts["history"]]})


@dataclass(frozen=True)
class Checkpoint:
    """The file of one stage; `fingerprint` tells the settings and the data of its run apart from others."""

    path: Path
    fingerprint: str

    def exists(self) -> bool:
        return self.path.exists()

    def save(
        self, state: StageState, module: torch.nn.Module, best: dict[str, Tensor], optimizer: torch.optim.Optimizer
    ) -> None:
        tensors = {f"module.{name}": tensor for name, tensor in module.state_dict().items()}
        tensors |= {f"best.{name}": tensor for name, tensor in best.items()}
        for number, entries in optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{number}.{name}": torch.as_tensor(value) for name, value in entries.items()}
        if isinstance(optimizer, RowwiseAdam):
            tensors |= {f"tables.{name}": tensor for name, tensor in optimizer.table_state().items()}
        save_tensors(self.path, tensors, {"state": asdict(state), "fingerprint": self.fingerprint})

    def load(self, module: torch.nn.Module, optimizer: torch.optim.Optimizer) -> tuple[StageState, dict[str, Tensor]]:
        """Restore module and optimizer; return the state and the best weights so far."""
        tensors, facts = load_tensors(self.path)
        if facts.get("fingerprint") != self.fingerprint:
            raise ArtifactError(
                f"{self.path} belongs to a run with other settings or other data: use the same ones, or choose another "
                "folder"
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
        return StageState.from_json(facts["state"]), parts["best"]
