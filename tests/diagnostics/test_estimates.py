"""Predicted errors are the true ones, and stated errors of figures are those of many repeats."""

import numpy as np
import pytest

from bayescore.diagnostics.certificate.estimates import DrawFigures, error_families, full_figures
from bayescore.diagnostics.certificate.weigh import resample_systematically
from bayescore.numerics.moments import corrections_negligible, describe_worst, errors_negligible, risk


def normal(seed, draws=1000, D=3, rho=0.0):
    """Independent coordinates; four chains, autoregressive with `rho`."""
    e = np.random.default_rng(seed).normal(size=(4, draws // 4, D))
    for t in range(1, e.shape[1]):
        e[:, t] = rho * e[:, t - 1] + np.sqrt(1.0 - rho**2) * e[:, t]
    return e


def judged(x, *, tilt=0.0, resampled=False):
    """Draws weighted by exp(tilt x) in the first coordinate: its full posterior has mean `tilt`."""
    run, D = DrawFigures(x), x.shape[2]
    w = np.exp(tilt * run.flat[:, 0])
    w /= w.sum()
    full = full_figures(run, np.arange(len(w)), w)
    own = DrawFigures(run.flat[resample_systematically(w)].reshape(x.shape)) if resampled else DrawFigures(x.copy())
    return error_families(own, "abcdefgh"[:D], np.zeros(D, bool), full, resampled=resampled)


def test_exact_draws_carry_no_risk_and_few_draws_do():
    found = judged(normal(0))
    assert risk(found) < 1e-6
    assert errors_negligible(found)
    assert corrections_negligible(found)
    few = judged(normal(0, 60))
    assert risk(few) > 0.01
    assert 0.0 < risk(few, shrink=0.3) < 1e-3


@pytest.mark.parametrize(("tilt", "too_far"), [(0.15, False), (0.3, True), (-0.4, True)])
def test_a_shift_is_found_and_named(tilt, too_far):
    """The predicted error of the mean is -tilt within 5 of its standard errors: alarms 6e-7."""
    found = judged(normal(1), tilt=tilt)
    mean = found[0]
    assert abs(mean.error[0] + tilt) < 5 * mean.error_mcse[0] + 0.02
    assert not errors_negligible(found)
    assert not corrections_negligible(found)
    assert (risk(found) > 0.5) is too_far
    assert risk(judged(normal(1), tilt=tilt, resampled=True)) < 1e-3
    if too_far:
        assert "'a' is off by" in describe_worst(found)


@pytest.mark.filterwarnings("error")
def test_one_draw_with_all_the_weight_has_figures_without_warnings():
    found = judged(normal(0), tilt=200.0)
    assert all(np.isfinite(own.error).all() and np.isfinite(own.error_mcse).all() for own in found)
    assert risk(found) > 0.5


def all_but_one(second, n=1000):
    """Weights of which one draw has all and another the next to nothing that underflow leaves."""
    w = np.zeros(n)
    w[[3, 7]] = 1.0, second
    return w


@pytest.mark.parametrize("second", [0.0, 1e-249, 1e-40, 1e-20])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_a_weight_next_to_nothing_is_no_scale(second, scale):
    """Fourth powers of distances in sds of 1e-120 overflow; NumPy's warnings are errors here."""
    run = DrawFigures(scale * normal(0))
    full = full_figures(run, np.arange(1000), all_but_one(second))
    found = error_families(DrawFigures(run.draws.copy()), "abc", np.zeros(3, bool), full)
    assert all(np.isfinite(own.error).all() and np.isfinite(own.error_mcse).all() for own in found)
    assert risk(found) > 0.5
    if second < 1e-200:  # one draw says nothing of an sd
        np.testing.assert_allclose(full.sd, run.moments.sd)
        assert (full.log_sd_mcse > 0.4).all()


@pytest.mark.parametrize("rho", [0.0, 0.9])
def test_stated_errors_of_the_coresets_error_are_not_too_small(rho):
    """Squared standardised errors of 200 sets: at most 1.5 on average, where 1 with an sd of 0.1 would be exact.

    With rho = 0.9 the draws are worth a nineteenth: stated as if independent, their average would be above 5.
    """
    found = [judged(normal(seed, D=1, rho=rho), tilt=0.2) for seed in range(200)]
    z = np.array([[(m.error[0] + 0.2) / m.error_mcse[0], sd.error[0] / sd.error_mcse[0]] for m, sd, *_ in found])
    assert ((z**2).mean(axis=0) < 1.5).all()


def test_stated_noise_of_resampled_draws_is_theirs():
    """Weights exp(x) leave 37%; the noise of mean and sd over 300 repeats is known within 4%, and stated within 20%."""
    found = [judged(normal(seed, 2000, D=1), tilt=1.0, resampled=True) for seed in range(300)]
    moments = []
    for seed in range(300):
        flat = normal(seed, 2000, D=1)[:, :, 0].ravel()
        w = np.exp(flat)
        kept = flat[resample_systematically(w / w.sum())]
        moments.append([kept.mean() / kept.std(), np.log(kept.std())])
    stated = np.mean([[mean.noise[0], sd.noise[0]] for mean, sd, *_ in found], axis=0)
    moments = np.array(moments)
    mean_of_w = np.std(moments[:, 0] * np.exp(moments[:, 1]))
    np.testing.assert_allclose(stated, [mean_of_w, np.std(moments[:, 1])], rtol=0.2)


def test_noise_of_correlations_that_a_map_changes_is_stated():
    """Draws and moved ones, whose correlations are 0.6 and 0: the difference, over 200 sets, has the stated error."""
    found = []
    for seed in range(200):
        moved = normal(seed, D=2)
        x = moved @ np.array([[1.0, 0.6], [0.0, 0.8]])
        full = full_figures(DrawFigures(moved), np.arange(1000), np.full(1000, 1e-3))
        each = error_families(DrawFigures(x), "ab", np.zeros(2, bool), full)[2]
        found.append((each.error[0] - 0.6) / each.error_mcse[0])
    assert 0.2 < np.mean(np.square(found)) < 1.5


def test_more_draws_shrink_monte_carlo_noise_alone():
    found = judged(normal(3, 400, D=1), tilt=0.2)
    assert risk(found, shrink=0.0) > 0.0
    np.testing.assert_allclose(found[0].spread(0.0), found[0].error_mcse)


def test_an_sd_far_off_is_told_as_a_factor():
    run = DrawFigures(normal(4, D=1))
    full = full_figures(DrawFigures(0.001 * run.draws), np.arange(1000), np.full(1000, 1e-3))
    sd = error_families(run, "a", np.zeros(1, bool), full)[1]
    assert sd.phrase(0) == "the sd of 'a' is off by a factor of 1,000"
