"""Simulation-based calibration of the whole way, and the test of ranks that it rests on.

Of each setting 14 p-values (2 coresets, 7 quantities), which are exact, are compared with 1e-6. Settings and
quantities: see `tests.whole_way`.
"""

import itertools

import numpy as np
import pytest

from tests.uniform_ranks import counts_below, inside, limits, p_value, p_values
from tests.whole_way import DRAWS, KINDS, PLACES, RIGHT, WRONG, replications

FAMILYWISE_ALPHA = 1e-6
REPLICATIONS = 70


@pytest.mark.parametrize(("n_ranks", "n_places"), [(5, 4), (3, 7)])
def test_p_values_are_exact(n_ranks, n_places):
    """Against all samples of a few ranks: as many have a p-value of at most p as it says."""
    every = [np.array(ranks) for ranks in itertools.product(range(n_places), repeat=n_ranks)]
    found = np.array([p_value(ranks, n_places) for ranks in every])
    for p in np.unique(found.round(9)):
        assert np.mean(found <= p + 1e-8) == pytest.approx(p, abs=1e-8)
    for gamma in (0.02, 0.2, 0.5):
        low, high = limits(gamma, n_ranks, n_places)
        within = [bool(np.all((low <= c) & (c <= high))) for c in (counts_below(ranks, n_places) for ranks in every)]
        assert inside(low, high, n_ranks) == pytest.approx(np.mean(within))


@pytest.mark.parametrize("place", [0, 99])
def test_ranks_at_one_end_have_no_chance(place):
    assert p_value(np.full(500, place), 100) < 1e-9  # binomial tails that underflow


@pytest.mark.statistical(rate=1.4e-5)
@pytest.mark.slow
@pytest.mark.parametrize(("family", "prior"), [("logistic", "N(0, 1)"), ("probit", "Student-t(3)")])
def test_the_whole_way_is_calibrated_and_uniform_coresets_are_not(family, prior):
    """Of 70 of these data sets, drawn again from 100, the controls' p-values were below 1e-8 in each of 40 draws."""
    found = replications(family, prior, REPLICATIONS)
    ranks = {kind: np.array([each.ranks[place] for each in found]) for place, kind in enumerate(KINDS)}
    sizes = np.array([each.ess for each in found])
    assert np.quantile(sizes[:, :2], 0.05) > 3 * DRAWS  # so that those taken are independent
    # some 4% are refused: more than 16 of 70 in less than 1e-8
    assert (np.sum([each.refused for each in found], axis=0) <= 16).all()
    for kind in RIGHT:
        assert p_values(ranks[kind], PLACES).min() > FAMILYWISE_ALPHA
    half, control = (p_values(ranks[kind], PLACES) for kind in WRONG)
    assert half.min() < FAMILYWISE_ALPHA
    assert control.max() < FAMILYWISE_ALPHA
