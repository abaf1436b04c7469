"""How the models of a worker change: by a reload, by a rollback, or because another worker did one of these."""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from prometheus_client import Counter

from resus.errors import ArtifactError, ResusError
from resus.serving.http.guard import kind_and_place
from resus.serving.lineup import ModelFolders, NoEarlierModelError
from resus.serving.loaded import LoadedModel

log = logging.getLogger("resus.serving")
Models = Sequence[LoadedModel]  # the second one after the first


class ModelChanges:
    """`use` swaps the models of this worker. One that cannot be loaded leaves those in use as they are."""

    def __init__(
        self,
        folders: ModelFolders,
        in_use: Callable[[], Models],
        use: Callable[[Models], None],
        *,
        number: int,
        counted: Counter,
    ) -> None:
        self._folders, self._in_use, self._use, self._counted = folders, in_use, use, counted
        self._number = number  # of the lineup
        self._changing = threading.Lock()

    def begin(self) -> None:
        """Keep copies of the models. If they changed before this process listened to signals, take the new ones."""
        if not self._number and self._folders.has_news(_hashes(self._in_use())) and not self._folders.lineup().number:
            self.reload_on_signal()
        with self._changing:
            try:
                lineup = self._folders.begin(_hashes(self._in_use()))
            except (ResusError, OSError) as error:
                log.warning("the models in use cannot be kept for a rollback: %s", error)
                return
        if lineup.hashes == _hashes(self._in_use()):
            self._number = lineup.number
        else:
            self.follow()

    def reload(self) -> Models:
        """Load and check the models that are in their folders now."""
        with self._changing:
            with self._refusing("reload"):
                loaded = [self._checked(run, old) for run, old in zip(self._folders.runs, self._in_use(), strict=True)]
                lineup = self._folders.take(_hashes(loaded), known=self._number)
            self._swap(lineup.number, loaded)
        self._counted.labels("loaded").inc()
        log.info("reloaded %s", _told(loaded))
        return loaded

    def reload_on_signal(self) -> None:
        with contextlib.suppress(ResusError):  # logged; the old models stay in use
            self.reload()

    def rollback(self) -> Models:
        """Go back to the models before the last reload."""
        with self._changing:
            with self._refusing("rollback"):
                known, loaded = self._folders.earlier()
                lineup = self._folders.go_back(known=known)
            self._swap(lineup.number, loaded)
        self._counted.labels("rolled back").inc()
        log.info("rolled back to %s", _told(loaded))
        return loaded

    def follow(self) -> None:
        """Take the models that another worker has chosen."""
        with self._changing, contextlib.suppress(ResusError), self._refusing("change of another worker"):
            if self._folders.lineup().number == self._number:
                return
            number, loaded = self._folders.load()
            for new, old in zip(loaded, self._in_use(), strict=True):
                new.check_meaning(old.meaning)
            self._swap(number, loaded)
            log.info("now answering with %s, as another worker does", _told(loaded))

    def _checked(self, run: Path, old: LoadedModel) -> LoadedModel:
        try:
            loaded = LoadedModel.load(run)
        except ResusError:
            raise
        except Exception as error:
            raise ArtifactError(f"{run} cannot be loaded ({kind_and_place(error)}): export it again") from None
        loaded.check_meaning(old.meaning)
        if old.catalogue and not loaded.catalogue:
            raise ArtifactError(f"{run} has lost its catalogue: export it again")
        return loaded

    def _swap(self, number: int, loaded: Models) -> None:
        self._use(loaded)
        self._number = number

    @contextlib.contextmanager
    def _refusing(self, what: str) -> Iterator[None]:
        try:
            yield
        except NoEarlierModelError:
            raise
        except Exception as error:
            refusal = error if isinstance(error, ResusError) else ArtifactError(f"{what}: {kind_and_place(error)}")
            self._counted.labels("refused").inc()
            used = self._in_use()
            stay = "stays" if len(used) == 1 else "stay"
            log.warning("%s refused, %s %s in use: %s", what, _told(used), stay, refusal)
            raise refusal from None


def _hashes(models: Models) -> tuple[str, ...]:
    return tuple(model.sha256 for model in models)


def _told(models: Models) -> str:
    return " and ".join(model.version for model in models)
