"""Langevin steps that leave the normal part exact, and chains that end when their effective size is reached."""

import math

import numpy as np
import pytest
from scipy import special, stats

import bayescore as bc
from bayescore.compiled import StoredDensity, jit
from bayescore.families.family import FAMILIES
from bayescore.models.posterior import DensityArguments, log_density, posterior, sparse_columns, sparse_log_density
from bayescore.numerics.chains import ess
from bayescore.priors import Normal
from bayescore.samplers import langevin
from bayescore.samplers.adaptive import compiled_density
from bayescore.samplers.langevin import Dense
from bayescore.samplers.method import Segment, mode_and_factor
from bayescore.types import NO_OFFSET
from tests.conftest import make_rows
from tests.samplers.exactness import P_VALUE, rank_p_values
from tests.samplers.test_mala import wall

TOLD = {"sampler": "langevin", "random_seed": 1, "progressbar": False}


@jit
def _normal(x, gradient, _data):
    for d in range(x.size):
        gradient[d] = -x[d]
    return -langevin.half_square(x)


@jit
def _skewed(x, gradient, _data):
    """The density of log Gamma(3): exp(3 x - exp(x))."""
    gradient[0] = 3.0 - math.exp(x[0])
    return 3.0 * x[0] - math.exp(x[0])


MEAN, SD = 0.922784335098467, 0.628473  # of log Gamma(3): digamma(3), sqrt(trigamma(3))


@jit
def _long_tailed(x, gradient, _data):
    """The density of Student's t with three degrees of freedom."""
    gradient[0] = -4.0 * x[0] / (3.0 + x[0] * x[0])
    return -2.0 * math.log1p(x[0] * x[0] / 3.0)


def run(own, start, n, step, *, thin=1, iteration=-1, rays=(), levels=(0, 0)):
    size = len(start)
    segment = Segment(np.empty((n, size)), np.empty(n), np.empty(n), thin, iteration)
    rays = np.array(rays, dtype=float).reshape(-1, size)
    target = StoredDensity.of(own, ()), rays, levels
    ended = langevin.advance(np.random.default_rng(0), start, step, target, segment)
    return segment, ended


def test_a_quarter_turn_draws_independently_from_a_normal_density():
    """With h = pi / 2 a draw is the momentum itself, and all are accepted."""
    step = langevin.StepSize(math.log(math.pi / 2), 1, math.inf)
    segment, (last, log_h, mean) = run(_normal, np.full(3, 9.0), 50, step)
    np.testing.assert_allclose(segment.draws, np.random.default_rng(0).standard_normal((50, 1, 3))[:, 0], atol=1e-14)
    np.testing.assert_allclose(segment.acceptance, 1.0)
    np.testing.assert_array_equal(last, segment.draws[-1])
    assert log_h == pytest.approx(mean)
    adapted, (_, log_h, _) = run(_normal, np.zeros(3), 200, step._replace(log_h=-2.0), iteration=0)
    assert log_h == pytest.approx(math.log(math.pi / 2))
    assert (np.abs(adapted.acceptance - 1.0) < 1e-12).all()


@pytest.mark.statistical(rate=1e-6)
def test_stretches_keep_a_long_tail_and_leave_it_at_once():
    """Kolmogorov and Smirnov's test of every tenth draw. Control: a vector that is no unit vector."""
    step = langevin.StepSize(-1.0, 1, math.inf)
    for ray, good in ((1.0, True), (2.0, False)):
        draws = run(_long_tailed, np.array([1e4]), 40_000, step, thin=4, rays=[[ray]])[0].draws[:, 0]
        assert (stats.kstest(draws[100::10], stats.t(3.0).cdf).pvalue > 1e-6) == good
        assert (np.abs(draws[100:]) < 1e3).all()
    still = run(_long_tailed, np.array([1e4]), 1000, step, thin=4)[0].draws[:, 0]
    assert (np.abs(still) > 9e3).all()  # what steps alone do


def test_only_coefficients_that_depend_on_a_prior_of_long_tails_are_stretched():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=4000), rng.random(4000) < 0.002])
    rows = bc.all_rows(X, X[:, 0] + rng.logistic(size=4000) > 0, progressbar=False)
    for prior, places in ((bc.priors.Cauchy(0.0, 2.5), [1]), (Normal(0.0, 2.5), [])):
        mode, factor = mode_and_factor(posterior(rows, "logistic", prior))
        assert langevin.long_tailed_coefficients(mode, factor, prior, 2).tolist() == places


@pytest.mark.parametrize("clip_norm", [math.inf, 0.5])
def test_a_step_keeps_volume_and_is_its_own_way_back(clip_norm):
    """Whatever the force: here the gradient of a likelihood, cut or not."""
    target = posterior(make_rows(), "logistic", Normal(0, 2))
    own, data = compiled_density(target)

    def step(at):
        x, p, pull, h = at[:3].copy(), at[3:].copy(), np.empty(3), 0.8
        own(x, pull, data)
        langevin.force(pull, x, clip_norm)
        langevin.kick(p, pull, h)
        langevin.rotate(x, p, h)
        own(x, pull, data)
        langevin.force(pull, x, clip_norm)
        langevin.kick(p, pull, h)
        return np.concatenate([x, p])

    here = np.random.default_rng(0).standard_normal(6) * 0.3
    turned = np.repeat([1.0, -1.0], 3)
    np.testing.assert_allclose(turned * step(turned * step(here)), here, atol=1e-9)
    size = 1e-6
    jacobian = [(step(here + move) - step(here - move)) / (2.0 * size) for move in size * np.eye(6)]
    assert np.linalg.det(np.array(jacobian)) == pytest.approx(1.0, abs=1e-5)


@jit
def _wrong(normals, uniforms, h):
    """Without the second half kick in the energy."""
    x, pull, p, y, moved = np.zeros(1), np.empty(1), np.empty(1), np.empty(1), np.empty(1)
    draws = np.empty(len(uniforms))
    for i in range(len(uniforms)):
        value = _skewed(x, pull, ())
        langevin.force(pull, x, math.inf)
        p[:] = normals[i]
        y[:] = x
        before = value - langevin.half_square(p)
        langevin.kick(p, pull, h)
        langevin.rotate(y, p, h)
        if uniforms[i] < langevin.acceptance(_skewed(y, moved, ()) - langevin.half_square(p) - before):
            x[:] = y
        draws[i] = x[0]
    return draws


def off(draws):
    """Return by how many standard errors the mean and the sd are off, the larger one."""
    draws = draws.reshape(1, -1)
    size = float(ess(draws[..., None], "mean")[0])
    spread = (draws - draws.mean()) ** 2
    error = spread.std() / math.sqrt(float(ess(spread[..., None], "mean")[0]))
    assert size > 5000
    return max(abs(draws.mean() - MEAN) * math.sqrt(size) / draws.std(), abs(spread.mean() - SD**2) / error)


@pytest.mark.statistical(rate=1e-6)
@pytest.mark.parametrize("steps", [1, 2])
def test_the_kernel_draws_from_a_skewed_density_and_a_wrong_energy_does_not(steps):
    """Mean and sd within 5.5 standard errors, 4e-8 each; of a kernel without a half kick they must be off."""
    segment, _ = run(_skewed, np.zeros(1), 40_000, langevin.StepSize(math.log(0.6), steps, 2.0))
    assert off(segment.draws) < 5.5
    rng = np.random.default_rng(0)
    assert off(_wrong(rng.standard_normal((40_000, 1)), rng.random(40_000), 0.6)) > 5.5


def _skewed_levels(x, gradient, turn):
    """Three levels less a tenth of the rest r are standardised draws of `_skewed`; `turn` says whose part is whose."""
    r, total, gradient[3] = x[3], -0.5 * x[3] * x[3], -x[3]
    for g in range(3):
        at = MEAN + SD * (x[g] - 0.1 * r)
        gradient[g], part = SD * (3.0 - math.exp(at)), 3.0 * at - math.exp(at)
        gradient[3] -= 0.1 * gradient[g]
        gradient[4 + (g + turn) % 3] = part
        total += part
    return total


_skewed_levels = jit(_skewed_levels)


@jit
def _levels(x, gradient, _data):
    return _skewed_levels(x, gradient, 0)


@jit
def _exchanged_levels(x, gradient, _data):
    return _skewed_levels(x, gradient, 1)


@pytest.mark.statistical(rate=3e-7)
def test_levels_that_move_by_themselves_keep_the_density():
    """Means and sds of three levels within 5.5 standard errors; levels accepted by each other's part are too wide."""

    def levels_of(own):
        segment, _ = run(own, np.zeros(4), 40_000, langevin.StepSize(math.log(0.6), 2, 10.0), levels=(3, 1))
        return MEAN + SD * (segment.draws[:, :3] - 0.1 * segment.draws[:, 3:])

    assert max(map(off, levels_of(_levels).T)) < 5.5
    assert (levels_of(_exchanged_levels).std(axis=0) > 1.3 * SD).all()


def test_a_point_without_density_is_rejected():
    segment, (last, *_) = run(_skewed, np.array([1.0]), 20, langevin.StepSize(math.log(1.5), 1, math.inf))
    assert np.isfinite(segment.draws).all()
    assert langevin.acceptance(math.nan) == langevin.acceptance(-math.inf) == 0.0
    assert np.isfinite(last).all()


class Ranked:
    """The kernel around a fixed point, as `rank_p_values` takes it, with the rows' weights times `factor`."""

    def __init__(self, factor=1.0):
        self.factor = factor

    def prepare(self, Z, weights, _prior):
        prior = Normal((0.5, 0.0, 0.0), (1.0, 1.0, 2.0)).parts(3)
        columns, sides = np.ascontiguousarray(Z.T), np.ones(len(Z))
        data = DensityArguments(columns, sides, self.factor * weights, NO_OFFSET, FAMILIES["logistic"], prior)
        return Dense.of(log_density, data, np.array([0.5, 0.0, 0.0]), np.diag([0.4, 0.3, 0.4]))

    def advance(self, rng, beta, _tuning, frame, segment):
        target = frame.target, frame.rays, frame.level_shape
        langevin.advance(rng, frame.x(beta), langevin.StepSize(-1.0, 2, 3.0), target, segment)
        segment.draws[:] = frame.theta(segment.draws)


@pytest.mark.statistical(rate=3e-6)
def test_ranks_are_uniform():
    """Simulation-based calibration, with twice the weights as control."""
    counts = np.arange(30) % 5 * 4 + 1
    assert rank_p_values(Ranked(), "logistic", counts).min() > P_VALUE
    assert rank_p_values(Ranked(2.0), "logistic", counts, n_sims=300).min() < P_VALUE


def rare_rows(n=3000):
    rng = np.random.default_rng(3)
    X = np.column_stack([np.ones(n), (rng.random((n, 30)) < 0.04) / 0.2 - 0.2])
    return bc.all_rows(X, np.where(rng.random(n) < 0.4, 1, -1), progressbar=False)


def test_rare_columns_have_the_same_density():
    target = posterior(rare_rows(), "probit", Normal(0, 2))
    own, data = compiled_density(target)
    assert own is sparse_log_density
    assert len(data.columns.rows) < 0.06 * target.rows.X.size
    beta, one, two = np.linspace(-0.3, 0.3, 31), np.empty(31), np.empty(31)
    arguments = target.arguments()
    assert sparse_log_density(beta, one, data) == pytest.approx(log_density(beta, two, arguments), rel=1e-12)
    np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-9 * np.abs(two).max())
    assert sparse_columns(make_rows().X) is None
    assert compiled_density(posterior(make_rows(), "probit", Normal()))[0] is log_density


def test_draws_go_on_until_they_are_worth_what_was_asked():
    """Beside a wall, with the number of draws that was asked for."""
    idata = bc.sample(wall(), prior=Normal(0, 10), draws=500, ess=1200, **TOLD)
    draws, stats = idata.posterior["beta"].values, idata.sample_stats
    assert draws.shape == (4, 500, 4)
    assert ess(draws, "bulk").min() >= 1200
    assert ess(draws, "tail").min() >= 480
    assert int(stats["n_steps"].values[0, 0]) > 1
    target = posterior(wall(), "logistic", Normal(0, 10))
    for place in ((0, 0), (3, 499), (1, 250)):
        assert stats["lp"].values[place] == pytest.approx(target.log_density(draws[place])[0], rel=1e-10)


def test_many_coefficients_are_not_thinned_for_the_least_of_their_rates():
    """Of 124 the least rate of a window of warm-up asks for twice the transitions that are needed."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(2500, 124))
    core = bc.all_rows(X, rng.random(2500) < special.expit(0.1 * X.sum(axis=1)), progressbar=False)
    idata = bc.sample(core, prior=Normal(0, 1), **TOLD)
    steps = int(idata.sample_stats["n_steps"].values[0, 0])
    assert ess(idata.posterior["beta"].values, "bulk").min() >= 1000
    assert steps <= 3  # of one transition
    few = bc.sample(core, prior=Normal(0, 1), draws=50, ess=80, **TOLD)  # too few to see later that they are short
    once = bc.sample(core, prior=Normal(0, 1), draws=50, thin=1, **TOLD)
    assert few.sample_stats["n_steps"].values[0, 0] > once.sample_stats["n_steps"].values[0, 0]


def test_more_draws_than_usual_are_worth_more():
    """Else whoever asks for four times the draws gets no smaller Monte Carlo error."""
    idata = bc.sample(wall(), prior=Normal(0, 10), draws=2000, **TOLD)
    assert ess(idata.posterior["beta"].values, "bulk").min() >= 2000


def test_the_cap_ends_the_chains_with_a_word():
    with pytest.warns(UserWarning, match=r"the cap of max_gradients=6,000 is met at an effective .*ess=700: raise"):
        bc.sample(wall(), prior=Normal(0, 10), draws=500, chains=2, ess=700, max_gradients=6000, **TOLD)


def test_more_than_the_draws_can_be_worth_is_refused():
    with pytest.raises(ValueError, match=r"ess=3900 is more than 0.8 of the 4,000 draws kept: ask for draws=1950"):
        bc.sample(make_rows(), "logistic", ess=3900, **TOLD)


@pytest.mark.parametrize("tune", [0, 40, 400])
def test_draws_depend_on_the_seed_alone(tune):
    one, two, other = (
        bc.sample(make_rows(), "probit", draws=150, tune=tune, chains=3, cores=cores, **{**TOLD, "random_seed": seed})
        for cores, seed in ((1, 3), (3, 3), (1, 4))
    )
    for group, name in (("posterior", "beta"), ("sample_stats", "lp"), ("sample_stats", "step_size")):
        np.testing.assert_array_equal(one[group][name], two[group][name])
    assert not (one.posterior["beta"].values == other.posterior["beta"].values).any()
