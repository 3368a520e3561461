import numpy as np
import pytest

import bayescore as bc
from bayescore.diagnostics.certificate.flat import without_moments
from bayescore.numerics.psis import WeightedColumns, tail_k


def test_pareto_tails_are_told_from_short_ones_on_either_side():
    """4,000 draws: k-hat has an sd of about 0.1, so that 0.35 is 3.5 of them, in 4 coordinates."""
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.standard_cauchy(4000), -np.abs(rng.standard_t(2, 4000)), rng.normal(size=(4000, 2))])
    found = tail_k(x)
    np.testing.assert_allclose(found[:2], [1.0, 0.5], atol=0.35)
    assert (found[2:] == -np.inf).all()
    assert (tail_k(rng.exponential(size=(4000, 20))) < 0.5).all()


@pytest.mark.parametrize("prob", [0.03, 0.5, 0.975])
def test_weights_change_a_quantile_by_what_they_say_within_the_stated_error(prob):
    """exp(t x) turns N(0, 1) into N(t, 1); squared standardised errors over 200 sets average 1, their sd is 0.1."""
    rng, t = np.random.default_rng(1), 0.2
    x = rng.normal(size=(2000, 200))
    found = []
    for column in x.T:
        w = np.exp(t * column)
        change, error = WeightedColumns(column[:, None], w / w.sum()).change(prob)
        found.append((change[0] - t) / error[0])
    assert 0.6 < np.mean(np.square(found)) < 1.6
    change, error = WeightedColumns(x, np.full(2000, 1 / 2000)).change(prob)
    np.testing.assert_allclose(change, 0.0, atol=1e-12)
    np.testing.assert_allclose(error, 0.0, atol=1e-12)


def test_tails_at_the_limit_are_told_where_prior_and_labels_make_them():
    """Student t with two degrees of freedom has no sd; its k-hat is above 0.5 half of the time.

    Missed: 2% of 200, so that 10 are beyond four sds. Controls: normal and exponential draws, at most 10 of 200.
    """
    rng = np.random.default_rng(0)
    t, light = tail_k(np.abs(rng.standard_t(2, (4000, 200)))), tail_k(rng.exponential(size=(4000, 200)))
    heavy = bc.priors.StudentT(2.0)
    assert without_moments(t, 4000, heavy, separated=True).sum() >= 188
    assert without_moments(t, 4000, heavy, separated=False).sum() >= 160
    assert without_moments(t, 4000, None, separated=True).sum() >= 160
    assert without_moments(light, 4000, None, separated=True).sum() <= 10
    assert without_moments(light, 4000, bc.priors.Laplace(0.0, 1.0), separated=True).sum() == 0


def test_a_tail_that_one_chain_has_is_no_tail_and_a_prior_with_a_variance_leaves_one():
    """An excursion of 40 of 1,000 draws of one chain in four; a Cauchy tail is in all of them."""
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(4, 1000, 2))
    draws[:, :, 1] = rng.standard_cauchy((4, 1000))
    draws[2, 300:340, 0] = 3.0 + np.abs(rng.standard_cauchy(40))
    k = tail_k(draws)
    assert tail_k(draws.reshape(-1, 2))[0] > 0.5
    assert k[0] == -np.inf
    assert k[1] > 0.6
    for prior, lost in ((bc.priors.Cauchy(), [False, True]), (bc.priors.StudentT(5.0), [False, False])):
        assert without_moments(k, 4000, prior, separated=True).tolist() == lost
