"""Redis Streams: consumer groups, entries of dead consumers, and a stream for entries that are no events."""

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import Any

from resus.errors import ConfigError, StorageError
from resus.extras import need
from resus.ingest.sources.base import Address, Entry, Refused

FIELD = b"event"  # of an entry
CLAIM_SECONDS = 30.0  # after which an entry that another consumer has read and not acknowledged is taken over
FIRST = b"0-0"
ANSWER_SECONDS = 5.0  # for Redis to answer
DEAD_ENTRIES = 100_000  # that the stream of refused entries keeps, about


class RedisStream:
    """`redis://HOST:PORT/DB?stream=NAME`; `dead=NAME` names the stream of refused entries, `claim=SECONDS` says when
    entries of another consumer are taken over."""

    def __init__(self, address: Address, *, group: str, consumer: str, create: bool) -> None:
        need("redis", "a stream in Redis")
        import redis

        address.refuse_others(("stream", "dead", "claim", "db"))
        self._stream, self._group, self._consumer = address.option("stream"), group, consumer
        self._dead = address.option("dead", f"{self._stream}:dead")
        self._claim_seconds = address.number("claim", CLAIM_SECONDS)
        self._claim_at, self._claim_from = 0.0, FIRST
        self._errors = redis
        db = f"?db={address.options['db']}" if "db" in address.options else ""
        try:
            self._client: Any = redis.Redis.from_url(
                address.url + db, socket_timeout=ANSWER_SECONDS, socket_connect_timeout=ANSWER_SECONDS
            )
        except ValueError:
            raise ConfigError("--from is no address of a Redis: write redis://HOST:PORT/DB?stream=NAME") from None
        with self._in_one_sentence():
            self._check(create)

    def read(self, limit: int, wait: float) -> Sequence[Entry]:
        if time.monotonic() >= self._claim_at:
            claimed = self._claimed(limit)
            if self._claim_from == FIRST:  # it has seen all
                self._claim_at = time.monotonic() + self._claim_seconds / 2
            if claimed:
                return claimed
        with self._in_one_sentence():
            wait_ms = max(1, int(1000 * min(wait, ANSWER_SECONDS / 2)))
            found = self._client.xreadgroup(
                self._group, self._consumer, {self._stream: ">"}, count=limit, block=wait_ms
            )
        return [_entry(*each) for _, entries in _pairs(found) for each in entries]

    def done(self, entries: Sequence[Entry], refused: Sequence[Refused]) -> None:
        if not entries:
            return
        with self._in_one_sentence(), self._client.pipeline(transaction=True) as together:
            for entry, reason in refused:
                fields = {"reason": reason, "id": entry.key, FIELD: entry.body}
                together.xadd(self._dead, fields, maxlen=DEAD_ENTRIES, approximate=True)
            together.xack(self._stream, self._group, *(entry.key for entry in entries))
            together.execute()

    def close(self) -> None:
        """Leave the group, unless there are entries that another consumer must take over."""
        with contextlib.suppress(self._errors.RedisError):
            pending = self._client.xpending_range(self._stream, self._group, "-", "+", 1, self._consumer)
            if not pending:
                self._client.xgroup_delconsumer(self._stream, self._group, self._consumer)
        self._client.close()

    def _claimed(self, limit: int) -> list[Entry]:
        """Entries that their consumer has not acknowledged for long; this consumer's own ones are among them."""
        with self._in_one_sentence():
            self._claim_from, entries, *_ = self._client.xautoclaim(
                self._stream,
                self._group,
                self._consumer,
                int(1000 * self._claim_seconds),
                self._claim_from,
                count=limit,
            )
        return [_entry(*each) for each in entries]

    def _check(self, create: bool) -> None:
        kind = self._client.type(self._stream).decode()
        if kind not in ("stream", "none"):
            raise ConfigError(
                f"'{self._stream}' in Redis is a {kind}, not a stream: name another one with ?stream=NAME"
            )
        if create:
            with contextlib.suppress(self._errors.ResponseError):  # the group is there
                self._client.xgroup_create(self._stream, self._group, "0", mkstream=True)
        elif kind == "none":
            raise ConfigError(
                f"there is no stream '{self._stream}' in Redis: correct its name, or create it with --create-group"
            )
        groups = [one["name"].decode() for one in self._client.xinfo_groups(self._stream)]
        if self._group not in groups:
            known = f" (there are {', '.join(sorted(groups))})" if groups else ""
            what = f"the stream '{self._stream}' has no group '{self._group}'{known}"
            raise ConfigError(f"{what}: correct --group, or add --create-group")

    @contextlib.contextmanager
    def _in_one_sentence(self) -> Iterator[None]:
        try:
            yield
        except self._errors.ConnectionError as error:
            raise StorageError(f"the Redis of the stream cannot be reached ({_reason(error)}): start it") from None
        except self._errors.TimeoutError as error:
            raise StorageError(f"the Redis of the stream does not answer ({_reason(error)}): start it") from None
        except self._errors.ResponseError as error:
            if "NOGROUP" in str(error):
                raise ConfigError(
                    f"the stream '{self._stream}' or its group '{self._group}' is gone: create it with --create-group"
                ) from None
            raise StorageError(f"the Redis of the stream refused ({_reason(error)}): check its access rules") from None


def _pairs(found: Any) -> list[tuple[Any, Any]]:
    """Streams with their entries: the client gives a list of pairs, or a mapping."""
    if isinstance(found, dict):
        return [(name, [each for some in many for each in some]) for name, many in found.items()]
    return list(found or [])


def _entry(key: bytes, fields: dict[bytes, bytes] | None) -> Entry:
    known = fields or {}
    return Entry(f"entry {key.decode()}", known.get(FIELD, b""), key)


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")
