"""Real test users, whom no part of a model was trained on, for a visitor of the playground to start from.

The file holds their events as they stand in the log, without their ids: share it only where the log may be shared.
"""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from resus.artifact import FACTS
from resus.data.log.log import InteractionLog
from resus.episodes.prefixes import OrderedUsers
from resus.errors import ArtifactError
from resus.files import read_json, sha256_of, write_json
from resus.randomness import Purpose, generator
from resus.serving.catalogue.catalogue import Catalogue, check_model

FORMAT = 1
STRANGERS = "strangers.json"
MOST_USERS = 200
MOST_EVENTS = 200

Stranger = dict[str, Any]


def strangers_of(
    log: InteractionLog, users: npt.NDArray[np.int64], catalogue: Catalogue, *, seed: int
) -> list[Stranger]:
    """Some of the users at random, as {"events": [{"item", "context", "label"}, …]} in the order of evaluation."""
    ordered = OrderedUsers.of(log, users, seed)
    starts = np.cumsum(ordered.lengths) - ordered.lengths
    able = np.flatnonzero(ordered.lengths > 1)  # one event to learn from, and one to compare with
    chosen = np.sort(generator(Purpose.PLAYGROUND_USERS, seed).permutation(able)[:MOST_USERS])
    return [
        {"events": events}
        for place in chosen
        if len(events := _events(log, ordered.rows[starts[place] :][: ordered.lengths[place]], catalogue)) > 1
    ]


def _events(log: InteractionLog, rows: npt.NDArray[np.int64], catalogue: Catalogue) -> list[dict[str, Any]]:
    events = []
    for row in rows[:MOST_EVENTS]:
        values = log.features.decode(log.ids[row], None if log.weights is None else log.weights[row])
        context = {name: values[name] for name in catalogue.context}
        events.append({"item": values[log.features.item], "context": context, "label": float(log.labels[row])})
    return [event for event in events if event["item"] is not None]


def write_strangers(folder: Path, strangers: list[Stranger]) -> None:
    """For the model in the folder."""
    write_json(folder / STRANGERS, {"format": FORMAT, "model": sha256_of(folder / FACTS), "users": strangers})


def read_strangers(folder: Path) -> list[Stranger]:
    content = read_json(folder / STRANGERS)
    if not isinstance(content, dict) or content.get("format") != FORMAT or not isinstance(content.get("users"), list):
        raise ArtifactError(f"{folder / STRANGERS} is not a file of test users: make it again with 'resus export'")
    check_model(folder / STRANGERS, content.get("model"))
    strangers: list[Stranger] = content["users"]
    return strangers
