"""The marginal posterior of rows in groups: values, gradients, mode and effects against brute force."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import optimize

import bayescore as bc
from bayescore.families.family import check_family
from bayescore.models.groups.marginal import CollapsedTarget, collapsed_density
from bayescore.models.groups.marginal_mode import marginal_mode
from bayescore.models.groups.rows import sums_over_rows
from bayescore.models.posterior import prior_part
from bayescore.numerics.elementary import normal_nodes
from bayescore.priors.groups import HalfNormal, HalfStudentT, check_group_prior, log_sigma_terms
from benchmarks.sources.generated import LEVELS, SIGMA, SLOPES, Generated
from tests.models.grouped_rows import PRIORS, brute_force, grouped

LINKS = ("logistic", "probit")
PRIORS_OF_COUNTS = bc.priors.Normal(0.0, 10.0), HalfNormal(2.0)


def prior(theta):
    return prior_part(theta[:-1], PRIORS[0]).value + log_sigma_terms(theta[-1], *PRIORS[1].table)[0]


@pytest.mark.parametrize("family", LINKS)
@pytest.mark.parametrize(("n", "n_groups", "intercept", "sigma"), [(3000, 40, -0.5, 1.0), (1500, 200, -2.5, 0.5)])
def test_value_and_gradient_are_those_of_brute_force(family, n, n_groups, intercept, sigma):
    """Nine nodes: differences of values to 0.01 nats, gradients to 0.03 sds; also far from the mode."""
    rows, _ = grouped(n, n_groups, family, intercept=intercept, sigma=sigma)
    target = CollapsedTarget.of(rows, check_family(family), PRIORS, n_groups)
    arguments, L = target.arguments(), target.factor
    rng, gap = np.random.default_rng(1), []
    for _ in range(6):
        theta = target.point.theta + 1.5 * L @ rng.standard_normal(len(L))
        gradient = np.empty(len(theta))
        value = collapsed_density(theta, gradient, arguments)
        gap.append(value - prior(theta) - brute_force(rows, family, theta[:-1], theta[-1], n_groups)[0])
        fine = arguments._replace(**dict(zip(("nodes", "log_weights"), normal_nodes(61), strict=True)))
        exact = np.empty(len(theta))
        collapsed_density(theta, exact, fine)
        assert np.abs(L.T @ (gradient - exact)).max() < 0.03
    assert np.abs(gap).max() < 0.03
    assert np.ptp(gap) < 0.02


@pytest.mark.parametrize("family", LINKS)
def test_the_mode_is_that_of_a_general_optimiser_and_effects_those_of_brute_force(family):
    n_groups = 40
    rows, _ = grouped(2000, n_groups, family)
    look, passes = sums_over_rows(rows, check_family(family), n_groups), []

    def counted(beta, nodes):
        passes.append(1)
        return look(beta, nodes)

    point = marginal_mode(counted, np.array([0.0, 0.0, 0.0, -0.7]), PRIORS, n_groups, tolerance=1e-4)
    assert len(passes) <= 10
    target = CollapsedTarget.of(rows, check_family(family), PRIORS, n_groups)

    def minus(theta):
        gradient = np.empty(len(theta))
        value = collapsed_density(theta, gradient, target.arguments())
        return -value, -gradient

    found = optimize.minimize(minus, point.theta + 0.3, jac=True, method="BFGS").x
    sd = np.sqrt(np.diagonal(target.factor @ target.factor.T))
    assert np.abs((found - point.theta) / sd).max() < 0.01
    _, mean, spread = brute_force(rows, family, point.beta, point.log_sigma, n_groups)
    assert np.abs((point.effects.mean[:-1] - mean) / spread).max() < 1e-3
    assert np.abs(np.sqrt(point.effects.variance[:-1]) / spread - 1.0).max() < 3e-3


@pytest.mark.parametrize("offset", [3.0, 6.0])
def test_the_mode_is_found_where_offsets_stand_far_from_rare_labels(offset):
    """Newton steps of the effects alone overshoot there: from eta = 3 to where labels are one in fifty, or fewer."""
    rows, _ = grouped(20000, 40, intercept=-4.0)
    target = CollapsedTarget.of(replace(rows, offset=np.full(len(rows), offset)), check_family("logistic"), PRIORS, 40)
    gradient = np.empty(len(target.point.theta))
    collapsed_density(target.point.theta, gradient, target.arguments())
    assert np.abs(target.factor.T @ gradient).max() < 0.05
    assert target.point.beta[0] == pytest.approx(-4.0 - offset, abs=1.0)


@pytest.mark.slow
def test_the_mode_is_found_of_a_coreset_of_many_groups_whose_labels_are_rare():
    """Pseudo-rows of groups of 2,000 rows, 3% positive: steps of beta and all effects from 0 ran off to -4,000."""
    rows, asked = Generated(600_000, 300), {"method": "multilevel", "intercept": True, "random_state": 0}
    core = bc.build_coreset(rows, progressbar=False, **asked)
    target = CollapsedTarget.of(core, check_family("logistic"), PRIORS, 300)
    gradient = np.empty(len(target.point.theta))
    collapsed_density(target.point.theta, gradient, target.arguments())
    assert np.abs(target.factor.T @ gradient).max() < 0.05
    truth, sd = [LEVELS[1], *SLOPES, np.log(SIGMA)], np.sqrt(np.diagonal(target.factor @ target.factor.T))
    assert np.abs((target.point.theta - truth) / sd).max() < 5.0  # of one seed: no chance is left


def test_the_hessian_is_that_of_finite_differences():
    rows, _ = grouped(3000, 60)
    target = CollapsedTarget.of(rows, check_family("logistic"), PRIORS, 60)
    theta, L, arguments = target.point.theta, target.factor, target.arguments()
    hessian = np.empty((4, 4))
    for i in range(4):
        move, up, down = np.eye(4)[i] * 1e-4, np.empty(4), np.empty(4)
        collapsed_density(theta + move, up, arguments)
        collapsed_density(theta - move, down, arguments)
        hessian[i] = (down - up) / 2e-4
    assert np.abs(L.T @ hessian @ L - np.eye(4)).max() < 0.05


@pytest.mark.parametrize("given", [HalfStudentT(3.0, 2.5), HalfNormal(0.7)])
def test_group_priors_are_densities_of_log_sigma(given):
    grid = np.linspace(-15.0, 12.0, 20001)
    density = np.exp([log_sigma_terms(x, *given.table)[0] for x in grid])
    assert np.trapezoid(density, grid) == pytest.approx(1.0, abs=1e-5)
    value, slope, curvature = log_sigma_terms(0.3, *given.table)
    up, down = (log_sigma_terms(0.3 + h, *given.table) for h in (1e-5, -1e-5))
    assert slope == pytest.approx((up[0] - down[0]) / 2e-5, rel=1e-6)
    assert -curvature == pytest.approx((up[1] - down[1]) / 2e-5, rel=1e-6)
    assert np.isfinite(value)


def test_group_priors_are_checked():
    assert check_group_prior(None) == HalfStudentT(3.0, 2.5)
    with pytest.raises(TypeError, match="group_prior=2"):
        check_group_prior(2)
    with pytest.raises(ValueError, match="sigma"):
        HalfNormal(-1.0)


def test_the_mode_is_found_where_a_newton_step_comes_to_rates_beyond_all_numbers():
    rng, n_groups = np.random.default_rng(0), 50
    x, group = rng.normal(size=5000), rng.integers(0, 50, 5000)
    effects = rng.normal(size=n_groups)
    frame = pd.DataFrame({"x": x, "g": group, "k": rng.poisson(np.exp(6.0 + 1.5 * x + effects[group]))})
    core = bc.all_rows(frame, formula="k ~ x + (1 | g)", family="poisson", progressbar=False)
    target = CollapsedTarget.of(core, check_family("poisson"), PRIORS_OF_COUNTS, n_groups)
    assert target.point.theta[:2] == pytest.approx([6.0 + effects.mean(), 1.5], abs=0.5)
    assert np.corrcoef(target.point.effects.mean[:-1], effects)[0, 1] > 0.99
