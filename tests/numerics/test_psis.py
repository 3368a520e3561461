"""Smoothed weights are those of ArviZ 0.23, whichever ArviZ is installed."""

import json

import numpy as np
import pytest

from bayescore.numerics.psis import FullWeights, psislw
from tests.stacks import make

OLD = json.loads((make.FOLDER / "arviz-0.json").read_text())["smoothed"]


@pytest.mark.parametrize("name", OLD)
def test_smoothed_weights_are_those_of_arviz_0(name):
    assert make.smoothed(*psislw(make.log_weights()[name])) == pytest.approx(OLD[name], rel=1e-9)


def test_a_turned_sign_would_be_noticed():
    values = make.log_weights()["k of 0.7"]
    assert abs(psislw(-values)[1] - OLD["k of 0.7"][0]) > 0.5


def test_rows_are_smoothed_one_by_one():
    rows = np.stack([values for values in make.log_weights().values() if len(values) == 1000])
    log_w, k = psislw(rows)
    assert log_w.shape == rows.shape
    np.testing.assert_allclose(np.exp(log_w).sum(axis=1), 1.0)
    np.testing.assert_array_equal(k, [psislw(row)[1] for row in rows])


def test_weights_that_are_given_stay_as_they_are():
    values = make.log_weights()["k of 0.7"]
    kept = values.copy()
    psislw(values)
    np.testing.assert_array_equal(values, kept)


@pytest.mark.parametrize(("n", "limit"), [(100, 0.5), (1000, 2.0 / 3.0), (4000, 0.7)])
def test_the_limit_of_k_is_lower_for_few_draws(n, limit):
    """min(1 - 1 / log10 S, 0.7), Vehtari et al. 2024: k-hat of few draws says less."""
    equal = np.full(n, 1.0 / n)
    below, above = (FullWeights(np.zeros(n), equal, limit + gap) for gap in (-1e-9, 1e-9))
    assert below.max_k == pytest.approx(limit)
    assert (below.good, above.good) == (True, False)
