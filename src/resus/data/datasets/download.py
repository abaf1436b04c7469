"""Fetch a publisher's archive, resume a broken download, check its checksum, and unpack it."""

import contextlib
import hashlib
import http.client
import os
import shutil
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from resus.errors import DataError, DownloadError
from resus.files import atomic_folder, storage_errors
from resus.progress import Progress, silent

_BLOCK = 1 << 18
_TIMEOUT_SECONDS = 30
_RANGE_NOT_SATISFIABLE = 416


def download(url: str, target: Path, *, checksum: str, progress: Progress | None = None) -> Path:
    """Fetch `url` to `target`; `checksum` is 'md5:...' or 'sha256:...'.

    If the connection breaks, the next call continues the file `target.part`.
    """
    if target.is_file() and _digest(target, checksum) == checksum:
        return target
    part = target.with_name(f"{target.name}.part")
    with storage_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        if not (part.is_file() and _digest(part, checksum) == checksum):
            _fetch(url, part, progress or silent)
        found = _digest(part, checksum)
        if found != checksum:
            part.unlink()
            raise DownloadError(
                f"{url} arrived with the checksum {found}, not {checksum}, and was deleted: "
                "try again, or fetch it by hand and give its path with --path"
            )
        part.replace(target)
    return target


def _fetch(url: str, part: Path, progress: Progress) -> None:
    have = part.stat().st_size if part.exists() else 0
    with _network_errors(url):
        response = _open(url, have)
    with response, part.open("ab") as sink:
        if response.status != http.client.PARTIAL_CONTENT:
            sink.truncate(0)
            have = 0
        length = response.headers.get("Content-Length")
        total = have + int(length) if length else None
        name = part.name.removesuffix(".part")
        progress(name, have, total)
        while True:
            with _network_errors(url):
                block = response.read(_BLOCK)
            if not block:
                break
            sink.write(block)
            have += len(block)
            progress(name, have, total)
        sink.flush()
        os.fsync(sink.fileno())
    if total is not None and have < total:
        raise DownloadError(
            f"{url} broke off after {have:,} of {total:,} bytes: run the same command again to continue"
        )


def _open(url: str, have: int) -> http.client.HTTPResponse:
    """Ask for the missing bytes, or for all bytes if the server cannot continue the file."""
    request = urllib.request.Request(url, headers={"User-Agent": "resus"})  # noqa: S310 - addresses are our own
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        response: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS)  # noqa: S310
    except urllib.error.HTTPError as error:
        if not have or error.code != _RANGE_NOT_SATISFIABLE:
            raise
        error.close()
        return _open(url, 0)
    if response.status == http.client.PARTIAL_CONTENT:
        content_range = response.headers.get("Content-Range", "")
        if not content_range.startswith(f"bytes {have}-"):
            response.close()
            return _open(url, 0)
    return response


@contextlib.contextmanager
def _network_errors(url: str) -> Iterator[None]:
    try:
        yield
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or str(error) or type(error).__name__
        if isinstance(error, urllib.error.HTTPError):
            error.close()
            reason = f"the server answered {error.code} {error.reason}"
        raise DownloadError(
            f"{url} could not be fetched ({reason}): fetch it by hand and give its path with --path"
        ) from None


def _digest(path: Path, checksum: str) -> str:
    algorithm = checksum.partition(":")[0]
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, lambda: hashlib.new(algorithm, usedforsecurity=False))
    return f"{algorithm}:{digest.hexdigest()}"


def unpack(archive: Path, members: Sequence[str], folder: Path) -> Path:
    """Write the members of a zip archive into one folder, all or none. Their paths in the archive do not count."""
    try:
        with zipfile.ZipFile(archive) as stored, atomic_folder(folder) as aside:
            missing = set(members) - set(stored.namelist())
            if missing:
                raise DataError(f"{archive} has no member {min(missing)}: fetch the publisher's archive again")
            for member in members:
                with stored.open(member) as source, (aside / Path(member).name).open("wb") as sink:
                    shutil.copyfileobj(source, sink)
    except FileNotFoundError:
        raise DataError(f"{archive} does not exist: check the path") from None
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise DataError(f"{archive} is not a whole zip archive ({error}): fetch it again") from None
    return folder
