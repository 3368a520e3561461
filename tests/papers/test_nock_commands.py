"""The commands that run the k-variates++ paper again: what they say holds, on small data."""

import numpy as np
import pytest

from bayescore.papers import spread
from benchmarks.papers.nock import bounds, ratio


@pytest.mark.parametrize(("mean", "bound", "equality"), [(0.5, True, False), (1.0, True, True), (1.5, False, False)])
def test_a_bound_is_held_from_below_and_an_equality_from_both_sides(mean, bound, equality):
    costs = list(mean + 0.01 * np.random.default_rng(0).standard_normal(100))
    assert bounds.line("", "", costs, 1.0, 1.0)["holds"] is bound
    assert bounds.line("", "", costs, 1.0, 1.0, equality=True)["holds"] is equality


def test_the_spread_is_the_largest_of_all_neighbours():
    X = 0.5 * ratio.uniform_in_ball(50, 2, np.random.default_rng([50, 2, 2]))
    other = X.copy()
    other[-1] = [1.0, 0.0]
    told = ratio.found(50, 2, 2, 1.0, 0.5)
    alone, with_corner = (spread(rows, 2, radius=1.0, samples=300, random_state=0).delta_s for rows in (X, other))
    assert told["delta_s"] >= with_corner > alone
