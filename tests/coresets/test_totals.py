"""Totals: the shares of all rows add up to them, group by group."""

import numpy as np
import pytest

from bayescore.coresets.calibration.pilot import PosteriorScale, sums_at
from bayescore.coresets.calibration.totals import CURVATURE, LEVEL, MAX_FORMS, MORE_FORMS, Totals
from bayescore.data.opened import Opened
from bayescore.data.sources import as_source
from bayescore.models.likelihoods import LIKELIHOODS
from bayescore.models.newton import find_mode
from bayescore.models.posterior import likelihood_terms, posterior
from bayescore.models.priors import Normal
from bayescore.types import WeightedData

N, D = 900, 4


def problem(link):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N, D))
    y = np.where(X[:, 0] + rng.logistic(size=N) > 0, 1, -1).astype(np.int8)
    rows = WeightedData(X, y, rng.uniform(0.5, 2.0, N), np.arange(N))
    likelihood = LIKELIHOODS[link]
    mode = find_mode(posterior(rows, likelihood, Normal(0.0, 4.0)).terms, np.zeros(D))
    white = PosteriorScale(likelihood, mode.beta, mode.factor)
    return rows, white, likelihood_terms(mode.beta, rows.X, rows.weights, likelihood, rows.y)


@pytest.mark.parametrize("link", LIKELIHOODS)
def test_the_shares_of_all_rows_add_up_to_the_totals(link):
    rows, white, part = problem(link)
    totals = Totals.at(white, part, N, np.random.default_rng(0))
    values = totals.values(sums_at(Opened(as_source(rows)), white).pull)
    for name, share, value in zip(values._fields, totals.shares(rows), values, strict=True):
        if value is not None:
            np.testing.assert_allclose(share.sum(axis=1), value, rtol=1e-8, atol=1e-8, err_msg=name)
    few = totals.shares(rows.take(slice(0, 800)))  # negative control
    assert np.abs(few.marginals.sum(axis=1) - values.marginals).max() > 0.05


def test_sizes_of_the_groups_and_what_they_count():
    _, white, part = problem("logistic")
    for n_rows, n_forms in ((30, D + MORE_FORMS), (10**6, D + MORE_FORMS)):
        assert Totals.at(white, part, n_rows, np.random.default_rng(0)).directions.shape == (D, D + n_forms)
    wide = PosteriorScale(white.likelihood, np.zeros(60), np.eye(60))
    assert Totals.at(wide, part, 10**6, np.random.default_rng(0)).directions.shape == (60, 60 + MAX_FORMS)
    totals = Totals.at(white, part, N, np.random.default_rng(0))
    values = totals.values(np.zeros(D))
    # the prior is weak, so that the likelihood's curvature is nearly that of the posterior
    np.testing.assert_allclose(values.marginals, CURVATURE, rtol=0.02)
    assert abs(values.level[0]) == pytest.approx(LEVEL)


def test_stacked_totals_are_taken_apart_again():
    _, white, part = problem("probit")
    values = Totals.at(white, part, 60, np.random.default_rng(0)).values(np.arange(4.0))
    for groups in (values, values._replace(draws=np.arange(7.0))):
        for mine, theirs in zip(groups, groups.split(groups.stacked()), strict=True):
            np.testing.assert_array_equal(mine, theirs)
