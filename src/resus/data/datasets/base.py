"""What a data set says about itself, and where its files are found: in a folder, in an archive, or on the web."""

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from resus.data.datasets.download import download, unpack
from resus.data.options import BuildOptions, PrepareOptions
from resus.data.readers.tables import RawTable
from resus.data.stream.blocks import Events
from resus.errors import DataError, DownloadError
from resus.progress import Progress
from resus.wording import option

PUBLISHED_DEFAULTS = BuildOptions(min_item_count=100, duplicates="keep", single_events="keep")


@dataclass(frozen=True)
class Source:
    """Something that can be read: its files, its reader, and the options that the reader uses.

    A source that may be larger than memory has a second reader, `events`, which reads it in blocks.
    """

    name: str
    files: tuple[Path, ...]
    read: Callable[[PrepareOptions], RawTable]
    options: frozenset[str]
    data_set: str = ""  # its name in the registry; empty for a table of the user's own
    events: Callable[[PrepareOptions], Events | None] | None = None


@dataclass(frozen=True)
class DataSet:
    """A published data set: how it is read, which options the reader uses, and where the publisher keeps it."""

    name: str
    members: tuple[str, ...]  # the files in the publisher's archive that are read
    read: Callable[[Path, PrepareOptions], RawTable]
    aliases: tuple[str, ...] = ()
    options: frozenset[str] = frozenset()
    url: str | None = None
    checksum: str = ""
    login_page: str = ""
    optional: tuple[str, ...] = ()  # other files, read if they exist
    events: Callable[[Path, PrepareOptions], Events] | None = None

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(Path(member).name for member in self.members)

    def in_folder(self, folder: Path) -> Source:
        extra = [name for name in self.optional if (folder / name).is_file()]
        return Source(
            name=self.name,
            files=tuple(folder / name for name in (*self.files, *extra)),
            read=partial(self.read, folder),
            options=self.options,
            data_set=self.name,
            events=partial(self.events, folder) if self.events else None,
        )

    def find(self, path: Path | None, progress: Progress | None) -> Source:
        """Find the data set in a folder, next to one of its files, or in its archive. Without a path, download it."""
        if path is None:
            return self.in_folder(self._fetched(progress))
        if path.suffix == ".zip":
            state = path.stat() if path.is_file() else None
            key = hashlib.sha256(f"{path.resolve()}{state and (state.st_size, state.st_mtime_ns)}".encode()).hexdigest()
            folder = _cache() / f"{self.name}-{key[:12]}"
            return self.in_folder(folder if self._is_whole(folder) else unpack(path, self.members, folder))
        if not path.exists():
            raise DataError(f"{path} does not exist: check the path")
        folder = path if path.is_dir() else path.parent
        inside = Path(self.members[0]).parent
        places = [folder, folder / inside.name, folder / inside]
        return self.in_folder(next((place for place in places if (place / self.files[0]).is_file()), folder))

    def _is_whole(self, folder: Path) -> bool:
        return all((folder / name).is_file() for name in self.files)

    def _fetched(self, progress: Progress | None) -> Path:
        folder = _cache() / self.name
        if self._is_whole(folder):
            return folder
        if self.url is None:
            raise DownloadError(
                f"{self.name} needs a login at {self.login_page}: fetch {', '.join(self.files)} there "
                f"and give their folder with {option('path')}"
            )
        archive = download(self.url, _cache() / f"{self.name}.zip", checksum=self.checksum, progress=progress)
        unpack(archive, self.members, folder)
        archive.unlink()
        return folder


def _cache() -> Path:
    return Path(os.environ.get("RESUS_CACHE") or Path.home() / ".cache" / "resus")
