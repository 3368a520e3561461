"""What `benchmarks.accuracy.fit_sets` says of two posteriors: an error beyond chance only where there is one."""

import numpy as np
import pytest

from benchmarks.accuracy.fit_sets import beside

K, SHAPE = 30, (4, 1000)


def draws(seed, scale=1.0, shift=0.0):
    return shift + scale * np.random.default_rng([51, seed]).normal(size=(*SHAPE, K))


def test_equal_posteriors_differ_by_chance():
    """20 pairs, each beyond with a probability of 1% by means and by sds: 3 or more of 40 have one of 0.8%."""
    found = [beside(draws(2 * seed), draws(2 * seed + 1)) for seed in range(20)]
    beyond = sum(each["mean"] > each["mean_chance"] for each in found) + sum(
        each["sd"] > each["sd_chance"] for each in found
    )
    assert beyond < 3
    assert all(0.25 * each["mean_chance"] < each["mean"] for each in found)


@pytest.mark.parametrize(("other", "kind"), [({"shift": 0.2}, "mean"), ({"scale": 1.2}, "sd")])
def test_other_posteriors_are_told(other, kind):
    found = beside(draws(1, **other), draws(2))
    assert found[kind] > found[f"{kind}_chance"]


def test_resampled_draws_tell_no_more_than_their_effective_number():
    few = np.random.default_rng(3).normal(size=(200, K))
    again = few[np.random.default_rng(4).integers(0, 200, SHAPE)]
    blind, told = beside(again, draws(5)), beside(again, draws(5), ess=200.0)
    assert blind["mean"] > blind["mean_chance"]  # the control
    assert told["mean"] < told["mean_chance"]
    assert told["sd"] < told["sd_chance"]
