"""A store: events in the memory of one process."""

import itertools
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from resus.serving.store import Event, EventStatus, UserRecord


class MemoryStore:
    def __init__(self, url: str, *, capacity: int) -> None:
        self._capacity = capacity
        self._lock = threading.Lock()
        self._versions = itertools.count(1)
        self._users: dict[str, UserRecord] = {}

    def add(self, batch: Sequence[tuple[str, Event]]) -> list[EventStatus]:
        with self._lock:
            return [self._add(user, event) for user, event in batch]

    def _add(self, user: str, event: Event) -> EventStatus:
        events = {old.id: old for old in self.read(user).events}
        before = events.get(event.id)
        if before is not None:
            event = Event(before.id, event.time, event.label, before.features)
        if event == before:
            return "known"
        latest = sorted([*(events | {event.id: event}).values()], key=lambda each: each.moment)[-self._capacity :]
        if event not in latest:
            return "too old"
        self._users[user] = UserRecord(next(self._versions), tuple(latest), self.read(user).profile)
        return "added" if before is None else "corrected"

    def version(self, user: str) -> int:
        return self.read(user).version

    def read(self, user: str) -> UserRecord:
        return self._users.get(user, UserRecord(0, ()))

    def set_profile(self, user: str, profile: Mapping[str, Any]) -> None:
        with self._lock:
            self._keep(user, self.read(user).events, profile)

    def forget(self, user: str, event_id: str) -> bool:
        with self._lock:
            events = self.read(user).events
            left = tuple(event for event in events if event.id != event_id)
            self._keep(user, left, self.read(user).profile)
            return len(left) < len(events)

    def _keep(self, user: str, events: tuple[Event, ...], profile: Mapping[str, Any]) -> None:
        self._users[user] = UserRecord(next(self._versions), events, profile)
        if not events and not profile:
            del self._users[user]

    def delete(self, user: str) -> bool:
        with self._lock:
            return self._users.pop(user, None) is not None

    def users(self) -> int:
        return len(self._users)

    def close(self) -> None:
        self._users.clear()
