"""The Student t at the mode: its density by SciPy's, its scale by the curvature."""

import numpy as np
import pytest
from scipy import stats

from bayescore.diagnostics.evidence import DF, propose
from bayescore.families.family import FAMILIES
from bayescore.models.modes import find_map
from bayescore.priors import Laplace, Normal, SpikeAndSlab
from tests.conftest import make_rows

ROWS = make_rows()
LOGISTIC = FAMILIES["logistic"]


def test_the_density_is_that_of_the_draws():
    prior = Normal(0.3, 1.5)
    beta, log_base, _ = propose(ROWS, LOGISTIC, prior, 50, np.random.default_rng(0))
    mode = find_map(ROWS, "logistic", prior)
    log_q = stats.multivariate_t(mode.beta, mode.covariance, df=DF).logpdf(beta)
    np.testing.assert_allclose(log_base, stats.norm(0.3, 1.5).logpdf(beta).sum(axis=1) - log_q, rtol=1e-9)


@pytest.mark.statistical(rate=1e-6)
def test_draws_have_the_scale_of_the_mode():
    """Half of |t| lies below its median: of 40,000 draws within 5.5 standard errors: 1e-7 for 3."""
    beta, _, _ = propose(ROWS, LOGISTIC, Normal(0.0, 2.0), 40_000, np.random.default_rng(1))
    mode = find_map(ROWS, "logistic", Normal(0.0, 2.0))
    below = (np.abs(beta - mode.beta) / mode.sd < stats.t(DF).ppf(0.75)).mean(axis=0)
    assert np.abs(below - 0.5).max() < 0.0138
    wrong = (np.abs(beta - mode.beta) / mode.sd < stats.norm.ppf(0.75)).mean(axis=0)  # control: a normal's median
    assert np.abs(wrong - 0.5).min() > 0.0138


def test_the_spike_takes_the_slabs_scale():
    """In a spike the curvature is that of the spike, 0.01 here; the proposal is as wide as the slab's posterior."""
    beta, _, _ = propose(ROWS, LOGISTIC, SpikeAndSlab(0.01, 2.0), 2000, np.random.default_rng(2))
    wide, _, _ = propose(ROWS, LOGISTIC, Normal(0.0, 2.0), 2000, np.random.default_rng(2))
    np.testing.assert_allclose(beta, wide, rtol=1e-9)


def test_at_the_kink_of_a_laplace_prior_the_width_is_that_of_the_prior():
    """A column of zeros: the data say nothing, rate 1/b, so the scale is sqrt(2) b, about the prior's sd."""
    X = ROWS.X.copy()
    X[:, 2] = 0.0
    rows = type(ROWS)(X, ROWS.y, ROWS.weights, ROWS.index)
    scales = []
    for b in (0.1, 1.0):
        beta, _, _ = propose(rows, LOGISTIC, Laplace(0.0, b), 4000, np.random.default_rng(3))
        scales.append(np.median(np.abs(beta[:, 2])) / stats.t(DF).ppf(0.75))
    np.testing.assert_allclose(scales, [0.1 * np.sqrt(2), np.sqrt(2)], rtol=0.1)
