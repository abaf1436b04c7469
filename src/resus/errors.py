"""Every error that `resus` raises on purpose.

ResusError
├── DataError        an input file, table or frame is wrong
│   ├── RowError     one row of a table is wrong
│   └── DownloadError    a publisher's file could not be fetched or does not match its checksum
├── ConfigError      an unknown or impossible setting
├── ArtifactError    a run folder or prepared log is missing, incomplete or of another kind
├── StorageError     the disk or a store refused a write (full, read-only, gone)
├── TrainingError    training cannot continue (nothing to learn from, or a loss that is not finite)
└── ServiceError     a client was not answered by a service as it asked
    ├── BadRequestError       the service cannot read the request, or it asks for too much (400, 413, 422)
    ├── NotAllowedError       the token is missing or wrong, or the host is another one (401, 403)
    ├── NotFoundError         there is no such user, or no such address (404)
    ├── ConflictError         the service refuses the new model, and keeps the old one (409)
    ├── BusyError             the service or its store is busy or out of order for now (408, 429, 502, 503, 504)
    ├── FailedServiceError    the service failed; its log says why (500)
    ├── NoAnswerError         nobody answers at the address, or not in time
    └── BrokenAnswerError     what answers is no service of resus, or one of another version

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
    """The disk refused a write. `public` says so without a path or an address, for answers of the service.

    `kind` is the kind of failure in a word or two, for metrics.
    """

    def __init__(self, message: str, *, public: str | None = None, kind: str = "other") -> None:
        super().__init__(message)
        self.public, self.kind = public, kind


class TrainingError(ResusError):
    """Training cannot continue."""


class ServiceError(ResusError):
    """A client was not answered as it asked. `sentence` is what the service says, `status` that of HTTP, if any.

    `tries` is how often it was asked, `retry_after` the seconds that the service asks to wait. `unacknowledged` holds
    the events that are not known to be stored; sending them again is safe.
    """

    def __init__(self, message: str, *, sentence: str | None = None, status: int | None = None) -> None:
        super().__init__(message)
        self.sentence = sentence or message
        self.status = status
        self.tries = 1
        self.retry_after: float | None = None
        self.may_have_happened = True
        self.unacknowledged: tuple[dict[str, object], ...] = ()


class BadRequestError(ServiceError):
    """The service cannot read the request, or it asks for too much."""


class NotAllowedError(ServiceError):
    """The token is missing or wrong, or the service answers only to another host."""


class NotFoundError(ServiceError):
    """There is no such user, or no such address."""


class ConflictError(ServiceError):
    """The service refuses the new model, and keeps the old one."""


class BusyError(ServiceError):
    """The service or its store is busy or out of order for now."""


class FailedServiceError(ServiceError):
    """The service failed; its log says why."""


class NoAnswerError(ServiceError):
    """Nobody answers at the address, or not in time."""


class BrokenAnswerError(ServiceError):
    """What answers is no service of resus, or one of another version."""


class ResusWarning(UserWarning):
    """Something that is allowed but probably a mistake."""
