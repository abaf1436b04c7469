"""Fusion: ŷ = σ(Ψ(x) + β·Δŷ), with one β or one per support size (equation 15). An empty support adds exactly 0."""

import torch
from torch import Tensor, nn

from resus.model.learners.base import Answer


class Fusion(nn.Module):
    """β per support size 1..`max_size` if `per_size`, else one β; `bias` adds a constant per size.

    Beyond `max_size`, the largest support seen in training, β continues from its last value as `_growth` says.
    """

    def __init__(self, *, max_size: int, scale: float, per_size: bool, bias: bool) -> None:
        super().__init__()
        entries = max_size if per_size else 1
        self.scale = nn.Parameter(torch.full((entries,), scale))
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

    def explained(self, answer: Answer) -> Answer:
        """An answer after fusion; all events share the bias equally, so that their parts still sum to the residual."""
        events = answer.parts.shape[1]
        if not events:
            return answer
        size = torch.tensor(events)
        bias = self(torch.zeros(()), size)
        scale = self(torch.ones(()), size) - bias
        deviation = None if answer.deviation is None else answer.deviation * scale.abs()
        return Answer(answer.residual * scale + bias, answer.parts * scale + bias / events, deviation)

    @torch.no_grad()
    def _growth(self, sizes: Tensor) -> Tensor:
        """How much β at sizes of at least `max_size` exceeds the last one, if it stays on its curve.

        The more events, the more reliable Λ's answer: β follows a·k / (k + c), a mean that c events shrink. c is
        the one of 0..`max_size` whose curve is nearest to β. So a β that does not rise stays, none more than doubles.
        """
        last = len(self.scale)
        shrinkage = torch.arange(last + 1, dtype=torch.float64)
        trained = torch.arange(1, last + 1, dtype=torch.float64)
        curves = trained / (trained + shrinkage.unsqueeze(1))  # [c, k]
        heights = (curves @ self.scale.double()) / curves.square().sum(dim=1)
        misses = (heights.unsqueeze(1) * curves - self.scale.double()).square().sum(dim=1)
        nearest = shrinkage[misses.argmin()]
        return (sizes * (last + nearest) / (last * (sizes + nearest))).to(self.scale.dtype)
