"""Histories of real test users for the playground to replay. No part of the model was trained on these users.

The file holds their events as the log has them, without user ids: share it only where you may share the log.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from resus.arrays import Integers
from resus.checked_folder import CheckedFolder
from resus.data.log.log import InteractionLog
from resus.errors import ArtifactError
from resus.files import write_text
from resus.randomness import Purpose, generator
from resus.serving.catalogue import Catalogue
from resus.serving.messages import PastEvent, UserHistory

TEST_USERS = "test-users.json"
HEAD, END = '{"format":2,"users":[', "]}\n"
MAX_HISTORIES = 200
MAX_HISTORY_EVENTS = 200


class Histories(Sequence[UserHistory]):
    """Kept as text: as objects, they would take many times the memory."""

    def __init__(self, users: Iterable[UserHistory] = ()) -> None:
        self._texts = [user.model_dump_json(exclude_unset=True).encode() for user in users]

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, place: Any) -> Any:
        return UserHistory.model_validate_json(self._texts[place])


def histories_of(
    log: InteractionLog, users: Integers, catalogue: Catalogue, *, seed: int, raw: pl.DataFrame | None = None
) -> list[UserHistory]:
    """The events of some of the users, drawn at random, in the order of the evaluation.

    `raw` holds what the user's own model reads of the log's rows, so that they need no score.
    """
    from resus.episodes.prefixes import OrderedUsers  # imports torch, which a service does not need

    ordered = OrderedUsers.of(log, users, seed)
    starts = ordered.lengths.cumsum() - ordered.lengths
    long_enough = (ordered.lengths > 1).nonzero()[0]  # one event to learn from, and one to compare with
    chosen = generator(Purpose.PLAYGROUND_USERS, seed).permutation(long_enough)[:MAX_HISTORIES]
    chosen.sort()
    rows = (ordered.rows[starts[place] :][: ordered.lengths[place]] for place in chosen)
    histories = (_history(log, each, catalogue, raw) for each in rows)
    return [history for history in histories if len(history.events) > 1]


def _history(log: InteractionLog, rows: Integers, catalogue: Catalogue, raw: pl.DataFrame | None) -> UserHistory:
    events = []
    for row in rows[:MAX_HISTORY_EVENTS]:
        values = log.features.decode(log.ids[row], None if log.weights is None else log.weights[row])
        item = values[log.features.item]
        if item is not None:
            context = {name: values[name] for name in catalogue.context}
            if raw is not None:
                context |= raw.row(row, named=True)
            events.append(PastEvent(item=item, context=context, label=float(log.labels[row])))
    return UserHistory(events=events)


def write_histories(folder: Path, histories: Sequence[UserHistory]) -> None:
    """Write one file. `write_facts` must then list it."""
    users = (history.model_dump_json(exclude_unset=True) for history in histories)
    write_text(folder / TEST_USERS, HEAD + ",".join(users) + END)


def read_histories(folder: CheckedFolder) -> Histories:
    try:
        return Histories(map(UserHistory.model_validate_json, _users_in(folder.read(TEST_USERS).decode())))
    except (ValueError, RecursionError):
        path = folder.path / TEST_USERS
        raise ArtifactError(f"{path} is not a file of test users: make it again with 'resus export'") from None


def _users_in(content: str) -> Iterator[str]:
    """The text of each user, one after the other: all of them as objects would take much memory."""
    if not content.startswith(HEAD):
        raise ValueError("it begins in another way")
    decode, place = json.JSONDecoder().raw_decode, len(HEAD)
    while not content.startswith(END, place):
        if place > len(HEAD):
            if content[place : place + 1] != ",":
                raise ValueError("its users are not a list")
            place += 1
        begin, (_, place) = place, decode(content, place)
        yield content[begin:place]
    if place + len(END) != len(content):
        raise ValueError("it goes on after its end")
