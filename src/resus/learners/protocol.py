"""What a base-learner answers."""

from typing import Protocol

from torch import Tensor


class Learner(Protocol):
    """Λ: encoded support and its residuals → residual of each query; exactly 0 where the support is empty."""

    def __call__(self, support: Tensor, mask: Tensor, residuals: Tensor, query: Tensor, query_user: Tensor) -> Tensor:
        """`[U, S, K]`, `[U, S]`, `[U, S]`, `[Q, K]`, `[Q]` → `[Q]`."""

    def prefixes(self, support: Tensor, mask: Tensor, residuals: Tensor, query: Tensor) -> Tensor:
        """`[U, S, K]`, `[U, S]`, `[U, S]`, `[U, P, K]` → `[U, P, S]`: slot k-1 answers for the first k events."""
