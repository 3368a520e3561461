import numpy as np
import pytest
from scipy import special, stats

from bayescore.families.family import FAMILIES, check_family
from bayescore.families.logistic import logistic_upper
from bayescore.families.probit import probit_upper

logistic, probit = FAMILIES["logistic"], FAMILIES["probit"]

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

# the same of log Phi and phi / Phi for the kernel; at 0.5449521356173603 its logarithm changes octave
KERNEL_TABLE = {
    -10000.0: (-50000010.12927891, 10000.000099999997),
    -19.564655998626037: (-195.28314102717476, 19.61550493625439),
    -5.0: (-15.064998393988725, 5.186503967125842),
    -1e-08: (-0.693147188538791, 0.7978845671690631),
    -1e-300: (-0.6931471805599453, 0.7978845608028654),
    0.0: (-0.6931471805599453, 0.7978845608028654),
    1e-300: (-0.6931471805599453, 0.7978845608028654),
    0.125: (-0.598313068912425, 0.7200475955025254),
    0.5449521356173603: (-0.34657359027997264, 0.4863380318932708),
    0.5449521356173604: (-0.3465735902799726, 0.48633803189327074),
    1.0: (-0.17275377902344988, 0.2875999709391784),
    8.0: (-6.220960574271786e-16, 5.052271083536895e-15),
    19.304163707837997: (-2.4775481895473956e-83, 4.79546587829925e-82),
    37.25: (-5.297888779927269e-304, 1.974883779891633e-302),
    40.0: (0.0, 0.0),
    10000.0: (0.0, 0.0),
}


@pytest.mark.parametrize("eta", PROBIT_TABLE)
def test_probit_matches_high_precision_values(eta):
    log_p, score, curvature = PROBIT_TABLE[eta]
    at = np.array([eta])
    np.testing.assert_allclose(probit.log_p(at, 1), log_p, rtol=1e-13)
    np.testing.assert_allclose(probit.score(at, 1), score, rtol=1e-13)
    np.testing.assert_allclose(probit.curvature(at, 1), curvature, rtol=5e-12)


def test_logistic_matches_its_formulas():
    eta = np.linspace(-30, 30, 121)
    np.testing.assert_allclose(logistic.log_p(eta, 1), np.log(special.expit(eta)), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(logistic.score(eta, 1), 1 - special.expit(eta), atol=1e-15)
    np.testing.assert_allclose(logistic.mean(eta), stats.logistic.cdf(eta))
    np.testing.assert_allclose(probit.mean(eta), stats.norm.cdf(eta))


@pytest.mark.parametrize("family", [own for own in FAMILIES.values() if not own.counts], ids=lambda own: own.name)
def test_finite_and_in_range_far_out(family):
    """Of the side +1, whose curvature is at most 1; of loglog the other side, mirrored."""
    side = -1 if family.name == "loglog" else 1
    eta = side * ETA
    log_p, score, curvature = family.log_p(eta, side), side * family.score(eta, side), family.curvature(eta, side)
    assert np.isfinite(np.stack([log_p, score, curvature])).all()
    assert (log_p <= 0).all()
    assert (np.diff(log_p) >= 0).all()
    assert (score >= 0).all()
    assert (np.diff(score) <= 1e-12).all()
    assert (curvature >= 0).all()
    assert (curvature <= 1).all()


def test_probit_kernel_matches_high_precision_values():
    score = np.array(list(KERNEL_TABLE))
    log_p = np.empty(score.size)
    probit_upper(score, log_p)
    np.testing.assert_allclose(np.stack([log_p, score], axis=1), list(KERNEL_TABLE.values()), rtol=5e-15)


def test_probit_kernel_at_the_ends():
    score = np.array([38.5, np.inf, -1e200, -np.inf, np.nan])
    log_p = np.empty(score.size)
    probit_upper(score, log_p)
    np.testing.assert_allclose(log_p, [0.0, 0.0, -np.inf, -np.inf, np.nan], atol=1e-322)
    np.testing.assert_allclose(score, [5.4e-323, 0.0, 1e200, np.inf, np.nan], atol=1e-322)


@pytest.mark.parametrize("kernel", [logistic_upper, probit_upper])
def test_a_row_gives_the_same_bits_in_any_block(kernel):
    eta = np.random.default_rng(0).normal(0.0, 10.0, 2500)
    score, log_p = eta.copy(), np.empty(eta.size)
    kernel(score, log_p)
    for start in range(0, eta.size, 7):
        part = eta[start : start + 7].copy()
        part_log_p = np.empty(part.size)
        kernel(part, part_log_p)
        np.testing.assert_array_equal(part, score[start : start + 7])
        np.testing.assert_array_equal(part_log_p, log_p[start : start + 7])
    kernel(np.empty(0), np.empty(0))


def test_unknown_likelihood_names_the_choices():
    with pytest.raises(ValueError, match=r"family='cauchit' is unknown; choose one of 'logistic', 'probit'"):
        check_family("cauchit")
