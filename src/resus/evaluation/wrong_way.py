"""How often an event moves the score of its own item the wrong way: a like lowers it, or a dislike raises it.

Event k + 1 of a user is scored twice: after the k events before it, and after itself. The paper's learners can move it
the wrong way, because β jumps from one size to the next, and because they pull a score that is too high back even
after a like.
"""

from itertools import pairwise

import numpy as np

from resus.evaluation.population import ScoredQueries
from resus.evaluation.results import WrongWay

ROUNDING = 1e-4  # log-odds: a smaller move is none


def wrong_way_of(model: str, scored: ScoredQueries) -> WrongWay | None:
    """None if no two sizes differ by one event, or if the model ignores the events."""
    logits = scored.logits[model]
    columns = [place for place, (size, larger) in enumerate(pairwise(scored.sizes)) if larger == size + 1]
    if not columns or logits.shape[1] == 1:
        return None
    wrong, events = {0: 0, 1: 0}, {0: 0, 1: 0}
    for column in columns:
        rows = np.flatnonzero(scored.positions == scored.sizes[column])
        moved = logits[rows, column + 1] - logits[rows, column]
        for label, towards in ((1, moved), (0, -moved)):
            own = scored.labels[rows] == label
            events[label] += int(own.sum())
            wrong[label] += int((towards[own] < -ROUNDING).sum())
    likes, dislikes = (wrong[label] / events[label] if events[label] else None for label in (1, 0))
    return WrongWay(likes=likes, dislikes=dislikes, events=sum(events.values()))
