"""Fetch a publisher's archive, resume a broken download, check its checksum, and unpack it."""

import contextlib
import errno
import hashlib
import http.client
import os
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from resus.checking import on_one_line
from resus.errors import DataError, DownloadError
from resus.files import atomic_folder, open_regular, reason_of, storage_errors
from resus.progress import Progress, silent
from resus.wording import option

_BLOCK = 1 << 18
_TIMEOUT_SECONDS = 30
_RANGE_NOT_SATISFIABLE = 416
MAX_DOWNLOAD_BYTES = 1 << 32
MAX_RATIO = 200  # of a member's size to its size in the archive: text takes 3 to 20
_ALWAYS_ALLOWED = 1 << 20
_ENCRYPTED = 1  # in the flags of a member


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
                f"try again, or fetch it by hand and give its path with {option('path')}"
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
            have += len(block)
            if have > MAX_DOWNLOAD_BYTES:
                sink.truncate(0)
                raise DownloadError(
                    f"{url} sends more than {MAX_DOWNLOAD_BYTES:,} bytes: fetch it by hand and give its path"
                )
            sink.write(block)
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
            f"{url} could not be fetched ({reason}): fetch it by hand and give its path with {option('path')}"
        ) from None


def _digest(path: Path, checksum: str) -> str:
    algorithm = checksum.partition(":")[0]
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, lambda: hashlib.new(algorithm, usedforsecurity=False))
    return f"{algorithm}:{digest.hexdigest()}"


def unpack(archive: Path, members: Sequence[str], folder: Path) -> Path:
    """Write the members of a zip archive into one folder, all or none. Their paths in the archive do not count."""
    try:
        with open_regular(archive) as stream, zipfile.ZipFile(stream) as stored, atomic_folder(folder) as aside:
            known = {member.filename: member for member in stored.infolist()}
            missing = set(members) - known.keys()
            if missing:
                raise DataError(f"{archive} has no member {min(missing)}: fetch the publisher's archive again")
            room = os.fstat(stream.fileno()).st_size * MAX_RATIO + _ALWAYS_ALLOWED
            for name in members:
                _check_member(archive, known[name])
                room -= known[name].file_size
                if room < 0:
                    raise DataError(_too_large(archive, name))
                _unpack_member(stored, known[name], aside / Path(name).name)
    except FileNotFoundError:
        raise DataError(f"{archive} does not exist: check the path") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise DataError(f"{archive} is not a whole zip archive ({on_one_line(error)}): fetch it again") from None
    except OSError as error:
        if error.filename != str(archive) and error.errno != errno.EINVAL:  # EINVAL: a place before the file's begin
            raise
        raise DataError(f"{archive} cannot be read as a zip archive ({reason_of(error)}): fetch it again") from None
    return folder


def _check_member(archive: Path, member: zipfile.ZipInfo) -> None:
    """Refuse a member before any of it is unpacked."""
    if member.flag_bits & _ENCRYPTED:
        raise DataError(f"{archive} is encrypted: unpack it yourself, and give the folder with {option('path')}")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise DataError(
            f"{archive} is packed in another way than the publisher's: unpack it yourself, and give the folder with "
            f"{option('path')}"
        )
    if member.file_size > member.compress_size * MAX_RATIO + _ALWAYS_ALLOWED:
        raise DataError(_too_large(archive, member.filename))


def _too_large(archive: Path, name: str) -> str:
    return (
        f"{archive} would unpack {name} to more than {MAX_RATIO} times its size, which no data set does: fetch the "
        "publisher's archive again"
    )


def _unpack_member(stored: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path) -> None:
    """Write as many bytes as the member says that it has, and no more."""
    left = member.file_size
    with stored.open(member) as source, target.open("wb") as sink:
        while block := source.read(_BLOCK):
            left -= len(block)
            if left < 0:
                raise zipfile.BadZipFile(f"{member.filename} is longer than it says")
            sink.write(block)
    if left:
        raise zipfile.BadZipFile(f"{member.filename} is cut short")
