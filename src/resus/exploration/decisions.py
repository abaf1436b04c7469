"""A table of logged decisions: who was shown what in which situation, with which probability, and what came of it."""

from dataclasses import dataclass

import numpy as np
import polars as pl

from resus.arrays import Booleans, Doubles, Floats, Integers
from resus.checking import nearest_key
from resus.data.fields.values import as_numbers, as_text
from resus.errors import DataError
from resus.model.inference.parts import Rows
from resus.scoring.scorer import Scorer
from resus.serving.catalogue import Catalogue

SEPARATOR = "|"  # between the candidates of a decision


@dataclass(frozen=True, eq=False)
class Decisions:
    """N decisions, those of a user next to each other, the oldest first.

    `candidates` are places in the catalogue, -1 where a decision has fewer; `chosen` is the place of the logged item
    among them, -1 if no rule could choose it.
    """

    users: pl.Series  # [U], their ids
    offsets: Integers  # [U + 1]
    rows: Rows
    rewards: Floats
    propensities: Doubles
    candidates: Integers  # [N, P], or [1, P] if all decisions have the same
    chosen: Integers  # [N]

    @property
    def lengths(self) -> Integers:
        lengths: Integers = np.diff(self.offsets)
        return lengths

    def candidates_of(self, decisions: Integers) -> Integers:
        return self.candidates[decisions if len(self.candidates) == len(self.chosen) else np.zeros_like(decisions)]


def read_decisions(
    table: pl.DataFrame,
    scorer: Scorer,
    catalogue: Catalogue,
    *,
    propensity: str,
    candidates: str | None,
    events: int,
    where: str,
) -> Decisions:
    """The first `events` decisions of each user, in the order of the table."""
    for name, what in ((propensity, "the propensity of each choice"), (candidates, "the candidates of each choice")):
        if name is not None and name not in table.columns:
            nearest = nearest_key(name, table.columns)
            hint = f", did you mean '{nearest}'?" if nearest else ""
            raise DataError(
                f"{where} has no column '{name}' with {what}{hint}: log it together with each choice; without "
                "propensities nothing can be said about other rules"
            )
    scorer.check({where: table.columns})
    users = scorer.users(table, where)
    position = pl.int_range(pl.len()).over("_user")
    table = table.with_columns(users.alias("_user")).with_row_index("_row").with_columns(position.alias("_position"))
    kept = table.filter(pl.col("_position") < events).sort("_user", "_position")
    numbers, counts = kept["_row"].to_numpy() + 1, kept["_user"].rle().struct.field("len").to_numpy()
    own = kept.drop("_row", "_position")
    chosen = _places(own[scorer.features.item], catalogue)
    offered = np.arange(len(catalogue.items))[None, :]
    if candidates is not None:
        offered = _offered(own[candidates], catalogue, numbers, chosen, where)
        chosen = np.where(chosen >= 0, (offered == chosen[:, None]).argmax(axis=1), -1)
    return Decisions(
        users=own["_user"].unique(maintain_order=True),
        offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        rows=Rows(*scorer.encode(own.drop("_user"), where)),
        rewards=_rewards(scorer, own, where),
        propensities=_propensities(own[propensity], numbers, where),
        candidates=offered,
        chosen=chosen,
    )


def _rewards(scorer: Scorer, own: pl.DataFrame, where: str) -> Floats:
    if scorer.schema.label not in own.columns:
        raise DataError(f"{where} has no column '{scorer.schema.label}', the label of each choice; add it")
    return scorer.labels(own)


def _propensities(column: pl.Series, numbers: Integers, where: str) -> Doubles:
    found = pl.Series(as_numbers(column)[0]).cast(pl.Float64).fill_null(np.nan).to_numpy()
    bad = ~((found > 0) & (found <= 1))
    if bad.any():
        row = int(bad.argmax())
        told = "a missing value" if column[row] is None else repr(column[row])
        raise DataError(
            f"{where}, column '{column.name}', row {numbers[row]}: {told} is no propensity; write the probability with "
            "which this item was chosen, above 0 and at most 1"
        )
    return found


def _offered(column: pl.Series, catalogue: Catalogue, numbers: Integers, chosen: Integers, where: str) -> Integers:
    """`[N, P]`; the chosen item must be among them."""
    lists = column if column.dtype.is_nested() else as_text(column).fill_null("").str.split(SEPARATOR)
    lengths = lists.list.len().fill_null(0).to_numpy().astype(np.int64)
    owners = np.repeat(np.arange(len(lengths)), lengths)
    slots = np.arange(len(owners)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    offered = np.full((len(lengths), max(int(lengths.max(initial=0)), 1)), -1, dtype=np.int64)
    offered[owners, slots] = _places(lists.filter(pl.Series(lengths > 0)).explode(), catalogue)
    among: Booleans = (offered == chosen[:, None]).any(axis=1)
    if not among.all():
        row = int((~among).argmax())
        raise DataError(
            f"{where}, column '{column.name}', row {numbers[row]}: the item that was chosen is not among the "
            f"candidates; list all candidates, separated by '{SEPARATOR}'"
        )
    return offered


def _places(items: pl.Series, catalogue: Catalogue) -> Integers:
    """The places of items in the catalogue, -1 for others."""
    text = as_text(items).fill_null("").str.strip_chars()
    distinct = text.unique().sort()
    places = np.array([catalogue.place_of(item) for item in distinct.to_list()], dtype=np.int64)
    found: Integers = places[distinct.search_sorted(text).to_numpy()]
    return found
