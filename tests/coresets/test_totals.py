"""Totals: the shares of all rows add up to them, group by group."""

import numpy as np
import pytest

from bayescore.coresets.calibration import CURVATURE, LEVEL, Totals, rows_for_hessian
from bayescore.families.family import FAMILIES
from bayescore.models.laplace import LaplaceApproximation, find_mode
from bayescore.models.posterior import likelihood_terms, posterior
from bayescore.priors import Normal
from bayescore.types import WeightedData

N, D = 900, 4


def problem(family):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N, D))
    y = np.where(X[:, 0] + rng.logistic(size=N) > 0, 1, -1).astype(np.int8)
    rows = WeightedData(X, y, rng.uniform(0.5, 2.0, N), np.arange(N))
    family = FAMILIES[family]
    mode = find_mode(posterior(rows, family, Normal(0.0, 4.0)).terms, np.zeros(D))
    white = LaplaceApproximation(family, mode.beta, mode.factor)
    return rows, white, likelihood_terms(mode.beta, rows, family)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_shares_of_all_rows_add_up_to_the_totals(family):
    rows, white, part = problem(family)
    totals = Totals.at(white, part, N)
    values = totals.values(white.pulls(rows).sum(axis=1))
    for name, share, value in zip(values._fields, totals.shares(rows), values, strict=True):
        if value is not None:
            np.testing.assert_allclose(share.sum(axis=1), value, rtol=1e-8, atol=1e-8, err_msg=name)
    few = totals.shares(rows.take(slice(0, 800)))  # negative control
    assert np.abs(few.marginals.sum(axis=1) - values.marginals).max() > 0.05


def test_sizes_of_the_groups_and_what_they_count():
    rows, white, part = problem("logistic")
    least = rows_for_hessian(D)
    assert least == 33  # of 10 + 3 x 4 + 1 totals
    for n_rows, n_forms in ((least - 1, 0), (least, D * (D + 1) // 2)):
        totals = Totals.at(white, part, n_rows)
        assert len(totals.shares(rows).forms) == len(totals.values(np.zeros(D)).forms) == n_forms
    wide = LaplaceApproximation(white.family, np.zeros(200), np.eye(200))
    assert not Totals.at(wide, part, 10**6).whole  # the fit would be too dear
    totals = Totals.at(white, part, N)
    values = totals.values(np.zeros(D))
    # the prior is weak, so that the likelihood's curvature is nearly that of the posterior
    np.testing.assert_allclose(values.marginals, CURVATURE, rtol=0.02)
    assert abs(values.level[0]) == pytest.approx(LEVEL)
    whitened = white.factor.T @ part.precision @ white.factor
    assert np.linalg.norm(values.forms) == pytest.approx(CURVATURE * np.linalg.norm(whitened))


def test_stacked_totals_are_taken_apart_again():
    _, white, part = problem("probit")
    values = Totals.at(white, part, 60).values(np.arange(4.0))
    for groups in (values, values._replace(draws=np.arange(7.0))):
        for mine, theirs in zip(groups, groups.split(groups.stacked()), strict=True):
            np.testing.assert_array_equal(mine, theirs)
