"""What the service answers: requests in, answers out, for one model on one store."""

import bisect
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from resus.arrays import Array, Floats
from resus.data.fields.unknown import not_fields
from resus.data.fields.values import spelled
from resus.errors import DataError, RowError
from resus.model.inference.model import Scores
from resus.model.inference.parts import Crowd, Rows, Spread, sigmoid
from resus.serving.answers import Scored
from resus.serving.at_once import MOST_CANDIDATES, NotAtOnceError
from resus.serving.explored import Explored, need_spread, rank, rank_all
from resus.serving.items import ItemChange, ItemChanges, latest
from resus.serving.limits import EVENTS_PER_USER, MAX_FEATURES_BYTES, MAX_ID, check_times
from resus.serving.live.user import LiveUser
from resus.serving.live.users import Asked, LiveUsers
from resus.serving.loaded import LoadedModel
from resus.serving.messages import (
    EventResult,
    EventsAnswer,
    ExplorationOfItems,
    InlineEvent,
    PostedEvent,
    PredictAnswer,
    PredictRequest,
    ProfileAnswer,
    RecommendAnswer,
    Recommended,
    RecommendRequest,
    StoredEvent,
    UserAnswer,
)
from resus.serving.noticed import CONTEXTS, USERS, CacheTally, Noticed, Tally
from resus.serving.profiles import NO_PROFILE, described
from resus.serving.ranking import best_of, containing, descriptions, matching
from resus.serving.shelf import Context, Shelf
from resus.serving.store import Event, EventStore, add_traced
from resus.serving.store.protocol import as_json

TOO_EXTREME = "numbers of the candidates or of the user's events are too large to score: correct or delete them"


class Engine:
    """One loaded model on one store. Threads may share it."""

    def __init__(self, loaded: LoadedModel, store: EventStore, *, capacity: int = EVENTS_PER_USER) -> None:
        self.loaded = loaded
        self.store = store
        self.capacity = capacity
        self.tally: Tally = lambda _values, _names: None  # of what the model does not know
        self.cached: CacheTally = lambda _cache, _kept: None
        self.live_users = LiveUsers(
            loaded, store, capacity=capacity, encode=self._code_of, cached=lambda kept: self.cached(USERS, kept)
        )
        self._changes: ItemChanges | None = None
        self._refreshing = threading.Lock()
        self.shelf: Shelf | None = None
        if loaded.catalogue is not None and (loaded.own or not loaded.config.predictor.score_column):  # all have scores
            cached = lambda kept: self.cached(CONTEXTS, kept)  # noqa: E731
            self.shelf = Shelf(loaded.model, loaded.features, loaded.catalogue, own=loaded.own, cached=cached)

    def follow(self, changes: ItemChanges) -> None:
        """Apply changes of items, those that are known now and those to come."""
        self._changes = changes
        self._refresh()

    def change_item(self, change: ItemChange) -> None:
        """Change an item, add one, or remove one; durable when this returns."""
        loaded = self.loaded
        if self._changes is None or loaded.catalogue is None:
            raise DataError("this model has no catalogue: serve the folder that 'resus export' writes")
        own = [name for name in loaded.catalogue.fields if name != loaded.item]
        if loaded.own is not None:
            own += [name for name in loaded.own.own_of_item if name not in own]
        for name in change.fields:
            if name not in own:
                raise DataError(f"fields: {name!r} is not a field that describes an item: use {', '.join(own)}")
        if len(change.model_dump_json()) > MAX_FEATURES_BYTES:
            raise DataError(f"the item takes more than {MAX_FEATURES_BYTES:,} bytes: shorten its title or its fields")
        row = Rows(*loaded.features.encode_rows([change.fields]))  # what the model cannot read is not stored
        place = loaded.catalogue.place_of(change.item)
        if place < 0 and not change.removed:
            loaded.catalogue.refuse_missing(loaded.features, row)
        if loaded.own is not None and not change.removed:
            loaded.own.check_item(change.item, change.fields, place)
        self._changes.add(change.model_copy(update={"item": spelled(change.item)}))
        self._refresh()

    def current(self) -> LoadedModel:
        """The model with the items as they are now."""
        self._refresh()
        return self.loaded

    def _refresh(self, *, at_once: bool = False) -> None:
        """Take in the changes of items that any worker has stored."""
        if self._changes is None or self.loaded.catalogue is None or not self._changes.has_news():
            return
        if at_once:
            raise NotAtOnceError
        with self._refreshing:
            changes = self.loaded.readable(latest(self._changes.news()))
            if not changes:
                return
            catalogue, changed = self.loaded.catalogue.updated(self.loaded.features, changes)
            own = self.loaded.own and self.loaded.own.updated(catalogue, changes)
            if self.shelf is not None:
                self.shelf = self.shelf.updated(catalogue, changed, own)
            self.loaded = replace(self.loaded, catalogue=catalogue, own=own)
            self.live_users.change_items(self.loaded, changed.tolist())

    def observe(self, events: Sequence[PostedEvent]) -> EventsAnswer:
        """Store all events of a batch, or none; they are durable when this returns."""
        self._refresh()
        batch, loaded = self._batch(events), self.loaded
        rows, are_whole = self._read_events(batch)
        added = add_traced(self.store, batch)
        for place, ((user, event), one) in enumerate(zip(batch, added, strict=True)):
            self.live_users.follow(user, event, rows.one(place) if are_whole else None, one, read_by=loaded)
        with np.errstate(over="ignore", invalid="ignore"):
            for user in {user for user, _ in batch}:
                self.live_users.take_in(user)
        noticed = Noticed()
        stored = [event.features for _, event in batch]
        noticed.add(self.loaded.features.count_unknown_values(stored, *rows), len(stored))
        noticed.add_names((name for event in events for name in event.features), self.loaded.field_names)
        warnings = noticed.tell(self.loaded.field_names, self.tally)
        results = [EventResult(id=event.id, status=one.status) for event, one in zip(events, added, strict=True)]
        return EventsAnswer(results=results, **({"warnings": warnings} if warnings else {}))

    def check(self, events: Sequence[PostedEvent]) -> list[tuple[str, Event]]:
        """What `observe` would store of these events, with their users; DataError if it would refuse one."""
        self._refresh()
        batch = self._batch(events)
        self._read_events(batch)
        return batch

    def _batch(self, events: Sequence[PostedEvent]) -> list[tuple[str, Event]]:
        check_times([event.time for event in events])
        return [(event.user, self._event(event.id, event.time, event)) for event in events]

    def predict(self, request: PredictRequest) -> PredictAnswer:
        return self.score(request).as_message()

    def score(self, request: PredictRequest, *, at_once: bool = False) -> Scored:
        """The scores of a request's candidates, from which its answer is made.

        `at_once` refuses a request that takes waiting or much work. The others ask for few items of the catalogue in a
        context that is kept, for a user who is live or has no events.
        """
        if at_once and (self.loaded.own or _is_long(request)):  # the user's own model takes its time
            raise NotAtOnceError
        self._refresh(at_once=at_once)
        noticed, exploring = Noticed(), request.exploring

        def scored(
            live: LiveUser, profile: Mapping[str, Any]
        ) -> tuple[Sequence[str | None], Scores, Crowd | None, Spread | None]:
            spread = None if exploring is None else need_spread(live.support.spread(), self.loaded.name)
            return *self._scored(request, live, profile, noticed, at_once=at_once), spread

        events, (items, scores, encoded, spread) = self._ask(request, scored, at_once=at_once)
        if not all(np.isfinite(values).all() for values in _numbers(scores)):
            raise DataError(TOO_EXTREME)
        explored: Explored | None = None
        if exploring is not None and spread is not None and encoded is not None:
            logits, asked = scores.basis + scores.residual, request.top or len(items)
            explored = rank(exploring, spread, logits, encoded[1].__getitem__, asked)
        known = [(event.id, self.loaded.item_of(event.features)) for event in events] if request.explain else []
        warnings = noticed.tell(self.loaded.field_names, self.tally)
        name, version, top = self.loaded.name, self.loaded.version, request.top
        return Scored(request.user, name, version, items, known, len(events), scores, top, warnings, explored)

    def recommend(self, request: RecommendRequest) -> RecommendAnswer:
        """The best items of the whole catalogue."""
        self._refresh()
        loaded, shelf = self.loaded, self.shelf
        if shelf is None:
            raise DataError(_no_catalogue(loaded))
        context = loaded.with_item(request.context)
        if not shelf.knows(context):
            raise DataError(
                f"context: {', '.join(sorted(shelf.of_items))} are fields of the items: leave them out, or use filter"
            )
        allowed = matching(shelf.catalogue, loaded.features, request.filter)
        noticed, exploring = Noticed(), request.exploring

        def scored(live: LiveUser, profile: Mapping[str, Any]) -> tuple[Floats, Floats, Context, Spread | None]:
            kept = shelf.context(described(context, profile))
            noticed.add(kept.unknown, 1)
            noticed.add_names(context, loaded.field_names)
            spread = None if exploring is None else need_spread(live.support.spread(), loaded.name)
            return *shelf.score_all(live.support, kept), kept, spread

        events, (basis, residual, kept, spread) = self._ask(request, scored)
        if request.exclude_seen and events:
            seen = [shelf.catalogue.place_of(event.features.get(loaded.item)) for event in events]
            allowed[[place for place in seen if place >= 0]] = False
        scores = basis + residual
        if not np.isfinite(scores).all():
            raise DataError(TOO_EXTREME)
        shown = containing(shelf.catalogue, request.search, allowed) if request.search else allowed
        explored: Explored | None = None
        if exploring is None or spread is None:
            best = best_of(scores, shown, request.offset + request.top)[request.offset :]
        else:
            explored = rank_all(exploring, spread, scores, shown, shelf, kept, request.offset + request.top)
            explored = explored.without_first(request.offset)
            best = explored.order
        columns = (column.tolist() for column in (sigmoid(scores[best]), basis[best], residual[best]))
        answers = [
            Recommended(item=shelf.catalogue.items[place], title=shelf.catalogue.titles[place], **numbers)
            for place, *values in zip(best.tolist(), *columns, strict=True)
            for numbers in [dict(zip(("probability", "basis", "residual"), values, strict=True))]
        ]
        if request.describe:
            told = descriptions(shelf.catalogue, loaded.features, best, scores, basis, allowed)
            answers = [answer.model_copy(update=one) for answer, one in zip(answers, told, strict=True)]
        warnings = noticed.tell(loaded.field_names, self.tally)
        more: dict[str, Any] = {"found": int(shown.sum())} if request.search else {}
        if explored is not None:
            answers = [answer.model_copy(update=one) for answer, one in zip(answers, explored.by_answer(), strict=True)]
            greedy = [shelf.catalogue.items[place] for place in explored.greedy.tolist()]
            more["exploration"] = ExplorationOfItems(**explored.facts(), greedy=greedy)
        if warnings:
            more["warnings"] = warnings
        return RecommendAnswer(
            user=request.user,
            support=len(events),
            model=loaded.name,
            version=loaded.version,
            ranked=int(allowed.sum()),
            answers=answers,
            **more,
        )

    def user(self, user: str) -> UserAnswer | None:
        """What is known about a user; None for an unknown user."""
        record = self.store.read(user)
        events, profile = record.events, self.loaded.profile_of(user, record.profile)
        if not record.version and not profile:
            return None
        return UserAnswer(
            user=user,
            profile=dict(profile),
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

    def set_profile(self, user: str, fields: Mapping[str, Any]) -> ProfileAnswer:
        """Replace the stored profile of a user; durable when this returns."""
        self._refresh()
        loaded = self.loaded
        of_items = loaded.catalogue.fields if loaded.catalogue else (loaded.item,)
        if loaded.own is not None:
            of_items += loaded.own.own_of_item
        for name in fields:
            if name in of_items or name == "item":
                raise DataError(f"fields: {name!r} describes an item, not a user: leave it out")
            if name == loaded.score:
                raise DataError(f"fields: {name!r} is the score of the shared model, which each candidate brings")
        kept = {name: value for name, value in fields.items() if name in loaded.field_names}
        if fields and not kept:
            raise DataError(f"fields: {not_fields(fields, loaded.field_names)[0]}")
        if len(as_json(kept, "the fields of a profile")) > MAX_FEATURES_BYTES:
            raise DataError(f"the profile takes more than {MAX_FEATURES_BYTES:,} bytes: shorten its values")
        loaded.features.encode_rows([kept])  # what the model cannot read is not stored
        if loaded.own is not None:
            loaded.own.check(kept)
        self._check_still_readable(user, kept)
        try:
            self.store.set_profile(user, kept)
        finally:
            self.live_users.drop(user)
        noticed = Noticed()
        noticed.add(loaded.unknown_values([kept]), 1)
        noticed.add_names(fields, loaded.field_names)
        warnings = noticed.tell(loaded.field_names, self.tally)
        return ProfileAnswer(user=user, profile=dict(loaded.profile_of(user, kept)), warnings=warnings)

    def _check_still_readable(self, user: str, fields: Mapping[str, Any]) -> None:
        """A profile that stored events need is not taken from them: the user could not be answered any more."""
        record = self.store.read(user)
        try:
            self.loaded.rows_of(record.events, self.loaded.profile_of(user, fields), stored=True)
        except DataError as error:
            try:
                self.loaded.rows_of(record.events, self.loaded.profile_of(user, record.profile), stored=True)
            except DataError:
                return  # nor could it be before
            raise DataError(
                f"fields: the stored events of the user need the profile as it is ({error}): keep the field, or delete "
                "the user first"
            ) from None

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

    def _ask(
        self,
        request: PredictRequest | RecommendRequest,
        question: Callable[[LiveUser, Mapping[str, Any]], Asked],
        *,
        at_once: bool = False,
    ) -> tuple[tuple[Event, ...], Asked]:
        """The events of the user of a request, and the answer to a question about the user."""
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                if request.user is not None:
                    return self.live_users.ask(request.user, question, at_once=at_once)
                events = self._inline_events(request.events or [])
                return events, question(self.loaded.live_user(self.capacity, events), NO_PROFILE)
        except np.linalg.LinAlgError:
            raise DataError(TOO_EXTREME) from None

    def _read_events(self, batch: Sequence[tuple[str, Event]]) -> tuple[Rows, bool]:
        """The rows of events, and whether they are whole without a profile, which may hold what every row must have.

        An event that the model cannot read is refused.
        """
        try:
            return self.loaded.rows_of([event for _, event in batch]), True
        except DataError:
            profiles = {
                user: self.loaded.profile_of(user, self.store.read(user).profile)
                for user in {user for user, _ in batch}
            }
            filled = [replace(event, features=described(event.features, profiles[user])) for user, event in batch]
            return self.loaded.rows_of(filled), False

    def _code_of(self, event: Event, profile: Mapping[str, Any]) -> Crowd | None:
        """What the model makes of an event of a user with a profile, if the shelf keeps it."""
        shelf = self.shelf
        return None if shelf is None else shelf.encode_event(described(event.features, profile), self.loaded.item)

    def _scored(
        self, request: PredictRequest, live: LiveUser, profile: Mapping[str, Any], noticed: Noticed, *, at_once: bool
    ) -> tuple[Sequence[str | None], Scores, Crowd | None]:
        """The ids of the candidates, their scores for a live user with a profile, and their codes if it needed them."""
        loaded, shelf = self.loaded, self.shelf
        context = loaded.with_item(request.context)
        deviation, explain = request.deviation, request.explain
        if request.items is not None and shelf is not None and shelf.knows(context):
            places, names = shelf.places(request.items)
            strangers = int((places == len(shelf)).sum())
            if not (strangers and loaded.own):  # what the user's own model says of them, the shelf does not know
                kept = shelf.context(described(context, profile), at_once=at_once)
                noticed.add({loaded.item: strangers} if strangers else {}, len(places))
                noticed.add(kept.unknown, 1)
                noticed.add_names(context, loaded.field_names)
                if deviation or explain or request.explore is not None:
                    encoded = shelf.encode(places, kept)
                    return names, live.score_encoded(*encoded, deviation=deviation, explain=explain), encoded
                return names, shelf.score(live, places, kept, at_once=at_once), None
        if at_once:
            raise NotAtOnceError
        candidates: list[dict[str, Any]]
        if request.items is not None:
            candidates = [{**context, loaded.item: item} for item in request.items]
        else:
            candidates = [{**context, **loaded.with_item(candidate)} for candidate in request.candidates or []]
        rows = loaded.rows(candidates, profile)
        noticed.add(loaded.features.count_unknown_values(candidates, rows.ids, rows.weights), len(candidates))
        noticed.add_names(sorted(set().union(*candidates)), loaded.field_names)
        try:
            loaded.check_scores(rows)
        except RowError as bad:
            raise DataError(_missing_score(request, bad)) from None
        ids, encoded = [loaded.item_of(row) for row in candidates], loaded.model.encode(rows)
        return ids, live.score_encoded(*encoded, deviation=deviation, explain=explain), encoded

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


def _is_long(request: PredictRequest) -> bool:
    """Whether it takes much work to answer a request, whatever is kept."""
    asked, more = request.items, request.deviation or request.explain or request.explore is not None
    return asked is None or len(asked) > MOST_CANDIDATES or bool(request.events) or more


def _no_catalogue(loaded: LoadedModel) -> str:
    if loaded.catalogue is None:
        return "this model has no catalogue to recommend from: serve the folder that 'resus export' writes"
    return (
        f"the shared model's score is the field {loaded.config.predictor.score_column!r}, which each candidate must "
        "bring: send candidates to /v1/predict"
    )


def _missing_score(request: PredictRequest, bad: RowError) -> str:
    if request.items is None:
        return f"candidates[{bad.row}], field {bad.column!r}: {bad.what}; {bad.fix}"
    return (
        f"items[{bad.row}], field {bad.column!r}, the score of the shared model: {bad.what}; "
        f"send candidates instead of items, each with its item and {bad.column!r}"
    )


def _numbers(scores: Scores) -> Iterator[Array]:
    """Every number of the scores."""
    yield from (scores.basis, scores.residual)
    if scores.deviation is not None:
        yield scores.deviation
    if scores.explanation is not None:
        yield from (scores.explanation.parts, *scores.explanation.causes.values())
