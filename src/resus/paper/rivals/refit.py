"""RESUS-RR and RESUS-NN with their scalars fitted again, to the labels of the validation users."""

import copy
import math
from collections.abc import Sequence

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrize import is_parametrized

from resus.arrays import Floats
from resus.baselines.base import Task
from resus.data.log.log import InteractionLog
from resus.episodes.batch import EpisodeBatch
from resus.episodes.prefixes import OrderedUsers
from resus.history import EpochRecord, History
from resus.model.fusion import Fusion
from resus.model.learners.ridge import RidgeLearner
from resus.model.personalizer import Personalizer
from resus.paper.rivals.residual import Residual

FARTHEST = math.log(1000)  # λ is searched up to a thousand times below and above the trained one
TOLERANCE = 0.05  # of log λ


class Refit:
    """RESUS trained as usual; then λ, if it is learned, and β minimise the Logloss of the validation users.

    RESUS+ learns its scales from these labels. This method has them too, so what RESUS+ gains over it has another
    cause. Φ and the similarity stay as trained.
    """

    def __init__(self, *, learner: str) -> None:
        self.trained = Residual(learner=learner)

    def fit(self, task: Task) -> History:
        history = self.trained.fit(task)
        task.progress("scalars, fitting", 0, None)
        refit_scalars(self.trained.model, task)
        reached = task.validation_auc(lambda ordered, sizes: self.score_prefixes(task.log, ordered, sizes))
        return [*history, EpochRecord("scalars", 1, reached)]

    def score(self, log: InteractionLog, batch: EpisodeBatch) -> Floats:
        return self.trained.score(log, batch)

    def score_prefixes(self, log: InteractionLog, ordered: OrderedUsers, sizes: Sequence[int]) -> Floats:
        return self.trained.score_prefixes(log, ordered, sizes)


def refit_scalars(model: Personalizer, task: Task) -> None:
    """Fit λ and β, and the biases if there are any, to all queries of the validation users at every support size.

    For each λ the best β is a logistic regression, so only λ is searched. β of a size that is not evaluated, or has no
    query, lies between its neighbours.
    """
    log, ordered = task.log, task.validation
    step, largest = task.config.evaluation.step, int(ordered.lengths.max()) - 1
    sizes = range(step, min(task.config.max_support, max(largest, step)) + 1, step)
    basis = model.predictor.logits_of_rows(log, ordered.rows)
    asked = ordered.positions[:, None] >= np.array(sizes)
    row, column = np.nonzero(asked)
    labels = torch.from_numpy(log.labels[ordered.rows[row]]).double()
    known = torch.from_numpy(basis[row]).double()
    size = torch.tensor(list(sizes))[torch.from_numpy(column)]
    unscaled = Personalizer(
        model.predictor, model.encoder, model.learner, Fusion(max_size=1, scale=1.0, per_size=False, bias=False)
    )

    def fitted(log_ridge: float | None = None) -> tuple[Fusion, float]:
        if log_ridge is not None:
            _set_ridge(model.learner, log_ridge)
        answers = unscaled.score_prefixes(log, ordered, sizes, basis=basis) - basis[:, None]
        return _fit_fusion(model.fusion, torch.from_numpy(answers[asked]).double(), size, known, labels)

    learner, log_ridge = model.learner, None
    if isinstance(learner, RidgeLearner) and learner.raw_ridge.requires_grad:
        trained = math.log(float(learner.ridge.detach()))
        log_ridge = minimize_scalar(
            lambda value: fitted(value)[1],
            bounds=(trained - FARTHEST, trained + FARTHEST),
            method="bounded",
            options={"xatol": TOLERANCE},
        ).x
    fusion, _ = fitted(log_ridge)
    _set_fusion(model.fusion, fusion, sizes)


def _set_ridge(learner: nn.Module, log_ridge: float) -> None:
    assert isinstance(learner, RidgeLearner)
    with torch.no_grad():
        learner.raw_ridge.copy_(RidgeLearner(ridge=math.exp(log_ridge), learn_ridge=False, bias=False).raw_ridge)


@torch.no_grad()
def _set_fusion(own: Fusion, found: Fusion, sizes: Sequence[int]) -> None:
    scale = _between(found.scale, sizes).to(own.scale.dtype)
    if is_parametrized(own, "scale"):  # monotone
        own.scale = scale
    else:
        own.scale.copy_(scale)
    if own.bias is not None and found.bias is not None:
        own.bias.copy_(_between(found.bias, sizes))


def _fit_fusion(start: Fusion, answers: Tensor, sizes: Tensor, basis: Tensor, labels: Tensor) -> tuple[Fusion, float]:
    """The β with the smallest mean cross-entropy, and that mean. Λ's answers `[n]` have the given support sizes `[n]`.

    Answers are brought to variance 1 first: their scale changes with λ, by orders of magnitude.
    """
    spread = float(answers.square().mean().sqrt().clamp(min=1e-12))
    answers = answers / spread
    fusion = copy.deepcopy(start).double()
    with torch.no_grad():
        fusion.scale *= spread
    optimizer = torch.optim.LBFGS(
        list(fusion.parameters()), max_iter=200, tolerance_change=1e-12, line_search_fn="strong_wolfe"
    )

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = functional.binary_cross_entropy_with_logits(basis + fusion(answers, sizes), labels)
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    reached = loss().item()
    with torch.no_grad():
        fusion.scale /= spread
    return fusion, reached


def _between(entries: Tensor, sizes: Sequence[int]) -> Tensor:
    """Numbers of the support sizes 1, 2, …, of which only those at `sizes` are known → all of them."""
    if len(entries) == 1:  # one β for all sizes
        return entries
    known = np.array(sizes)
    found = np.interp(np.arange(1, len(entries) + 1), known, entries.detach().numpy()[known - 1])
    return torch.from_numpy(found)
