"""MLflow: a run in an SQLite file of a folder, or where MLFLOW_TRACKING_URI says."""

import logging
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from resus.errors import ConfigError
from resus.history import EpochRecord
from resus.tracking.base import Tracker

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

FOLDER = Path("runs") / "mlflow"
DATABASE = "mlflow.db"
EXPERIMENT = "resus"
LONGEST_PARAMETER = 500  # characters
BOUNDS = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "10", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2"}  # of a server that is away


class MLflowTracker(Tracker):
    """Parameters are the settings, metrics are `STAGE.validation_auc` and `STAGE.loss` by epoch."""

    kind = "mlflow"
    extra = "mlflow"

    def __init__(self, folder: Path | None, run: str | None = None) -> None:
        self._uri = _address(folder)
        self._client = _client(self._uri)
        self._run = run

    @classmethod
    def begin(cls, folder: Path | None, name: str, settings: Mapping[str, Any]) -> Self:
        tracker = cls(folder)
        client, wanted = tracker._client, os.environ.get("MLFLOW_EXPERIMENT_NAME", EXPERIMENT)
        try:
            found = client.get_experiment_by_name(wanted)
            experiment = found.experiment_id if found else client.create_experiment(wanted)
            tracker._run = client.create_run(experiment, run_name=name).info.run_id
            for key, value in settings.items():
                client.log_param(tracker._run, key, str(value)[:LONGEST_PARAMETER])
        except Exception as error:  # whatever its stores raise
            raise _refusal(tracker._uri, error) from None
        return tracker

    @classmethod
    def again(cls, folder: Path | None, place: str) -> Self:
        tracker = cls(folder, place)
        try:
            tracker._client.update_run(place, status="RUNNING")
        except Exception as error:  # whatever its stores raise
            raise _refusal(tracker._uri, error) from None
        return tracker

    @property
    def place(self) -> str:
        assert self._run is not None, "begin or continue a run first"
        return self._run

    @property
    def shown_by(self) -> str:
        return f"mlflow ui --backend-store-uri {self._uri}"

    def epoch(self, record: EpochRecord) -> None:
        values = {"validation_auc": record.validation_auc, "loss": record.loss}
        for name, value in values.items():
            if value is not None:
                self._client.log_metric(self.place, f"{record.stage}.{name}", value, step=record.epoch)

    def finish(self, results: Mapping[str, float]) -> None:
        for name, value in results.items():
            self._client.log_metric(self.place, f"final.{name}", value)
        self._client.set_terminated(self.place, "FINISHED")

    def close(self, *, failed: bool = False) -> None:
        if failed:
            self._client.set_terminated(self.place, "KILLED")


def _address(folder: Path | None) -> str:
    told = os.environ.get("MLFLOW_TRACKING_URI")
    if folder is None and told:
        return told
    place = (folder or FOLDER).resolve()
    place.mkdir(parents=True, exist_ok=True)
    return f"sqlite:///{place / DATABASE}"


def _client(uri: str) -> "MlflowClient":
    for key, value in BOUNDS.items():
        os.environ.setdefault(key, value)
    logging.getLogger("mlflow").setLevel(logging.WARNING)  # it tells of every table it makes
    logging.getLogger("alembic").setLevel(logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its own dependencies
        from mlflow.tracking import MlflowClient

        try:
            return MlflowClient(tracking_uri=uri)
        except Exception as error:  # whatever its stores raise
            raise _refusal(uri, error) from None


def _refusal(uri: str, error: Exception) -> ConfigError:
    said = " ".join(str(error).split())[:300]
    return ConfigError(f"MLflow at {uri} refused the run ({said}): check MLFLOW_TRACKING_URI, or give --track-dir")
