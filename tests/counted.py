"""Rows of counts, and what the tests of each family of counts make of them."""

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats

import bayescore as bc
from bayescore.samplers.sample import sample

QUIET = {"progressbar": False}
FORMULA = "n ~ a + rare + b"


def covariates(rng, n, beta):
    """Return rows of a plain, a rare and a skewed column, exposures, and linear predictors without them."""
    rows = pd.DataFrame(
        {"a": rng.normal(size=n), "rare": (rng.random(n) < 0.1).astype(float), "b": rng.exponential(size=n)}
    )
    time = rng.gamma(2.0, 1.0, n)
    return rows, time, beta[0] + rows.to_numpy() @ beta[1:]


def fixtures(rows, how):
    """Return fixtures of a module: all rows, their condensed coreset, and draws of its posterior."""

    @pytest.fixture(scope="module")
    def everything():
        return bc.all_rows(rows, **how)

    @pytest.fixture(scope="module")
    def core():
        return bc.build_coreset(rows, method="condensed", random_state=1, **how)

    @pytest.fixture(scope="module")
    def draws(core):
        return sample(core, random_seed=2, **QUIET)

    return everything, core, draws


def likely_size(events, expected):
    """Return the negative binomial's size that scipy's probabilities find most likely at given means."""

    def loss(log_size):
        size = np.exp(log_size)
        return -stats.nbinom.logpmf(events, size, size / (size + np.asarray(expected))).sum()

    return float(np.exp(optimize.minimize_scalar(loss, bounds=(-8.0, 8.0), method="bounded").x))
