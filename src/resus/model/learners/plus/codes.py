"""A row as RESUS+ sees it: the values of its fields, which can equal those of another row, and its factors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from resus.model.learners.plus.numbers import SIGNATURE_BITS


class Codes(NamedTuple):
    """The codes of rows `[...]`."""

    items: Tensor  # [...], the item's id, or UNKNOWN
    contexts: Tensor  # [...], a signature of the context, 0 if there is none
    values: Tensor  # [..., V], ids of the values of all fields
    shares: Tensor  # [..., V], 0 for an unknown value; the squares of a field's shares sum to 1
    taste: Tensor  # [..., E], φ(x): what a taste can be about
    offered: Tensor  # [..., D], χ(x): what earlier choices can speak for
    chosen: Tensor  # [..., D], ψ(x): what it says about a user to have had this item, whatever the label
    common: Tensor  # [...], what all users do differently from Ψ

    def of(self, rows: Tensor | slice | tuple[slice, ...]) -> "Codes":
        """Some of the rows."""
        return Codes(*(part[rows] for part in self))


@dataclass(frozen=True)
class Layout:
    """Where the parts of a code are in an encoded row `[..., width]`.

    `columns` says how many values each field has, `names` what the fields are called; one of them is the `item`.
    """

    names: tuple[str, ...]
    columns: tuple[int, ...]
    item: str
    taste: int
    choice: int

    @property
    def _sizes(self) -> list[int]:
        values = sum(self.columns)
        return [1, 2, values, values, self.taste, self.choice, self.choice, 1]

    @property
    def width(self) -> int:
        return sum(self._sizes)

    @property
    def field_of_value(self) -> Tensor:
        """`[V]`: the number of the field of each value."""
        return torch.arange(len(self.columns)).repeat_interleave(torch.tensor(self.columns))

    def pack(self, codes: Sequence[Tensor], contexts: Tensor) -> Tensor:
        """Items, values, shares, taste, offered, chosen, common, and the two halves of the contexts' signatures."""
        items, values, shares, taste, offered, chosen, common = codes
        parts = [items.unsqueeze(-1), contexts, values, shares, taste, offered, chosen, common.unsqueeze(-1)]
        return torch.cat([part.to(taste.dtype) for part in parts], dim=-1)

    def unpack(self, encoded: Tensor) -> Codes:
        parts = torch.split(encoded, self._sizes, dim=-1)
        items, contexts, values, shares, taste, offered, chosen, common = parts
        low, high = contexts.long().unbind(dim=-1)
        signature = low + (high << SIGNATURE_BITS)
        return Codes(items.squeeze(-1), signature, values, shares, taste, offered, chosen, common.squeeze(-1))


def matched(sources: Codes, amounts: Tensor, scales: Tensor, targets: Codes, users: Tensor) -> Tensor:
    """For each target row, the sum over its user's source rows of their amounts times how far the two rows match.

    Sources are `[U, S]` with amounts `[U, S, J]`; targets `[Q]` belong to `users` `[Q]`; → `[Q, J]`. `scales` `[V]`
    weighs each value. Two rows match by Σ_v of their shares of the values that they have in common. The sums are
    kept per user and value, so no matrix of pairs of rows is made.
    """
    return summed_by_key(
        sources.values.long(),
        sources.shares.to(amounts.dtype) * scales.to(amounts.dtype),
        amounts,
        targets.values.long(),
        targets.shares.to(amounts.dtype),
        users,
    )


def summed_by_key(
    keys: Tensor, weights: Tensor, amounts: Tensor, other_keys: Tensor, other_weights: Tensor, users: Tensor
) -> Tensor:
    """For each target, Σ weight × amount × other weight over the keys that it shares with its user's rows.

    Keys `[U, S, V]` with weights, amounts `[U, S, J]`, other keys `[Q, V]` with weights, of users `[Q]` → `[Q, J]`.
    """
    result = amounts.new_zeros(len(other_keys), amounts.shape[2])
    span = int(max(keys.max(), other_keys.max())) + 1 if keys.numel() and other_keys.numel() else 1
    own_users = torch.arange(len(keys), device=keys.device).view(-1, 1, 1)
    kept, asked = (weights != 0).nonzero(as_tuple=True), (other_weights != 0).nonzero(as_tuple=True)
    if not len(kept[0]) or not len(asked[0]):
        return result
    table_keys, places = torch.unique((own_users * span + keys)[kept], return_inverse=True)
    rows = weights[kept].unsqueeze(1) * amounts[kept[0], kept[1]]
    table = amounts.new_zeros(len(table_keys), amounts.shape[2]).index_add(0, places, rows)
    wanted = users[asked[0]] * span + other_keys[asked]
    found = torch.searchsorted(table_keys, wanted).clamp(max=len(table_keys) - 1)
    hit = table_keys[found] == wanted
    values = table[found[hit]] * other_weights[asked][hit].unsqueeze(1)
    return result.index_add(0, asked[0][hit], values)
