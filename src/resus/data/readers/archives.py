"""Wanted members of a zip archive, unpacked by their own names into one folder, all or none."""

import shutil
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

from resus.errors import DataError
from resus.files import atomic_folder


def unpack(archive: Path, members: Sequence[str], folder: Path) -> Path:
    """Write each member under its last name; the archive's own paths are never followed."""
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
