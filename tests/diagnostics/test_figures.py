"""Predicted errors are the true ones, and the risk is a bound of the chance that they are too large."""

from types import SimpleNamespace

import numpy as np
import pytest

from bayescore.diagnostics.correction import Move
from bayescore.diagnostics.figures import close, errors_left, families, own_errors, risk, settled, worst
from bayescore.samplers.inference_data import Posterior


def judged(seed, *, tilt=0.0, draws=1000, D=3, resampled=False):
    """Independent normal draws, weighted by exp(tilt x) in the first coordinate: its full posterior has mean `tilt`."""
    x = np.random.default_rng(seed).normal(size=(4, draws // 4, D))
    flat = x.reshape(-1, D)
    w = np.exp(tilt * flat[:, 0])
    w /= w.sum()
    weighted = SimpleNamespace(move=Move(), weights=w, ess=float(1.0 / (w**2).sum()))
    found = families(Posterior("it", x, tuple("abcdefgh"[:D])), flat, weighted)
    return found, own_errors(found), errors_left(found, weighted, resampled=resampled)


def test_exact_draws_carry_no_risk_and_few_draws_do():
    found, raw, _ = judged(0)
    assert risk(raw) < 1e-6
    assert close(found)
    assert settled(found)
    assert risk(judged(0, draws=60)[1]) > 0.01
    assert 0.0 < risk(judged(0, draws=60)[1], shrink=0.3) < 1e-3


@pytest.mark.parametrize(("tilt", "too_far"), [(0.15, False), (0.3, True), (-0.4, True)])
def test_a_shift_is_found_and_named(tilt, too_far):
    """The predicted error of the mean is -tilt within 5 of its standard errors: alarms 6e-7."""
    found, raw, left = judged(1, tilt=tilt, resampled=True)
    mean = found[0]
    assert abs(mean.error[0] + tilt) < 5 * mean.error_mcse[0] + 0.02
    assert not close(found)
    assert not settled(found)
    assert (risk(raw) > 0.5) is too_far
    assert risk(left) < 1e-3
    if too_far:
        assert "'a' is off by" in worst(raw)


def test_stated_errors_of_the_coresets_error_are_not_too_small():
    """Squared standardised errors of 200 sets: at most 1.5 on average, where 1 with an sd of 0.1 would be exact."""
    found = [judged(seed, tilt=0.2, D=1)[0] for seed in range(200)]
    z = np.array([[(m.error[0] + 0.2) / m.error_mcse[0], sd.error[0] / sd.error_mcse[0]] for m, sd, *_ in found])
    assert ((z**2).mean(axis=0) < 1.5).all()
