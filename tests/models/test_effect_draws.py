"""Effects drawn given the rest have the moments of brute force."""

import numpy as np
import pytest

from bayescore.families.family import check_family
from bayescore.models.groups.effects import effects_given
from bayescore.models.groups.marginal import CollapsedTarget, nodes_at
from tests.models.grouped_rows import PRIORS, brute_force, grouped

SIZE = 4000


@pytest.mark.parametrize(("sigma", "n"), [(1.5, 300), (8.0, 150)])
@pytest.mark.parametrize("family", ["logistic", "probit", "cloglog"])
def test_effects_given_the_rest_are_exact(family, sigma, n):
    """Stratified uniforms leave no noise: means to 0.01 sd, sds to 1%. Control: nodes' own normal density fails.

    At sigma = 8 most groups of five rows have one label, so that their effects are like cut normal ones.
    """
    n_groups = 30
    rows, _ = grouped(n, n_groups, family, intercept=-2.0, sigma=sigma)  # few rows, few successes: skewed
    target = CollapsedTarget.of(rows, check_family(family), PRIORS, n_groups)
    assert (target.rules.step > 0.0).any() or sigma < 2.0
    theta = target.point.theta
    uniforms = np.repeat((np.arange(SIZE)[:, None] + 0.5) / SIZE, n_groups, axis=1)
    at, terms = nodes_at(np.tile(theta, (SIZE, 1)), target.arguments())
    u = effects_given(terms, at, uniforms)
    _, mean, sd = brute_force(rows, family, theta[:-1], theta[-1], n_groups)
    assert np.abs((u.mean(axis=0) - mean) / sd).max() < 0.01
    assert np.abs(u.std(axis=0) / sd - 1.0).max() < 0.01
    middle = np.abs((np.median(u, axis=0) - mean) / sd)  # of a normal density it would be the mean
    assert middle.max() > 0.03
