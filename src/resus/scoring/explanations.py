"""Why scores of tables are what they are: two more columns of the answer, as JSON."""

import json
from dataclasses import replace

import numpy as np
import polars as pl
import torch

from resus.arrays import Floats, Ids, Integers
from resus.data.fields.values import as_text
from resus.episodes.batch import Features
from resus.scoring.scorer import QUERY, SUPPORT, Scorer

REASONS = 5  # events named for each candidate


def explained(scorer: Scorer, support: pl.DataFrame, query: pl.DataFrame) -> dict[str, pl.Series]:
    """For each row of the query: `causes`, what each cause adds, and `because`, the events that mattered most.

    Rows of one user share a fit, so tables with few users are explained fastest.
    """
    known, asked = scorer.users(support, SUPPORT), scorer.users(query, QUERY)
    events, candidates = (
        Features.of(*scorer.encode(frame, where)) for frame, where in ((support, SUPPORT), (query, QUERY))
    )
    labels = torch.tensor(scorer.labels(support))
    items, wanted = (as_text(frame[scorer.features.item]).to_list() for frame in (support, query))
    rows_of = _rows_by_user(known)
    causes: list[str | None] = [None] * query.height
    because = ["[]"] * query.height
    for user, rows in _rows_by_user(asked).items():
        live = scorer.model.live_support()
        done, whole = rows_of.get(user), None
        if done is not None:
            known_rows = events.take(done)
            if scorer.negatives is not None:
                whole = scorer.negatives.complete(*_arrays(known_rows), labels[done].numpy(), np.zeros_like(done))
                live.fill(Features.of(whole.ids, whole.weights), torch.tensor(whole.labels))
            else:
                live.fill(known_rows, labels[done])
        explanation = live.score(candidates.take(rows), explain=True).explanation
        assert explanation is not None
        if whole is not None:
            explanation = replace(explanation, parts=torch.from_numpy(whole.by_event(explanation.parts.numpy())))
        for place, row in enumerate(rows.tolist()):
            if explanation.causes:
                causes[row] = _as_json({cause: round(part, 6) for cause, part in explanation.causes_of(place).items()})
            if done is not None:
                own = [items[event] is not None and items[event] == wanted[row] for event in done]
                first = explanation.events_of(place, own)[:REASONS]
                because[row] = _as_json(
                    [
                        {"item": items[done[event]], "label": int(labels[done[event]]), "part": round(part, 6)}
                        for event, part in first
                    ]
                )
    return {"causes": pl.Series(causes, dtype=pl.String), "because": pl.Series(because, dtype=pl.String)}


def _arrays(rows: Features) -> tuple[Ids, Floats | None]:
    return rows.ids.numpy(), None if rows.weights is None else rows.weights.numpy()


def _rows_by_user(users: pl.Series) -> dict[str, Integers]:
    """The rows of each user, in the order of the table."""
    grouped = pl.DataFrame({"user": users}).with_row_index("row").group_by("user", maintain_order=True).agg("row")
    return {user: rows.to_numpy().astype("int64") for user, rows in zip(grouped["user"], grouped["row"], strict=True)}


def _as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
