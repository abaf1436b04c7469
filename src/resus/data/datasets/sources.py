"""Where tables come from: the published data sets by name, and files and folders by what they look like."""

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from resus.checking import nearest_key
from resus.data.datasets import frappe, movielens, taobao, taobao_stream
from resus.data.datasets.download import download
from resus.data.log.rows import LogRows
from resus.data.options import PrepareOptions
from resus.data.problems import Problem
from resus.data.readers import recbole
from resus.data.readers.archives import unpack
from resus.data.readers.tables import ColumnWriter, Table, read_table
from resus.data.schema import TableSchema
from resus.errors import ConfigError, DataError, DownloadError
from resus.progress import Progress


@dataclass(frozen=True)
class Source:
    """Something that can be read: what it is called, its files, its reader and the options that the reader heeds.

    One that may be larger than memory has a second reader, `stream`, which raises NotPlain where `read` must look;
    `sound` is true where nothing is wrong, found in the same way.
    """

    name: str
    files: tuple[Path, ...]
    read: Callable[[PrepareOptions], Table]
    heeds: frozenset[str]
    data_set: str = ""  # its name where it is a published one
    stream: Callable[[PrepareOptions, Path, Progress], LogRows] | None = None
    sound: Callable[[PrepareOptions], bool] | None = None


@dataclass(frozen=True)
class Published:
    """A published data set: the members of its archive that are read, and where the publisher keeps it."""

    name: str
    aliases: tuple[str, ...]
    members: tuple[str, ...]
    read: Callable[[Path, PrepareOptions], Table]
    heeds: frozenset[str]
    url: str | None = None
    checksum: str = ""
    login_page: str = ""
    optional: tuple[str, ...] = ()  # files beside the members, read where they are
    stream: Callable[[Path, PrepareOptions, Path, Progress], LogRows] | None = None
    sound: Callable[[Path, PrepareOptions], bool] | None = None

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(Path(member).name for member in self.members)

    def source(self, folder: Path) -> Source:
        extra = [name for name in self.optional if (folder / name).is_file()]
        return Source(
            name=self.name,
            files=tuple(folder / name for name in (*self.files, *extra)),
            read=partial(self.read, folder),
            heeds=self.heeds,
            data_set=self.name,
            stream=partial(self.stream, folder) if self.stream else None,
            sound=partial(self.sound, folder) if self.sound else None,
        )


PUBLISHED = (
    Published(
        name="ml-1m",
        aliases=("movielens-1m", "movielens", "ml1m"),
        members=("ml-1m/ratings.dat", "ml-1m/users.dat", "ml-1m/movies.dat"),
        read=movielens.read,
        heeds=frozenset({"protocol", "label_threshold"}),
        url="https://files.grouplens.org/datasets/movielens/ml-1m.zip",
        checksum="md5:c4d9eecfca2ab87c1945afe126590906",
    ),
    Published(
        name="frappe",
        aliases=("mobile-frappe",),
        members=("Mobile_Frappe/frappe/frappe.csv",),
        read=frappe.read,
        heeds=frozenset({"negatives"}),
        url="https://www.baltrunas.info/_files/archives/be17b7_474755a5e9684a749a012516d04fb456.zip?dn=Mobile_Frappe.zip",
        checksum="sha256:4adc616de57170f282397f6e6e30215f97fa7ad1b7f40bd12ef5dceaaf3e9b4e",
    ),
    Published(
        name="taobao",
        aliases=("taobao-ads", "ali-display-ads"),
        members=(taobao.IMPRESSIONS_FILE, taobao.ADS_FILE, taobao.PROFILES_FILE),
        read=taobao.read,
        heeds=frozenset({"user_field"}),
        login_page="https://tianchi.aliyun.com/dataset/56",
        optional=(taobao.TRUTH_FILE,),
        stream=taobao_stream.stream,
        sound=taobao_stream.is_sound,
    ),
)


def published_names() -> dict[str, Published]:
    """The published data sets under their names and aliases."""
    return {alias: data_set for data_set in PUBLISHED for alias in (data_set.name, *data_set.aliases)}


def published(name: str) -> Published:
    """The published data set of this name or alias."""
    known = published_names()
    if name.lower() in known:
        return known[name.lower()]
    nearest = nearest_key(name.lower(), known)
    hint = f"did you mean '{nearest}'? " if nearest else ""
    names = ", ".join(data_set.name for data_set in PUBLISHED)
    raise ConfigError(f"there is no data set '{name}': {hint}known are {names}, planted, or a path to a table")


def source_at(path: Path, schema: TableSchema | None, writer: ColumnWriter | None = None) -> Source | Problem:
    """What a path holds: a published data set, RecBole atomic files, or a table of one's own."""
    for data_set in PUBLISHED:
        if (path / data_set.files[0]).is_file():
            return data_set.source(path)
        if schema is None and path.name in data_set.files:
            return data_set.source(path.parent)
    inters = sorted(path.glob("*.inter")) if path.is_dir() else [path] if path.suffix == ".inter" else []
    if len(inters) > 1:
        return Problem(str(path), None, None, f"the folder holds {len(inters)} .inter files", "name the one to read")
    if inters:
        read = partial(recbole.read, inters[0], schema)
        return Source(inters[0].stem, tuple(recbole.files_of(inters[0])), read, frozenset({"label_threshold"}))
    if path.is_dir():
        return Problem(str(path), None, None, "the folder holds no known data set", "name a file in it")
    read_own = partial(read_table, path, schema, writer=writer)
    return Source(path.stem, (path,), read_own, frozenset({"label_threshold"}))


def published_at(data_set: Published, path: Path | None, progress: Progress | None) -> Source:
    """A published data set in its folder, beside one of its files, in the publisher's archive, or fetched."""
    if path is None:
        return data_set.source(_fetched(data_set, progress))
    if path.suffix == ".zip":
        state = path.stat() if path.is_file() else None
        key = hashlib.sha256(f"{path.resolve()}{state and (state.st_size, state.st_mtime_ns)}".encode()).hexdigest()
        folder = _cache() / f"{data_set.name}-{key[:12]}"
        return data_set.source(folder if _is_whole(data_set, folder) else unpack(path, data_set.members, folder))
    if not path.exists():
        raise DataError(f"{path} does not exist: check the path")
    folder = path if path.is_dir() else path.parent
    inside = Path(data_set.members[0]).parent
    places = [folder, folder / inside.name, folder / inside]
    return data_set.source(next((place for place in places if (place / data_set.files[0]).is_file()), folder))


def _cache() -> Path:
    return Path(os.environ.get("RESUS_CACHE") or Path.home() / ".cache" / "resus")


def _is_whole(data_set: Published, folder: Path) -> bool:
    return all((folder / name).is_file() for name in data_set.files)


def _fetched(data_set: Published, progress: Progress | None) -> Path:
    folder = _cache() / data_set.name
    if _is_whole(data_set, folder):
        return folder
    if data_set.url is None:
        raise DownloadError(
            f"{data_set.name} needs a login at {data_set.login_page}: fetch {', '.join(data_set.files)} there "
            "and give their folder with --path"
        )
    archive = download(data_set.url, _cache() / f"{data_set.name}.zip", checksum=data_set.checksum, progress=progress)
    unpack(archive, data_set.members, folder)
    archive.unlink()
    return folder
