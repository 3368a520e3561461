import math

import numpy as np
import pytest

import bayescore as bc
from bayescore.models.modes import find_map
from bayescore.models.posterior import posterior
from bayescore.numerics.chains import ess
from bayescore.priors import Normal
from bayescore.samplers import mala
from bayescore.samplers.method import Segment, run_chains
from tests.conftest import make_rows


def target_of(family="logistic"):
    rows = make_rows()
    return posterior(rows, family, Normal(0, 2)), find_map(rows, family, Normal(0, 2))


@pytest.mark.parametrize("clip_norm", [math.inf, 0.5])
def test_step_satisfies_detailed_balance(clip_norm):
    """pi(a) q(a -> b) min(1, r) = pi(b) q(b -> a) min(1, 1/r), with q written out from the definition."""
    target, mode = target_of()
    arguments, factor = target.arguments(), np.linalg.cholesky(mode.covariance)
    covariance, epsilon = factor @ factor.T, 0.9
    here = mala.init(mode.beta + 0.4 * mode.sd, arguments)
    rng, scale = np.random.default_rng(0), mala.Scale(math.log(epsilon), factor, clip_norm)

    def log_q(a, b):
        drift = factor.T @ a.gradient
        drift *= min(1.0, clip_norm / np.linalg.norm(drift))
        gap = b.theta - a.theta - 0.5 * epsilon**2 * factor @ drift
        return -0.5 * gap @ np.linalg.solve(covariance, gap) / epsilon**2

    for _ in range(20):
        noise = rng.standard_normal(3)
        there, probability = mala.step(mala.ProposalNoise(noise, 0.0), here, scale, arguments)
        ratio = there.value - here.value + log_q(there, here) - log_q(here, there)
        assert probability == pytest.approx(min(1.0, math.exp(ratio)), rel=1e-9)
        stay, _ = mala.step(mala.ProposalNoise(noise, 1.0 - 1e-12), here, scale, arguments)
        assert (stay.theta == (here if probability < 1 else there).theta).all()
        here = there


def test_a_proposal_without_density_is_rejected():
    target, mode = target_of()
    state = mala.init(mode.beta, target.arguments())
    far, probability = mala.step(
        mala.ProposalNoise(np.full(3, 1e200), 0.5), state, mala.Scale(300.0, np.eye(3)), target.arguments()
    )
    assert probability == 0.0
    assert (far.theta == state.theta).all()


def test_step_size_adapts_to_the_target_acceptance():
    target, mode = target_of("probit")
    drawn = chains(target, mode, cores=2, draws=2000, tune=500)
    assert drawn.acceptance_rate.mean() == pytest.approx(mala.TARGET_ACCEPTANCE, abs=0.05)
    assert (np.exp(drawn.tuning) > 0.5).all()


def wall():
    """Rows all but separated: one of four columns is never seen with y = -1."""
    rng = np.random.default_rng(1)
    X = np.column_stack([np.ones(400), rng.standard_normal((400, 2)), rng.random(400) < 0.1])
    y = np.where((rng.random(400) < 0.5) | (X[:, 3] > 0), 1, -1)
    return bc.all_rows(X, y)


def test_chains_leave_a_start_behind_a_wall():
    """The gradient there throws proposals far beyond the posterior; without the cut a chain never moves."""
    target = posterior(wall(), "logistic", Normal(0, 10))
    mode = find_map(wall(), "logistic", Normal(0, 10))
    start = mode.beta - np.array([0.0, 0.0, 0.0, 40.0])
    left = {}
    for clip_norm in (math.inf, 5.0):
        out, scale = Segment.empty(200, 4, thin=10), (mode.factor, target.arguments())
        end, _ = mala.advance(np.random.default_rng(0), start, 0.1, scale, out, clip_norm=clip_norm)
        left[clip_norm] = end[3] > 0.0
    assert left == {math.inf: False, 5.0: True}


def test_warm_up_finds_the_scale_of_its_draws():
    true = np.diag([1.0, 2.0, 3.0, 4.0])
    warm = np.random.default_rng(0).standard_normal((8000, 4)) @ true
    first = mala.Tuning(0.0, np.eye(4), math.inf, warm, 0.0)
    found = first.rescaled(np.eye(4))
    np.testing.assert_allclose(found.factor, true, atol=0.15)  # three standard errors of the widest
    assert found.rescaled(np.eye(4)) is found  # until there are half as many draws more
    stuck = first._replace(warm=np.zeros((20, 4))).rescaled(np.eye(4))
    np.testing.assert_allclose(stuck.factor, np.sqrt(0.8) * np.eye(4))  # 10 draws against 40


def test_draws_beside_a_wall_are_many_and_wide():
    """The slope that a wall bounds has 1.5 times the sd that the mode's curvature says."""
    settings = {"prior": Normal(0, 10), "sampler": "mala", "draws": 2000, "random_seed": 3, "progressbar": False}
    drawn = bc.sample(wall(), **settings).posterior["beta"].values
    assert drawn[..., 3].std() > 1.3 * find_map(wall(), "logistic", Normal(0, 10)).sd[3]
    assert ess(drawn, "bulk").min() > 400 < ess(drawn, "tail").min()


def chains(target, mode, *, cores, draws=300, tune=100, seed=5, sampler=mala):
    return run_chains(
        sampler.advance,
        (np.linalg.cholesky(mode.covariance), target.arguments()),
        np.tile(mode.beta, (3, 1)),
        mala.first_step_size(3),
        draws=draws,
        tune=tune,
        thin=3,
        cores=cores,
        seeds=np.random.SeedSequence(seed).spawn(3),
        progressbar=False,
    )


def test_draws_do_not_depend_on_the_number_of_threads():
    target, mode = target_of()
    one, three = (chains(target, mode, cores=cores) for cores in (1, 3))
    for name in ("theta", "log_density", "acceptance_rate", "tuning"):
        np.testing.assert_array_equal(getattr(one, name), getattr(three, name))
    assert not (one.theta == chains(target, mode, cores=1, seed=6).theta).any()


def test_log_density_is_that_of_the_draw():
    target, mode = target_of()
    drawn = chains(target, mode, cores=1)
    assert drawn.log_density[1, 7] == pytest.approx(target.log_density(drawn.theta[1, 7])[0], rel=1e-12)


def test_an_error_in_one_chain_stops_the_others():
    target, mode = target_of()

    class Broken:
        calls = 0

        @classmethod
        def advance(cls, *arguments):
            cls.calls += 1
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        chains(target, mode, cores=1, draws=100_000, sampler=Broken)
    assert Broken.calls <= 3
