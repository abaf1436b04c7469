"""What the service answers: requests in, answers out, for one model on one store."""

import bisect
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from resus.episodes.batch import Features
from resus.errors import DataError, RowError
from resus.model.learners.base import Explanation
from resus.model.personalizer import Scores
from resus.serving.limits import EVENTS_PER_USER, MAX_FEATURES_BYTES, MAX_ID, check_times
from resus.serving.live.users import LiveUsers
from resus.serving.loaded import LoadedModel
from resus.serving.messages import (
    Cause,
    EventResult,
    InlineEvent,
    KindOfParts,
    PostedEvent,
    PredictAnswer,
    PredictRequest,
    Reason,
    ScoredCandidate,
    StoredEvent,
    UserAnswer,
)
from resus.serving.store import Event, EventStore

TOO_EXTREME = "numbers of the candidates or of the user's events are too large to score: correct or delete them"


class Engine:
    """One loaded model on one store. Threads may share it."""

    def __init__(self, loaded: LoadedModel, store: EventStore, *, capacity: int = EVENTS_PER_USER) -> None:
        self.loaded = loaded
        self.store = store
        self.capacity = capacity
        self.live_users = LiveUsers(loaded, store, capacity=capacity)

    def observe(self, events: Sequence[PostedEvent]) -> list[EventResult]:
        """Store all events of a batch, or none; they are durable when this returns."""
        check_times([event.time for event in events])
        batch = [(event.user, self._event(event.id, event.time, event)) for event in events]
        self.loaded.rows_of([event for _, event in batch])  # an event that the model cannot read is not stored
        statuses = self.store.add(batch)
        return [EventResult(id=event.id, status=status) for event, status in zip(events, statuses, strict=True)]

    def predict(self, request: PredictRequest) -> PredictAnswer:
        candidates = self._candidates(request)
        features = self.loaded.rows(candidates)
        try:
            self.loaded.check_scores(features)
        except RowError as bad:
            raise DataError(_missing_score(request, bad)) from None
        try:
            events, scores = self._score(request, features)
        except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
            raise DataError(TOO_EXTREME) from None
        if not all(bool(values.isfinite().all()) for values in _numbers(scores)):
            raise DataError(TOO_EXTREME)
        items = [self.loaded.item_of(row) for row in candidates]
        order = list(range(len(items)))
        if request.top is not None:
            order = scores.probability.argsort(descending=True, stable=True)[: request.top].tolist()
        known = [(event.id, self.loaded.item_of(event.features)) for event in events]
        optional = {"parts": _kind(scores.explanation)} if events and scores.explanation else {}
        return PredictAnswer(
            user=request.user,
            support=len(events),
            model=self.loaded.name,
            answers=_answers(scores, items, order, known),
            **optional,
        )

    def user(self, user: str) -> UserAnswer | None:
        """What the store holds about a user; None for an unknown user."""
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
        """Delete one event; False if the store does not know it."""
        try:
            return self.store.forget(user, event)
        finally:
            self.live_users.drop(user)

    def delete(self, user: str) -> bool:
        """Delete everything about a user, in the store and in this process; False for an unknown user."""
        try:
            return self.store.delete(user)
        finally:
            self.live_users.drop(user)

    def _candidates(self, request: PredictRequest) -> list[dict[str, Any]]:
        context = self.loaded.with_item(request.context)
        if request.items is not None:
            return [{**context, self.loaded.item: item} for item in request.items]
        return [{**context, **self.loaded.with_item(candidate)} for candidate in request.candidates or []]

    def _score(self, request: PredictRequest, candidates: Features) -> tuple[tuple[Event, ...], Scores]:
        if request.user is not None:
            return self.live_users.score(request.user, candidates, explain=request.explain)
        events = self._inline_events(request.events or [])
        return events, self.loaded.live_user(self.capacity, events).score(candidates, explain=request.explain)

    def _inline_events(self, sent: Sequence[InlineEvent]) -> tuple[Event, ...]:
        """Inline events in order, under the rules of the store: a known id corrects, and the latest count."""
        order: list[tuple[float, str | int]] = []  # events without ids keep their order at equal times
        kept: dict[str | int, Event] = {}
        for place, one in enumerate(sent):
            key = place if one.id is None else one.id
            if key in kept:
                order.remove((kept[key].time, key))
                moved = kept[key].time if one.time is None else one.time
                kept[key] = replace(kept[key], label=one.label, time=moved)
                bisect.insort(order, (moved, key))
                continue
            kept[key] = self._event(f"{key}", float(place) if one.time is None else one.time, one)
            bisect.insort(order, (kept[key].time, key))
            if len(order) > self.capacity:
                del kept[order.pop(0)[1]]
        return tuple(kept[key] for _, key in order)

    def _event(self, event_id: str, time: float, sent: InlineEvent) -> Event:
        """An event with the fields that the model reads, and no others."""
        given = self.loaded.with_item(sent.features)
        features: dict[str, Any] = {name: given[name] for name in given if name in self.loaded.field_names}
        if sent.item is not None:
            features[self.loaded.item] = sent.item
        if not features:
            raise DataError(f"event {event_id!r} has no item and no field that the model reads: see /v1/model")
        event = Event(event_id, time, sent.label, features)
        if len(event.features_as_json()) > MAX_FEATURES_BYTES:
            raise DataError(
                f"event {event_id!r}: its features take more than {MAX_FEATURES_BYTES:,} bytes: shorten them"
            )
        if len(self.loaded.item_of(features) or "") > MAX_ID:
            raise DataError(f"event {event_id!r}: the id of its item has more than {MAX_ID} characters: shorten it")
        return event


def _missing_score(request: PredictRequest, bad: RowError) -> str:
    if request.items is None:
        return f"candidates[{bad.row}], field {bad.column!r}: {bad.what}; {bad.fix}"
    return (
        f"items[{bad.row}], field {bad.column!r}, the score of the shared model: {bad.what}; "
        f"send candidates instead of items, each with its item and {bad.column!r}"
    )


def _answers(
    scores: Scores, items: Sequence[str | None], order: Sequence[int], known: Sequence[tuple[str, str | None]]
) -> list[ScoredCandidate]:
    """Answers in the given order. `known` holds the user's events with their items."""
    columns = scores.probability.tolist(), scores.basis.tolist(), scores.residual.tolist()
    deviations = [None] * len(items) if scores.deviation is None else scores.deviation.tolist()
    answers = []
    for place in order:
        probability, basis, residual = (column[place] for column in columns)
        optional: dict[str, Any] = {} if items[place] is None else {"item": items[place]}
        if scores.explanation:
            optional |= _explained(scores.explanation, place, known, items[place])
        answers.append(
            ScoredCandidate(
                candidate=place,
                probability=probability,
                basis=basis,
                residual=residual,
                deviation=deviations[place],
                **optional,
            )
        )
    return answers


def _numbers(scores: Scores) -> Iterator[Tensor]:
    """Every number of the scores."""
    yield from (scores.basis, scores.residual)
    if scores.deviation is not None:
        yield scores.deviation
    if scores.explanation is not None:
        yield from (scores.explanation.parts, *scores.explanation.causes.values())


def _kind(explanation: Explanation) -> KindOfParts:
    return "leave-one-out" if explanation.leave_one_out else "shares"


def _explained(
    explanation: Explanation, place: int, known: Sequence[tuple[str, str | None]], item: str | None
) -> dict[str, Any]:
    """Why the score of one candidate is what it is."""
    own = [item is not None and its_item == item for _, its_item in known]
    events = ((*known[event], part) for event, part in explanation.events_of(place, own))
    found: dict[str, Any] = {"because": [Reason(event=event, item=of, part=part) for event, of, part in events]}
    if explanation.causes:
        found["causes"] = [Cause(cause=cause, part=part) for cause, part in explanation.causes_of(place).items()]
    return found
