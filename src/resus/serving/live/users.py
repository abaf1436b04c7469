"""Live users of one store, kept in memory. Each answer knows every event that was committed before the question."""

import threading
from collections import OrderedDict
from dataclasses import dataclass, field

from resus.episodes.batch import Features
from resus.model.personalizer import Scores
from resus.serving.limits import EVENTS_PER_USER
from resus.serving.live.user import LiveUser
from resus.serving.loaded import LoadedModel
from resus.serving.store import Event, EventStore

CACHED_USERS = 512  # with EVENTS_PER_USER events each, at 1 to 2 MiB per user; fewer if users may have more events
FEW_CHANGES = 2  # up to here, single changes are cheaper than a fresh start


@dataclass(eq=False)
class _Cached:
    """A user as of one version of the store."""

    live: LiveUser
    events: tuple[Event, ...] = ()
    version: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


class LiveUsers:
    """Threads may share it. Other processes may change the store at any time."""

    def __init__(self, loaded: LoadedModel, store: EventStore, *, capacity: int) -> None:
        self._loaded = loaded
        self._store = store
        self._capacity = capacity
        self._cached_users = CACHED_USERS * EVENTS_PER_USER // max(EVENTS_PER_USER, capacity)
        self._cache: OrderedDict[str, _Cached] = OrderedDict()  # least recently used first
        self._cache_lock = threading.Lock()

    def __contains__(self, user: str) -> bool:
        return user in self._cache

    def score(self, user: str, candidates: Features, *, explain: bool = False) -> tuple[tuple[Event, ...], Scores]:
        """The user's events, and the scores that follow from them."""
        version = self._store.version(user)
        if not version:
            self.drop(user)  # another process may have deleted the user
            return (), self._loaded.live_user(self._capacity).score(candidates, explain=explain)
        cached = self._cached(user)
        with cached.lock:
            if cached.version != version:
                self._catch_up(cached, user)
            if not cached.version:
                self.drop(user)  # deleted since we asked for the version
            return cached.events, cached.live.score(candidates, explain=explain)

    def drop(self, user: str) -> None:
        """Keep nothing of the user in memory."""
        with self._cache_lock:
            self._cache.pop(user, None)

    def _cached(self, user: str) -> _Cached:
        with self._cache_lock:
            cached = self._cache.get(user)
            if cached is None:
                cached = self._cache[user] = _Cached(self._loaded.live_user(self._capacity))
            self._cache.move_to_end(user)
            if len(self._cache) > self._cached_users:
                self._cache.popitem(last=False)
            return cached

    def _catch_up(self, cached: _Cached, user: str) -> None:
        """Apply a few changes one by one; start afresh after many changes, or if the order of events differs."""
        record = self._store.read(user)
        live, old = cached.live, {event.id: event for event in cached.events}
        new = {event.id: event for event in record.events}
        gone = [event for event in old.values() if not same_but_label(event, new.get(event.id))]
        come = [event for event in new.values() if not same_but_label(event, old.get(event.id))]
        few = len(gone) + len(come) <= FEW_CHANGES
        cached.live, cached.events, cached.version = self._loaded.live_user(self._capacity), (), 0  # if this fails
        if few:
            for event in gone:
                live.forget(event.id)
            for event in come:
                live.observe(event.id, self._loaded.rows_of([event]), event.label, event.time)
            for event in new.values():
                if event.id in old and event.label != old[event.id].label:
                    live.correct(event.id, event.label)
        if not few or live.events != tuple(new):
            live = self._loaded.live_user(self._capacity, record.events)
        cached.live, cached.events, cached.version = live, record.events, record.version


def same_but_label(one: Event, other: Event | None) -> bool:
    """Compares features as text: for Python 1, 1.0 and True are equal, for a model they may differ."""
    return other is not None and one.time == other.time and str(one.features) == str(other.features)
