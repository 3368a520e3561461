"""Made visits: the same for a seed, and made by the coefficients that are said."""

import numpy as np
import pytest
from scipy.special import expit

import bayescore as bc
from bayescore.datasets import DEVICES, TRUTH


def test_a_seed_repeats_them():
    one, other = (bc.datasets.clicks(500, random_state=seed) for seed in (3, 3))
    assert one.equals(other)
    assert not one.equals(bc.datasets.clicks(500, random_state=4))
    assert one.notna().all().all()


def scores(rows, truth):
    """Return the scores of age, log income and visits in their sds, with counties' effects at their mode."""
    X = np.column_stack([rows["age"] - 40.0, np.log(rows["income"]) - 3.4, rows["visits"]])
    eta = X @ [truth["age"], truth["log(income)"], truth["visits"]] + rows["device"].map(DEVICES).astype(float) - 3.9
    y, county = rows["clicked"].to_numpy(), rows["county"].cat.codes.to_numpy()
    u = np.zeros(county.max() + 1)
    for _ in range(30):
        p = expit(eta.to_numpy() + u[county])
        u += np.bincount(county, y - p) / np.bincount(county, p * (1.0 - p))
    own = p * (1.0 - p)
    means = np.array([np.bincount(county, own * column) / np.bincount(county, own) for column in X.T])
    inside = X - means.T[county]
    return (y - p) @ inside / np.sqrt(own @ inside**2)


@pytest.mark.statistical(rate=2e-6)
def test_clicks_come_as_often_as_the_truth_says():
    """Three scores within 5 of their sds, 6e-7 each; another slope of age is the negative control."""
    rows = bc.datasets.clicks(100_000, random_state=0)
    assert np.abs(scores(rows, TRUTH)).max() < 5.0
    assert abs(scores(rows, {**TRUTH, "age": 0.02})[0]) > 5.0


def test_no_rows_are_refused():
    with pytest.raises(ValueError, match="n_rows"):
        bc.datasets.clicks(0)
