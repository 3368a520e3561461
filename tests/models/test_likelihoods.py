import numpy as np
import pytest
from scipy import special, stats

from bayescore.models.kernels import logistic_rows, probit_rows
from bayescore.models.likelihoods import LIKELIHOODS, check_likelihood, logistic, probit

ETA = np.concatenate([-np.geomspace(1e4, 1e-3, 200), [0.0], np.geomspace(1e-3, 1e4, 200)])

# 60-digit values of log Phi, phi / Phi and its s (s + eta), computed with mpmath
PROBIT_TABLE = {
    -10000.0: (-50000010.12927891, 10000.000099999997, 0.9999999900000006),
    -200.0: (-20006.21728089819, 200.00499975003123, 0.999975003749219),
    -10.0: (-53.23128515051247, 10.098093233962512, 0.9905546221743438),
    -1.0: (-1.8410216450092636, 1.525135276160981, 0.8009023344296512),
    0.0: (-0.6931471805599453, 0.7978845608028654, 0.6366197723675814),
    5.0: (-2.866516129637636e-07, 1.4867199409049056e-06, 7.433601914860711e-06),
}


@pytest.mark.parametrize("eta", PROBIT_TABLE)
def test_probit_matches_high_precision_values(eta):
    log_p, score, curvature = PROBIT_TABLE[eta]
    at = np.array([eta])
    np.testing.assert_allclose(probit.log_p(at), log_p, rtol=1e-13)
    np.testing.assert_allclose(probit.score(at), score, rtol=1e-13)
    np.testing.assert_allclose(probit.curvature(at), curvature, rtol=5e-12)


def test_logistic_matches_its_formulas():
    eta = np.linspace(-30, 30, 121)
    np.testing.assert_allclose(logistic.log_p(eta), np.log(special.expit(eta)), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(logistic.score(eta), 1 - special.expit(eta), atol=1e-15)
    np.testing.assert_allclose(logistic.probability(eta), stats.logistic.cdf(eta))
    np.testing.assert_allclose(probit.probability(eta), stats.norm.cdf(eta))


@pytest.mark.parametrize("likelihood", LIKELIHOODS.values(), ids=LIKELIHOODS)
def test_finite_and_in_range_far_out(likelihood):
    log_p, score, curvature = likelihood.log_p(ETA), likelihood.score(ETA), likelihood.curvature(ETA)
    assert np.isfinite(np.stack([log_p, score, curvature])).all()
    assert (log_p <= 0).all()
    assert (np.diff(log_p) >= 0).all()
    assert (score >= 0).all()
    assert (np.diff(score) <= 1e-12).all()
    assert (curvature >= 0).all()
    assert (curvature <= 1).all()


@pytest.mark.parametrize("likelihood", LIKELIHOODS.values(), ids=LIKELIHOODS)
def test_derivatives_match_finite_differences(likelihood):
    eta = np.linspace(-40, 8, 97)
    h = 1e-5
    slope = (likelihood.log_p(eta + h) - likelihood.log_p(eta - h)) / (2 * h)
    np.testing.assert_allclose(likelihood.score(eta), slope, rtol=1e-6, atol=1e-9)
    bend = -(likelihood.score(eta + h) - likelihood.score(eta - h)) / (2 * h)
    np.testing.assert_allclose(likelihood.curvature(eta), bend, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("likelihood", LIKELIHOODS.values(), ids=LIKELIHOODS)
def test_compiled_kernel_is_the_same_function(likelihood):
    score, log_p = ETA.copy(), np.empty(ETA.size)
    {"logistic": logistic_rows, "probit": probit_rows}[likelihood.name](score, log_p)
    np.testing.assert_allclose(log_p, likelihood.log_p(ETA), rtol=2e-12, atol=1e-300)
    np.testing.assert_allclose(score, likelihood.score(ETA), rtol=2e-12, atol=1e-300)


def test_unknown_likelihood_names_the_choices():
    with pytest.raises(ValueError, match=r"likelihood='cloglog' is unknown; choose one of 'logistic', 'probit'"):
        check_likelihood("cloglog")
