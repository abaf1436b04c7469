"""Training as other tools show it. Another tool is one file with a `Tracker`, and one more entry in `TRACKERS`."""

from resus.tracking.base import Tracker
from resus.tracking.mlflow_runs import MLflowTracker
from resus.tracking.tensorboard_events import TensorBoardTracker

TRACKERS: dict[str, type[Tracker]] = {tracker.kind: tracker for tracker in (MLflowTracker, TensorBoardTracker)}
