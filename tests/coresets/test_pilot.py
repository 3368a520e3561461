"""The mode of all rows in few passes: the surrogate, passes by source, and a pilot that has missed something."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bayescore as bc
from bayescore.coresets import pilot
from bayescore.coresets.pilot import CLOSE, MAX_PILOTS, Surrogate, full_mode, survey
from bayescore.data.dataset import Dataset
from bayescore.data.sources import as_source
from bayescore.families.family import FAMILIES
from bayescore.models.laplace import cholesky_and_decrement, find_mode
from bayescore.models.posterior import posterior
from bayescore.numerics.sampling import Chosen, draw_by_column
from bayescore.validation import DataError

logistic, PRIOR = FAMILIES["logistic"], bc.priors.Normal(0, 4)
N = 30_000


def make(n=N, seed=1):
    """Return rows of a skewed and two normal columns and a category of 1 in 1,000; 8% positive."""
    rng = np.random.Generator(np.random.PCG64(seed))
    X = np.column_stack([rng.gamma(0.5, size=n), rng.standard_normal((n, 2)), rng.random(n) < 1e-3])
    return X, rng.random(n) < 1 / (1 + np.exp(3.0 - X @ np.array([0.5, -0.5, 0.3, 2.0])))


X, Y = make()
FRAME = pd.DataFrame(X, columns=list("abcd")).assign(y=Y.astype(int), kind=np.where(X[:, 1] > 0, "p", "q"))


def sources(folder):
    """Yield the rows by kind of source, with what names the label."""
    frame = FRAME.drop(columns="kind")
    label = {"label": "y"}
    yield "frame", frame, label
    yield "arrow", pa.Table.from_pandas(frame), label
    pq.write_table(pa.Table.from_pandas(frame), folder / "rows.parquet", row_group_size=7000)
    yield "parquet", folder / "rows.parquet", label
    frame.to_csv(folder / "rows.csv", index=False)
    yield "csv", folder / "rows.csv", label
    yield "callable", lambda: ((X[i : i + 999], Y[i : i + 999]) for i in range(0, N, 999)), {}
    yield "dask", pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=3), label


@pytest.mark.parametrize("method", ["calibrated", "condensed", "auto"])
def test_builds_take_three_passes_of_every_source(method, tmp_path):
    """One checks the rows and draws the pilot, one is at its mode and one at the mode of all; `auto` counts repeats."""
    options = {"method": method, "intercept": True, "random_state": 0, "progressbar": False}
    expected = bc.build_coreset(X, Y, **options)
    assert expected.params["passes"] == 3 + (method == "auto")
    for kind, data, label in sources(tmp_path):
        core = bc.build_coreset(data, **label, **options)
        assert core.params["passes"] == expected.params["passes"], kind
        np.testing.assert_array_equal(core.index, expected.index)
        np.testing.assert_array_equal(core.weights, expected.weights)


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize(("formula", "passes"), [("y ~ a + b:c + log1p(a) + kind", 3), ("y ~ scale(a) + b", 4)])
def test_a_formula_takes_a_pass_where_it_learns_and_standardisation_none(formula, passes, standardize):
    asked = {"formula": formula, "standardize": standardize, "method": "calibrated", "random_state": 0}
    core = bc.build_coreset(FRAME, **asked, progressbar=False)
    assert core.params["passes"] == passes
    if standardize:
        matrix = bc.all_rows(FRAME, design=core.design, progressbar=False).X[:, 1:]
        np.testing.assert_allclose(matrix.mean(axis=0), 0.0, atol=1e-12)
        np.testing.assert_allclose(matrix.std(axis=0), 1.0, rtol=1e-12)


def test_a_formula_that_learns_nothing_still_checks_the_rows():
    broken = FRAME.copy()
    broken.loc[123, "b"] = np.nan
    with pytest.raises(DataError, match=r"column 'b' is nan in row 123; .* Missing in all: 1 of 30,000 rows"):
        bc.build_coreset(broken, formula="y ~ a + b", progressbar=False)


def test_the_mode_of_a_surrogate_is_nearer_than_a_newton_step_ends():
    """Distances to the mode of all rows, in posterior sds: pilot, after a Newton step, and after the surrogate's."""
    dataset = Dataset(as_source(np.column_stack([np.ones(N), X]), Y))
    draw_by_column(dataset, 0)
    rows, inclusion = dataset.sample
    whole = posterior(dataset.load(), logistic, PRIOR)
    part = posterior(rows.with_weights(rows.weights / inclusion), logistic, PRIOR)
    at = find_mode(part.terms, np.zeros(5)).beta
    here = whole.terms(at)
    mode = Surrogate(part, at, here).mode()
    step = at + np.linalg.solve(here.precision, here.gradient)
    first, newton, near = (cholesky_and_decrement(whole.terms(beta))[1] for beta in (at, step, mode.beta))
    assert near < 0.5 * newton < 0.5 * first
    # exact to second order at the point, whatever the pilot: of other rows the mode is no farther than Newton's
    other = posterior(rows.take(slice(None, None, 50)), logistic, PRIOR)
    assert cholesky_and_decrement(whole.terms(Surrogate(other, at, here).mode().beta))[1] < 2.0 * newton


@pytest.mark.parametrize("tries", [MAX_PILOTS, 1])
def test_a_pilot_that_has_missed_something_is_made_up_for(tries, monkeypatch):
    """The first pilot has 40 rows, all of one side of a plane; with no other allowed Newton's method goes on alone."""
    dataset = Dataset(as_source(np.column_stack([np.ones(N), X]), Y))
    few = dataset.load().take(np.flatnonzero(X[:, 1] > 1.5)[:40])
    monkeypatch.setattr(pilot, "sample_by_column", lambda *_: Chosen(few, np.full(40, 40 / N), 0))
    looks = []

    def look(shares):
        looks.append(survey(dataset, shares, 100, 2000, (1, 2)))
        return looks[-1]

    shares, found = full_mode(dataset, logistic, PRIOR, list(range(tries)), look)
    assert found is looks[-1]
    whole = posterior(dataset.load(), logistic, PRIOR)
    assert cholesky_and_decrement(whole.terms(shares.laplace.theta))[1] <= CLOSE
    plain = posterior(few, logistic, PRIOR)  # negative control
    alone = find_mode(plain.terms, np.zeros(5)).beta
    assert cholesky_and_decrement(whole.terms(alone))[1] > 10.0


def counts_of_a_rare_level():
    """Return rows whose level "a", which has no column, is rare, and how to build of them.

    Rows of counts and of exposure are drawn apart; where a sample has none of its exposure, its rate has no bound.
    """
    rng = np.random.default_rng(0)
    level = np.array(["b", "c", "d"])[rng.integers(3, size=50_000)]
    y = rng.poisson(0.05, size=50_000)
    level[:30], y[:30] = "a", rng.poisson(1.0, size=30)
    groups = {name: rng.integers(size, size=len(y)) for name, size in (("g", 50), ("h", 20))}
    rows = pd.DataFrame({"y": y, "level": level, "x": rng.normal(size=len(y)), **groups})
    return rows, {"family": "poisson", "standardize": True, "progressbar": False}


@pytest.mark.parametrize("seed", [0, 2, 3])
def test_a_level_whose_counts_alone_are_in_the_pilot_is_met(seed):
    rows, told = counts_of_a_rare_level()
    core = bc.build_coreset(rows, formula="y ~ level", method="condensed", random_state=seed, **told)
    prior, data = bc.priors.Normal(0.0, 4.0), bc.all_rows(rows, formula="y ~ level", **told)
    found, truth = (bc.find_map(one, prior=prior) for one in (core, data))
    assert np.abs((found.beta - truth.beta) / truth.sd).max() < 0.1


@pytest.mark.parametrize("terms", ["(1 | g) + (1 | h)", "x + (1 + x | g)"])
def test_groups_are_condensed_where_a_sample_has_counts_of_a_level_alone(terms):
    rows, told = counts_of_a_rare_level()
    core = bc.build_coreset(rows, formula=f"y ~ level + {terms}", random_state=1, **told)
    assert core.method == "multilevel"
    assert core.params["mode_error"] < 0.01
