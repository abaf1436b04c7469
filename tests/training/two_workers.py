"""One of two processes that train some models together: it gets its rank and the folder where the two meet."""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from planted_models import events, log_of, tiny

from resus.training import rowwise_adam
from resus.training.workers import TorchWorkers

SETTINGS = {"predictor.batch_size": 64, "training.batch_size": 64}
MODELS = {"ridge": 1, "nearest": 1_000_000, "plus": 1_000_000}  # and the rows from which a table is large


def work(rank: int, folder: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=2)
    log = log_of(events())
    for learner, large in MODELS.items():
        rowwise_adam.LARGE = large
        tiny(settings=SETTINGS, learner=learner).fit(log, folder=folder / learner, workers=TorchWorkers())
    dist.destroy_process_group()


if __name__ == "__main__":
    work(int(sys.argv[1]), Path(sys.argv[2]))
