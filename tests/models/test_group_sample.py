"""The density of a sample of groups beside that of all, at draws of the posterior."""

import numpy as np
import pytest
from numba.core.errors import TypingError

from bayescore.families.family import check_family
from bayescore.models.groups.effects import summarise_effects
from bayescore.models.groups.marginal import (
    MAX_DENSITY_ERROR,
    CollapsedTarget,
    SampledArguments,
    SampledGroups,
    densities,
    sampled_density,
)
from tests.models.grouped_rows import PRIORS, grouped

N_GROUPS = 1000


@pytest.fixture(scope="module", params=["logistic", "probit"])
def target(request):
    rows, _ = grouped(8000, N_GROUPS, request.param)
    return CollapsedTarget.of(rows, check_family(request.param), PRIORS, N_GROUPS)


@pytest.fixture(scope="module")
def theta(target):
    normals = np.random.default_rng(3).standard_normal((60, len(target.factor)))
    return target.point.theta + normals @ target.factor.T


def test_a_sample_with_the_quadratic_of_all_is_the_density_of_all(target, theta):
    chosen, whole = SampledGroups.of(target, 250), SampledGroups.of(target, N_GROUPS)
    assert (chosen.n_sampled, whole.n_sampled) == (250, N_GROUPS)
    gap = densities(theta, chosen.density)[0] - densities(theta, whole.density)[0]
    gap -= gap.mean()
    assert np.abs(gap).max() < MAX_DENSITY_ERROR
    likelihoods = summarise_effects(theta, target.arguments()).log_likelihood
    assert chosen.error(theta, target.log_densities(theta, likelihoods)) == pytest.approx(gap.std(), abs=1e-4)
    # without what is left of all groups the sample is another density
    rest = chosen.rest._replace(
        gradient=0.0 * chosen.rest.gradient, precision=0.0 * chosen.rest.precision, third=0.0 * chosen.rest.third
    )
    wrong = (
        densities(theta, (sampled_density, SampledArguments.of(target.kernel, chosen.arguments, rest)))[0]
        - densities(theta, whole.density)[0]
    )
    assert np.abs(wrong - wrong.mean()).max() > 10.0 * MAX_DENSITY_ERROR


def test_gradients_are_those_of_values_and_of_all_groups_at_the_mode(target, theta):
    chosen, whole = SampledGroups.of(target, 250), SampledGroups.of(target, N_GROUPS)
    mode = target.point.theta[None]
    own, exact = densities(mode, chosen.density)[1], densities(mode, whole.density)[1]
    assert np.abs((own - exact) @ target.factor).max() < (1e-3 if chosen.rest.third.size else 1e-8)
    step = 1e-3 * target.factor[:, -1]
    ends = [densities(theta[:5] + sign * step, chosen.density)[0] for sign in (1, -1)]
    slopes = densities(theta[:5], chosen.density)[1] @ step
    np.testing.assert_allclose((ends[0] - ends[1]) / 2.0, slopes, rtol=1e-3, atol=1e-6)


def test_points_may_be_in_any_order_of_memory(target, theta):
    some = SampledGroups.of(target, 250).density
    found, expected = densities(np.asfortranarray(theta), some), densities(theta, some)
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])
    with pytest.raises(TypingError, match="a density takes contiguous arrays of float64"):
        some[0](np.asfortranarray(theta)[0], np.empty(theta.shape[1]), some[1])


def test_a_cubic_serves_small_groups_of_large_effects():
    rows, _ = grouped(2 * N_GROUPS, N_GROUPS, sigma=2.5)
    target = CollapsedTarget.of(rows, check_family("logistic"), PRIORS, N_GROUPS)
    normals = np.random.default_rng(3).standard_normal((60, len(target.factor)))
    theta = target.point.theta + normals @ target.factor.T
    chosen, whole = SampledGroups.of(target, 250), SampledGroups.of(target, N_GROUPS)
    assert chosen.rest.third.shape == 3 * (len(target.factor),)
    exact = densities(theta, whole.density)[0]
    cubic = densities(theta, chosen.density)[0] - exact
    straight = chosen.rest._replace(third=0.0 * chosen.rest.third)
    quadratic = (
        densities(theta, (sampled_density, SampledArguments.of(target.kernel, chosen.arguments, straight)))[0] - exact
    )
    assert cubic.std() < 0.25 * quadratic.std()
    step = 1e-3 * target.factor[:, -1]
    ends = [densities(theta[:5] + sign * step, chosen.density)[0] for sign in (1, -1)]
    slopes = densities(theta[:5], chosen.density)[1] @ step
    np.testing.assert_allclose((ends[0] - ends[1]) / 2.0, slopes, rtol=1e-3, atol=1e-6)


def test_a_summary_of_effects_is_that_of_their_moments_and_draws(target, theta):
    found = summarise_effects(theta, target.arguments())
    np.testing.assert_allclose(found.draws.mean(axis=0), found.mean, atol=0.1)
    ratio = found.draws.std(axis=0) / found.sd
    assert ratio.min() > 0.9
    assert ratio.max() < 1.1
