"""Where events of live users are kept: a SQLite file by default, Redis for several hosts, or a store of your own.

A store is one module with a class that follows `EventStore` and takes `(url, *, capacity)`, and one line in `STORES`.
"""

import re
from collections.abc import Callable
from importlib import import_module

from resus.errors import ConfigError
from resus.extras import need
from resus.serving.store.protocol import (
    Added,
    Bulk,
    Event,
    EventStatus,
    EventStore,
    ExpiringStore,
    Moment,
    UserRecord,
    add_bulk,
    add_traced,
    bulk_order,
    check_store,
    version_at_once,
)

__all__ = [
    "STORES",
    "Added",
    "Bulk",
    "Event",
    "EventStatus",
    "EventStore",
    "ExpiringStore",
    "Moment",
    "UserRecord",
    "add_bulk",
    "add_traced",
    "bulk_order",
    "check_store",
    "is_address",
    "open_store",
    "version_at_once",
]

REDIS = "resus.serving.store.redis:RedisStore"
# URL scheme → a class, or "module:class" to import on first use
STORES: dict[str, str | Callable[..., EventStore]] = {
    "sqlite": "resus.serving.store.sqlite:SqliteStore",
    "redis": REDIS,
    "rediss": REDIS,
    "unix": REDIS,
}


def is_address(place: str) -> bool:
    """Whether a store is not in a file but at a URL."""
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):", place)
    return scheme is not None and scheme[1].lower() != "sqlite"


def open_store(place: str, *, capacity: int) -> EventStore:
    """Open the store at a URL of one of `STORES`, or the SQLite file at a path."""
    found = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):", place)
    scheme, rest = (found[1].lower(), place[found.end() :]) if found else ("sqlite", place)
    if scheme not in STORES or not rest:
        known = ", ".join(f"{name}:" for name in STORES)
        raise ConfigError(f"no store at '{scheme}:': give the path of a file, or an address that begins with {known}")
    return _opener(scheme)(f"{scheme}:{rest}", capacity=capacity)


def _opener(scheme: str) -> Callable[..., EventStore]:
    store = STORES[scheme]
    if not isinstance(store, str):
        return store
    if store == REDIS:
        need("redis", "a store in Redis")
    module, _, name = store.partition(":")
    opener: Callable[..., EventStore] = getattr(import_module(module), name)
    return opener
