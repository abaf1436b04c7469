"""Many events at once into a SQLite file: each page of it is written once, and statements run over whole columns."""

from collections import Counter
from collections.abc import Sequence

from resus.serving.store.protocol import Bulk, EventStatus
from resus.serving.store.slots import Slots, packed


def add_to_slots(slots: Slots, bulk: Bulk) -> Counter[EventStatus]:
    """Within a transaction of the caller."""
    found: Counter[EventStatus] = Counter()
    numbers, places, marks = list[int](), list[int](), list[int]()
    with slots.directory.together():
        for user, first, end in bulk.runs():
            start = max(first, end - slots.capacity)
            found["too old"] += start - first
            number, its_marks = _entered(slots, user, bulk.ids[start:end])
            if number:
                numbers += [number] * (end - start)
                places += range(start, end)
                marks += its_marks
            else:
                found.update(_one_by_one(slots, bulk, user, start, end))
        users, ids, times, labels, features = bulk.users, bulk.ids, bulk.times, bulk.labels, bulk.features
        bodies = [packed(users[at], ids[at], times[at], labels[at], features[at]) for at in places]
        slots.index(zip(numbers, [times[at] for at in places], slots.place(bodies), marks, strict=True))
    found["added"] += len(places)
    return found


def _entered(slots: Slots, user: str, ids: Sequence[str]) -> tuple[int, list[int]]:
    """Number and marks of a user who has none of these events and room for all of them; 0 if it is not so simple."""
    hashed = slots.hash(user)
    entry = slots.directory.find(hashed)
    if entry is None:
        number = slots.latest.number + 1
        slots.enter(hashed, number, events=len(ids))
        return number, slots.marks(number, ids)
    marks = slots.marks(entry.number, ids)
    if entry.events + len(ids) > slots.capacity or slots.has_any(entry.number, marks):
        return 0, []
    slots.change(entry, entry.events + len(ids))
    return entry.number, marks


def _one_by_one(slots: Slots, bulk: Bulk, user: str, start: int, end: int) -> list[EventStatus]:
    return [slots.add(user, bulk.event(place), bulk.features[place]).status for place in range(start, end)]
