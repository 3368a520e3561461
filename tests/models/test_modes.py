"""`find_map` of rows in groups, against a fine numerical optimum, and what `find_map` and `find_mle` refuse."""

import numpy as np
import pandas as pd
import pytest
from scipy import optimize

import bayescore as bc
from bayescore.models.posterior import prior_part
from bayescore.priors.groups import log_sigma_terms
from bayescore.validation import DataError
from tests.models.grouped_rows import PRIORS, brute_force, grouped

NORMAL, HALF_T = PRIORS


FORMULA = "y ~ a + b + (1 | g)"


def table_of(rows):
    table = pd.DataFrame({"a": rows.X[:, 1], "b": rows.X[:, 2], "g": rows.group[:, 0], "y": rows.y > 0})
    return table.assign(h=table["g"] % 3)


def core_of(n, n_groups, family, formula=FORMULA, **options):
    """Return rows of groups as `all_rows` has them, and as `brute_force` takes them."""
    rows, _ = grouped(n, n_groups, family, **options)
    return bc.all_rows(table_of(rows), formula=formula, family=family, progressbar=False), rows


@pytest.mark.slow
@pytest.mark.parametrize("family", ["logistic", "probit"])
@pytest.mark.parametrize(("n", "n_groups", "sigma"), [(200, 20, 1.0), (100, 5, 0.01), (90, 30, 1.0)])
def test_the_mode_of_grouped_rows_is_the_optimum_of_the_marginal_posterior(family, n, n_groups, sigma):
    """The trapezium rule over each effect, 501 points, and a search without gradients; also where sigma is near 0."""
    core, rows = core_of(n, n_groups, family, sigma=sigma)
    mode = bc.find_map(core, prior=bc.priors.Normal(0, 4))

    def minus(theta):
        own = prior_part(theta[:-1], NORMAL).value + log_sigma_terms(theta[-1], *HALF_T.table)[0]
        return -own - brute_force(rows, family, theta[:-1], theta[-1], n_groups, points=501)[0]

    def move(z):
        return minus(mode.beta + mode.factor @ z)

    found = optimize.minimize(move, np.full(4, 0.3), method="Nelder-Mead", options={"xatol": 1e-4, "fatol": 1e-9})
    assert found.success
    assert np.abs(found.x).max() < 5e-3
    h = 0.05
    curvature = [(move(h * e) - 2.0 * move(0.0 * e) + move(-h * e)) / h**2 for e in np.eye(4)]
    np.testing.assert_allclose(curvature, 1.0, atol=0.02)
    assert mode.names == ("Intercept", "a", "b", "log sigma_g")


@pytest.mark.parametrize("b", [1.0, 0.2, 0.05])
def test_the_kink_of_a_laplace_prior_is_rounded_off(b):
    """The mode is where the smoothed density has no slope, also where the kink holds a coefficient at 0."""
    core, rows = core_of(400, 20, "logistic", sigma=1.0)
    prior = bc.priors.Laplace(0.0, b)
    mode = bc.find_map(core, prior=prior)

    def value(theta):
        own = prior_part(theta[:-1], prior).value + log_sigma_terms(theta[-1], *HALF_T.table)[0]
        return own + brute_force(rows, "logistic", theta[:-1], theta[-1], 20)[0]

    best = value(mode.beta)
    for step in 0.05 * mode.sd * np.concatenate([np.eye(4), -np.eye(4)]):
        assert value(mode.beta + step) < best


def test_the_prior_of_the_sd_counts():
    core, _ = core_of(200, 20, "logistic")
    loose, tight = (bc.find_map(core, group_prior=bc.priors.HalfNormal(sd)).beta[-1] for sd in (2.0, 0.1))
    assert tight < loose - 0.5


def test_a_coreset_has_the_mode_of_all_rows():
    core, rows = core_of(2000, 30, "logistic")
    table = table_of(rows)
    small = bc.build_coreset(table, formula=FORMULA, method="multilevel", random_state=0, progressbar=False)
    mode = bc.find_map(core, prior=bc.priors.Normal(0, 4))
    assert np.abs((bc.find_map(small, prior=bc.priors.Normal(0, 4)).beta - mode.beta) / mode.sd).max() < 0.3
    assert len(small) < len(core)


@pytest.mark.parametrize("terms", ["(1 + a | g)", "(1 | g) + (1 | h)"])
def test_slopes_and_several_factors_have_no_joint_mode(terms):
    core, _ = core_of(200, 20, "logistic", f"y ~ a + b + {terms}")
    with pytest.raises(DataError, match=r"group terms .* find_map .* no joint mode: .* rises without bound"):
        bc.find_map(core)
    with pytest.raises(DataError, match=r"no joint mode: .* use find_map"):
        bc.find_mle(core)


def test_arguments_that_do_not_fit_the_rows_are_named():
    core, rows = core_of(200, 20, "logistic")
    with pytest.raises(DataError, match="no joint mode"):
        bc.find_mle(core)
    with pytest.raises(DataError, match="whose effects find_map leaves out"):
        bc.find_map(rows, "logistic")
    with pytest.raises(ValueError, match="density in closed form"):
        bc.find_map(core, prior=bc.priors.Horseshoe())
    with pytest.raises(TypeError, match="group_prior=2"):
        bc.find_map(core, group_prior=2)
    flat, _ = core_of(200, 20, "logistic", "y ~ a + b")
    with pytest.raises(DataError, match="no groups: leave it out"):
        bc.find_map(flat, group_prior=bc.priors.HalfNormal(1))
    assert bc.find_map(flat).names == bc.find_mle(flat).names == ("Intercept", "a", "b")
