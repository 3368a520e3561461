"""Rows that say nothing leave the prior. Rates: two Kolmogorov-Smirnov tests a case, at 1e-6 each."""

import numpy as np
import pytest
from scipy import stats

import bayescore as bc
from bayescore.numerics.chains import ess
from tests.samplers.exactness import weighted

NORMAL, STUDENT = bc.priors.Normal(1.0, 2.0), bc.priors.StudentT(5.0, -1.0, 0.5)
CASES = [
    pytest.param("nuts", "probit", STUDENT, marks=pytest.mark.slow),
    ("mala", "logistic", STUDENT),
    ("mala", "probit", NORMAL),
    ("langevin", "logistic", STUDENT),
    ("gibbs", "probit", NORMAL),
    ("polya_gamma", "logistic", NORMAL),
]


def p_values(x, sampler, family, prior):
    """Return the p-value of each coefficient's draws under the prior, those taken being a tenth of the effective."""
    rows = weighted(np.full((2, 2), x), [1, -1], np.full(2, 15.0))
    told = {"draws": 700, "random_seed": 1, "progressbar": False}
    draws = bc.sample(rows, family, prior, sampler=sampler, **told).posterior["beta"].values
    law = stats.norm(prior.mu, prior.sigma) if prior is NORMAL else stats.t(prior.nu, prior.mu, prior.sigma)
    size = np.array([ess(draws, kind).min() for kind in ("bulk", "tail")]).min()
    assert size > 700
    step = int(np.ceil(10.0 * draws.shape[0] * draws.shape[1] / size))
    return [stats.kstest(draws[:, ::step, d].ravel(), law.cdf).pvalue for d in range(2)]


@pytest.mark.statistical(rate=2e-6)
@pytest.mark.parametrize(("sampler", "family", "prior"), CASES)
def test_rows_that_say_nothing_leave_the_prior(sampler, family, prior):
    assert min(p_values(0.0, sampler, family, prior)) > 1e-6


@pytest.mark.statistical(rate=1e-6)
def test_rows_that_say_something_do_not():
    """Negative control: as many labels of either kind at (1, 1)."""
    assert min(p_values(1.0, "polya_gamma", "logistic", NORMAL)) < 1e-6
