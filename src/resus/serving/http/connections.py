"""The open connections of a process. One client cannot keep the others out."""

import ipaddress
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Protocol
from weakref import WeakKeyDictionary

from uvicorn.server import ServerState

PER_ADDRESS = 256  # connections of a client's address to one worker
IN_ALL = 4096  # connections to one worker, if it may open as many files
OTHER_FILES = 128  # store, logs, libraries


class Connection(Protocol):
    @property
    def address(self) -> str: ...

    def give_way(self) -> None:
        """Close: another connection needs the place."""


class Connections:
    """Counts connections by address. When there are too many, the one that waits longest for a request gives way.

    So a client that opens connections without sending whole requests can only push out its own.
    """

    def __init__(self, *, per_address: int = PER_ADDRESS, in_all: int | None = None) -> None:
        self._per_address = per_address
        self._in_all = _open_files(IN_ALL) if in_all is None else in_all
        self._open: Counter[str] = Counter()
        self._waiting: defaultdict[str, dict[Connection, None]] = defaultdict(dict)
        self._all_waiting: dict[Connection, None] = {}

    def admit(self, connection: Connection) -> bool:
        """Take in a new connection, which waits for its first request; False if there is no place for it."""
        address = connection.address
        self._open[address] += 1
        candidates: Iterable[Connection] = ()
        if self._open[address] > self._per_address:
            candidates = self._waiting[address]
        elif self._open.total() > self._in_all:
            candidates = self._all_waiting
        else:
            self.wait(connection)
            return True
        oldest = next(iter(candidates), None)
        if oldest is None:
            return False
        self.begin(oldest)
        self.wait(connection)
        oldest.give_way()
        return True

    def wait(self, connection: Connection) -> None:
        """A connection begins to wait for a request."""
        self._waiting[connection.address][connection] = None
        self._all_waiting[connection] = None

    def begin(self, connection: Connection) -> None:
        """A connection waits no longer: the whole request has arrived."""
        self._waiting[connection.address].pop(connection, None)
        self._all_waiting.pop(connection, None)

    def leave(self, connection: Connection) -> None:
        """A connection is closed."""
        address = connection.address
        self.begin(connection)
        self._open[address] -= 1
        if self._open[address] <= 0:
            del self._open[address]
            self._waiting.pop(address, None)


_OF_SERVER: WeakKeyDictionary[ServerState, Connections] = WeakKeyDictionary()


def connections_of(server: ServerState) -> Connections:
    if server not in _OF_SERVER:
        _OF_SERVER[server] = Connections()
    return _OF_SERVER[server]


def address_of(host: str) -> str:
    """What counts as one client: an IPv4 address, or an IPv6 network of 64 bits, which belongs to one customer."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        return str(address.ipv4_mapped or address.exploded[: len("0000:0000:0000:0000")])
    return host


def _open_files(wanted: int) -> int:
    """How many connections the process may have. Raises its own limit of open files if it can."""
    try:
        import resource
    except ImportError:  # not on Windows
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY:
        return wanted
    return max(min(wanted, soft - OTHER_FILES), soft // 4)
