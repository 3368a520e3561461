"""Calibrated factors against general solvers and the conditions that a minimum meets."""

import numpy as np
import pytest
from scipy import optimize

from bayescore.coresets.calibration import fit_weights


def problem(q=6, m=40, far=0.2, seed=9):
    rng = np.random.default_rng(seed)
    shares = rng.normal(size=(q, m))
    return shares, shares.sum(axis=1) + far * rng.normal(size=q) * np.sqrt(m)


@pytest.mark.parametrize("far", [0.1, 3.0])
def test_the_minimum_is_that_of_a_general_solver(far):
    shares, totals = problem(far=far)
    ridge = 1e-2
    fit = fit_weights(shares, totals, ridge)
    stacked = np.vstack([shares, np.sqrt(ridge) * np.eye(shares.shape[1])])
    target = np.concatenate([totals, np.full(shares.shape[1], np.sqrt(ridge))])
    known, _ = optimize.nnls(stacked, target)
    np.testing.assert_allclose(fit.factors, known, atol=1e-6)
    assert (fit.factors >= 0).all()
    assert (fit.factors == 0).any() == (far > 1)  # only then some are not needed
    np.testing.assert_allclose(fit.residual, totals - shares @ fit.factors)


def test_totals_that_are_met_already_change_nothing():
    shares, _ = problem()
    fit = fit_weights(shares, shares.sum(axis=1))
    np.testing.assert_array_equal(fit.factors, 1.0)
    assert fit.n_steps == 0


def test_a_small_ridge_meets_the_totals_by_the_least_change():
    shares, totals = problem(far=0.05)
    fit = fit_weights(shares, totals, 1e-7)  # below 1e-8 the first decrement may be one of rounding
    least = 1.0 + np.linalg.pinv(shares) @ (totals - shares.sum(axis=1))  # no bound is met
    assert least.min() > 0
    np.testing.assert_allclose(fit.factors, least, atol=1e-6)
    assert np.abs(fit.residual).max() < 1e-6


def test_steps_that_run_out_leave_a_residual_that_says_so():
    shares, totals = problem(far=3.0)
    assert np.abs(fit_weights(shares, totals, max_steps=1).residual).max() > 1e-3
