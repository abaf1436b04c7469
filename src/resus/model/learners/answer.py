"""What a user's events say of some candidates."""

from dataclasses import dataclass

import torch
from torch import Tensor

from resus.model.fusion import Fusion


@dataclass(frozen=True, eq=False)
class Answer:
    """What a user's events add to Ψ's logits of N candidates, and how sure that is.

    `parts` holds how much each event moved each score; they sum to `residual`. `deviation` is the standard deviation
    of the residual read as a Gaussian process, which nearest neighbour does not have.
    """

    residual: Tensor  # [N]
    parts: Tensor  # [N, k], the oldest event first
    deviation: Tensor | None  # [N]


def fused(fusion: Fusion, answer: Answer, size: int) -> Answer:
    """β on all parts; what fusion adds by itself at a size is shared by the events alike, so that they still sum."""
    if not size:
        return answer
    sizes = torch.tensor(size)
    constant = fusion(torch.zeros(()), sizes)
    scale = fusion(torch.ones(()), sizes) - constant
    return Answer(
        answer.residual * scale + constant,
        answer.parts * scale + constant / size,
        None if answer.deviation is None else answer.deviation * scale.abs(),
    )
