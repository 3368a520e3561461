"""The elpd of left-out groups of numbers: closed forms of the evidence with and without each group."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayescore as bc
from bayescore.diagnostics.certificate import whole as within
from tests.counted import QUIET

SD, WIDE, SPREAD, G = 2.0, 10.0, 2.0, 20
FORMULA, FAMILY = "y ~ a + b + (1 | g)", bc.families.Gaussian(SD)
GRID = np.linspace(-4.0, 2.0, 61)  # of log sigma


def numbers(n=600, seed=0):
    rng = np.random.default_rng(seed)
    rows = pd.DataFrame({"a": rng.exponential(size=n), "b": rng.normal(size=n), "g": rng.integers(0, G, n)})
    eta = 300.0 + rows["a"] - 0.5 * rows["b"] + rng.normal(size=G)[rows["g"]]
    return rows.assign(y=eta + rng.normal(0.0, SD, n), w=rng.integers(1, 4, n).astype(float))


ROWS = numbers()


def evidence(X, y, codes, w, mean):
    """Return the log evidence, by closed forms given sigma over a grid."""
    r, found = y - X @ mean, []
    parts = [(X[codes == g], r[codes == g], w[codes == g]) for g in np.unique(codes)]
    for log_sigma in GRID:
        v, A, b = math.exp(2.0 * log_sigma), np.eye(X.shape[1]) / WIDE**2, np.zeros(X.shape[1])
        value = stats.halfnorm.logpdf(math.exp(log_sigma), scale=SPREAD) + log_sigma
        for x, z, own in parts:
            n = own.sum()
            share = v / (SD**2 * (SD**2 + v * n))
            A += (x.T * own) @ x / SD**2 - share * np.outer(own @ x, own @ x)
            b += x.T @ (own * z) / SD**2 - share * (own @ x) * (own @ z)
            value -= 0.5 * (own @ z**2 / SD**2 - share * (own @ z) ** 2 + math.log1p(v * n / SD**2))
            value -= n * math.log(SD * math.sqrt(2.0 * math.pi))
        value += 0.5 * (b @ np.linalg.solve(A, b) - np.linalg.slogdet(A)[1]) - X.shape[1] * math.log(WIDE)
        found.append(value)
    top = max(found)
    return top + math.log(np.exp(np.array(found) - top).sum() * (GRID[1] - GRID[0]))


def certified(build, rows=ROWS, family=FAMILY, **roles):
    core = build(rows, formula=FORMULA, family=family, **roles, **QUIET)
    mean = (300.0, 0.0, 0.0)
    given = {"prior": bc.priors.Normal(mean, (WIDE,) * 3), "group_prior": bc.priors.HalfNormal(SPREAD)}
    idata = bc.sample(core, random_seed=1, **given, **QUIET)
    return bc.certify(idata, core, rows, max_draws=2000, **QUIET)


@pytest.mark.slow
@pytest.mark.parametrize("weights", [None, "w"])
@pytest.mark.parametrize("build", [bc.build_coreset, bc.all_rows])
@pytest.mark.statistical(rate=1e-7)  # over ten seeds the error is 0.06 with the sd 0.08 nats
def test_it_is_that_of_the_evidence_without_each_group(build, weights):
    whole = bc.all_rows(ROWS, formula=FORMULA, family=FAMILY, weights=weights, **QUIET)
    data = whole.X, -whole.offset, whole.group[:, 0], whole.weights
    mean = np.array([300.0, 0.0, 0.0])
    each = [
        evidence(*data, mean) - evidence(*(part[data[2] != g] for part in data), mean)
        for g in range(len(whole.groups[0]))
    ]
    found = certified(build, weights=weights)
    assert found.elpd_logo == pytest.approx(sum(each), abs=0.5)
    assert found.elpd_logo_se == pytest.approx(math.sqrt(G * np.var(each)), rel=0.01)
    assert f"elpd by leaving a group out {found.elpd_logo:,.1f}" in str(found)
    if weights is None:
        other = certified(build, family="normal(2.6)")  # a control
        assert abs(other.elpd_logo - sum(each)) > 5.0


def test_where_it_would_take_long_there_is_none(monkeypatch):
    monkeypatch.setattr(within, "_MAX_PASS_WORK", 9_000)
    found = certified(bc.build_coreset)
    assert found.level == "certified"
    assert math.isnan(found.elpd_logo)
