"""The best items of a catalogue for the users of a table, by the code of the service."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from resus.checking import nearest_key
from resus.data.fields.feature_map import FeatureMap
from resus.data.fields.unknown import never_seen, warn
from resus.data.fields.values import as_text
from resus.errors import DataError
from resus.model.inference.model import Inference
from resus.model.inference.parts import Rows, sigmoid
from resus.scoring.blocks import FrameBlocks
from resus.scoring.scorer import SUPPORT, Scorer
from resus.serving.catalogue import Catalogue
from resus.serving.explored import Explored, need_spread, rank_all
from resus.serving.exploring import Exploring
from resus.serving.ranking import best_of, matching
from resus.serving.shelf import Shelf


def recommendations(
    scorer: Scorer,
    model: Inference,
    catalogue: Catalogue,
    support: pl.DataFrame,
    *,
    name: str,
    top: int,
    exclude_seen: bool,
    context: Mapping[str, Any],
    wanted: Mapping[str, Any],
    exploring: Exploring | None = None,
) -> pl.DataFrame:
    """A row per user and item, the users in the order of the table, the best item first.

    The fields that do not describe an item are those of the user's last event, unless `context` says otherwise. The
    users explore with seeds of their own, the first one with that of `exploring`.
    """
    features, shelf = scorer.features, Shelf(model, scorer.features, catalogue)
    warn(scorer.notices({SUPPORT: FrameBlocks(support)}))
    users, labels = scorer.users(support, SUPPORT), scorer.labels(support).astype(np.float64)
    support = scorer.sides.of(support, SUPPORT)
    rows = Rows(*scorer.encode(support, SUPPORT))
    warn(never_seen(features.count_unknown(support, rows.ids, rows.weights), support.height, SUPPORT))
    items = as_text(support[features.item]).to_list()
    given = _given(features, catalogue, context)
    allowed = matching(catalogue, features, wanted)
    if not allowed.any():
        warn(["the filter matches no item, so there is nothing to recommend: check its values"])
    found = []
    for place, (user, numbers) in enumerate(_rows_by_user(users).items()):
        live = model.live_support()
        live.fill(rows.take(numbers), labels[numbers])
        last = _replaced(rows.take(numbers[-1:]), given)
        kept = shelf.context_of(last)
        basis, residual = shelf.score_all(live, kept)
        left = allowed.copy()
        if exclude_seen:
            seen = (catalogue.places.get(items[number], -1) for number in numbers)
            left[[place for place in seen if place >= 0]] = False
        scores, more = basis + residual, dict[str, Any]()
        if exploring is None:
            best = best_of(scores, left, top)
        else:
            spread, own = need_spread(live.spread(), name), exploring.for_user(place)
            ranked = rank_all(own, spread, scores, left, shelf, kept, top)
            best, more = ranked.order, _told(ranked, catalogue)
        found.append(
            pl.DataFrame(
                {
                    scorer.schema.user: [user] * len(best),
                    "rank": np.arange(1, len(best) + 1),
                    features.item: [catalogue.items[place] for place in best],
                    "probability": sigmoid(basis[best] + residual[best]),
                    "basis": basis[best],
                    "residual": residual[best],
                    "support": np.full(len(best), len(numbers)),
                    **more,
                },
                schema_overrides={scorer.schema.user: pl.String, features.item: pl.String},
            )
        )
    if not found:
        raise DataError("the support has no rows, so there is no user to recommend to: add the users' events")
    return pl.concat(found)


def _told(ranked: Explored, catalogue: Catalogue) -> dict[str, Any]:
    """The columns of a ranking that explores: `greedy` is the item that would have this rank otherwise."""
    return {
        "ranked_by": ranked.ranked_by,
        "propensity": ranked.propensity,
        "greedy": pl.Series([catalogue.items[place] for place in ranked.greedy], dtype=pl.String),
        "seed": np.full(len(ranked.order), ranked.exploring.seed),
        "draws": np.full(len(ranked.order), ranked.draws),
    }


def _given(features: FeatureMap, catalogue: Catalogue, context: Mapping[str, Any]) -> list[tuple[slice, Rows]]:
    """The columns that the context sets, and what they become."""
    for name in context:
        if name not in catalogue.context:
            known, nearest = ", ".join(catalogue.context), nearest_key(name, catalogue.context)
            hint = f", did you mean '{nearest}'?" if nearest else ""
            fix = f"use {known}" if known else "the log has none, so leave the context out"
            raise DataError(f"context: {name!r} is not a field of the situation{hint}: {fix}")
    row = Rows(*features.encode_rows([context]))
    warn(never_seen(features.count_unknown_values([context], row.ids, row.weights), 1, "the context"))
    return [(features.block(name).columns, row) for name in context]


def _replaced(row: Rows, given: list[tuple[slice, Rows]]) -> Rows:
    for columns, other in given:
        row.ids[:, columns] = other.ids[:, columns]
        if row.weights is not None and other.weights is not None:
            row.weights[:, columns] = other.weights[:, columns]
    return row


def _rows_by_user(users: pl.Series) -> dict[str, Any]:
    grouped = pl.DataFrame({"user": users}).with_row_index("row").group_by("user", maintain_order=True).agg("row")
    return {user: rows.to_numpy().astype("int64") for user, rows in zip(grouped["user"], grouped["row"], strict=True)}
