"""Which models a service answers with, and with which it did before: copies of their folders that all workers share.

A reload copies the folders that it has checked. So neither a rollback nor a worker that replaces another depends on
what has become of the folders since. Of the earlier models, those before the last reload are kept, and no others.
"""

import contextlib
import glob
import logging
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import ValidationError

from resus.checked_folder import FACTS, CheckedFolder
from resus.errors import ArtifactError, StorageError
from resus.files import MAX_JSON_BYTES, locked, read_bounded, sha256_of, storage_errors, write_text
from resus.serving.loaded import RESULTS, LoadedModel
from resus.serving.messages import Message

STATE, LOCK, ALIVE = "lineup.json", "lock", "alive"

log = logging.getLogger("resus.serving")


class Copy(Message):
    """The copy of a model's folder: its name, and the hash of the model's facts."""

    name: str
    sha256: str


class Lineup(Message):
    """The models of a service, the second one after the first. `number` grows with each change."""

    number: int = 0
    in_use: tuple[Copy, ...] = ()
    before: tuple[Copy, ...] = ()

    @property
    def hashes(self) -> tuple[str, ...]:
        return tuple(copy.sha256 for copy in self.in_use)


class NoEarlierModelError(ArtifactError):
    """There is nothing to go back to."""


class ModelFolders:
    """The folders that a service was given, and its copies of models. Any worker may change the lineup."""

    def __init__(self, runs: Sequence[Path], home: Path | None = None) -> None:
        """`home` is for the copies; without it, they live as long as this object."""
        self.runs = tuple(runs)
        self._kept_in = home

    def lineup(self) -> Lineup:
        """What all workers should answer with. Before the first worker has begun, it is empty."""
        try:
            return Lineup.model_validate_json(read_bounded(self._home / STATE, MAX_JSON_BYTES))
        except FileNotFoundError:
            return Lineup()
        except (OSError, ValidationError) as error:
            raise StorageError(f"{self._home / STATE} cannot be read ({type(error).__name__}): start again") from None

    def load(self) -> tuple[int, list[LoadedModel]]:
        """The number of the lineup and its models; those of the given folders before there is one."""
        while True:
            lineup = self.lineup()
            try:
                return lineup.number, [LoadedModel.load(folder) for folder in self._places(lineup.in_use)]
            except ArtifactError as error:
                if self.lineup().number != lineup.number:
                    continue  # there is a newer one, and these copies are gone
                if not lineup.number:
                    raise
                log.error("the copy of the model in use is lost, so its folder is loaded: %s", error)
                return 0, [LoadedModel.load(run) for run in self.runs]

    def begin(self, hashes: Sequence[str]) -> Lineup:
        """The lineup, which the first worker makes of the models that it has loaded."""
        with self._changing() as old:
            return old if old.number else self._take(old, hashes)

    def take(self, hashes: Sequence[str], *, known: int) -> Lineup:
        """A lineup of what is in the given folders now. Those of a worker that took the same meanwhile stays."""
        with self._changing() as old:
            if old.number > known and old.hashes == tuple(hashes):
                return old
            return self._take(old, hashes)

    def earlier(self) -> tuple[int, list[LoadedModel]]:
        """The number of the lineup, and the models before the last reload."""
        lineup = self.lineup()
        if not lineup.before:
            raise NoEarlierModelError("there is no earlier model to go back to: a rollback undoes one reload")
        return lineup.number, [LoadedModel.load(folder) for folder in self._places(lineup.before)]

    def go_back(self, *, known: int) -> Lineup:
        """The lineup before the last reload, which then has no earlier one."""
        with self._changing() as old:
            if old.number != known or not old.before:
                raise NoEarlierModelError("another request has just changed the model: look at /v1/model")
            return self._write(Lineup(number=old.number + 1, in_use=old.before))

    def has_news(self, hashes: Sequence[str]) -> bool:
        """Whether the given folders hold other models than these."""
        with contextlib.suppress(OSError):  # a folder is gone: nothing to load
            return tuple(sha256_of(run / FACTS) for run in self.runs) != tuple(hashes)
        return False

    def _take(self, old: Lineup, hashes: Sequence[str]) -> Lineup:
        number = old.number + 1
        copies = []
        for place, (run, sha256) in enumerate(zip(self.runs, hashes, strict=True)):
            copies.append(Copy(name=f"{number}-{place}", sha256=sha256))
            _copy(run, self._home / copies[-1].name, sha256)
        before = old.before if old.hashes == tuple(hashes) else old.in_use
        return self._write(Lineup(number=number, in_use=tuple(copies), before=before))

    def _write(self, lineup: Lineup) -> Lineup:
        write_text(self._home / STATE, lineup.model_dump_json())
        kept = {copy.name for copy in (*lineup.in_use, *lineup.before)}
        for folder in self._home.iterdir():
            if folder.is_dir() and folder.name not in kept:
                shutil.rmtree(folder, ignore_errors=True)
        return lineup

    def _places(self, copies: Sequence[Copy]) -> list[Path]:
        return [self._home / copy.name for copy in copies] or list(self.runs)

    @contextlib.contextmanager
    def _changing(self) -> Iterator[Lineup]:
        """One worker at a time."""
        with locked(self._home / LOCK):
            yield self.lineup()

    @property
    def _home(self) -> Path:
        if self._kept_in is None:
            self._kept_in = Path(tempfile.mkdtemp(prefix="resus-models-"))
            weakref.finalize(self, shutil.rmtree, self._kept_in, ignore_errors=True)
        return self._kept_in


@contextlib.contextmanager
def home_of_copies(run: Path) -> Iterator[Path]:
    """A folder for the copies of one service, beside its model if that is possible, until the block ends.

    It goes with the service. What a killed service left behind goes with the next one.
    """
    run = run.absolute()
    _remove_left_behind(run)
    prefix = f".{run.name}.serving-"
    try:
        home = Path(tempfile.mkdtemp(prefix=prefix, dir=run.parent))
    except OSError:  # only the model may be there
        home = Path(tempfile.mkdtemp(prefix=prefix))
    try:
        with locked(home / ALIVE):
            yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _remove_left_behind(run: Path) -> None:
    for home in run.parent.glob(f".{glob.escape(run.name)}.serving-*"):
        if not (home / ALIVE).is_file():
            continue  # it is just being made
        with contextlib.suppress(StorageError, OSError), locked(home / ALIVE, wait=False) as is_ours:
            if is_ours:
                shutil.rmtree(home, ignore_errors=True)


def _copy(run: Path, target: Path, sha256: str) -> None:
    """Copy the listed files of a folder, and the results, if they are those of this model."""
    opened = CheckedFolder.open(run)
    if opened.sha256 != sha256:
        raise ArtifactError(f"{run} was replaced while it was read: reload again")
    shutil.rmtree(target, ignore_errors=True)  # a worker that was killed may have begun it
    with storage_errors(target):
        target.mkdir()
        for name in opened.files:
            (target / name).write_bytes(opened.read(name))
        (target / FACTS).write_bytes(read_bounded(run / FACTS, MAX_JSON_BYTES))
        if (run / RESULTS).is_file():
            (target / RESULTS).write_bytes(read_bounded(run / RESULTS, MAX_JSON_BYTES))
    if sha256_of(target / FACTS) != sha256:
        raise ArtifactError(f"{run} was replaced while it was read: reload again")
