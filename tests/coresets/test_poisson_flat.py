"""Counts without events in some column of few rows: a direction that the likelihood leaves flat on one side."""

import numpy as np
import pandas as pd
import pytest
from scipy import special

import bayescore as bc


def rows(seed, n, share, a=-4.5):
    """Return counts by a normal column, none of them where a rare column is 1."""
    rng = np.random.default_rng(seed)
    x, rare = rng.normal(size=n), rng.random(n) < share
    y = np.where(rare, 0, rng.poisson(np.exp(a + 0.7 * x)))
    return pd.DataFrame({"x": x, "rare": rare.astype(int), "y": y})


def exact(data):
    """Return quantiles of the rare column's coefficient: on a grid, the others integrated out by their modes."""
    s, m = data[["x", "rare"]].std(ddof=0).to_numpy(), data[["x", "rare"]].mean().to_numpy()
    X = np.column_stack([np.ones(len(data)), (data[["x", "rare"]] - m) / s])
    y, grid = data["y"].to_numpy(), np.linspace(-9.0, 3.0, 400)
    log_p, b = [], np.array([np.log(y.mean()), 0.0])
    for at in grid:
        for _ in range(30):
            rate = np.exp(X[:, :2] @ b + X[:, 2] * at)
            H = (X[:, :2] * rate[:, None]).T @ X[:, :2] + np.eye(2) / 6.25
            b = b + np.linalg.solve(H, X[:, :2].T @ (y - rate) - b / 6.25)
        value = y @ (X[:, :2] @ b + X[:, 2] * at) - rate.sum() - (b @ b + at**2) / 12.5
        log_p.append(value - 0.5 * np.linalg.slogdet(H)[1])
    cdf = np.cumsum(np.exp(np.array(log_p) - special.logsumexp(log_p)))
    return np.interp([0.05, 0.5, 0.95], cdf / cdf[-1], grid) / s[1]


@pytest.mark.statistical(rate=1e-5)  # three quantiles of 1,000 draws that count, known to 0.06 sd, held to 0.3
def test_a_rare_column_without_events_is_fitted():
    data = rows(3, 4000, 0.004)
    fit = bc.fit("y ~ x + rare", data, family="poisson", random_state=1, progressbar=False)
    assert fit.level in ("certified", "corrected"), fit.certificate.text
    assert fit.coreset.method == "calibrated"
    draws = fit.idata.posterior["coef"].sel(feature="rare").values.ravel()
    gap = np.quantile(draws, [0.05, 0.5, 0.95]) - exact(data)
    assert np.abs(gap).max() < 0.3 * draws.std()


def test_more_rows_of_such_a_fit_are_fitted():
    fit = bc.fit("y ~ x + rare", rows(3, 4000, 0.004), family="poisson", random_state=1, progressbar=False)
    assert fit.update(rows(4, 3000, 0.004), progressbar=False).level in ("certified", "corrected")


def test_pseudo_rows_of_a_tail_that_is_not_there_are_refused():
    data = rows(3, 4000, 0.004)
    with pytest.raises(RuntimeError, match=r"too far from normal to be condensed: .* method='calibrated'"):
        bc.build_coreset(data, formula="y ~ x + rare", family="poisson", method="condensed", progressbar=False)
    with_events = data.assign(y=np.where(data["rare"] > 0, 1, data["y"]))
    core = bc.build_coreset(with_events, formula="y ~ x + rare", family="poisson", random_state=1, progressbar=False)
    assert core.method == "condensed"
