import numpy as np
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm

from resus.data.logistic import mean_sigmoid, sigmoid


def test_the_mean_over_a_gaussian_is_the_integral() -> None:
    means, variances = (grid.ravel() for grid in np.meshgrid([-4.0, -1.0, 0.0, 2.5], [0.01, 0.5, 1.2, 3.0]))
    for mean, variance, found in zip(means, variances, mean_sigmoid(means, variances), strict=True):
        density = norm(mean, np.sqrt(variance)).pdf
        expected, _ = quad(lambda z, density=density: expit(z) * density(z), mean - 30, mean + 30, points=[mean])
        assert abs(found - expected) < 1e-5
    assert np.allclose(sigmoid(means), expit(means))
