"""Fusion: ŷ = σ(Ψ(x) + β·Δŷ), with one β or one per support size (equation 15). An empty support adds exactly 0."""

import torch
from torch import Tensor, nn


class Fusion(nn.Module):
    """β per support size 1..`max_size` where `per_size`, else one β; `bias` adds a constant per size.

    A support larger than any seen in training is answered as one of `max_size`.
    """

    def __init__(self, *, max_size: int, scale: float, per_size: bool, bias: bool) -> None:
        super().__init__()
        entries = max_size if per_size else 1
        self.scale = nn.Parameter(torch.full((entries,), scale))
        self.bias = nn.Parameter(torch.zeros(entries)) if bias else None

    def forward(self, residual: Tensor, sizes: Tensor) -> Tensor:
        """Λ's answers and the support sizes behind them (broadcast together) → what to add to Ψ's logits."""
        entry = (sizes - 1).clamp(0, len(self.scale) - 1)
        added = self.scale[entry] * residual
        if self.bias is not None:
            added = added + self.bias[entry]
        return torch.where(sizes > 0, added, torch.zeros_like(added))
