"""The prior covariance of what a user does differently, and the events that it is conditioned on."""

from dataclasses import dataclass

import torch
from torch import Tensor

from resus.model.learners.plus.codes import Codes, Layout, matched
from resus.model.learners.plus.numbers import FEW_VALUES


@dataclass(frozen=True, eq=False)
class Prior:
    """k(x, x') = bias + Σ_f s_f·match_f(x, x') + taste·⟨φ(x), φ(x')⟩; a scale of 0 turns a part off."""

    bias: Tensor
    matches: Tensor  # [V]: the scale s_f of each value's field
    taste: Tensor
    fields: Tensor  # [V]: the number of each value's field

    def covariance(self, rows: Codes, others: Codes) -> Tensor:
        """k of every row `[..., P]` with every other row `[..., S]`, in float64."""
        inner = rows.taste.double() @ others.taste.double().transpose(-1, -2)
        covariance: Tensor = self.bias + self.taste * inner
        scaled, shares = rows.shares.double() * self.matches, others.shares.double()
        for field in torch.unique(self.fields).tolist():
            own = self.fields == field
            pair = (rows.values[..., own], scaled[..., own]), (others.values[..., own], shares[..., own])
            covariance = covariance + _overlap(*pair)
        return covariance

    def variance(self, rows: Codes) -> Tensor:
        """k of every row with itself."""
        matches = (rows.shares.double().square() * self.matches).sum(dim=-1)
        variance: Tensor = self.bias + matches + self.taste * rows.taste.double().square().sum(dim=-1)
        return variance

    def times(self, rows: Codes, amounts: Tensor) -> Tensor:
        """K·amounts of the rows `[U, S]` of each user, `[U, S, J]`, without a matrix of pairs."""
        users, slots, columns = amounts.shape
        flat = Codes(*(part.flatten(0, 1) for part in rows))
        owner = torch.arange(users, device=amounts.device).repeat_interleave(slots)
        product = matched(rows, amounts, self.matches, flat, owner).view(users, slots, columns)
        taste = rows.taste.double()
        product = product + self.taste * (taste @ (taste.transpose(1, 2) @ amounts))
        return product + self.bias * amounts.sum(dim=1, keepdim=True)


@dataclass(frozen=True, eq=False)
class Known:
    """The events of some users; empty slots hold zeros. Labels and the crowd's logits are in float64."""

    mask: Tensor  # [U, S]
    codes: Codes  # [U, S]
    labels: Tensor  # [U, S]
    basis: Tensor  # [U, S]
    trust: Tensor  # [U, S]: as how many labels the label counts

    @classmethod
    def of(
        cls, layout: Layout, support: Tensor, mask: Tensor, outcomes: Tensor, trust: tuple[Tensor, Tensor]
    ) -> "Known":
        """`trust` is that of a like and that of a dislike."""
        labels, basis = (torch.where(mask, value, 0.0).double() for value in outcomes.unbind(dim=-1))
        like, dislike = trust
        counted = labels * like.double() + (1 - labels) * dislike.double()
        return cls(mask, layout.unpack(torch.where(mask.unsqueeze(-1), support, 0.0)), labels, basis, counted)

    def first(self, size: int) -> "Known":
        """Only the first events of each user."""
        some = (slice(None), slice(size))
        return Known(self.mask[some], self.codes.of(some), self.labels[some], self.basis[some], self.trust[some])


def _overlap(rows: tuple[Tensor, Tensor], others: tuple[Tensor, Tensor]) -> Tensor:
    """Σ of the products of the shares of equal values of one field, for every row with every other row."""
    (values, shares), (other_values, other_shares) = rows, others
    columns = values.shape[-1]
    distinct = torch.unique(torch.cat([values.flatten(), other_values.flatten()])) if columns > FEW_VALUES else values
    if columns > FEW_VALUES and len(distinct) <= 3 * columns**2:  # few values, many of them in each row
        dense = [
            torch.zeros(*ids.shape[:-1], len(distinct), dtype=part.dtype, device=part.device).scatter_add(
                -1, torch.searchsorted(distinct, ids.contiguous()), part
            )
            for ids, part in (rows, others)
        ]
        return dense[0] @ dense[1].transpose(-1, -2)
    overlap = torch.zeros(())
    for one in range(columns):
        for two in range(columns):
            same = values[..., :, None, one] == other_values[..., None, :, two]
            overlap = overlap + same * shares[..., :, None, one] * other_shares[..., None, :, two]
    return overlap
