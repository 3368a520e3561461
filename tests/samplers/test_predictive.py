"""Replicated labels follow p(x . beta), and ArviZ's plots of either stack take them."""

import arviz as az
import matplotlib as mpl
import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binom

import bayescore as bc
from bayescore.compat import ARVIZ_1, inference_data
from bayescore.validation import DataError

mpl.use("Agg")


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 2))
    return bc.full_data(X, np.where(rng.random(40) < expit(X[:, 0]), "yes", "no"), intercept=True, progressbar=False)


@pytest.fixture(scope="module")
def idata(rows):
    return bc.sample(rows, sampler="mala", draws=1000, tune=500, chains=2, random_seed=1, progressbar=False)


def test_labels_have_the_predictive_probability_of_each_row(idata, rows):
    """Each row's count against its own binomial, given the draws: false alarms below 1e-3 over 40 rows."""
    check = bc.posterior_predictive(idata, rows, max_draws=2000, random_state=2)
    labels = check.posterior_predictive["y"].values
    assert labels.shape == (2, 1000, 40)
    p = expit(idata.posterior["beta"].values @ rows.X.T).mean(axis=(0, 1))
    counts = labels.sum(axis=(0, 1))
    tail = 2.0 * np.minimum(binom.cdf(counts, 2000, p), binom.sf(counts - 1, 2000, p))  # variance is at most this one's
    assert tail.min() > 1e-3 / 40
    wrong = 2.0 * np.minimum(binom.cdf(counts, 2000, 1.0 - p), binom.sf(counts - 1, 2000, 1.0 - p))
    assert wrong.min() < 1e-10  # the classes turned round would show
    np.testing.assert_array_equal(check.observed_data["y"].values, rows.y > 0)


def test_the_posterior_given_is_left_alone_and_a_seed_repeats(idata, rows):
    one, two = (bc.posterior_predictive(idata, rows, max_draws=10, random_state=5) for _ in range(2))
    assert "posterior_predictive" not in idata
    assert one.posterior_predictive["y"].shape == (2, 5, 40)
    np.testing.assert_array_equal(one.posterior_predictive["y"].values, two.posterior_predictive["y"].values)
    again = bc.posterior_predictive(idata, rows, max_draws=10, random_state=6)
    assert (again.posterior_predictive["y"].values != one.posterior_predictive["y"].values).any()


def test_arviz_plots_take_it(idata, rows):
    check = bc.posterior_predictive(idata, rows, max_draws=50, random_state=5)
    if ARVIZ_1:
        az.plot_ppc_pava(check, data_type="binary")
    else:
        az.plot_ppc(check, num_pp_samples=20, random_seed=1)
        az.plot_separation(check, y="y")
        az.plot_bpv(check)


def test_weighted_rows_and_foreign_posteriors_are_refused(idata, rows):
    with pytest.raises(DataError, match="counts rows"):
        bc.posterior_predictive(idata, rows.with_weights(np.full(40, 2.0)))
    with pytest.raises(ValueError, match="max_draws"):
        bc.posterior_predictive(idata, rows, max_draws=0)
    foreign = inference_data(
        {"posterior": {"beta": np.zeros((2, 10, 3))}},
        coords={"feature": list(rows.feature_names)},
        dims={"beta": ["feature"]},
    )
    with pytest.raises(DataError, match="likelihood"):
        bc.posterior_predictive(foreign, rows)
