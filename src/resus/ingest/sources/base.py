"""What every source of events offers. A new one is one file with a class, and one line in the registry."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol
from urllib.parse import parse_qsl, urlsplit

from resus.checking import nearest_key
from resus.errors import ConfigError


class Entry(NamedTuple):
    """A message of a stream. `key` is what its source acknowledges it by."""

    place: str  # as sentences name it
    body: bytes  # one event as JSON, as in POST /v1/events
    key: Any = None


class Refused(NamedTuple):
    """An entry that is no event, and why."""

    entry: Entry
    reason: str


class Source(Protocol):
    """Delivers each message of a stream to one of the consumers of a group, at least once.

    A message that was read and not acknowledged is delivered again, to this or another consumer of the group. An error
    that may pass is a `StorageError`; other errors end the consumer.
    """

    def read(self, limit: int, wait: float) -> Sequence[Entry]:
        """Up to `limit` messages; none if there is none within about `wait` seconds."""

    def done(self, entries: Sequence[Entry], refused: Sequence[Refused]) -> None:
        """Acknowledge messages whose events are stored durably. Those that are refused are put aside first, where an
        operator finds them with the reason."""

    def close(self) -> None: ...


class Opener(Protocol):
    def __call__(self, address: "Address", *, group: str, consumer: str, create: bool) -> Source: ...


@dataclass(frozen=True)
class Address:
    """The URL of a stream: a server, and options after the question mark."""

    url: str
    scheme: str
    options: Mapping[str, str]

    @classmethod
    def of(cls, url: str) -> "Address":
        try:
            parts = urlsplit(url)
            pairs = parse_qsl(parts.query, strict_parsing=bool(parts.query))
        except ValueError:
            raise ConfigError("--from is no address: write redis://HOST:PORT/DB?stream=NAME") from None
        return cls(url.partition("?")[0], parts.scheme, dict(pairs))

    def option(self, name: str, default: str | None = None) -> str:
        value = self.options.get(name, default)
        if not value:
            raise ConfigError(f"--from names no {name}: add ?{name}=NAME to the address")
        return value

    def number(self, name: str, default: float) -> float:
        value = self.options.get(name)
        try:
            number = default if value is None else float(value)
        except ValueError:
            number = -1.0
        if not 0 < number < 1e9:
            raise ConfigError(f"--from has {name}={value}: give a number of seconds")
        return number

    def refuse_others(self, known: Sequence[str], allow: Callable[[str], bool] = lambda _: False) -> None:
        """Refuse options that the source does not have."""
        for name in self.options:
            if name not in known and not allow(name):
                nearest = nearest_key(name, known)
                hint = f"did you mean '{nearest}'?" if nearest else f"it takes {', '.join(known)}"
                raise ConfigError(f"--from has an unknown option '{name}': {hint}")
