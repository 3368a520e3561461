"""Statistics of chains are those of ArviZ, of many coordinates at once."""

import json

import arviz as az
import numpy as np
import pytest

from bayescore.numerics.chains import ess, quantile_errors, rhat
from tests.stacks import make

OLD = json.loads((make.FOLDER / "arviz-0.json").read_text())["chains"]
STATISTICS = {
    "bulk": lambda x: ess(x, "bulk"),
    "tail": lambda x: ess(x, "tail"),
    "mean": lambda x: ess(x, "mean"),
    "sd": lambda x: ess((x - x.mean(axis=(0, 1))) ** 2, "mean"),
    "rhat": rhat,
    "quantile": lambda x: quantile_errors(x, 0.03),
}


@pytest.mark.parametrize("kind", OLD)
@pytest.mark.parametrize("name", STATISTICS)
def test_statistics_are_those_of_arviz_0(name, kind):
    assert STATISTICS[name](make.chains(kind)[:, :, None])[0] == pytest.approx(OLD[kind][name], rel=1e-6)


def mixed(chains, n):
    """Return coordinates that mix well, slowly, in turns, with ties and far out, shape (chains, n, 6)."""
    rng = np.random.default_rng([chains, n])
    x = rng.normal(size=(chains, n, 6))
    x[:, :, 1] = np.cumsum(x[:, :, 1], axis=1) / 10.0
    for i in range(1, n):
        x[:, i, 2] -= 0.9 * x[:, i - 1, 2]
    x[:, :, 3] = np.round(x[:, :, 3])
    x[:, :, 4] = 1e9 + 1e-3 * x[:, :, 4]
    x[:, :, 5] = np.exp(3.0 * x[:, :, 5]) + 0.3 * np.arange(chains)[:, None]
    return x


@pytest.mark.parametrize(("chains", "n"), [(4, 500), (1, 104), (2, 4), (3, 7)])
def test_many_coordinates_are_those_of_arviz_one_by_one(chains, n):
    x = mixed(chains, n)
    unit = (x - x.mean(axis=(0, 1))) / x.std(axis=(0, 1), ddof=1)
    for name in ("bulk", "tail", "mean", "quantile"):
        scale = x.std(axis=(0, 1), ddof=1) if name == "quantile" else 1.0
        expected = scale * np.array([make.STATISTICS[name](unit[:, :, d]) for d in range(6)])
        np.testing.assert_allclose(STATISTICS[name](x), expected, rtol=1e-8, err_msg=name)
    if chains > 1:
        expected = [float(az.rhat(unit[:, :, d])) for d in range(6)]
        np.testing.assert_allclose(rhat(x), expected, rtol=1e-8)


def test_a_coordinate_that_stands_still_or_is_no_number():
    x = np.random.default_rng(0).normal(size=(2, 50, 3))
    x[:, :, 1], x[0, 7, 2] = 3.0, np.nan
    assert ess(x, "mean")[1] == ess(x, "bulk")[1] == 100
    assert np.isnan(rhat(x)[1])
    assert quantile_errors(x, 0.1)[1] == 0.0
    for found in (*(ess(x, kind) for kind in ("mean", "bulk", "tail")), rhat(x)):
        assert np.isnan(found[2])
        assert np.isfinite(found[0])
