"""A stream into a store: read, store durably, then acknowledge."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pydantic import ValidationError

from resus.errors import DataError, StorageError
from resus.ingest.rows import refused
from resus.ingest.sources import Entry, Refused, Source
from resus.serving.engine import Engine
from resus.serving.limits import MAX_EVENTS
from resus.serving.messages import PostedEvent
from resus.serving.messages.mistakes import sentence_of

WAIT_SECONDS = 1.0  # for messages
AGAIN_SECONDS = 5.0  # at most, between two tries while the store or the stream is out of order
TOLD_SECONDS = 30.0  # between two lines about the work, and two about trouble of a kind

Tell = Callable[[str], None]


@dataclass
class Consumer:
    """Stores the events of a source until it is told to stop. An event counts once, however often it is delivered."""

    source: Source
    engine: Engine
    tell: Tell
    counts: Counter[str] = field(default_factory=Counter)
    _began: float = field(default_factory=time.monotonic)
    _told: float = field(default_factory=time.monotonic)
    _complain_at: dict[str, float] = field(default_factory=dict)

    def run(self, stopping: threading.Event) -> None:
        """Until `stopping` is set; what was read by then is still stored and acknowledged, if the store works."""
        pause, entries = 0.0, list[Entry]()
        stored: list[Refused] | None = None  # once the entries are stored: those of them that are no events
        while not stopping.is_set() or (entries and not pause):
            try:
                if not entries:
                    entries, stored = list(self.source.read(MAX_EVENTS, WAIT_SECONDS)), None
                if entries and stored is None:
                    stored = self._store(entries)
                if entries:
                    self.source.done(entries, stored or [])
                    entries = []
                pause = 0.0
            except StorageError as error:
                pause = min(2 * pause + 0.1, AGAIN_SECONDS)
                self._complain("waiting", f"{error}; trying again")
                stopping.wait(pause)
            self._tell_progress()

    def summary(self) -> str:
        counts, seconds = self.counts, max(time.monotonic() - self._began, 1e-9)
        told = ", ".join(f"{counts[status]:,} {status}" for status in ("added", "known", "corrected", "too old"))
        return f"{told}, {counts['refused']:,} refused; {counts['messages'] / seconds:,.0f} messages/s"

    def _store(self, entries: Sequence[Entry]) -> list[Refused]:
        """Store the events durably; the entries that are none."""
        bad: dict[int, str] = {}
        events: dict[int, PostedEvent] = {}
        for place, entry in enumerate(entries):
            try:
                events[place] = PostedEvent.model_validate_json(entry.body or b"null")
            except ValidationError as error:
                bad[place] = _reason(entry, error)
        added = self._observe(events, bad)
        self.counts.update(added)
        self.counts.update({"refused": len(bad), "messages": len(entries)})
        for place, reason in sorted(bad.items()):
            self._complain("refused", f"{entries[place].place} is refused: {reason}")
        return [Refused(entries[place], reason) for place, reason in sorted(bad.items())]

    def _observe(self, events: dict[int, PostedEvent], bad: dict[int, str]) -> list[str]:
        """Store all events but those that the service would refuse, which are added to `bad`."""
        if not events:
            return []
        try:
            answer = self.engine.observe(list(events.values()))
        except DataError as error:
            bad |= (found := refused(self.engine, events))
            if not found:  # a profile that they need has come since
                raise StorageError(str(error)) from None
            return self._observe({place: event for place, event in events.items() if place not in found}, bad)
        return [result.status for result in answer.results]

    def _complain(self, kind: str, sentence: str) -> None:
        """Tell about trouble of each kind now and then."""
        if time.monotonic() >= self._complain_at.get(kind, 0.0):
            self._complain_at[kind] = time.monotonic() + TOLD_SECONDS
            self.tell(sentence)

    def _tell_progress(self) -> None:
        now = time.monotonic()
        if now - self._told > TOLD_SECONDS:
            self._told = now
            self.tell(self.summary())


def _reason(entry: Entry, error: ValidationError) -> str:
    finding = error.errors()[0]
    if not entry.body:
        return "it has no field 'event' with the JSON of an event"
    if finding["type"] in ("json_invalid", "model_type"):
        return "its event is not a JSON object: write one as in POST /v1/events"
    return sentence_of(finding)
