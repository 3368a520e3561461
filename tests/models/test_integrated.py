"""Effects of one factor integrated out: the density beside dense quadrature, its gradient, and draws of effects."""

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.families.family import check_family
from bayescore.models.groups import integrated
from bayescore.models.groups.integrated import (
    MAX_METROPOLIS_STEPS,
    IntegratedArguments,
    IntegratedTarget,
    LinearMoments,
    group_posteriors,
    integrated_density,
    metropolis_steps,
)
from bayescore.models.groups.marginal import densities
from bayescore.models.predictor import multipliers
from bayescore.priors import Normal
from bayescore.priors.groups import HalfStudentT
from bayescore.samplers.groups import JointFrame
from tests.coresets.celled import celled

TERMS = {"(1 + x | g)": 2, "(1 + x || g)": 2, "(0 + x | g)": 1}


def rows_of(terms, family="logistic", n_groups=12, per_group=15):
    """Return all rows of a made table, with weights and an offset; no row has a group beyond the first ten."""
    rng = np.random.Generator(np.random.PCG64(5))
    n = n_groups * per_group
    g, x, z = np.arange(n) % n_groups, rng.normal(size=n), rng.normal(size=n)
    u = rng.normal(size=(n_groups, 2)) @ [[0.9, 0.3], [0.0, 0.5]]
    eta = 0.2 + 0.5 * x - 0.2 * z + u[g, 0] + u[g, 1] * x
    y = rng.poisson(np.exp(eta)) if family == "poisson" else (rng.logistic(size=n) < eta).astype(int)
    frame = pd.DataFrame({"y": y, "x": x, "z": z, "g": g, "o": 0.1 * rng.normal(size=n), "w": rng.uniform(0.5, 2, n)})
    formula = f"y ~ x + z + offset(o) + {terms}"
    return bc.all_rows(frame, formula=formula, family=family, weights="w", progressbar=False)


def arguments_of(core, family="logistic", n_nodes=11):
    frame = JointFrame.of(core, check_family(family), Normal(0.0, 3.0), HalfStudentT())
    (theta, width), u = frame.integrated_start
    return frame, theta, width, IntegratedArguments.of(frame.arguments, theta[: core.n_features], u, n_nodes)


def dense(core, frame, theta, family):
    """Return the log-likelihood at a point, each group's effects integrated over a lattice of the model's effects."""
    (factor,), p = core.groups, core.n_features
    ((sd, R),) = frame.sds(theta[None])
    L = np.linalg.cholesky(sd[0][:, None] * R[0] * sd[0])
    t = np.arange(-7.0, 7.01, 0.05)
    points = np.stack(np.meshgrid(*[t] * len(L), indexing="ij"), axis=-1).reshape(-1, len(L))
    log_prior = -0.5 * (points**2).sum(axis=1) + len(L) * np.log(0.05 / np.sqrt(2.0 * np.pi))
    eta, z, total = core.X @ theta[:p] + core.offset, multipliers(core.X, core.design, factor), 0.0
    for g in range(len(factor)):
        rows = core.group[:, 0] == g
        along = eta[rows, None] + z[rows] @ (points @ L.T).T
        values = check_family(family).log_p(along, core.y[rows, None].astype(float))
        total += np.logaddexp.reduce(core.weights[rows] @ values + log_prior)
    return total


def log_likelihood(theta, a):
    """Return log densities at points less those of the priors."""
    nothing = LinearMoments.unknown(len(a.origin), theta.shape[1])  # without rows effects are elsewhere
    prior = a._replace(weights=0.0 * a.weights, linear=nothing)
    return densities(theta, (integrated_density, a))[0] - densities(theta, (integrated_density, prior))[0]


@pytest.mark.parametrize("family", ["logistic", "poisson"])
@pytest.mark.parametrize("terms", TERMS)
def test_the_density_is_that_of_dense_quadrature(terms, family):
    core = rows_of(terms, family)
    frame, theta, width, a = arguments_of(core, family)
    assert len(a.origin) == TERMS[terms]
    rng = np.random.default_rng(0)
    points = theta + np.vstack([np.zeros(len(theta)), rng.normal(size=(3, len(theta))) * width])
    exact = [dense(core, frame, each, family) for each in points]
    np.testing.assert_allclose(log_likelihood(points, a), exact, atol=1e-4)
    # nodes that follow the mean and the covariance of effects, and fewer
    followed = a.with_linear_nodes(LinearMoments.of(theta, np.diag(width), a), 9)
    np.testing.assert_allclose(log_likelihood(points, followed), exact, atol=2e-3)
    assert np.abs(log_likelihood(points, a.with_linear_nodes(followed.linear, 1)) - exact).max() > 0.05  # a control


@pytest.mark.parametrize("family", ["logistic", "poisson"])
@pytest.mark.parametrize("terms", TERMS)
def test_gradients_are_those_of_values(terms, family):
    core = rows_of(terms, family)
    _, theta, width, a = arguments_of(core, family, n_nodes=15)
    theta = theta + 0.5 * width
    for some in (
        a,
        a.of_groups(np.arange(2, 7), np.full(5, 3.0)),
        a.with_linear_nodes(LinearMoments.of(theta, np.diag(width), a), 15),
    ):
        slope = densities(theta[None], (integrated_density, some))[1][0]
        ends = theta + 1e-4 * np.stack([np.diag(width), -np.diag(width)])
        values = [densities(each, (integrated_density, some))[0] for each in ends]
        np.testing.assert_allclose(slope * width, (values[0] - values[1]) / 2e-4, atol=1e-4)


def test_pseudo_rows_without_columns_have_the_same_density():
    """Rows whose x = M' z are read by their group's slopes; with one more row that is not, by columns."""
    frame = celled("logistic", n_a=8, n_b=3, nested=True, median=60, slope=0.5)
    told = {"formula": "y ~ w + x + z + (1 + x | a)", "method": "multilevel", "random_state": 0, "progressbar": False}
    core = bc.build_coreset(frame, **told)
    _, theta, _, a = arguments_of(core)
    assert a.columns.shape[1] < 0.5 * len(core)
    some = a.of_groups(np.arange(8), np.ones(8))
    assert log_likelihood(theta[None], some) == pytest.approx(log_likelihood(theta[None], a), rel=1e-12)
    by_columns = bc.all_rows(frame, formula="y ~ w + x + z + (1 + x | a)", progressbar=False)
    assert arguments_of(by_columns)[3].columns.shape[1] == len(by_columns)
    parts = [a.of_groups(np.arange(k, k + 4), np.ones(4)) for k in (0, 4)]
    none = a.of_groups(np.arange(0), np.empty(0))
    values = [float(log_likelihood(theta[None], each)[0]) for each in (*parts, none, a)]
    assert values[0] + values[1] - values[2] == pytest.approx(values[3], rel=1e-12)


@pytest.mark.statistical(rate=2e-5)
@pytest.mark.parametrize("terms", ["(1 + x | g)", "(0 + x | g)"])
def test_effects_have_the_moments_of_quadrature(terms):
    """At one point, 12,000 draws: three moments of 24 effects, each beyond 5.3 Monte Carlo errors once in 1e7."""
    core = rows_of(terms)
    frame, theta, width, a = arguments_of(core)
    factor = np.diag(0.1 * width)
    a, n = a.with_linear_nodes(LinearMoments.of(theta, factor, a), 11), 12_000
    at, q = group_posteriors(theta, a), len(a.origin)
    T = frame.covariances(theta[None, -frame.n_sds :], frame.arguments.across)[0][0]
    sd = np.sqrt(np.einsum("gqq->gq", at.covariance))
    nodes = (at.nodes - at.mean[:, :, None]) / sd[:, :, None]
    exact = np.stack([np.einsum("gqk,gk->gq", nodes**power, at.shares) for power in (1, 2, 3)])
    gaps = []
    for steps in (4, 0):
        target, u = IntegratedTarget(a, theta, factor, np.full(12, steps)), np.empty((n, 12, q))
        assert np.isfinite(list(target.effects(np.tile(theta, (n, 1)), np.eye(q), np.random.default_rng(1), u))).all()
        z = (np.linalg.solve(T, u.transpose(1, 2, 0)) - at.mean[:, :, None]) / sd[:, :, None]
        powers = np.stack([z, z**2, z**3])
        gaps.append(np.abs((powers.mean(axis=3) - exact) / (powers.std(axis=3) / np.sqrt(n))).max())
    assert gaps[0] < 5.3 < gaps[1]  # a control: proposals alone are symmetric


def test_steps_are_as_many_as_groups_need():
    """Of narrow proposals more are needed, and none suffice where a group's effects are nothing like normal."""
    core = rows_of("(1 + x | g)", per_group=60)
    _, theta, width, a = arguments_of(core)
    linear = LinearMoments.of(theta, np.diag(width), a)
    at = group_posteriors(theta, a)
    usual, narrow = metropolis_steps(at, linear.scale), metropolis_steps(at, 0.7 * linear.scale)
    assert (usual <= narrow).all()
    assert usual.max() <= 3 < narrow.min()
    assert (metropolis_steps(at, 0.2 * linear.scale) > MAX_METROPOLIS_STEPS).all()


def test_a_group_of_too_many_rows_is_left_to_the_joint_sampler_at_once(monkeypatch):
    frame = arguments_of(rows_of("(1 + x | g)"))[0]
    monkeypatch.setattr(integrated, "find_mode", None)  # so that seeking the mode raises
    monkeypatch.setattr(integrated, "_MOST_PAIRS", 15 * 7**2 - 1)
    assert IntegratedTarget.of(frame.arguments, *frame.integrated_start, Normal(0.0, 3.0)) is None
    monkeypatch.setattr(integrated, "_MOST_PAIRS", 15 * 7**2)
    with pytest.raises(TypeError):
        IntegratedTarget.of(frame.arguments, *frame.integrated_start, Normal(0.0, 3.0))
