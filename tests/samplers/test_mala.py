import math

import numpy as np
import pytest

from bayescore.models.newton import find_map
from bayescore.models.posterior import posterior
from bayescore.models.priors import Normal
from bayescore.samplers import mala
from bayescore.samplers.run import run_chains
from tests.conftest import make_rows


def target_of(link="logistic"):
    rows = make_rows()
    return posterior(rows, link, Normal(0, 2)), find_map(rows, link, Normal(0, 2))


def test_step_satisfies_detailed_balance():
    """pi(a) q(a -> b) min(1, r) = pi(b) q(b -> a) min(1, 1/r), with q written out from the definition."""
    target, mode = target_of()
    arguments, factor = target.arguments(), np.linalg.cholesky(mode.covariance)
    covariance, epsilon = factor @ factor.T, 0.9
    here = mala.init(mode.beta + 0.4 * mode.sd, arguments)
    rng = np.random.default_rng(0)

    def log_q(a, b):
        gap = b.theta - a.theta - 0.5 * epsilon**2 * covariance @ a.gradient
        return -0.5 * gap @ np.linalg.solve(covariance, gap) / epsilon**2

    for _ in range(20):
        noise = rng.standard_normal(3)
        there, probability = mala.step(noise, 0.0, here, math.log(epsilon), factor, arguments)
        ratio = there.value - here.value + log_q(there, here) - log_q(here, there)
        assert probability == pytest.approx(min(1.0, math.exp(ratio)), rel=1e-9)
        stay, _ = mala.step(noise, 1.0 - 1e-12, here, math.log(epsilon), factor, arguments)
        assert (stay.theta == (here if probability < 1 else there).theta).all()
        here = there


def test_a_proposal_without_density_is_rejected():
    target, mode = target_of()
    state = mala.init(mode.beta, target.arguments())
    far, probability = mala.step(np.full(3, 1e200), 0.5, state, 300.0, np.eye(3), target.arguments())
    assert probability == 0.0
    assert (far.theta == state.theta).all()


def test_step_size_adapts_to_the_target_acceptance():
    target, mode = target_of("probit")
    drawn = chains(target, mode, cores=2, draws=2000, tune=500)
    assert drawn.acceptance_rate.mean() == pytest.approx(mala.TARGET, abs=0.05)
    assert (np.exp(drawn.tuning) > 0.5).all()


def chains(target, mode, *, cores, draws=300, tune=100, seed=5, sampler=mala):
    return run_chains(
        sampler,
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
