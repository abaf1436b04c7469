"""Fusion: ŷ = σ(Ψ(x) + β·Δŷ), with one β or one per support size (equation 15). An empty support adds exactly 0."""

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrize import register_parametrization

from resus.model.learners.base import Answer

NUMBER_OF_EVENTS = "number of events"  # the cause of what β's bias adds


class Fusion(nn.Module):
    """β per support size 1..`max_size` if `per_size`, else one β; `bias` adds a constant per size.

    With `monotone`, β is positive and never falls from one size to the next; before training, β at size k is
    `scale`·k / (k + 1). Beyond `max_size`, the largest support seen in training, β continues from its last value as
    `_growth` says.
    """

    scale: Tensor

    def __init__(self, *, max_size: int, scale: float, per_size: bool, bias: bool, monotone: bool = False) -> None:
        super().__init__()
        entries = max_size if per_size else 1
        self.scale = nn.Parameter(torch.full((entries,), scale))
        if monotone:
            sizes = torch.arange(1, entries + 1)
            self.scale = nn.Parameter(scale * sizes / (sizes + 1))
            register_parametrization(self, "scale", _NeverFalls())
        self.bias = nn.Parameter(torch.zeros(entries)) if bias else None

    def forward(self, residual: Tensor, sizes: Tensor) -> Tensor:
        """Λ's answers and the support sizes behind them (broadcast together) → what to add to Ψ's logits."""
        last = len(self.scale)
        entry = (sizes - 1).clamp(0, last - 1)
        scale = self.scale[entry]
        if last > 1 and bool((sizes > last).any()):
            scale = scale * self._growth(sizes.clamp(min=last))
        added = scale * residual
        if self.bias is not None:
            added = added + self.bias[entry]
        return torch.where(sizes > 0, added, torch.zeros_like(added))

    def of_answer(self, answer: Answer, events: int) -> Answer:
        """What an answer of so many events becomes after fusion."""
        if not events:
            return answer
        size = torch.tensor(events)
        bias = self(torch.zeros(()), size)
        scale = self(torch.ones(()), size) - bias
        residual = answer.residual * scale + bias
        deviation = None if answer.deviation is None else answer.deviation * scale.abs()
        if answer.explanation is None:
            return Answer(residual, deviation)
        parts = answer.explanation.parts
        if answer.explanation.leave_one_out:  # the answer without the event has one event less, and so another β
            parts = residual.unsqueeze(1) - self(answer.residual.unsqueeze(1) - parts, size - 1)
        else:
            parts = parts * scale + bias / events
        causes = {name: part * scale for name, part in answer.explanation.causes.items()}
        if causes and self.bias is not None:
            causes[NUMBER_OF_EVENTS] = bias.expand_as(residual)
        return Answer(residual, deviation, replace(answer.explanation, parts=parts, causes=causes))

    @torch.no_grad()
    def _growth(self, sizes: Tensor) -> Tensor:
        """How much β at sizes of at least `max_size` exceeds the last one, if it stays on its curve.

        The more events, the more reliable Λ's answer: β follows a·k / (k + c), a mean that c events shrink. c is
        the one of 0..`max_size` whose curve is nearest to β. So a β that does not rise stays, none more than doubles.
        """
        last = len(self.scale)
        device = self.scale.device
        shrinkage = torch.arange(last + 1, dtype=torch.float64, device=device)
        trained = torch.arange(1, last + 1, dtype=torch.float64, device=device)
        curves = trained / (trained + shrinkage.unsqueeze(1))  # [c, k]
        heights = (curves @ self.scale.double()) / curves.square().sum(dim=1)
        misses = (heights.unsqueeze(1) * curves - self.scale.double()).square().sum(dim=1)
        nearest = shrinkage[misses.argmin()]
        return (sizes * (last + nearest) / (last * (sizes + nearest))).to(self.scale.dtype)


class _NeverFalls(nn.Module):
    """β as a running sum of positive steps, whose logarithms are learned where they are small."""

    def forward(self, raw: Tensor) -> Tensor:
        return functional.softplus(raw).cumsum(dim=0)

    def right_inverse(self, scale: Tensor) -> Tensor:
        """The raw steps of a β that rises."""
        steps = scale.diff(prepend=torch.zeros_like(scale[:1]))
        return steps + torch.log(-torch.expm1(-steps))
