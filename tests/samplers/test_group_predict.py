"""Predictions from draws with groups: known groups by their effects, new ones averaged over sigma."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, special, stats

import bayescore as bc
from bayescore.validation import DataError
from tests.coresets.test_multilevel import build, frame
from tests.hand_made import fit_of
from tests.models.grouped_rows import grouped


@pytest.fixture(scope="module", params=["logistic", "probit"])
def fitted(request):
    rows, _ = grouped(1500, 20, request.param, sigma=1.5)
    core = build(rows, request.param)
    idata = bc.sample(core, draws=150, tune=300, chains=2, random_seed=1, progressbar=False)
    return rows, idata, request.param, fit_of(idata, core)


def test_known_and_new_groups(fitted):
    rows, idata, family, fit = fitted
    table = frame(rows).iloc[:4].drop(columns="y")
    table.loc[table.index[3], "county"] = "never seen"
    found = fit.predict(table, prob=0.9)
    posterior = idata.posterior
    beta, sigma, u = (posterior[name].values.reshape(300, -1) for name in ("beta", "sigma_county", "u_county"))
    p = special.expit if family == "logistic" else special.ndtr
    eta = np.column_stack([np.ones(4), table[["x1", "x2"]]]) @ beta.T
    for n in range(3):
        own = p(eta[n] + u[:, rows.group[n, 0]])
        assert found["mean"].iloc[n] == pytest.approx(own.mean(), abs=1e-9)
        assert found["5%"].iloc[n] == pytest.approx(np.quantile(own, 0.05), abs=1e-9)
    means = [
        integrate.quad(lambda b, e=e, s=s: p(e + b) * stats.norm.pdf(b, 0.0, s), -12 * s, 12 * s, limit=200)[0]
        for e, s in zip(eta[3][:10], sigma[:10, 0], strict=True)
    ]
    some = replace(fit, _drawn=idata.isel(chain=[0], draw=slice(0, 10)))
    nodes = some.predict(table)["mean"].iloc[3]
    assert nodes == pytest.approx(np.mean(means), abs=1e-4)
    at_zero = p(eta[3]).mean()  # the mistake of leaving the effect out
    assert abs(found["mean"].iloc[3] - 0.5) < abs(at_zero - 0.5)
    as_array = fit.predict(table.drop(columns="county"), groups=table["county"].to_numpy())
    assert np.array_equal(as_array["mean"], found["mean"])


def test_the_correlation_within_groups(fitted):
    _, idata, family, _ = fitted
    variance = idata.posterior["sigma_county"].values ** 2
    unit = np.pi**2 / 3 if family == "logistic" else 1.0
    np.testing.assert_allclose(idata.posterior["icc_county"].values, variance / (variance + unit))


def test_groups_are_asked_for_where_there_are_some_and_only_there(fitted):
    rows, _, family, fit = fitted
    table = frame(rows)
    with pytest.raises(DataError, match="no column 'county'"):
        fit.predict(table.drop(columns=["county", "y"]))
    flat = bc.all_rows(rows.X, rows.y, family=family, progressbar=False)
    plain = bc.sample(flat, draws=100, tune=100, chains=2, random_seed=0, sampler="mala", progressbar=False)
    with pytest.raises(DataError, match="groups is given"):
        fit_of(plain, flat).predict(rows.X, groups=rows.group[:, 0])
