"""The mode of coefficients and of the log of a family's number, beside SciPy's, of the log densities in closed form."""

import math

import numpy as np
import pytest
from scipy import optimize, special

import bayescore as bc
from bayescore.fitting.size import MAX_LOG_SIZE, size_mode
from bayescore.types import WeightedData

N, PRIOR_SD, SIZE_SD = 600, 4.0, 2.0
RNG = np.random.default_rng(4)
X = np.column_stack([np.ones(N), RNG.normal(size=N)])
OFFSET = RNG.uniform(-0.3, 0.3, N)
MEAN = np.exp(X @ [0.6, 0.4] + OFFSET)
ROWS = WeightedData(X, np.full(N, -1, dtype=np.int8), np.ones(N), np.arange(N), offset=OFFSET)
PRIOR = bc.priors.Normal(0.0, PRIOR_SD)


def of_counts(y, eta, r):
    t = np.exp(eta)
    rises = special.gammaln(y + r) - special.gammaln(r)
    return float((rises + y * (eta - np.log(r + t)) - r * np.log1p(t / r)).sum())


def of_amounts(y, eta, a):
    each = a * (np.log(a) - eta + np.log(y)) - special.gammaln(a) - a * y * np.exp(-eta)
    return float(each.sum())


def by_scipy(log_density, y, start):
    """Return the mode, and the sd of theta by the Hessian there."""

    def loss(point):
        prior = float(point[:2] @ point[:2]) / PRIOR_SD**2 + point[2] ** 2 / SIZE_SD**2
        return 0.5 * prior - log_density(y, X @ point[:2] + OFFSET, math.exp(point[2]))

    mode = optimize.minimize(loss, start, method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-9}).x
    moves = 1e-3 * np.eye(3)
    hessian = [
        [sum(s * t * loss(mode + s * a + t * b) for s in (1, -1) for t in (1, -1)) / 4e-6 for b in moves] for a in moves
    ]
    return mode, math.sqrt(np.linalg.inv(hessian)[2, 2])


@pytest.mark.parametrize("size", [0.4, 3.0, 60.0])
def test_the_mode_is_that_of_the_density(size):
    rates = RNG.gamma(size, 1.0 / size, N)
    for kind, log_density, y in (
        (bc.families.NegativeBinomial, of_counts, RNG.poisson(MEAN * rates).astype(float)),
        (bc.families.Gamma, of_amounts, MEAN * np.maximum(rates, 1e-300)),
    ):
        found = size_mode(ROWS, y, kind, PRIOR)
        mode, sd = by_scipy(log_density, y, np.array([0.6, 0.4, math.log(size)]))
        assert abs(found.log_size - mode[2]) < 0.3 * sd
        again = size_mode(ROWS, y, kind, PRIOR, found)
        assert abs(again.log_size - mode[2]) < 0.05 * sd
        assert again.sd == pytest.approx(sd, rel=0.15)
        assert np.abs(again.beta - mode[:2]).max() < 0.005


def test_numbers_that_do_not_vary_end_at_the_largest():
    assert size_mode(ROWS, MEAN, bc.families.Gamma, PRIOR).log_size == MAX_LOG_SIZE
