"""One of two processes that train one model: it gets its rank, the meeting file, the run folder and two settings."""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from planted_models import events, log_of, tiny

from resus.training import rowwise_adam
from resus.training.workers import TorchWorkers

SETTINGS = {"predictor.batch_size": 64, "training.batch_size": 64}


def work(rank: int, meeting: str, folder: Path, large: int, learner: str) -> None:
    torch.set_num_threads(1)
    rowwise_adam.LARGE = large
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    tiny(settings=SETTINGS, learner=learner).fit(log_of(events()), folder=folder, workers=TorchWorkers())
    dist.destroy_process_group()


if __name__ == "__main__":
    work(int(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
