"""Quadrature of effects at large sigma against brute force, and which rule a group has."""

from dataclasses import replace

import numpy as np
import pytest

from bayescore.diagnostics.certificate.nodes import core_moments
from bayescore.families.family import check_family
from bayescore.models.groups.marginal import CollapsedTarget, collapsed_density
from bayescore.models.groups.nodes import GAUSS_HERMITE_BELOW, Rules, lay_out_nodes
from bayescore.models.posterior import prior_part
from bayescore.numerics.elementary import N_NODES, normal_steps
from bayescore.priors.groups import log_sigma_terms
from tests.models.grouped_rows import PRIORS, brute_force, grouped

FAMILIES = ("logistic", "probit", "cloglog")


def target_of(n, n_groups, family, sigma):
    rows, _ = grouped(n, n_groups, family, sigma=sigma, n_features=2)
    many = np.flatnonzero(rows.group[:, 0] == 1)  # of one label, like a group of 1e6 rows
    y, weights = rows.y.copy(), rows.weights.copy()
    y[many], weights[many[0]] = -1, 1e6
    y[rows.group[:, 0] == 2] = 1
    rows = replace(rows, y=y, weights=weights)
    return rows, CollapsedTarget.of(rows, check_family(family), PRIORS, n_groups)


def gaps(target, rows, family, theta):
    """Return the error of the log density, and of the gradient against differences of values."""
    arguments, gradient, other = target.arguments(), np.empty(len(theta)), np.empty(len(theta))
    value = collapsed_density(theta, gradient, arguments)
    prior = prior_part(theta[:-1], PRIORS[0]).value + log_sigma_terms(theta[-1], *PRIORS[1].table)[0]
    truth = brute_force(rows, family, theta[:-1], theta[-1], target.n_groups, 40_001)[0]
    moves = 1e-5 * np.eye(len(theta))
    slopes = [
        collapsed_density(theta + move, other, arguments) - collapsed_density(theta - move, other, arguments)
        for move in moves
    ]
    return abs(value - prior - truth), np.abs(target.factor.T @ (np.array(slopes) / 2e-5 - gradient)).max()


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("n", "n_groups", "sigma"), [(150, 60, 5.0), (150, 30, 8.0)])
def test_values_and_gradients_are_right_where_sigma_is_large(family, n, n_groups, sigma):
    """To 1e-3 nats over all groups, also far from the mode. Control: nine nodes for all groups fail."""
    rows, target = target_of(n, n_groups, family, sigma)
    rng = np.random.default_rng(1)
    found = np.array([
        gaps(target, rows, family, target.point.theta + 1.5 * i * target.factor @ rng.standard_normal(3))
        for i in range(3)
    ])  # fmt: skip
    assert found.max(axis=0)[0] < 1e-3
    assert found.max(axis=0)[1] < 5e-3
    nine = replace(target, rules=Rules.normal(n_groups))
    assert gaps(nine, rows, family, target.point.theta)[0] > 0.05
    _, mean, sd = brute_force(rows, family, target.point.beta, target.point.log_sigma, n_groups, 40_001)
    effects = core_moments(target.point.theta[None], target.arguments())[1].effects
    assert np.abs((effects.mean[0] - mean) / sd).max() < 0.01
    assert np.abs(np.sqrt(effects.variance[0]) / sd - 1.0).max() < 0.01


@pytest.mark.parametrize("family", FAMILIES)
def test_values_are_right_in_the_far_tail_of_sigma_where_every_group_has_one_label(family):
    """Only the prior makes such integrands end. The last sigma is e^3 times that of the mode, 5 sds above it."""
    rows, _ = grouped(150, 30, family, sigma=8.0, n_features=2)
    rows = replace(rows, y=np.where(rows.group[:, 0] % 2, 1, -1).astype(np.int8))
    target = CollapsedTarget.of(rows, check_family(family), PRIORS, 30)
    for rise in (0.0, 2.0, 3.0):
        theta = target.point.theta + rise * np.array([0.0, 0.0, 1.0])
        assert gaps(target, rows, family, theta)[0] < 1e-3


def test_groups_have_more_nodes_only_where_they_need_them():
    small = CollapsedTarget.of(grouped(2000, 100, sigma=0.3)[0], check_family("logistic"), PRIORS, 100)
    assert small.point.log_sigma < np.log(GAUSS_HERMITE_BELOW)
    first = lay_out_nodes(np.exp(small.point.log_sigma), small.rules, N_NODES)[0]
    assert (np.diff(first)[:-1] == N_NODES).all()
    rows, _ = grouped(40_000, 40, sigma=2.0)  # a thousand rows a group
    large = CollapsedTarget.of(rows, check_family("logistic"), PRIORS, 40)
    assert not large.rules.step.any()
    wide = target_of(150, 30, "logistic", 8.0)[1]
    count = [np.diff(lay_out_nodes(sigma, wide.rules, N_NODES)[0])[:-1].max() for sigma in (0.5, 4.0, 8.0)]
    assert count[0] == N_NODES < count[1] < count[2]


@pytest.mark.parametrize("sd", [0.01, 1.0, 4.0, 15.0])
@pytest.mark.parametrize("family", FAMILIES)
def test_probabilities_of_new_groups_are_averages_over_any_sd(family, sd):
    mean = check_family(family).mean
    nodes, log_weights = normal_steps(0.8 / max(sd, 1.0))
    grid = np.linspace(-9.0, 9.0, 40_001)
    density = np.exp(-0.5 * grid**2)
    for eta in (-3.0, 0.0, 1.0):
        truth = density @ mean(eta + sd * grid) / density.sum()
        assert np.exp(log_weights) @ mean(eta + sd * nodes) == pytest.approx(truth, abs=1e-5)
