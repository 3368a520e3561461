"""Effects drawn given the rest have the moments of brute force."""

import numpy as np
import pytest

from bayescore.models.collapsed import nodes_at
from bayescore.models.collapsed_target import CollapsedTarget
from bayescore.models.effect_draws import effects_given
from bayescore.models.families import check_family
from tests.models.grouped_rows import PRIORS, brute_force, grouped


@pytest.mark.parametrize("family", ["logistic", "probit"])
def test_effects_given_the_rest_are_exact(family):
    """Stratified uniforms leave no noise: means to 0.01 sd, sds to 1%. Control: nodes' own normal density fails."""
    n_groups, size = 30, 4000
    rows, _ = grouped(300, n_groups, family, intercept=-2.0, sigma=1.5)  # few rows, few successes: skewed
    target = CollapsedTarget.of(rows, check_family(family), PRIORS, n_groups)
    theta = target.point.theta
    uniforms = np.repeat((np.arange(size)[:, None] + 0.5) / size, n_groups, axis=1)
    center, scale, values = (own[:, :-1] for own in nodes_at(theta[None], target.arguments()))
    u = effects_given(np.repeat(values, size, axis=0), center, scale, uniforms)
    _, mean, sd = brute_force(rows, family, theta[:-1], theta[-1], n_groups)
    assert np.abs((u.mean(axis=0) - mean) / sd).max() < 0.01
    assert np.abs(u.std(axis=0) / sd - 1.0).max() < 0.01
    middle = np.abs((np.median(u, axis=0) - mean) / sd)  # of a normal density it would be the mean
    assert middle.max() > 0.03
