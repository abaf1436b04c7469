"""Scores of every row at every support size, in one pass over the users."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from resus.data.log.log import InteractionLog
from resus.episodes.prefixes import OrderedUsers
from resus.episodes.tensors import features_of
from resus.model.personalizer import ResidualModel
from resus.progress import Progress, silent


@torch.no_grad()
def score_prefixes(
    model: ResidualModel,
    log: InteractionLog,
    ordered: OrderedUsers,
    basis: npt.NDArray[np.float32],
    sizes: Sequence[int],
    *,
    progress: Progress = silent,
    task: str = "scoring every support size",
) -> npt.NDArray[np.float32]:
    """Logits `[N, len(sizes)]` of the users' rows given `basis`, Ψ's logits of the same rows.

    Column j of a row rests on its user's first sizes[j] events, and is to be read only for rows after those.
    """
    logits = np.empty((len(ordered.rows), len(sizes)), dtype=np.float32)
    done = 0
    for tile in ordered.tiles(slots=max(sizes), width=int(model.encoder.width)):  # type: ignore[arg-type]
        places = tile.places
        rows = ordered.rows[places]
        own_basis = torch.from_numpy(basis[places])
        encoded = model.encoder(features_of(log, rows))
        outcomes = model.learner.outcomes(torch.from_numpy(log.labels[rows]), own_basis)  # type: ignore[operator]
        added = model.added_by_prefixes(tile.pad(encoded), tile.pad(outcomes), torch.from_numpy(tile.lengths), sizes)
        logits[places] = (own_basis.unsqueeze(1) + added[tile.filled]).numpy()
        done += len(places) - (tile.head if tile.skip else 0)
        progress(task, done, len(logits), "rows")
    return logits
