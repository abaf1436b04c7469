"""Every error that `resus` raises on purpose.

ResusError
├── DataError        an input file, table or frame is wrong
│   ├── RowError     one row of a table is wrong
│   └── DownloadError    a publisher's file could not be fetched or does not match its checksum
├── ConfigError      an unknown or impossible setting
├── ArtifactError    a run folder or prepared log is missing, incomplete or of another kind
├── StorageError     the disk or a store refused a write (full, read-only, gone)
└── TrainingError    training cannot continue (nothing to learn from, or a loss that is not finite)

Each message is one sentence: what is wrong, where, and what to do. The command line prints it and exits with 2.
A `ResusWarning` is about something that is allowed but probably a mistake: the command line prints it and continues.
"""


class ResusError(Exception):
    """Base of every error raised on purpose."""


class DataError(ResusError):
    """An input file, table or frame is wrong. `problems` holds everything that was found, if the rows were checked."""

    problems: tuple[object, ...] = ()


class RowError(DataError):
    """One row is wrong, counted from 0. The caller that knows where the rows come from says which row of what it is."""

    def __init__(self, row: int, column: str | None, what: str, fix: str) -> None:
        super().__init__(f"row {row + 1}{f', column {column!r}' if column else ''}: {what}; {fix}")
        self.row, self.column, self.what, self.fix = row, column, what, fix


class DownloadError(DataError):
    """A publisher's file could not be fetched or does not match its checksum."""


class ConfigError(ResusError):
    """An unknown or impossible setting."""


class ArtifactError(ResusError):
    """A run folder or prepared log is missing, incomplete or of another kind."""


class StorageError(ResusError):
    """The disk refused a write. `public` says so without a path or an address, for answers of the service."""

    def __init__(self, message: str, *, public: str | None = None) -> None:
        super().__init__(message)
        self.public = public


class TrainingError(ResusError):
    """Training cannot continue."""


class ResusWarning(UserWarning):
    """Something that is allowed but probably a mistake."""
