"""How well the prior predicts whole users, against integrals and against the bound in numpy."""

import numpy as np
import pytest
import torch
from torch import Tensor

from resus.arrays import Doubles
from resus.model.learners.plus.learner import PlusLearner

GRID = np.linspace(-40, 40, 40_001)


def built(*, bias: float = 0.6, taste: float = 1.7, repeat: float = 2.5, only_bias: bool = False) -> PlusLearner:
    learner = PlusLearner(steps=4, bias=True, taste=not only_bias, repeats=not only_bias)
    learner.start_from(bias=bias, taste=taste, repeat=repeat)
    return learner


def one_user(
    labels: list[float], basis: list[float], *, width: int = 2, seed: int = 1
) -> tuple[Tensor, Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    items = torch.randint(3, (1, len(labels), 1), generator=random)
    support = torch.cat([items, torch.randn(1, len(labels), width, generator=random)], dim=2)
    outcomes = built().outcomes(torch.tensor([labels]), torch.tensor([basis]))
    return support, torch.ones(1, len(labels), dtype=torch.bool), outcomes


def log_sigmoid(logits: Doubles) -> Doubles:
    return -np.logaddexp(0, -logits)


def integrated(labels: list[float], basis: list[float], variance: float) -> float:
    """log ∫ Π p(y_i | Ψ_i + b) N(b; 0, variance) db, less what Ψ alone says."""
    signs = 2 * np.array(labels) - 1
    density = np.exp(-(GRID**2) / (2 * variance)) / np.sqrt(2 * np.pi * variance)
    likelihood = np.exp(sum(log_sigmoid(sign * (start + GRID)) for sign, start in zip(signs, basis, strict=True)))
    alone = log_sigmoid(signs * np.array(basis)).sum()
    return float(np.log((density * likelihood).sum() * (GRID[1] - GRID[0])) - alone)


@pytest.mark.parametrize(("variance", "short"), [(0.05, 0.005), (0.6, 0.03), (3.0, 0.15)])
@pytest.mark.parametrize(
    ("labels", "basis"),
    [([1.0], [0.0]), ([0.0], [2.5]), ([1.0], [2.5]), ([1.0, 1.0], [-1.0, -3.0]), ([0.0, 1.0], [0.3, -2.0])],
)
def test_it_is_a_tight_lower_bound_of_the_integral(
    labels: list[float], basis: list[float], variance: float, short: float
) -> None:
    learner = built(bias=variance, only_bias=True)
    found = float(learner.evidence(*one_user(labels, basis)).detach())
    truth = integrated(labels, basis, variance)
    assert found <= truth + 1e-9
    assert truth - found < short


def test_without_events_the_evidence_is_zero() -> None:
    support, mask, outcomes = one_user([1.0, 0.0], [0.4, -1.0])
    evidence = built().evidence(support, torch.zeros_like(mask), outcomes)
    torch.testing.assert_close(evidence, torch.zeros(1, dtype=torch.float64), atol=1e-12, rtol=0)
    no_events = built().evidence(support[:, :0], mask[:, :0], outcomes[:, :0])
    assert no_events.tolist() == [0.0]


def test_empty_slots_say_nothing() -> None:
    learner = built()
    support, mask, outcomes = one_user([1.0, 0.0, 1.0, 1.0, 0.0], [0.4, -1.0, 2.0, 0.1, 0.0])
    mask[0, 3:] = False
    short = learner.evidence(support[:, :3], mask[:, :3], outcomes[:, :3])
    for filling in (0.0, 1e3, -7.0, float("nan")):
        spoiled = torch.where(mask.unsqueeze(2), support, filling), torch.where(mask.unsqueeze(2), outcomes, filling)
        torch.testing.assert_close(learner.evidence(spoiled[0], mask, spoiled[1]), short, rtol=1e-10, atol=1e-10)
    pair = learner.evidence(support.repeat(2, 1, 1), torch.cat([mask, mask.roll(2)]), outcomes.repeat(2, 1, 1))
    torch.testing.assert_close(pair[:1], short, rtol=1e-10, atol=1e-10)


def curvature(logits: Doubles) -> Doubles:
    return np.tanh(logits / 2) / (2 * logits)


class Written:
    """The bound of one user, straight from its definition: log ∫ Π parabola_i(Δ_i) N(Δ; 0, K) dΔ, less Ψ's own."""

    def __init__(self, support: Tensor, outcomes: Tensor) -> None:
        self.items, self.codes = support[0, :, 0].double().numpy(), support[0, :, 1:].double().numpy()
        self.labels, self.basis = outcomes[0].double().numpy().T

    def covariance(self, scales: Doubles, codes: Doubles) -> Doubles:
        bias, taste, repeat = np.exp(scales)
        covariance: Doubles = bias + taste * codes @ codes.T + repeat * (self.items[:, None] == self.items)
        return covariance

    def touched(self, scales: Doubles, rounds: int) -> Doubles:
        touch: Doubles = np.abs(self.basis)
        prior = self.covariance(scales, self.codes)
        for _ in range(rounds):
            weights = np.diag(curvature(touch))
            posterior = np.linalg.inv(np.linalg.inv(prior) + weights)
            mean = posterior @ (self.labels - 0.5 - weights @ self.basis)
            touch = np.sqrt((self.basis + mean) ** 2 + np.diag(posterior))
        return touch

    def bound(self, scales: Doubles, codes: Doubles, touch: Doubles) -> float:
        """log p ≥ log σ(ξ) − ξ/2 + (y − ½)ℓ − w/2 (ℓ² − ξ²) at ℓ = Ψ + Δ, a Gaussian integral in Δ."""
        prior, weights = self.covariance(scales, codes), curvature(touch)
        precision = np.linalg.inv(prior) + np.diag(weights)
        linear = self.labels - 0.5 - weights * self.basis
        height = log_sigmoid(touch) - touch / 2 + (self.labels - 0.5) * self.basis
        height = height - weights / 2 * (self.basis**2 - touch**2)
        log_volume = -0.5 * (np.linalg.slogdet(prior)[1] + np.linalg.slogdet(precision)[1])
        alone = log_sigmoid((2 * self.labels - 1) * self.basis).sum()
        return float(height.sum() + log_volume + 0.5 * linear @ np.linalg.solve(precision, linear) - alone)


def test_the_bound_and_its_gradient_are_those_written_out_with_the_parabolas_held() -> None:
    learner = built()
    support, mask, outcomes = one_user([1.0, 0.0, 1.0, 1.0], [0.4, -1.0, 2.0, 0.1], width=5, seed=3)
    support.requires_grad_()
    evidence = learner.evidence(support, mask, outcomes).sum()
    *of_scales, of_support = torch.autograd.grad(evidence, [*learner.parameters(), support])
    written = Written(support.detach(), outcomes)
    scales = np.log([0.6, 1.7, 2.5])
    touch = written.touched(scales, rounds=3)
    assert float(evidence.detach()) == pytest.approx(written.bound(scales, written.codes, touch), rel=1e-6)
    step = 1e-5
    for number, gradient in enumerate(of_scales):
        moved = step * np.eye(3)[number]
        slope = written.bound(scales + moved, written.codes, touch) - written.bound(
            scales - moved, written.codes, touch
        )
        assert float(gradient) == pytest.approx(slope / (2 * step), rel=1e-4, abs=1e-6)
    for event, entry in np.ndindex(*written.codes.shape):
        moved = np.zeros_like(written.codes)
        moved[event, entry] = step
        slope = written.bound(scales, written.codes + moved, touch) - written.bound(
            scales, written.codes - moved, touch
        )
        assert float(of_support[0, event, 1 + entry]) == pytest.approx(slope / (2 * step), rel=1e-4, abs=1e-6)
    assert not of_support[..., 0].any(), "an item's id is a name, not a number"


def test_touching_again_and_again_makes_the_bound_no_looser() -> None:
    support, _, outcomes = one_user([1.0, 0.0, 1.0, 1.0], [0.4, -1.0, 2.0, 0.1], width=5, seed=4)
    written, scales = Written(support, outcomes), np.log([0.6, 1.7, 2.5])
    bounds = [written.bound(scales, written.codes, written.touched(scales, rounds)) for rounds in range(6)]
    assert np.all(np.diff(bounds) >= -1e-12)
    assert bounds[-1] - bounds[3] < 0.05 * (bounds[3] - bounds[0])


@pytest.mark.parametrize("spread", [0.0, 400.0])
def test_the_surest_basis_does_no_harm(spread: float) -> None:
    learner = built()
    support, mask, outcomes = one_user([1.0, 0.0, 1.0], [spread, spread, -spread])
    support.requires_grad_()
    evidence = learner.evidence(support, mask, outcomes)
    gradients = torch.autograd.grad(evidence.sum(), [*learner.parameters(), support])
    assert all(bool(value.isfinite().all()) for value in (evidence, *gradients))
