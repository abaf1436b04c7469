"""Where events come from continuously. A source is one file, and one line in `SOURCES`."""

from importlib import import_module

from resus.errors import ConfigError
from resus.ingest.sources.base import Address, Entry, Opener, Refused, Source

__all__ = ["SOURCES", "Address", "Entry", "Refused", "Source", "open_source"]

REDIS = "resus.ingest.sources.redis_streams:RedisStream"
# URL scheme → a class, or "module:class" to import on first use
SOURCES: dict[str, str | Opener] = {
    "redis": REDIS,
    "rediss": REDIS,
    "unix": REDIS,
    "kafka": "resus.ingest.sources.kafka:KafkaTopic",
}


def open_source(url: str, *, group: str, consumer: str, create: bool = False) -> Source:
    """Open the stream at a URL of one of `SOURCES`, as a consumer of a group. `create` makes what is missing there."""
    address = Address.of(url)
    if address.scheme not in SOURCES:
        known = ", ".join(f"{scheme}:" for scheme in SOURCES)
        raise ConfigError(f"no stream at '{address.scheme}:': give an address that begins with {known}")
    found = SOURCES[address.scheme]
    if isinstance(found, str):
        module, _, name = found.partition(":")
        found = getattr(import_module(module), name)
    opener: Opener = found
    return opener(address, group=group, consumer=consumer, create=create)
