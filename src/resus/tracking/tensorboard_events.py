"""TensorBoard: event files in a folder per run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from resus.history import EpochRecord
from resus.tracking.base import Tracker

FOLDER = Path("runs") / "tensorboard"


class TensorBoardTracker(Tracker):
    """Scalars `validation_auc/STAGE` and `loss/STAGE` by epoch, settings as text, and hyperparameters at the end."""

    kind = "tensorboard"
    extra = "tensorboard"

    def __init__(self, place: Path) -> None:
        from torch.utils.tensorboard.writer import SummaryWriter

        self._place = place
        self._writer = SummaryWriter(str(place))
        self._settings: dict[str, Any] = {}

    @classmethod
    def begin(cls, folder: Path | None, name: str, settings: Mapping[str, Any]) -> Self:
        wanted = (folder or FOLDER) / name
        number, place = 2, wanted
        while place.exists():  # another run of the same name
            place, number = wanted.with_name(f"{name}-{number}"), number + 1
        tracker = cls(place)
        tracker._settings = {key: _plain(value) for key, value in settings.items()}
        lines = (f"| {key} | {value} |" for key, value in settings.items())
        tracker._writer.add_text("settings", "\n".join(["| key | value |", "|---|---|", *lines]))
        tracker._writer.flush()
        return tracker

    @classmethod
    def again(cls, folder: Path | None, place: str) -> Self:  # noqa: ARG003  # the place says it all
        return cls(Path(place))

    @property
    def place(self) -> str:
        return str(self._place.resolve())

    @property
    def shown_by(self) -> str:
        return f"tensorboard --logdir {self._place.parent}"

    def epoch(self, record: EpochRecord) -> None:
        self._writer.add_scalar(f"validation_auc/{record.stage}", record.validation_auc, record.epoch)
        if record.loss is not None:
            self._writer.add_scalar(f"loss/{record.stage}", record.loss, record.epoch)
        self._writer.flush()

    def finish(self, results: Mapping[str, float]) -> None:
        final = {f"final/{name}": value for name, value in results.items()}
        if self._settings:
            self._writer.add_hparams(self._settings, final, run_name=".")
        else:
            for name, value in final.items():
                self._writer.add_scalar(name, value)

    def close(self, *, failed: bool = False) -> None:  # noqa: ARG002  # event files do not say so
        self._writer.close()


def _plain(value: Any) -> Any:
    """What a hyperparameter may be."""
    return value if isinstance(value, bool | int | float | str) else str(value)
