"""Predicted probabilities against the direct formula, every draw of every row, and against the time that it takes."""

import time

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

import bayescore as bc
from bayescore.compat import as_xarray, with_groups
from bayescore.families.family import FAMILIES
from bayescore.samplers import predict
from bayescore.samplers.predict import log_predictive
from bayescore.validation import DataError
from tests.hand_made import fit_of
from tests.known_posteriors import make_posterior


def rows_and_posterior(family, sd, n_rows=3000):
    idata = make_posterior(0, mean=[0.5, -1.0, 0.2], sd=sd)
    idata.posterior.attrs["family"] = family
    X = 2.0 * np.random.default_rng(1).normal(size=(n_rows, 3))
    core = bc.all_rows(X, np.arange(n_rows) % 2, family=family, progressbar=False)
    named = as_xarray(idata["posterior"]).assign_coords(feature=list(core.feature_names))
    return X, idata, fit_of(with_groups(idata, {"posterior": named}), core)


def every_draw(idata, X):
    """Return p of each row and draw: what predictions were made of."""
    family = FAMILIES[idata.posterior.attrs["family"]]
    return family.mean(X @ idata.posterior["beta"].to_numpy().reshape(-1, X.shape[1]).T)


@pytest.mark.parametrize("family", ["logistic", "probit"])
@pytest.mark.parametrize("sd", [0.005, 0.02, 3.0])  # all rows by the series of log p, some, none
def test_means_are_those_of_every_draw(family, sd):
    X, idata, fit = rows_and_posterior(family, sd)
    wanted = every_draw(idata, X).mean(axis=1)
    np.testing.assert_allclose(fit.predict(X)["mean"], wanted, rtol=0, atol=1e-9)
    both = np.exp(log_predictive(idata, X))
    np.testing.assert_allclose(both, np.stack([1.0 - wanted, wanted], axis=1), rtol=0, atol=1e-9)


def test_sds_and_intervals_are_those_of_every_draw():
    X, idata, fit = rows_and_posterior("logistic", 0.5)
    table = fit.predict(X, prob=0.8)
    p = every_draw(idata, X)
    wanted = [p.mean(1), p.std(1, ddof=1), *np.quantile(p, [0.1, 0.9], axis=1)]
    np.testing.assert_allclose(table, np.stack(wanted, axis=1), rtol=1e-9)


def test_the_number_of_threads_changes_no_bit(monkeypatch):
    X, idata, fit = rows_and_posterior("probit", 0.02, 10_000)
    several, means = fit.predict(X), log_predictive(idata, X)
    monkeypatch.setattr(predict, "available_cores", lambda: 1)
    assert several.equals(fit.predict(X))
    np.testing.assert_array_equal(log_predictive(idata, X), means)


@pytest.mark.slow
def test_means_take_less_than_half_of_the_time_that_quantiles_did():
    """Measured 3.5 times as fast in processor time, which other work changes little; the best of seven of each."""
    X, idata, _ = rows_and_posterior("logistic", 0.005, 4000)

    def before():
        p = every_draw(idata, X)
        return p.mean(axis=1), np.quantile(p, [0.03, 0.97], axis=1)

    def seconds(work):
        start = time.process_time()
        work()
        return time.process_time() - start

    log_predictive(idata, X)  # compiled
    new = min(seconds(lambda: log_predictive(idata, X)) for _ in range(7))
    assert new < min(seconds(before) for _ in range(7)) / 2.0


COLUMNS = ["mean", "sd", "2.5%", "97.5%"]


def test_no_rows_have_no_predictions():
    X, _, fit = rows_and_posterior("logistic", 0.5, n_rows=2)
    for none in (X[:0], sparse.csr_array(X)[:0]):
        table = fit.predict(none)
        assert (list(table), len(table)) == (COLUMNS, 0)
    with pytest.raises(DataError, match=r"X has shape \(0, 2\)"):
        fit.predict(X[:0, :2])


@pytest.mark.parametrize("formula", ["y ~ age * device", "y ~ age * device + (1 | county)"])
@pytest.mark.filterwarnings("ignore:.*(effective sample size|R-hat)")
def test_frames_without_rows_have_no_predictions(formula):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(size=200), "device": rng.choice(["phone", "fax"], 200)})
    frame = frame.assign(county=rng.choice(list("abcd"), 200), y=rng.integers(0, 2, 200), offset=0.5)
    core = bc.all_rows(frame, formula=formula, offset="offset", progressbar=False)
    idata = bc.sample(core, draws=20, tune=20, chains=2, random_seed=1, progressbar=False)
    rows = frame.drop(columns="y")
    for none in (rows.iloc[:0], pl.from_pandas(rows)[:0], pd.DataFrame(columns=list(rows)).astype({"offset": float})):
        table = fit_of(idata, core).predict(none)
        assert (list(table), len(table)) == (COLUMNS, 0)
        assert table.dtypes.eq(float).all()
