"""Live users of one store, kept in memory. Each answer knows every event that was committed before the question."""

import bisect
import contextlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

from resus.model.inference.parts import Crowd, Rows
from resus.serving.at_once import MOST_EVENTS, NotAtOnceError
from resus.serving.live.user import LiveUser
from resus.serving.loaded import LoadedModel
from resus.serving.store import Added, Event, EventStore, version_at_once

LIVE_BYTES = 1 << 27  # for all users together; the least recently used ones are dropped first
USER_BYTES, EVENT_BYTES = 4096, 1024  # of the objects around the arrays of a user, and of one event
TEXT_BYTES = 2  # per character of an event's features, which are kept as values and as text
FEW_CHANGES = 2  # up to here, single changes are cheaper than a fresh start
FEW_COME = 8  # events that a live user may wait with, until the next question

Asked = TypeVar("Asked")
Encode = Callable[[Event, Mapping[str, Any]], Crowd | None]  # an event of a user with a profile, if its code is kept


class _Come(NamedTuple):
    """An event that this process stored, its row for a user without a profile, and the version that it led to."""

    event: Event
    rows: Rows | None
    version: int


@dataclass(eq=False)
class _Cached:
    """A user as of one version of the store."""

    live: LiveUser
    events: list[Event] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)  # the features of each event, see `text_of_features`
    profile: Mapping[str, Any] = field(default_factory=dict)
    version: int = 0
    come: dict[int, _Come] = field(default_factory=dict)  # by the version before it
    was_asked: bool = False  # since its events were taken in before a question
    changes: int = 0  # of items, as of which its events are encoded
    reads: int = 0  # of all events, from the store
    accounted: int = 0
    text_bytes: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def nbytes(self) -> int:
        events = len(self.events) + len(self.come)
        return USER_BYTES + events * EVENT_BYTES + self.text_bytes + self.live.nbytes

    def gain(self, event: Event) -> None:
        place = bisect.bisect(self.events, event.moment, key=lambda known: known.moment)
        self.events.insert(place, event)
        self.texts.insert(place, text_of_features(event))
        self.text_bytes += TEXT_BYTES * len(self.texts[place])

    def lose(self, place: int) -> None:
        del self.events[place]
        self.text_bytes -= TEXT_BYTES * len(self.texts.pop(place))


class LiveUsers:
    """Threads may share it. Other processes may change the store at any time."""

    def __init__(
        self,
        loaded: LoadedModel,
        store: EventStore,
        *,
        capacity: int,
        limit: int = LIVE_BYTES,
        encode: Encode = lambda _event, _profile: None,
        cached: Callable[[bool], None] = lambda _kept: None,
    ) -> None:
        """`cached` hears whether a user who was asked for was kept, so that no event had to be read from the store."""
        self.loaded = loaded
        self._encode, self._cached_before = encode, cached
        self._store, self._version_at_once = store, version_at_once(store)
        self._capacity = capacity
        self._limit = limit
        self._cache: OrderedDict[str, _Cached] = OrderedDict()  # least recently used first
        self._cache_lock = threading.Lock()
        self.nbytes = 0  # of all users that are kept
        self._changes = 0  # of items
        self._last_change: dict[int, int] = {}  # of an item, by its place in the catalogue

    def __contains__(self, user: str) -> bool:
        return user in self._cache

    def __len__(self) -> int:
        return len(self._cache)

    def ask(
        self, user: str, question: Callable[[LiveUser, Mapping[str, Any]], Asked], *, at_once: bool = False
    ) -> tuple[tuple[Event, ...], Asked]:
        """The user's events, and the answer to a question about the user with these events and the user's profile.

        `at_once` refuses a user who cannot be asked without waiting.
        """
        version = self._version_at_once(user) if at_once else self._store.version(user)
        if version is None:
            raise NotAtOnceError
        if not version:
            self.drop(user)  # another process may have deleted the user
            return (), question(self.loaded.live_user(self._capacity), self.loaded.profile_of(user))
        cached = self._cached(user, at_once=at_once)
        if not cached.lock.acquire(blocking=not at_once):
            raise NotAtOnceError
        try:
            if at_once and not self._is_near(cached, version):
                raise NotAtOnceError
            reads, changes = cached.reads, self._changes  # before anything is encoded
            if cached.version != version:
                self._catch_up(cached, user, version)
            if cached.changes != changes:
                self._encode_changed(cached)
                cached.changes = changes
            cached.was_asked = True
            answer, events = question(cached.live, cached.profile), tuple(cached.events)
            self._cached_before(cached.reads == reads)
        finally:
            self._account(user, cached)
            cached.lock.release()
            if not cached.version:
                self.drop(user)  # it could not be read, or was deleted since we asked for the version
        return events, answer

    def _is_near(self, cached: _Cached, version: int) -> bool:
        """Whether it takes little to bring the user to a version: nothing, or one event that this process stored."""
        if cached.changes != self._changes:
            return False
        if cached.version == version:
            return True
        come = cached.come.get(cached.version)
        return come is not None and come.version == version and len(cached.events) <= MOST_EVENTS

    def follow(self, user: str, event: Event, rows: Rows | None, added: Added, *, read_by: LoadedModel) -> None:
        """Remember an event that this process stored, if the user is live. `read_by` is what made its row."""
        if not added.before:
            return  # nothing is known of the user before it, not even the profile
        with self._cache_lock:
            cached = self._cache.get(user)
            if cached is None:
                return
            if len(cached.come) >= FEW_COME:
                cached.come.clear()  # a fresh start is cheaper
            cached.come[added.before] = _Come(event, rows if read_by is self.loaded else None, added.after)

    def take_in(self, user: str) -> None:
        """Take in what this process stored, so that the next question need not. Only if there was a question since the
        last time, and nobody asks now: else the work may be in vain, and the question does it."""
        with self._cache_lock:
            cached = self._cache.get(user)
            if cached is None or not cached.was_asked or len(cached.events) > MOST_EVENTS:
                return
        if not cached.lock.acquire(blocking=False):
            return
        try:
            cached.was_asked = False
            with self._afresh_if_it_fails(cached):
                self._follow(cached)
                cached.live.support.settle()
        except Exception:  # noqa: S110  # the events are stored, and the next question finds the mistake
            pass
        finally:
            cached.lock.release()

    def change_items(self, loaded: LoadedModel, changed: Iterable[int]) -> None:
        """Go on with other items, of which those at these places are new or have other fields."""
        with self._cache_lock:
            self.loaded = loaded
            self._last_change |= dict.fromkeys(changed, self._changes + 1)
            self._changes += 1

    def drop(self, user: str) -> None:
        """Keep nothing of the user in memory."""
        with self._cache_lock:
            cached = self._cache.pop(user, None)
            if cached is not None:
                self.nbytes -= cached.accounted
                cached.accounted = 0

    def _cached(self, user: str, *, at_once: bool = False) -> _Cached:
        with self._cache_lock:
            cached = self._cache.get(user)
            if cached is None:
                if at_once:
                    raise NotAtOnceError
                cached = self._cache[user] = _Cached(self.loaded.live_user(self._capacity), changes=self._changes)
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

    def _catch_up(self, cached: _Cached, user: str, version: int) -> None:
        """Follow the events that this process stored; if others changed the user as well, read all events."""
        self._follow(cached, version)
        if cached.version != version:
            with self._afresh_if_it_fails(cached):
                self._read(cached, user)
            with self._cache_lock:
                cached.come = {before: late for before, late in cached.come.items() if before >= cached.version}

    def _follow(self, cached: _Cached, version: int | None = None) -> None:
        """Take in the events that this process stored, one after the other, up to a version."""
        with self._afresh_if_it_fails(cached):
            while cached.version != version:
                with self._cache_lock:
                    come = cached.come.pop(cached.version, None)
                if come is None:
                    return
                self._take_in(cached, come)

    def _encode_changed(self, cached: _Cached) -> None:
        """Encode the events anew if the item of one of them has changed since."""
        catalogue, item = self.loaded.catalogue, self.loaded.item
        assert catalogue is not None
        places = [catalogue.place_of(event.features.get(item)) for event in cached.events]
        if any(self._last_change.get(place, 0) > cached.changes for place in places):
            with self._afresh_if_it_fails(cached):
                cached.live = self.loaded.live_user(self._capacity, cached.events, cached.profile, stored=True)

    def _take_in(self, cached: _Cached, come: _Come) -> None:
        """One event on top of those that are known."""
        event, profile = come.event, cached.profile
        old = next((place for place, known in enumerate(cached.events) if known.id == event.id), None)
        if old is not None:  # it corrects label and time, and nothing else
            event, rows = replace(cached.events[old], time=event.time, label=event.label), None
            cached.live.forget(event.id)
            cached.lose(old)
        else:
            rows = None if profile else come.rows
        encoded = self._encode(event, profile)
        if rows is None:
            rows = self.loaded.rows_of([event], profile, stored=True)
        cached.live.observe(event.id, rows, event.label, event.time, encoded=encoded)
        cached.gain(event)
        if len(cached.events) > self._capacity:
            cached.lose(0)
        cached.version = come.version

    def _read(self, cached: _Cached, user: str) -> None:
        """Apply a few changes one by one; start afresh after many changes, or if the order of events differs."""
        record = self._store.read(user)
        cached.reads += 1
        profile = self.loaded.profile_of(user, record.profile)
        same = str(profile) == str(cached.profile)
        live, texts = cached.live, [text_of_features(event) for event in record.events]
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
        if same and len(known) + len(come) <= FEW_CHANGES:
            for event_id in known:
                live.forget(event_id)
            for event in come:
                rows = self.loaded.rows_of([event], profile, stored=True)
                live.observe(event.id, rows, event.label, event.time, encoded=self._encode(event, profile))
            for event in corrected:
                live.correct(event.id, event.label)
        if not same or live.events != tuple(event.id for event in record.events):
            live = self.loaded.live_user(self._capacity, record.events, profile, stored=True)
        cached.live, cached.profile = live, profile
        cached.events, cached.texts = list(record.events), texts
        cached.text_bytes = TEXT_BYTES * sum(map(len, texts))
        cached.version = record.version

    @contextlib.contextmanager
    def _afresh_if_it_fails(self, cached: _Cached) -> Iterator[None]:
        try:
            yield
        except BaseException:
            cached.live, cached.version, cached.profile = self.loaded.live_user(self._capacity), 0, {}
            cached.events, cached.texts, cached.text_bytes = [], [], 0
            raise


def text_of_features(event: Event) -> str:
    """To compare features: for Python 1, 1.0 and True are equal, for a model they may differ."""
    return str(event.features)
