"""The prior covariance of what a user does differently, and the events that it is conditioned on."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Prior:
    """k(x, x') = bias + taste·⟨φ(x), φ(x')⟩ + repeat·[x and x' are the same item]; a scale of 0 turns a part off."""

    bias: Tensor
    taste: Tensor
    repeat: Tensor

    def covariance(self, codes: Tensor, items: Tensor, other_codes: Tensor, other_items: Tensor) -> Tensor:
        """k of every row `[..., P]` with every other row `[..., S]`."""
        same = items.unsqueeze(-1) == other_items.unsqueeze(-2)
        inner = codes @ other_codes.transpose(-1, -2)
        covariance: Tensor = self.bias + self.taste * inner + self.repeat * same
        return covariance

    def variance(self, codes: Tensor) -> Tensor:
        """k of every row with itself."""
        variance: Tensor = self.bias + self.taste * codes.square().sum(dim=-1) + self.repeat
        return variance

    def gram(self, known: "Known") -> Tensor:
        """k of every event with every event of the same user, `[U, S, S]`."""
        return self.covariance(known.codes, known.items, known.codes, known.items)


@dataclass(frozen=True, eq=False)
class Known:
    """The events of some users, in float64; empty slots hold zeros.

    An event with an unknown item, and an empty slot, gets an item that no other row has.
    """

    mask: Tensor  # [U, S]
    items: Tensor  # [U, S], float32 as in the encoded rows
    codes: Tensor  # [U, S, K]
    labels: Tensor  # [U, S]
    basis: Tensor  # [U, S]

    @classmethod
    def of(cls, support: Tensor, mask: Tensor, outcomes: Tensor) -> "Known":
        labels, basis = (torch.where(mask, value, 0.0).double() for value in outcomes.unbind(dim=-1))
        codes = torch.where(mask.unsqueeze(-1), support[..., 1:], 0.0).double()
        items = distinct_unknowns(torch.where(mask, support[..., 0], -1.0))  # -1 is left for queries of unknown items
        return cls(mask, items, codes, labels, basis)

    def first(self, size: int) -> "Known":
        """Only the first events of each user."""
        return Known(*(part[:, :size] for part in (self.mask, self.items, self.codes, self.labels, self.basis)))


def distinct_unknowns(items: Tensor, start: int = 0) -> Tensor:
    """Items `[U, P]` in which the unknown ones differ from each other: they become -2 - start, -3 - start, …"""
    own = -2.0 - start - torch.arange(items.shape[1], dtype=items.dtype)
    return torch.where(items >= 0, items, own)


def groups_of(items: Tensor, query_items: Tensor | None = None, query_user: Tensor | None = None) -> Tensor:
    """Number the groups of rows with the same user and item: first `[U, P]` items, then those of queries `[Q]`."""
    users = torch.arange(len(items)).unsqueeze(1).expand_as(items).flatten()
    named = items.flatten().long()
    if query_items is not None and query_user is not None:
        users, named = torch.cat([users, query_user]), torch.cat([named, query_items.long()])
    first = int(named.min())
    keys = users * (int(named.max()) - first + 1) + named - first
    groups: Tensor = torch.unique(keys, return_inverse=True)[1]
    return groups


def sums_by_group(groups: Tensor, values: Tensor) -> Tensor:
    """For each row, the sum over the rows of its group; `[U, P, C]` → `[U, P, C]`."""
    flat = values.flatten(0, 1)
    sums = flat.new_zeros(int(groups.max()) + 1, flat.shape[1]).index_add(0, groups, flat)
    return sums.index_select(0, groups).view_as(values)
