"""The chain loop: what a sampler is handed, in which order, and that neither cores nor chunks are seen in draws."""

import numpy as np
import pytest

from bayescore.samplers.method import run_chains


def advance(rng, theta, tuning, arguments, segment):
    """A walk of `thin` steps a draw; `tuning` collects the iterations of warm-up."""
    (calls,) = arguments
    draws, values, acceptance, thin, iteration = segment
    calls.append((iteration, len(draws)))
    for i in range(len(draws)):
        for _ in range(thin):
            theta = theta + rng.standard_normal(len(theta))
        draws[i], values[i], acceptance[i] = theta, theta.sum(), 1.0 / thin
    return theta, [*tuning, iteration] if iteration >= 0 else tuning


def run(cores=1, chunk=7, tune=20, **options):
    calls, seeds = [], np.random.SeedSequence(3).spawn(3)
    drawn = run_chains(
        advance,
        (calls,),
        np.zeros((3, 2)),
        [],
        draws=30,
        tune=tune,
        thin=4,
        cores=cores,
        seeds=seeds,
        progressbar=False,
        chunk=chunk,
        **options,
    )
    return drawn, calls


def test_draws_follow_from_seeds_alone():
    drawn, _ = run()
    for other in (run(cores=3)[0], run(chunk=1)[0], run(chunk=10**6)[0]):
        np.testing.assert_array_equal(other.theta, drawn.theta)
        np.testing.assert_array_equal(other.log_density, drawn.log_density)
    walk = np.random.default_rng(np.random.SeedSequence(3).spawn(3)[1]).standard_normal((50 * 4, 2)).cumsum(axis=0)
    np.testing.assert_allclose(drawn.theta[1], walk[20 * 4 + 3 :: 4], rtol=1e-12)  # after warm-up, each fourth


def test_warm_up_counts_transitions_and_nothing_adapts_after_it():
    drawn, calls = run()
    assert calls[:8] == [(0, 7), (28, 7), (56, 6), (-1, 7), (-1, 7), (-1, 7), (-1, 7), (-1, 2)]
    assert drawn.tuning == [[0, 28, 56]] * 3
    assert drawn.theta.shape == (3, 30, 2)
    np.testing.assert_array_equal(drawn.acceptance_rate, 0.25)
    none, calls = run(tune=0)
    assert all(iteration == -1 for iteration, _ in calls)
    assert none.tuning == [[]] * 3


def test_an_error_of_a_chain_is_raised():
    def broken(*_):
        raise ArithmeticError("no")

    with pytest.raises(ArithmeticError, match="no"):
        run_chains(
            broken,
            (),
            np.zeros((2, 1)),
            None,
            draws=5,
            tune=0,
            thin=1,
            cores=2,
            seeds=np.random.SeedSequence(1).spawn(2),
            progressbar=False,
        )
