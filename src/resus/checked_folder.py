"""A folder whose `artifact.json` lists its other files with their sizes and SHA-256 hashes.

`write_facts` writes the list and `CheckedFolder.read` returns the bytes of a file only if they are the listed ones. So
no parser sees a byte that the writer of the folder did not write, whatever happened to the disk or to a copy. A hash is
no signature: whoever can write the folder can write another list.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from resus.checking import Settings
from resus.errors import ArtifactError
from resus.files import MAX_JSON_BYTES, open_regular, parse_json, read_bounded, reason_of, sha256_of, write_json
from resus.wording import advice

FACTS = "artifact.json"
FORMAT = 2
MAX_FILE_BYTES = 1 << 32  # of a file, if its reader knows no better bound
_FILES, _SELF = "files", "facts_sha256"
_OLD = "train again, and export again, with this version"


class ListedFile(Settings):
    """What a file must be."""

    bytes: int
    sha256: str


_LIST = TypeAdapter(dict[str, ListedFile])


@dataclass(frozen=True, eq=False)
class CheckedFolder:
    """`facts` is all that `artifact.json` says besides its list of files; `sha256` is the hash of its bytes."""

    path: Path
    facts: Mapping[str, Any]
    files: Mapping[str, ListedFile]
    sha256: str

    @classmethod
    def open(cls, folder: Path) -> "CheckedFolder":
        """Read `artifact.json`, once, and check it against its own hash."""
        path, content = folder / FACTS, _facts_of(folder)
        facts = parse_json(content, path)
        if not isinstance(facts, dict) or not isinstance(facts.get("format"), int) or "resus" not in facts:
            raise ArtifactError(f"{path} is not a resus artifact of format {FORMAT}: name a folder that resus wrote")
        if facts["format"] != FORMAT:
            raise ArtifactError(
                f"{path} was written by another version of resus (format {facts['format']}, not {FORMAT}): {_OLD}"
            )
        if facts.pop(_SELF, None) != _hash(facts):
            raise ArtifactError(f"{path} was changed after it was written: restore it, or train again")
        try:
            files = _LIST.validate_python(facts.pop(_FILES, None))
        except ValidationError:
            raise ArtifactError(f"{path} has no list of its files: {_OLD}") from None
        elsewhere = next((name for name in files if Path(name).name != name), None)
        if elsewhere is not None:  # whoever copies the folder must not write outside of the copy
            raise ArtifactError(
                f"{path} lists {elsewhere!r}, which is no file of its folder: restore it, or train again"
            )
        return cls(folder, facts, files, hashlib.sha256(content).hexdigest())

    def __contains__(self, name: str) -> bool:
        """Whether the folder has this file, by its list."""
        return name in self.files

    def read(self, name: str, *, limit: int = MAX_FILE_BYTES) -> bytes:
        """The bytes of a listed file, read once, if their number and their hash are the listed ones.

        Of a file with more than `limit` bytes none is read.
        """
        path, listed = self.path / name, self.files.get(name)
        if listed is None:
            raise ArtifactError(f"{self.path / FACTS} lists no file {name}: export or train again")
        if listed.bytes > limit:
            raise ArtifactError(
                f"{path} has {listed.bytes:,} bytes, more than the {limit:,} that it can need: export or train again"
            )
        try:
            with open_regular(path) as stream:
                size = os.fstat(stream.fileno()).st_size
                content = stream.read(listed.bytes + 1) if size == listed.bytes else b""
        except FileNotFoundError:
            raise ArtifactError(f"{path} is missing: restore it, or export or train again") from None
        except OSError as error:
            raise ArtifactError(f"{path} cannot be read ({reason_of(error)}): export or train again") from None
        if len(content) != listed.bytes:
            what = f"it has {size:,} bytes instead of {listed.bytes:,}"
        elif hashlib.sha256(content).hexdigest() != listed.sha256:
            what = "its bytes were changed"
        else:
            return content
        raise ArtifactError(
            f"{path} is not the file that {FACTS} describes ({what}): restore it, or export or train again"
        )


def write_facts(folder: Path, facts: Mapping[str, Any], files: Iterable[str]) -> None:
    """Write `artifact.json`, after its files: a folder that has one is complete."""
    listed = {name: {"bytes": (folder / name).stat().st_size, "sha256": sha256_of(folder / name)} for name in files}
    content = {"format": FORMAT, **facts, _FILES: dict(sorted(listed.items()))}
    write_json(folder / FACTS, content | {_SELF: _hash(content)})


def _facts_of(folder: Path) -> bytes:
    """The bytes of `artifact.json`, or what to do if there is none."""
    try:
        if folder.is_file():
            raise ArtifactError(f"{folder} is a file, not a folder with a model: give a folder that 'resus train' made")
        if not folder.is_dir():
            raise ArtifactError(f"{folder} does not exist: train a model with 'resus train', or check the path")
        return read_bounded(folder / FACTS, MAX_JSON_BYTES)
    except FileNotFoundError:
        what_to_do = "point to a folder that 'resus train' made"
        if (folder / "checkpoints").is_dir():
            what_to_do = advice(
                python="finish it: call fit with the same data, settings and folder, and resume=True",
                command="finish it with the same 'resus train' command and --resume",
            )
        raise ArtifactError(f"{folder} holds no trained model (no {FACTS}): {what_to_do}") from None
    except OSError as error:
        raise ArtifactError(f"{folder / FACTS} cannot be read ({reason_of(error)}): check the path") from None


def _hash(facts: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
