"""What a log says about itself: where it comes from and, once it is written, what its folder holds."""

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from resus.data.negatives.settings import DrawnNegatives
from resus.data.options import PrepareOptions
from resus.data.schema import TableSchema
from resus.data.split import Protocol
from resus.errors import ArtifactError
from resus.files import read_json

FORMAT = 3
MANIFEST = "manifest.json"


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class FileFacts(_Record):
    """A file that a log was read from."""

    path: str
    bytes: int
    sha256: str


class ScoreFacts(_Record):
    """The column of scores that a model wrote, and the hash of the model if it is a file."""

    column: str
    written_by: str
    sha256: str | None


class Counts(_Record):
    """How much a log holds. A field without a list of values is counted by its kind."""

    rows: int
    users: int
    items: int | None
    positives: int
    ids: int
    fields: dict[str, int | str]


class SideCounts(_Record):
    """How the rows of a side table and the events match."""

    table: str
    rows: int
    unused: int  # rows that no event names
    first_unused: int | None  # the line of the first of them
    missing: int  # users or items of the events that have no row
    events: int  # events of these
    first_missing: str | None  # file and row of the first of them

    def sentence(self, noun: str, rows: str = "events") -> str:
        """What a user should know; empty if all match. `rows` is the word for the rows of the other table."""
        said = []
        if self.missing:
            plural = "s have" if self.missing > 1 else " has"
            said.append(
                f"{self.missing:,} {noun}{plural} no row ({self.events:,} of the {rows}, the first in "
                f"{self.first_missing}), so the fields are missing there"
            )
        if self.unused:
            what = "rows name" if self.unused > 1 else "rows names"
            said.append(
                f"{self.unused:,} of {self.rows:,} {what} no {noun} of the events, first row {self.first_unused}"
            )
        return f"{self.table}: {'; '.join(said)}" if said else ""


class Manifest(_Record):
    """The record of a log. The fields from `hash` on are filled in when it is written."""

    format: int = FORMAT
    name: str = "log"
    table: TableSchema | None = None
    options: PrepareOptions | None = None
    data_set: str = ""
    protocol: Protocol | None = None
    score: ScoreFacts | None = None
    negatives: DrawnNegatives | None = None
    sides: dict[str, SideCounts] = {}  # users, items
    world: dict[str, Any] | None = None  # the settings of a planted world
    source: str = ""
    files: tuple[FileFacts, ...] = ()
    request: str = ""  # a hash of all that `prepare` was asked for
    hash: str = ""
    counts: Counts | None = None
    columns: tuple[str, ...] = ()
    ordered: bool | None = None

    @classmethod
    def read(cls, folder: Path) -> "Manifest":
        """The manifest in a folder; ArtifactError if there is none, or it is not one of this version."""
        path = folder / MANIFEST
        if not path.is_file():
            raise ArtifactError(f"{folder} is not a prepared log (no {MANIFEST}): make one with 'resus prepare'")
        content = read_json(path)
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise ArtifactError(f"{path} does not have the format {FORMAT}: prepare the data again with this version")
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            wrong = ", ".join(".".join(map(str, finding["loc"])) for finding in error.errors())
            raise ArtifactError(f"{path} is damaged ({wrong}): prepare the data again with 'resus prepare'") from None

    @classmethod
    def found(cls, folder: Path) -> "Manifest | None":
        """The manifest in a folder, or None."""
        try:
            return cls.read(folder)
        except ArtifactError:
            return None
