"""Scores for the users of a store: each answer knows every event that was committed before it was asked for."""

import bisect
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from resus.episodes.tensors import Features
from resus.errors import DataError, RowError
from resus.serving.http.guard import CAPACITY, FEATURES_BYTES, ID_LENGTH
from resus.serving.http.messages import (
    EventResult,
    InlineEvent,
    PostedEvent,
    PredictAnswer,
    PredictRequest,
    Reason,
    ScoredCandidate,
    StoredEvent,
    UserAnswer,
)
from resus.serving.live.user import LiveUser, Scores
from resus.serving.loaded import LoadedModel
from resus.serving.store.protocol import Event, EventStore

CACHED_USERS = 512  # of two hundred events, which take about 1 MiB, with events as large as may be 2; of more, fewer
TOO_EXTREME = "the numbers of the candidates or of the user's events are too large to score: mend or forget them"
FEW = 2  # changes that are cheaper one by one than a fresh start


@dataclass(eq=False)
class _Cached:
    """A user as of one version of the store."""

    live: LiveUser
    events: tuple[Event, ...] = ()
    version: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


class Engine:
    """One loaded model on one store. Threads may share it."""

    def __init__(
        self, loaded: LoadedModel, store: EventStore, *, capacity: int = CAPACITY, cached_users: int | None = None
    ) -> None:
        self.loaded = loaded
        self.store = store
        self.capacity = capacity
        self._cached_users = cached_users or CACHED_USERS * CAPACITY // max(CAPACITY, capacity)
        self._cache: OrderedDict[str, _Cached] = OrderedDict()  # the least recently asked first
        self._cache_lock = threading.Lock()

    def observe(self, events: Sequence[PostedEvent]) -> list[EventResult]:
        """Store a batch, all or nothing; it is durable when this returns."""
        batch = [(event.user, self._stored(event.id, event.time, event)) for event in events]
        self._rows_of([event for _, event in batch])  # what cannot be read must not be stored
        statuses = self.store.add(batch)
        return [EventResult(id=event.id, status=status) for event, status in zip(events, statuses, strict=True)]

    def predict(self, request: PredictRequest) -> PredictAnswer:
        candidates = self._candidates(request)
        features = self.loaded.rows(candidates)
        try:
            self.loaded.check_scores(features)
        except RowError as bad:
            raise DataError(_without_score(request, bad)) from None
        try:
            known, scores = self._score(request, features)
        except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
            raise DataError(TOO_EXTREME) from None
        said = (scores.basis, scores.residual, scores.parts, scores.deviation)
        if not all(bool(values.isfinite().all()) for values in said if values is not None):
            raise DataError(TOO_EXTREME)
        items = [self.loaded.item_of(row) for row in candidates]
        order = list(range(len(items)))
        if request.top is not None:
            order = scores.probability.argsort(descending=True, stable=True)[: request.top].tolist()
        return PredictAnswer(
            user=request.user,
            support=len(scores.events),
            model=self.loaded.name,
            answers=_answers(scores, items, order, self._items_of(known) if request.explain else None),
        )

    def user(self, user: str) -> UserAnswer | None:
        """What the store holds of a user; None for one that it does not know."""
        events = self.store.read(user).events
        if not events:
            return None
        return UserAnswer(
            user=user,
            support=len(events),
            stage=self.loaded.stage(len(events)),
            events=[
                StoredEvent(
                    id=event.id,
                    time=event.time,
                    label=event.label,
                    item=self.loaded.item_of(event.features),
                    features=dict(event.features),
                )
                for event in events
            ],
        )

    def forget(self, user: str, event: str) -> bool:
        """As if the event had never been; False where the store does not know it."""
        try:
            return self.store.forget(user, event)
        finally:
            self._uncache(user)

    def delete(self, user: str) -> bool:
        """Nothing of the user stays, neither in the store nor in this process."""
        try:
            return self.store.delete(user)
        finally:
            self._uncache(user)

    def _candidates(self, request: PredictRequest) -> list[dict[str, Any]]:
        context = self.loaded.with_item(request.context)
        if request.items is not None:
            return [{**context, self.loaded.item: item} for item in request.items]
        return [{**context, **self.loaded.with_item(candidate)} for candidate in request.candidates or []]

    def _stored(self, name: str, time: float, event: InlineEvent | PostedEvent) -> Event:
        """An event with the fields that the model reads, and no others."""
        features: dict[str, Any] = {
            name: value
            for name, value in self.loaded.with_item(event.features).items()
            if name in self.loaded.field_names
        }
        if event.item is not None:
            features[self.loaded.item] = event.item
        if not features:
            raise DataError(f"event {name!r} names no item and no field that the model reads: see /v1/model")
        stored = Event(name, time, event.label, features)
        if len(stored.features_as_json()) > FEATURES_BYTES:
            raise DataError(f"event {name!r}: its features take more than {FEATURES_BYTES:,} bytes: shorten them")
        if len(self.loaded.item_of(features) or "") > ID_LENGTH:
            raise DataError(f"event {name!r}: its item's id has more than {ID_LENGTH} characters: shorten it")
        return stored

    def _in_order(self, inline: Sequence[InlineEvent]) -> tuple[Event, ...]:
        """Inline events under the rules of the store: an id again corrects the label, the latest count."""
        kept: list[tuple[tuple[float, int | str], Event]] = []
        for place, sent in enumerate(inline):
            name, time = f"{place}" if sent.id is None else sent.id, float(place) if sent.time is None else sent.time
            known = next((at for at, (_, event) in enumerate(kept) if event.id == name), None)
            if known is not None:
                moment, event = kept[known]
                kept[known] = (moment, replace(event, label=sent.label))
                continue
            moment = (time, place if sent.id is None else sent.id)
            bisect.insort(kept, (moment, self._stored(name, time, sent)), key=lambda one: one[0])
            del kept[: -self.capacity]
        return tuple(event for _, event in kept)

    def _live_user(self, events: Sequence[Event]) -> LiveUser:
        live = self.loaded.live_user(self.capacity)
        live.start_from(
            [(event.id, event.label, event.time) for event in events],
            self._rows_of(events),
        )
        return live

    def _rows_of(self, events: Sequence[Event]) -> Features:
        rows = self.loaded.rows([event.features for event in events])
        try:
            self.loaded.check_scores(rows)
        except RowError as bad:
            told = f"event {events[bad.row].id!r}, field {bad.column!r}: {bad.what}; {bad.fix}"
            raise DataError(f"{told} (if the event is stored, delete it first)") from None
        return rows

    def _score(self, request: PredictRequest, features: Features) -> tuple[tuple[Event, ...], Scores]:
        if request.user is None:
            known = self._in_order(request.events or [])
            return known, self._live_user(known).score(features)
        return self._score_stored(request.user, features)

    def _score_stored(self, user: str, features: Features) -> tuple[tuple[Event, ...], Scores]:
        version = self.store.version(user)
        if not version:
            self._uncache(user)  # another process may have deleted them
            return (), self.loaded.live_user(self.capacity).score(features)
        cached = self._cached(user)
        with cached.lock:
            if cached.version != version:
                self._catch_up(cached, user)
            if not cached.version:
                self._uncache(user)  # deleted since we asked
            return cached.events, cached.live.score(features)

    def _catch_up(self, cached: _Cached, user: str) -> None:
        """Take in what changed since; much, or another order of events, is a fresh start in one pass."""
        record = self.store.read(user)
        live, old = cached.live, {event.id: event for event in cached.events}
        new = {event.id: event for event in record.events}
        gone = [event for event in old.values() if not _same_but_label(event, new.get(event.id))]
        come = [event for event in new.values() if not _same_but_label(event, old.get(event.id))]
        few = len(gone) + len(come) <= FEW
        cached.live, cached.events, cached.version = self.loaded.live_user(self.capacity), (), 0  # should this fail
        if few:
            for event in gone:
                live.forget(event.id)
            for event in come:
                live.observe(event.id, self._rows_of([event]), event.label, event.time)
            for event in new.values():
                if event.id in old and event.label != old[event.id].label:
                    live.correct(event.id, event.label)
        if not few or live.events != tuple(new):
            live = self._live_user(record.events)
        cached.live, cached.events, cached.version = live, record.events, record.version

    def _cached(self, user: str) -> _Cached:
        with self._cache_lock:
            cached = self._cache.get(user)
            if cached is None:
                cached = self._cache[user] = _Cached(self.loaded.live_user(self.capacity))
            self._cache.move_to_end(user)
            if len(self._cache) > self._cached_users:
                self._cache.popitem(last=False)
            return cached

    def _uncache(self, user: str) -> None:
        with self._cache_lock:
            self._cache.pop(user, None)

    def _items_of(self, events: Sequence[Event]) -> Mapping[str, str | None]:
        return {event.id: self.loaded.item_of(event.features) for event in events}


def _without_score(request: PredictRequest, bad: RowError) -> str:
    if request.items is None:
        return f"candidates[{bad.row}], field {bad.column!r}: {bad.what}; {bad.fix}"
    return (
        f"items[{bad.row}], field {bad.column!r}, which is Ψ: {bad.what}; ask with candidates in place of items, "
        f"each with its item and {bad.column!r}"
    )


def _same_but_label(one: Event, other: Event | None) -> bool:
    """As written: to Python 1, 1.0 and True are one, to a model they may not be."""
    return other is not None and one.time == other.time and str(one.features) == str(other.features)


def _answers(
    scores: Scores, items: Sequence[str | None], order: Sequence[int], known: Mapping[str, str | None] | None
) -> list[ScoredCandidate]:
    """In the given order; `known` holds the items of the events where an explanation is wanted."""
    columns = scores.probability.tolist(), scores.basis.tolist(), scores.residual.tolist()
    deviations = [None] * len(items) if scores.deviation is None else scores.deviation.tolist()
    answers = []
    for place in order:
        probability, basis, residual = (column[place] for column in columns)
        said: dict[str, Any] = {} if items[place] is None else {"item": items[place]}
        if known is not None:
            parts = zip(scores.events, scores.parts[place].tolist(), strict=True)
            by_weight = sorted(parts, key=lambda part: -abs(part[1]))
            said["because"] = [Reason(event=event, item=known[event], part=part) for event, part in by_weight]
        answers.append(
            ScoredCandidate(
                candidate=place,
                probability=probability,
                basis=basis,
                residual=residual,
                deviation=deviations[place],
                **said,
            )
        )
    return answers
