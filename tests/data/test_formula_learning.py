"""What a pass learns for a formula: exact where it can be, from rows spread over the data where it cannot."""

import json

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.data import formula_learning
from bayescore.data.formula_learning import SAMPLE_ROWS, learner
from bayescore.data.sources import as_source

N = 20_000
_RNG = np.random.default_rng(5)
ROWS = pd.DataFrame({"x": _RNG.gamma(2.0, size=N), "k": _RNG.integers(-2, 3, N), "y": _RNG.integers(0, 2, N)})


def state(data, formula):
    return json.loads(bc.all_rows(data, formula=formula, progressbar=False).design.state)


def blocks(size):
    return lambda: ((ROWS[["x", "k"]][i : i + size], ROWS.y[i : i + size]) for i in range(0, N, size))


def test_centers_and_scales_are_exact():
    found = state(ROWS, "y ~ scale(x) + center(log(x)) + standardize(k)")["calls"]
    assert found["scale(x)"] == {
        "ddof": 1,
        "center": pytest.approx(ROWS.x.mean()),
        "scale": pytest.approx(ROWS.x.std()),
    }
    assert found["center(log(x))"]["center"] == pytest.approx(np.log(ROWS.x).mean())
    assert found["standardize(k)"]["scale"] == pytest.approx(np.std(ROWS.k))


def test_knots_are_quantiles_of_all_rows_where_they_are_few():
    knots = state(ROWS, "y ~ bs(x, df=6)")["calls"]["bs(x, df=6)"]["knots"]
    np.testing.assert_allclose(knots[3:-3], np.quantile(ROWS.x, np.linspace(0, 1, 5)), rtol=1e-14)


@pytest.mark.parametrize("formula", ["y ~ bs(x, df=6) + poly(x, 2)", "y ~ cr(x, df=5) + C(k)"])
def test_beyond_that_they_are_of_rows_spread_evenly_whatever_the_cuts(formula, monkeypatch):
    monkeypatch.setattr(formula_learning, "SAMPLE_ROWS", 2000)
    found = state(ROWS, formula)
    for size in (333, 5000):
        assert state(blocks(size), formula) == found
    (knots,) = (call["knots"] for call in found["calls"].values() if "knots" in call)
    assert (knots[0], knots[-1]) == (ROWS.x.min(), ROWS.x.max())
    inner = sorted(set(knots))[1:-1]
    ranks = [(ROWS.x <= knot).mean() for knot in inner]
    # of 2000 rows spread evenly the rank of a quantile has an sd of at most 0.5 / sqrt(2000) = 0.011
    np.testing.assert_allclose(ranks, np.arange(1, len(inner) + 1) / (len(inner) + 1), atol=0.045)


def test_polynomials_of_a_sample_are_scaled_as_those_of_all_rows(monkeypatch):
    exact = state(ROWS, "y ~ poly(x, 2)")["calls"]["poly(x, 2)"]
    monkeypatch.setattr(formula_learning, "SAMPLE_ROWS", 2000)
    found = state(ROWS, "y ~ poly(x, 2)")["calls"]["poly(x, 2)"]
    assert found["norms2"]["0"] == pytest.approx(N, rel=1e-12)
    assert found["norms2"]["1"] == pytest.approx(exact["norms2"]["1"], rel=0.2)
    assert found != exact


def test_the_rows_that_are_kept_are_as_many_as_asked_for():
    source = as_source(ROWS, label="y")
    (block,) = source.blocks()
    for n_rows in (N, 40 * SAMPLE_ROWS):
        found = learner(source.design.raw_names, "y ~ bs(x, df=4)", (), n_rows)(0, block)
        assert len(found.sample[0]) == pytest.approx(N * min(1.0, SAMPLE_ROWS / n_rows), abs=2.0)
    assert not learner(source.design.raw_names, "y ~ scale(x)", (), N)(0, block).sample


def test_levels_of_numbers_are_whole_where_all_are():
    assert state(ROWS, "y ~ C(k)")["categories"] == {"C(k)": [-2, -1, 0, 1, 2]}
    assert state(ROWS.assign(k=ROWS.k / 2), "y ~ C(k)")["categories"] == {"C(k)": [-1.0, -0.5, 0.0, 0.5, 1.0]}
