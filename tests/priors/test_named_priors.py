"""Priors by name, and priors through JSON."""

import numpy as np
import pytest
from scipy import stats

import bayescore as bc
from bayescore.models.posterior import posterior, prior_part, width_precision
from bayescore.models.pymc import model as pymc_model
from bayescore.priors import Cauchy, Horseshoe, Laplace, Normal, StudentT
from bayescore.priors.by_name import ByName, prior_from_dict, prior_of
from bayescore.priors.laplace import LAPLACE_ROUNDING

NAMES = ("Intercept", "age", "device[phone]", "device[tablet]", "age:device[phone]", "age:device[tablet]")
GIVEN = {"Intercept": StudentT(3, 0.5, 2.5), "device": Laplace(0.0, 0.7), "age": Normal(0.0, 0.1), "*": Cauchy(0, 2)}
EACH = [stats.t(3, 0.5, 2.5), stats.norm(0, 0.1), *[stats.laplace(0, 0.7)] * 2, *[stats.cauchy(0, 2)] * 2]
BETA = np.array([0.3, -0.2, 0.9, -1.4, 0.05, 2.0])


def density(beta):
    return sum(own.logpdf(b) for own, b in zip(EACH, beta, strict=True))


def test_kinks_are_rounded_off_where_a_mode_is_sought():
    part = prior_part(BETA, prior_of(GIVEN, NAMES))
    rounded = LAPLACE_ROUNDING - np.hypot(BETA[2:4] / 0.7, LAPLACE_ROUNDING) + np.abs(BETA[2:4] / 0.7)
    assert part.value == pytest.approx(density(BETA) + rounded.sum(), rel=1e-12)


def test_a_kink_counts_by_its_variance_and_the_rest_by_its_curvature():
    prior, nothing = prior_of(GIVEN, NAMES), np.zeros((6, 6))
    width = np.diagonal(width_precision(nothing, BETA, prior))
    np.testing.assert_allclose(width[2:4], 0.5 / 0.7**2)
    np.testing.assert_allclose(width[[0, 1, 4, 5]], np.diagonal(prior_part(BETA, prior).precision)[[0, 1, 4, 5]])


def test_pymc_has_the_same_density_and_draws_from_it():
    rng = np.random.default_rng(0)
    core = bc.all_rows(rng.normal(size=(40, 2)), rng.random(40) > 0.5, intercept=True, progressbar=False)
    given = {"Intercept": StudentT(3, 0.5, 2.5), "x1": Laplace(0, 0.7), "*": Normal(0, 4)}
    model, target = pymc_model(core, given), posterior(core, "logistic", prior_of(given, core.feature_names))
    logp = model.compile_logp()
    for beta in rng.normal(size=(3, 3)):
        assert float(logp({"beta": beta})) == pytest.approx(target.log_density(beta)[0], rel=1e-10)


def sds(prior, n_features):
    ((_, _, table),) = prior.parts(n_features)
    return table[1]


def test_names_of_coefficients_count_before_those_of_terms():
    prior = prior_of({"device": Normal(0, 1), "device[tablet]": Normal(0, 2), "age:device": Normal(0, 3)}, NAMES)
    np.testing.assert_array_equal(sds(prior, 6), [4.0, 4.0, 1.0, 2.0, 3.0, 3.0])
    with pytest.raises(ValueError, match="was made for 6 coefficients, and there are 2"):
        prior.parts(2)
    first = prior_of({"*": Cauchy(0, 2), **{name: own for name, own in GIVEN.items() if name != "*"}}, NAMES)
    assert first == prior_of(GIVEN, NAMES)  # wherever "*" stands
    assert prior_of(prior, NAMES) is prior
    assert prior_of(None, NAMES) == Normal(0, 4)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"Age": Normal()}, ValueError, r"'Age' is no coefficient; they are 'Intercept', 'age', .* '\*' for those"),
        ({"age": Horseshoe()}, ValueError, r"prior\['age'\] is Horseshoe.*a prior of all coefficients; by name give"),
        ({"age": 2.0}, TypeError, r"prior\['age'\]=2.0 is not a prior"),
        ({"device": Normal(0, (1, 2))}, ValueError, "by name give numbers"),
        ([Normal()], TypeError, "is not a prior of bayescore"),
    ],
)
def test_what_is_wrong_is_named(given, error, message):
    with pytest.raises(error, match=message):
        prior_of(given, NAMES)


def test_stored_priors_that_are_none_are_refused():
    with pytest.raises(ValueError, match="prior 'Flat' is unknown; one of Normal, "):
        prior_from_dict({"kind": "Flat"})
    with pytest.raises(ValueError, match="must be positive"):
        prior_from_dict({"kind": "Normal", "sigma": -1.0})
    with pytest.raises(KeyError):
        prior_from_dict({"kind": ByName.__name__})


@pytest.mark.parametrize("others", [{}, {"Intercept": bc.priors.Normal(0, 2)}, {"*": bc.priors.StudentT(4, 0, 1)}])
def test_a_mixture_of_one_coefficient_has_a_starting_point(others):
    X = np.random.default_rng(0).normal(size=(60, 2))
    core = bc.all_rows(X, X[:, 0] > 0, intercept=True, progressbar=False)
    model = bc.model(core, prior=prior_of({"x0": bc.priors.SpikeAndSlab(), **others}, core.feature_names))
    assert model.initial_point()["beta"].tolist() == [0.0, 0.0, 0.0]
