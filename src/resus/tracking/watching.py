"""Tells a tracker of each epoch once, also if the run is killed and resumed."""

import contextlib
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from resus.checking import on_one_line
from resus.errors import ArtifactError, ConfigError, ResusWarning
from resus.extras import need
from resus.files import read_json, write_json
from resus.history import History, best_epoch
from resus.tracking import TRACKERS
from resus.tracking.base import Tracker


def check_tracker(kind: str | None, folder: Path | None) -> None:
    """Refuse an unknown tracker, or one whose packages are missing."""
    if kind is None:
        if folder is not None:
            raise ConfigError("--track-dir needs --track: leave it out, or add --track " + " or ".join(TRACKERS))
        return
    if kind not in TRACKERS:
        raise ConfigError(f"--track is '{kind}': choose {' or '.join(TRACKERS)}")
    need(TRACKERS[kind].extra, f"--track {kind}")


class Watch:
    """A context that passes the history of a run's stages on to a tracker; `Run` calls it after each epoch.

    `state` is a file that a killed run leaves behind: which run of the tracker it was, and what the tracker knows. A
    tracker that fails is left alone from then on, and the run goes on.
    """

    def __init__(self, kind: str, folder: Path | None, *, name: str, settings: Mapping[str, Any], state: Path) -> None:
        self._kind, self._folder, self._name, self._settings, self._state = kind, folder, name, settings, state
        self._told: dict[str, int] = {}  # by stage: how many of its epochs
        self._tracker: Tracker | None = None
        self._begun = self._finished = False

    def __enter__(self) -> Self:
        return self

    @property
    def shown_by(self) -> str | None:
        """The command that shows the run; None if the tracker failed."""
        return self._tracker.shown_by if self._tracker else None

    def _begin(self) -> None:
        kind = TRACKERS[self._kind]
        before = self._before()
        if before is not None:
            self._told = before["told"]
            self._tracker = kind.again(self._folder, before["place"])
        else:
            self._tracker = kind.begin(self._folder, self._name, self._settings)
        self._begun = True

    def _before(self) -> dict[str, Any] | None:
        """What a killed run left behind; None if it told another tool, or nothing."""
        try:
            found = read_json(self._state) if self._state.is_file() else None
        except ArtifactError:
            return None
        whole = isinstance(found, dict) and found.keys() == {"kind", "place", "told"} and found["kind"] == self._kind
        return found if whole else None

    def __call__(self, history: History) -> None:
        """Tell the epochs of one stage that are new; the first call, which may have none, begins the tracker's run."""
        if not self._begun:
            self._begin()
        if not history or self._tracker is None:
            return
        stage = history[0].stage
        fresh = history[self._told.get(stage, 0) :]
        if not fresh:
            return
        try:
            for record in fresh:
                self._tracker.epoch(record)
        except Exception as error:  # whatever the tool raises: a full disk, a server that is away
            self._give_up(error)
            return
        self._told[stage] = len(history)
        write_json(self._state, {"kind": self._kind, "place": self._tracker.place, "told": self._told})

    def finish(self, history: History, results: Mapping[str, float] | None = None) -> None:
        """Tell the rest, and the best validation AUC of each stage as the final results, with further `results`."""
        stages = {record.stage: [each for each in history if each.stage == record.stage] for record in history}
        final = {f"validation_auc.{stage}": best_epoch(epochs).validation_auc for stage, epochs in stages.items()}
        for epochs in [[], *stages.values()]:
            self(epochs)
        if self._tracker is None:
            return
        try:
            self._tracker.finish(final | dict(results or {}))
        except Exception as error:  # as above
            self._give_up(error)
        self._finished = True
        self._state.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # the folder of checkpoints may be gone, or hold others
            self._state.parent.rmdir()

    def _give_up(self, error: Exception) -> None:
        said = f"{self._kind} could not be told about the run ({on_one_line(error)[:300]}): the run goes on without it"
        warnings.warn(said, ResusWarning, stacklevel=3)
        self._tracker = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._tracker is not None:
            try:
                self._tracker.close(failed=not self._finished)
            except Exception as failure:  # as above
                self._give_up(failure)
