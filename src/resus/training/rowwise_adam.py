"""Adam whose cost does not grow with the number of features: a step touches only the embedding rows of its batch.

Plain Adam moves every row at every step, because momentum lasts longer than gradients. Here a row waits until a batch
uses it, and then first catches up with the steps that it missed. With gradients of zero, m and v decay by β₁ⁿ and β₂ⁿ
in n steps, and the row moves by

    α · m/√v · Σ_{j=1..n} rʲ c(t+j)    with r = β₁/√β₂ and c(s) = √(1−β₂ˢ) / (1−β₁ˢ),

a sum of scalars that is the same for all rows: T(t) − rⁿ T(t+n), where T(t) is its tail to infinity. So every row is
where plain Adam would have it, up to rounding and to ε, which has one value for the whole sum: that of its middle.
"""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from resus.arrays import Array, Doubles, Ids, Integers
from resus.data.log.column_files import row_blocks
from resus.model.encoders.base import FieldEmbedding

LARGE = 100_000  # rows; plain Adam is faster on smaller tables
SETTLED_AT_ONCE = 1 << 16  # rows; all at once would take several times the memory of the table
BETAS = (0.9, 0.999)
EPSILON = 1e-8
_RATIO = BETAS[0] / math.sqrt(BETAS[1])
_TAIL = 400  # terms after which rʲ is 0 in double precision
_AHEAD = 4096  # steps for which T is computed at once


class RowwiseAdam(torch.optim.Adam):
    """Adam over parameter groups, except the large ones among `tables`, which are updated row by row."""

    def __init__(
        self, groups: Iterable[dict[str, Any]], tables: Iterable[FieldEmbedding], *, table_rate: float
    ) -> None:
        self.tables = [_Rows(table, table_rate) for table in tables if len(table.table) >= LARGE]
        apart = {id(rows.embedding.table) for rows in self.tables}
        kept = [{**group, "params": [p for p in group["params"] if id(p) not in apart]} for group in groups]
        super().__init__(kept, betas=BETAS, eps=EPSILON, fused=True)
        for rows in self.tables:
            rows.embedding.lookup = rows.lookup

    def zero_grad(self, set_to_none: bool = True) -> None:
        super().zero_grad(set_to_none)
        for rows in self.tables:
            rows.forget_uses()

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        super().step(closure)
        for rows in self.tables:
            rows.step()

    def settle(self) -> None:
        """Bring every row to where plain Adam has it. Call this before anyone else reads the tables."""
        for rows in self.tables:
            for block in row_blocks(np.arange(len(rows.embedding.table)), SETTLED_AT_ONCE):
                rows.catch_up(block)

    def release(self) -> None:
        """Settle, and let the tables look up their rows themselves again."""
        self.settle()
        for rows in self.tables:
            rows.embedding.lookup = None

    def table_state(self) -> dict[str, Tensor]:
        """What the tables need to resume, besides their weights."""
        return {f"{n}.{name}": tensor for n, rows in enumerate(self.tables) for name, tensor in rows.state().items()}

    def load_table_state(self, state: dict[str, Tensor]) -> None:
        for n, rows in enumerate(self.tables):
            rows.load({name: state[f"{n}.{name}"] for name in rows.state()})


def adam_of(module: nn.Module, groups: Iterable[dict[str, Any]], *, table_rate: float) -> RowwiseAdam:
    """Adam for a network with embedding tables of any size."""
    tables = [part for part in module.modules() if isinstance(part, FieldEmbedding) and part.table.requires_grad]
    return RowwiseAdam(groups, tables, table_rate=table_rate)


class _Rows:
    """The moments of one table, and for each row the last step that it has taken."""

    def __init__(self, embedding: FieldEmbedding, rate: float) -> None:
        self.embedding, self.rate = embedding, rate
        table = embedding.table.detach()
        self.first, self.second = torch.zeros_like(table), torch.zeros_like(table)
        self.done = np.zeros(len(table), dtype=np.int32)
        self.steps = 0
        self.uses: list[tuple[Ids, Tensor]] = []
        self._shared: tuple[Ids, Tensor] | None = None
        self._slot = np.zeros(len(table), dtype=np.int32)  # scratch space of `_distinct`
        self._tails = _tails(_AHEAD)

    def lookup(self, ids: Tensor) -> Tensor:
        """`[N, C]` ids → `[N, C, E]` vectors; their gradient arrives at a small leaf of the distinct rows."""
        flat = ids.cpu().numpy().reshape(-1)
        rows, places = self._distinct(flat)
        self.catch_up(rows)
        values = self.embedding.table.detach()[self._there(rows)].requires_grad_()
        self.uses.append((rows, values))
        return functional.embedding(self._there(places).view(ids.shape), values)

    def forget_uses(self) -> None:
        self.uses.clear()
        self._shared = None

    def gradients(self) -> tuple[Ids, Tensor]:
        """The rows used since the last step, and the gradient of each; a row may occur several times."""
        used = [(rows, values.grad) for rows, values in self.uses if values.grad is not None]
        rows = np.concatenate([np.empty(0, dtype=np.int32), *(rows for rows, _ in used)])
        nothing = torch.empty(0, self.embedding.table.shape[1], device=self.embedding.table.device)
        return rows, torch.cat([nothing, *(gradient for _, gradient in used)])

    def use_gradients(self, rows: Ids, gradients: Tensor) -> None:
        """Take the next step with these, which include the rows of other workers."""
        self._shared = rows, gradients

    def step(self) -> None:
        """A step of plain Adam on the used rows; the others wait."""
        used, gradients = self._shared or self.gradients()
        rows, places = self._distinct(used)
        gradient = gradients
        if len(rows) < len(used):
            gradient = gradients.new_zeros(len(rows), gradients.shape[1]).index_add_(0, self._there(places), gradients)
        self.catch_up(rows)
        self.steps += 1
        if self.steps >= len(self._tails):
            self._tails = _tails(2 * self.steps)
        chosen = self._there(rows)
        first = self.first[chosen].mul_(BETAS[0]).add_(gradient, alpha=1 - BETAS[0])
        second = self.second[chosen].mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
        scale = math.sqrt(1 - BETAS[1] ** self.steps)
        moved = first / (second.sqrt() / scale).add_(EPSILON) * (self.rate / (1 - BETAS[0] ** self.steps))
        self.first[chosen], self.second[chosen] = first, second
        self.embedding.table.detach()[chosen] -= moved
        self.done[rows] = self.steps

    def catch_up(self, rows: Ids) -> None:
        """Move these rows as the steps since their last use would have moved them."""
        then = self.done[rows]
        behind = (then < self.steps) & (then > 0)  # a row never used has no momentum
        self.done[rows] = self.steps
        if not behind.any():
            return
        rows, then = rows[behind], then[behind].astype(np.int64)
        gap = self.steps - then
        fading = _RATIO**gap
        sums = self._tails[then] - fading * self._tails[self.steps]
        middle = 1 / (1 - _RATIO) - gap * fading / (1 - fading)  # the mean j of the sum
        epsilon = EPSILON * np.sqrt((1 - BETAS[1] ** (then + middle)) / BETAS[1] ** middle)
        chosen = self._there(rows)
        first, second = self.first[chosen], self.second[chosen]
        moved = first / (second.sqrt() + self._column(epsilon)) * self._column(self.rate * sums)
        self.embedding.table.detach()[chosen] -= moved
        self.first[chosen] = first * self._column(BETAS[0] ** gap)
        self.second[chosen] = second * self._column(BETAS[1] ** gap)

    def state(self) -> dict[str, Tensor]:
        steps = torch.tensor(self.steps)
        return {"first": self.first, "second": self.second, "done": torch.from_numpy(self.done), "steps": steps}

    def load(self, state: dict[str, Tensor]) -> None:
        device = self.embedding.table.device
        self.first, self.second = (state[name].clone().to(device) for name in ("first", "second"))
        self.done, self.steps = state["done"].clone().cpu().numpy(), int(state["steps"])
        self._tails = _tails(max(_AHEAD, 2 * self.steps))

    def _there(self, values: Array) -> Tensor:
        """On the device of the table."""
        return torch.from_numpy(values).to(self.embedding.table.device)

    def _column(self, values: Array) -> Tensor:
        return self._there(values.astype(np.float32)).unsqueeze(1)

    def _distinct(self, rows: Ids) -> tuple[Ids, Integers]:
        """The distinct rows, and the place of each given row among them, without a sort."""
        numbers = np.arange(len(rows), dtype=np.int32)
        self._slot[rows] = numbers  # the last of equal rows stays
        last = self._slot[rows]
        stays = last == numbers
        return rows[stays], (np.cumsum(stays) - 1)[last]


def _tails(count: int) -> Doubles:
    """T(0), …, T(count − 1), backwards by T(t) = r (c(t+1) + T(t+1))."""
    later = np.arange(1, count + _TAIL, dtype=np.float64)
    c = np.sqrt(1 - BETAS[1] ** later) / (1 - BETAS[0] ** later)
    tails = np.zeros(count + _TAIL)
    for step in range(len(later) - 1, -1, -1):
        tails[step] = _RATIO * (c[step] + tails[step + 1])
    return tails[:count]
