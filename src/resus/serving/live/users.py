"""Live users of one store, kept in memory. Each answer knows every event that was committed before the question."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from resus.serving.live.user import LiveUser
from resus.serving.loaded import LoadedModel
from resus.serving.store import Event, EventStore

LIVE_BYTES = 1 << 27  # for all users together; the least recently used ones are dropped first
USER_BYTES, EVENT_BYTES = 4096, 1024  # of the objects around the arrays of a user, and of one event
TEXT_BYTES = 2  # per character of an event's features, which are kept as values and as text
FEW_CHANGES = 2  # up to here, single changes are cheaper than a fresh start

Asked = TypeVar("Asked")


@dataclass(eq=False)
class _Cached:
    """A user as of one version of the store."""

    live: LiveUser
    events: tuple[Event, ...] = ()
    texts: tuple[str, ...] = ()  # the features of each event, see `text_of_features`
    profile: Mapping[str, Any] = field(default_factory=dict)
    version: int = 0
    accounted: int = 0
    text_bytes: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def nbytes(self) -> int:
        return USER_BYTES + len(self.events) * EVENT_BYTES + self.text_bytes + self.live.nbytes


class LiveUsers:
    """Threads may share it. Other processes may change the store at any time."""

    def __init__(self, loaded: LoadedModel, store: EventStore, *, capacity: int, limit: int = LIVE_BYTES) -> None:
        self.loaded = loaded
        self._store = store
        self._capacity = capacity
        self._limit = limit
        self._cache: OrderedDict[str, _Cached] = OrderedDict()  # least recently used first
        self._cache_lock = threading.Lock()
        self.nbytes = 0  # of all users that are kept

    def __contains__(self, user: str) -> bool:
        return user in self._cache

    def __len__(self) -> int:
        return len(self._cache)

    def ask(
        self, user: str, question: Callable[[LiveUser, Mapping[str, Any]], Asked]
    ) -> tuple[tuple[Event, ...], Asked]:
        """The user's events, and the answer to a question about the user with these events and the user's profile."""
        version = self._store.version(user)
        if not version:
            self.drop(user)  # another process may have deleted the user
            return (), question(self.loaded.live_user(self._capacity), self.loaded.profile_of(user))
        cached = self._cached(user)
        try:
            with cached.lock:
                if cached.version != version:
                    self._catch_up(cached, user)
                answer, events = question(cached.live, cached.profile), cached.events
                self._account(user, cached)
        finally:
            if not cached.version:
                self.drop(user)  # it could not be read, or was deleted since we asked for the version
        return events, answer

    def drop(self, user: str) -> None:
        """Keep nothing of the user in memory."""
        with self._cache_lock:
            cached = self._cache.pop(user, None)
            if cached is not None:
                self.nbytes -= cached.accounted
                cached.accounted = 0

    def _cached(self, user: str) -> _Cached:
        with self._cache_lock:
            cached = self._cache.get(user)
            if cached is None:
                cached = self._cache[user] = _Cached(self.loaded.live_user(self._capacity))
            self._cache.move_to_end(user)
            return cached

    def _account(self, user: str, cached: _Cached) -> None:
        """Count the bytes of a user who was just asked for, and drop others if all together take too many."""
        size = cached.nbytes
        with self._cache_lock:
            if self._cache.get(user) is not cached:
                return
            self.nbytes += size - cached.accounted
            cached.accounted = size
            while self.nbytes > self._limit and self._cache:
                _, dropped = self._cache.popitem(last=False)
                self.nbytes -= dropped.accounted
                dropped.accounted = 0

    def _catch_up(self, cached: _Cached, user: str) -> None:
        """Apply a few changes one by one; start afresh after many changes, or if the order of events differs."""
        record = self._store.read(user)
        profile = self.loaded.profile_of(user, record.profile)
        same = str(profile) == str(cached.profile)
        live, texts = cached.live, tuple(text_of_features(event) for event in record.events)
        known = dict(
            zip((event.id for event in cached.events), zip(cached.events, cached.texts, strict=True), strict=True)
        )
        come, corrected = [], []
        for event, text in zip(record.events, texts, strict=True):
            old, old_text = known.pop(event.id, (None, None))
            if old is None or old.time != event.time or old_text != text:
                come.append(event)
                if old is not None:
                    known[event.id] = old, text  # another event of the same id
            elif old.label != event.label:
                corrected.append(event)
        cached.live, cached.events, cached.version = self.loaded.live_user(self._capacity), (), 0  # if this fails
        cached.texts, cached.text_bytes, cached.profile = (), 0, {}
        if same and len(known) + len(come) <= FEW_CHANGES:
            for event_id in known:
                live.forget(event_id)
            for event in come:
                live.observe(event.id, self.loaded.rows_of([event], profile), event.label, event.time)
            for event in corrected:
                live.correct(event.id, event.label)
        if not same or live.events != tuple(event.id for event in record.events):
            live = self.loaded.live_user(self._capacity, record.events, profile)
        cached.profile = profile
        cached.live, cached.events, cached.texts, cached.version = live, record.events, texts, record.version
        cached.text_bytes = TEXT_BYTES * sum(map(len, texts))


def text_of_features(event: Event) -> str:
    """To compare features: for Python 1, 1.0 and True are equal, for a model they may differ."""
    return str(event.features)
