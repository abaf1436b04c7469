"""Ridge regression on a user's residuals (equations 11 to 14), in the Woodbury form: an S × S system per user."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from resus.model.learners.base import Answer, Explanation, Learner, LiveState, residuals_of

TINY = 1e-12  # the least that an event leaves of a prediction of itself
CHANGES = 256  # rank-one updates of a live user's primal form after which it is rebuilt, so that rounding stays small


class RidgeLearner(Learner):
    """w_u = Φᵀ(ΦΦᵀ + λI)⁻¹Δy and Δŷ = Φ(x)·w_u; λ is learned and stays positive through a softplus.

    `bias` adds a constant-1 feature, which is the constant 1 added to every inner product.
    """

    def __init__(self, *, ridge: float, learn_ridge: bool, bias: bool) -> None:
        super().__init__()
        raw = torch.tensor(ridge + math.log(-math.expm1(-ridge)))
        self.raw_ridge = nn.Parameter(raw, requires_grad=learn_ridge)
        self.constant = 1.0 if bias else 0.0

    @property
    def ridge(self) -> Tensor:
        return functional.softplus(self.raw_ridge)

    def outcomes(self, labels: Tensor, basis: Tensor) -> Tensor:
        return residuals_of(labels, basis)

    def forward(self, support: Tensor, mask: Tensor, outcomes: Tensor, query: Tensor, query_user: Tensor) -> Tensor:
        support = support * mask.unsqueeze(-1)
        if support.shape[1] > support.shape[2] + 1:
            return self._primal(support, mask, outcomes, query, query_user)
        targets = (outcomes * mask).unsqueeze(-1).double()
        dual = torch.cholesky_solve(targets, self._factor(support, mask)).to(support.dtype)  # [U, S, 1]
        primal = (support * dual).sum(dim=1)  # w_u, [U, K]
        answer = (query * primal.index_select(0, query_user)).sum(dim=-1)
        if self.constant:
            answer = answer + self.constant * dual.sum(dim=(1, 2)).index_select(0, query_user)
        return answer

    def _primal(self, support: Tensor, mask: Tensor, outcomes: Tensor, query: Tensor, query_user: Tensor) -> Tensor:
        """The same as w_u = (ΦᵀΦ + λI)⁻¹ΦᵀΔy, a K × K system however long the support is."""
        if self.constant:
            support = torch.cat([support, mask.unsqueeze(-1).to(support.dtype)], dim=2)
            query = torch.cat([query, torch.ones_like(query[:, :1])], dim=1)
        gram = (support.transpose(1, 2) @ support).double()
        system = gram + self.ridge.double() * torch.eye(gram.shape[1], dtype=torch.float64, device=gram.device)
        factor, failed = torch.linalg.cholesky_ex(system)
        targets = (support.transpose(1, 2) @ (outcomes * mask).unsqueeze(-1)).double()
        weights = torch.cholesky_solve(targets, factor.masked_fill((failed > 0).view(-1, 1, 1), torch.nan))
        return (query * weights.squeeze(2).to(query.dtype).index_select(0, query_user)).sum(dim=-1)

    def prefixes(self, support: Tensor, mask: Tensor, outcomes: Tensor, query: Tensor, sizes: Sequence[int]) -> Tensor:
        """With LLᵀ = ΦΦᵀ + λI, c = L⁻¹Δy and Z = L⁻¹Φ(x_S)Φ(x_q): the answer for size k is Σ_{i≤k} Z_i c_i."""
        support = support * mask.unsqueeze(-1)
        factor = self._factor(support, mask)
        inner = support @ query.transpose(1, 2) + self.constant * mask.unsqueeze(-1)  # [U, S, P]
        whitened = torch.linalg.solve_triangular(factor, inner.double(), upper=False)
        targets = (outcomes * mask).unsqueeze(-1).double()
        coefficients = torch.linalg.solve_triangular(factor, targets, upper=False)
        last = torch.tensor(sizes, dtype=torch.int64, device=factor.device) - 1
        answers: Tensor = (whitened * coefficients).cumsum(dim=1).index_select(1, last)
        return answers.transpose(1, 2).to(query.dtype)

    def _factor(self, support: Tensor, mask: Tensor) -> Tensor:
        """The Cholesky factor, in float64, nan where there is none; an empty slot is a row alone, diagonal 1."""
        both = mask.unsqueeze(1) & mask.unsqueeze(2)
        gram = (support @ support.transpose(1, 2)).double() + self.constant * both
        diagonal = torch.where(mask, self.ridge.double(), torch.ones((), dtype=torch.float64, device=mask.device))
        factor: Tensor
        factor, failed = torch.linalg.cholesky_ex(gram + torch.diag_embed(diagonal))
        return factor.masked_fill((failed > 0).view(-1, 1, 1), torch.nan)

    def live_state(self, width: int) -> "LiveRidge":
        return LiveRidge(constant=self.constant, ridge=float(self.ridge.detach()), width=width)


class LiveRidge(LiveState):
    """One live user: the dual form up to K + 1 events, then the primal one of a (K + 1)² matrix.

    Both give the same numbers; an event costs O(k² + kK) in the dual form and O(K²) in the primal one.

    An event's part is what the answer would lose without it. Shares of the answer would say little: two events that are
    alike, one liked and one not, have large shares of opposite signs, which cancel.
    """

    def __init__(self, *, constant: float, ridge: float, width: int) -> None:
        self._constant, self._ridge, self._width = constant, ridge, width
        self._form: _Dual | _Primal = self._form_for(0)

    def _form_for(self, events: int) -> "_Dual | _Primal":
        form = _Primal if events > self._width + 1 else _Dual
        return form(self._constant, self._ridge, self._width)

    def __len__(self) -> int:
        return len(self._form)

    def fill(self, encoded: Tensor, outcomes: Tensor) -> None:
        self._form = self._form_for(len(outcomes))
        self._form.fill(encoded, outcomes)

    def insert(self, place: int, encoded: Tensor, outcome: Tensor) -> None:
        last = len(self)
        if isinstance(self._form, _Dual) and last == self._width + 1:
            known, outcomes = self._form.events
            self.fill(torch.cat([known, encoded.unsqueeze(0)]), torch.cat([outcomes, outcome.double().view(1)]))
        else:
            self._form.append(encoded, outcome)
        if place < last:
            self._form.move_last_to(place)

    def correct(self, place: int, outcome: Tensor) -> None:
        self._form.correct(place, outcome)

    def remove(self, place: int) -> None:
        self._form.remove(place)

    def answer(self, encoded: Tensor, *, explain: bool = False) -> Answer:
        if not len(self):
            return Answer.without_events(len(encoded), explain=explain)
        return self._form.answer(encoded, explain=explain)


class _Dual:
    """(ΦΦᵀ + λI) = LLᵀ and c = L⁻¹Δy, in float64; an event appends one row to L and one entry to c, in O(k² + kK)."""

    def __init__(self, constant: float, ridge: float, width: int) -> None:
        self._constant, self._ridge = constant, ridge
        self._encoded = torch.empty(0, width)
        self._gram = torch.empty(0, 0, dtype=torch.float64)
        self._factor = torch.empty(0, 0, dtype=torch.float64)
        self._residuals = torch.empty(0, dtype=torch.float64)
        self._whitened = torch.empty(0, dtype=torch.float64)  # c

    def __len__(self) -> int:
        return len(self._residuals)

    def fill(self, encoded: Tensor, outcomes: Tensor) -> None:
        self._encoded, self._residuals = encoded, outcomes.double()
        self._gram = (encoded @ encoded.T).double() + self._constant
        self._keep(list(range(len(outcomes))))

    def append(self, encoded: Tensor, outcome: Tensor) -> None:
        residual = outcome.double()
        inner = (self._encoded @ encoded).double() + self._constant
        own = float(encoded @ encoded) + self._constant
        row = _solve_lower(self._factor, inner)
        pivot = max(own + self._ridge - float(row @ row), self._ridge) ** 0.5
        self._whitened = torch.cat([self._whitened, ((residual - row @ self._whitened) / pivot).view(1)])
        self._gram = _bordered(self._gram, inner, inner, own)
        self._factor = _bordered(self._factor, row, torch.zeros_like(row), pivot)
        self._encoded = torch.cat([self._encoded, encoded.unsqueeze(0)])
        self._residuals = torch.cat([self._residuals, residual.view(1)])

    @property
    def events(self) -> tuple[Tensor, Tensor]:
        return self._encoded, self._residuals

    def move_last_to(self, place: int) -> None:
        last = len(self) - 1
        self._keep([*range(place), last, *range(place, last)])

    def correct(self, place: int, outcome: Tensor) -> None:
        self._residuals[place] = outcome
        self._whitened = _solve_lower(self._factor, self._residuals)

    def remove(self, place: int) -> None:
        self._keep([other for other in range(len(self)) if other != place])

    def answer(self, encoded: Tensor, *, explain: bool) -> Answer:
        inner = (self._encoded @ encoded.T).double() + self._constant  # [k, N]
        whitened = torch.linalg.solve_triangular(self._factor, inner, upper=False)
        prior = (encoded * encoded).sum(dim=1).double() + self._constant
        variance = (prior - (whitened * whitened).sum(dim=0)).clamp(min=0)
        explanation = Explanation(self._parts(inner).float(), leave_one_out=True) if explain else None
        return Answer((self._whitened @ whitened).float(), variance.sqrt().float(), explanation)

    def _parts(self, inner: Tensor) -> Tensor:
        """With B = (ΦΦᵀ + λI)⁻¹ and α = BΔy, leaving out event i takes (Φ(x)Φᵀ B)_i α_i / B_ii from the answer."""
        inverse = torch.cholesky_inverse(self._factor)
        return (inner.T @ inverse) * (inverse @ self._residuals / inverse.diagonal())

    def _keep(self, order: list[int]) -> None:
        """Other events or another order need a new factor: k³ / 3 operations on the known inner products."""
        places = torch.tensor(order, dtype=torch.int64)
        self._encoded, self._residuals = self._encoded[places], self._residuals[places]
        self._gram = self._gram[places][:, places]
        self._factor = torch.linalg.cholesky(self._gram + self._ridge * torch.eye(len(order), dtype=torch.float64))
        self._whitened = _solve_lower(self._factor, self._residuals)


class _Primal:
    """P = (ΦᵀΦ + λI)⁻¹ and w = PΦᵀΔy, in float64; the events are kept to say what each of them did."""

    def __init__(self, constant: float, ridge: float, width: int) -> None:
        self._constant, self._ridge = constant, ridge
        self._rows = torch.empty(0, width + 1, dtype=torch.float64)
        self._residuals = torch.empty(0, dtype=torch.float64)
        self._inverse: Tensor  # P
        self._weights: Tensor  # w
        self._build()

    def __len__(self) -> int:
        return len(self._residuals)

    def fill(self, encoded: Tensor, outcomes: Tensor) -> None:
        self._rows, self._residuals = self._with_constant(encoded), outcomes.double()
        self._build()

    def append(self, encoded: Tensor, outcome: Tensor) -> None:
        row = self._with_constant(encoded.unsqueeze(0))
        self._rows = torch.cat([self._rows, row])
        self._residuals = torch.cat([self._residuals, outcome.double().view(1)])
        self._change(row.squeeze(0), self._residuals[-1], sign=1.0)

    def move_last_to(self, place: int) -> None:
        """Only the order in which events are listed changes."""
        last = len(self) - 1
        order = torch.tensor([*range(place), last, *range(place, last)])
        self._rows, self._residuals = self._rows[order], self._residuals[order]

    def correct(self, place: int, outcome: Tensor) -> None:
        change = outcome.double() - self._residuals[place]
        self._residuals[place] = outcome
        self._weights = self._weights + self._inverse @ self._rows[place] * change

    def remove(self, place: int) -> None:
        row, residual = self._rows[place], self._residuals[place]
        self._rows = torch.cat([self._rows[:place], self._rows[place + 1 :]])
        self._residuals = torch.cat([self._residuals[:place], self._residuals[place + 1 :]])
        self._change(row, residual, sign=-1.0)

    def answer(self, encoded: Tensor, *, explain: bool) -> Answer:
        rows = self._with_constant(encoded)
        spread = rows @ self._inverse
        variance = self._ridge * (spread * rows).sum(dim=1).clamp(min=0)
        explanation = Explanation(self._parts(spread).float(), leave_one_out=True) if explain else None
        return Answer((rows @ self._weights).float(), variance.sqrt().float(), explanation)

    def _parts(self, spread: Tensor) -> Tensor:
        """Leaving out event i takes (Φ(x)PΦ(x_i)) (Δy_i − Φ(x_i)w) / (1 − Φ(x_i)PΦ(x_i)) from the answer."""
        missed = self._residuals - self._rows @ self._weights
        left = 1 - (self._rows @ self._inverse * self._rows).sum(dim=1)
        return (spread @ self._rows.T) * (missed / left.clamp(min=TINY))

    def _change(self, row: Tensor, residual: Tensor, *, sign: float) -> None:
        """Add or remove one event, by Sherman and Morrison."""
        self._changes += 1
        moved = self._inverse @ row
        pivot = 1 + sign * float(row @ moved)
        if self._changes >= CHANGES or pivot < 1e-6:
            self._build()
            return
        self._weights = self._weights + sign * moved / pivot * (residual - row @ self._weights)
        self._inverse = self._inverse - sign * torch.outer(moved, moved) / pivot

    def _build(self) -> None:
        self._changes = 0
        system = self._rows.T @ self._rows + self._ridge * torch.eye(self._rows.shape[1], dtype=torch.float64)
        self._inverse = torch.cholesky_inverse(torch.linalg.cholesky(system))
        self._weights = self._inverse @ (self._rows.T @ self._residuals)

    def _with_constant(self, encoded: Tensor) -> Tensor:
        constant = torch.full((len(encoded), 1), self._constant**0.5, dtype=torch.float64)
        return torch.cat([encoded.double(), constant], dim=1)


def _solve_lower(factor: Tensor, values: Tensor) -> Tensor:
    solved: Tensor = torch.linalg.solve_triangular(factor, values.unsqueeze(1), upper=False)
    return solved.squeeze(1)


def _bordered(matrix: Tensor, row: Tensor, column: Tensor, corner: float) -> Tensor:
    """The matrix with one more row below and one more column to the right."""
    size = len(row)
    larger = matrix.new_empty(size + 1, size + 1)
    larger[:size, :size] = matrix
    larger[size, :size] = row
    larger[:size, size] = column
    larger[size, size] = corner
    return larger
