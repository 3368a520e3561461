"""Leave-one-out densities of counts: those of ArviZ on all rows, with the constant of each count."""

import warnings
from types import SimpleNamespace

import arviz as az
import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayescore as bc
from bayescore.data import dataset
from bayescore.data.dataset import Dataset
from bayescore.data.source import MAX_BLOCK_ROWS
from bayescore.diagnostics.elpd import PassSums, sampled_counts
from bayescore.diagnostics.loo import loo
from bayescore.families.family import FAMILIES
from bayescore.validation import DataError
from tests.counted import QUIET
from tests.families.test_poisson import HOW, counts

POISSON = FAMILIES["poisson"]
ROWS = counts(900, seed=2)
Y, E = ROWS["n"].to_numpy(), ROWS["time"].to_numpy()


def leave_out(beta, log_p):
    """Return ArviZ's leave-one-out of draws, shape (chain, draw, D), and log probabilities of rows at them."""
    parts = {"posterior": {"beta": beta}, "log_likelihood": {"y": log_p}}
    own = az.from_dict(parts) if az.__version__ >= "1" else az.from_dict(**parts)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of some rows' k-hat
        return az.loo(own, pointwise=True, reff=1.0)


def elpd_of(found):
    """Return the sum, which releases of ArviZ name otherwise."""
    return float(found.elpd_loo if hasattr(found, "elpd_loo") else found.elpd)


def values_of(found):
    """Return the rows' own values."""
    return np.asarray(found.loo_i if hasattr(found, "loo_i") else found.elpd_i)


@pytest.fixture(scope="module")
def full():
    return bc.all_rows(ROWS, **HOW)


@pytest.fixture(scope="module")
def draws(full):
    return bc.sample(full, random_seed=1, **QUIET)


@pytest.fixture(scope="module")
def arvizs(full, draws):
    """Return ArviZ's leave-one-out of all draws, with scipy's log probabilities."""
    beta = draws.posterior["beta"].values
    return leave_out(beta, stats.poisson.logpmf(Y, E * np.exp(beta @ full.design.transform(ROWS).T)))


@pytest.mark.parametrize("most", [1, 7, MAX_BLOCK_ROWS])
def test_each_row_is_arvizs(full, draws, arvizs, monkeypatch, most):
    monkeypatch.setattr(dataset, "MAX_BLOCK_ROWS", most)  # blocks that part the two rows of a count
    found = loo(draws, full, ROWS, max_draws=4000, **QUIET)
    wanted, value = values_of(arvizs), values_of(found)
    np.testing.assert_allclose(value, wanted, atol=2e-3)
    assert not np.allclose(value, np.roll(wanted, 1), atol=0.1)


def test_a_certificate_has_the_sum(full, draws, arvizs):
    found = bc.certify(draws, full, ROWS, max_draws=4000, **QUIET)
    elpd = elpd_of(arvizs)
    assert found.elpd_loo_rows == len(ROWS)
    assert found.elpd_loo == pytest.approx(elpd, abs=0.05)
    assert found.elpd_loo_se == pytest.approx(float(arvizs.se), rel=0.01)
    assert "elpd_loo −" in repr(found)


@pytest.mark.statistical(rate=1e-6)
@pytest.mark.parametrize("method", ["condensed", "calibrated"])
def test_a_coreset_and_a_sample_of_counts_give_the_same(method):
    rows = counts(6000, seed=4)
    everything = bc.all_rows(rows, **HOW)
    known = loo(bc.sample(everything, random_seed=1, **QUIET), everything, rows, **QUIET)
    elpd = elpd_of(known)
    core = bc.build_coreset(rows, method=method, random_state=1, **HOW)
    drawn = bc.sample(core, random_seed=2, **QUIET)
    found = bc.certify(drawn, core, rows, **QUIET)
    assert 900 < found.elpd_loo_rows <= 1000
    assert found.elpd_loo_mcse < 1.0
    assert abs(found.elpd_loo - elpd) < 6.0 * np.hypot(found.elpd_loo_mcse, 0.35)
    assert found.elpd_loo_se == pytest.approx(float(known.se), rel=0.02)
    assert elpd_of(loo(found.idata, core, rows, **QUIET)) == pytest.approx(elpd, abs=2.0)


@pytest.mark.statistical(rate=1e-6)
def test_sums_over_samples_of_counts_differ_by_the_said_error():
    """Half the sum of variances over 1,000 samples of 300 of 2,000 counts: its sd is known to 2.2%, and 12% are asked.

    Controls: twice as many counts in all, and a sample of all of them, which has no such error.
    """
    rng, own = np.random.default_rng(0), PassSums(np.zeros(4), 0.0, 0.0, 0.0, None, error=0.2)
    var = rng.gamma(2.0, 0.5, 2000)

    def sums(n_rows, some):
        sampled = SimpleNamespace(n_rows=n_rows, constant=0.0, some=lambda _: None)
        return own.of_counts(sampled, np.stack([np.zeros(len(some)), some]), (0.0, 0.0))

    def errors(n_rows):
        found = [sums(n_rows, rng.choice(var, 300, replace=False)) for _ in range(1000)]
        return np.std([0.5 * each.variance for each in found]), np.sqrt(np.mean([e.error**2 for e in found]) - 0.2**2)

    seen, said = errors(2000)
    assert said == pytest.approx(seen, rel=0.12)
    assert errors(4000)[1] != pytest.approx(seen, rel=0.12)
    assert sums(2000, var).error == 0.2


@pytest.mark.parametrize("size", [256, 257, 1001])
def test_no_cut_of_the_rows_changes_the_constant_or_the_sample(full, size):
    known = Dataset(full.as_source(), full.design, block_rows=size)
    found = sampled_counts(known, POISSON, 300, 1)
    wanted = (Y * np.log(E)).sum() - sum(float(np.log(np.arange(1, y + 1)).sum()) for y in Y)
    assert found.constant == pytest.approx(wanted, rel=1e-12)
    assert found.n_rows == len(ROWS)
    index = found.responses.rows.index
    np.testing.assert_array_equal(found.responses.events, Y[index])
    np.testing.assert_allclose(found.responses.rows.weights, E[index])


def test_two_models_of_counts_are_compared_by_all_rows():
    rows = counts(3000, seed=6)
    models, known = {}, {}
    for formula in ("n ~ a + rare + b", "n ~ a"):
        how = {**HOW, "formula": formula}
        core = bc.build_coreset(rows, method="condensed", random_state=1, **how)
        models[formula] = bc.sample(core, random_seed=2, **QUIET), core
        known[formula] = loo(*models[formula], rows, **QUIET)
    table = bc.loo_compare(models, rows, **QUIET)
    assert list(table.index) == ["n ~ a + rare + b", "n ~ a"]
    values = [values_of(each) for each in known.values()]
    apart = values[1] - values[0]
    worse = table.iloc[1]
    assert worse["elpd_diff"] == pytest.approx(apart.sum(), abs=6.0 * worse["diff_mcse"] + 1e-6)
    assert worse["dse"] == pytest.approx(np.sqrt(len(apart)) * apart.std(), rel=0.02)
    assert worse["elpd_diff"] < -3.0 * worse["dse"]


def test_counts_with_weights_have_no_elpd():
    X, w = ROWS[["a", "b"]].to_numpy(), np.full(len(ROWS), 2.0)
    about = {"weights": w, "exposure": E}
    core = bc.build_coreset(X, Y, family="poisson", random_state=1, **about, **QUIET)
    drawn = bc.sample(core, random_seed=2, **QUIET)
    assert np.isnan(bc.certify(drawn, core, X, Y, **about, **QUIET).elpd_loo)
    with pytest.raises(DataError, match="a model of counts with weights, which cannot be told from exposures"):
        loo(drawn, core, X, Y, **about, **QUIET)


def pieces(w):
    """Return rows in blocks with weights, as a callable, and the coreset of a stream of them."""
    X, half = ROWS[["a", "b"]].to_numpy(), len(ROWS) // 2
    parts = [slice(None, half), slice(half, None)]
    stream = bc.stream(size=200, family="poisson", intercept=True, random_state=1)
    for part in parts:
        stream.partial_fit(X[part], Y[part], w[part], exposure=E[part])
    blocks = [(X[part], Y[part], w[part], None, E[part]) for part in parts]
    return lambda: iter(blocks), stream.coreset()


@pytest.mark.parametrize("source", ["arrays", "blocks", "stream", "file"])
def test_weights_that_are_no_column_are_remembered(source, tmp_path):
    """The rows as a coreset do not tell weights from exposures: without memory they had an elpd and a dispersion."""
    w = np.random.default_rng(4).uniform(0.5, 4.0, len(ROWS))
    how, (blocks, of_stream) = {"family": "poisson", "intercept": True, **QUIET}, pieces(w)
    X, about = ROWS[["a", "b"]].to_numpy(), {"weights": w, "exposure": E}
    full = bc.all_rows(blocks, **how) if source == "blocks" else bc.all_rows(X, Y, **about, **how)
    core = of_stream
    if source != "stream":
        core = bc.build_coreset(blocks if source == "blocks" else X, None if source == "blocks" else Y, random_state=1,
                                **({} if source == "blocks" else about), **how)  # fmt: skip
    if source == "file":
        core.save(tmp_path / "core.parquet")
        core = bc.read_coreset(tmp_path / "core.parquet")
    drawn = bc.sample(core, random_seed=2, **QUIET)
    found = bc.certify(drawn, core, full, **QUIET)
    assert found.level in ("certified", "corrected")
    assert found.dispersion is None
    assert np.isnan(found.elpd_loo)
    message = "a model of counts with weights, which cannot be told from exposures"
    with pytest.raises(DataError, match=message):
        loo(drawn, core, full, **QUIET)
    with pytest.raises(DataError, match=message):
        bc.loo_compare({"one": (drawn, core), "two": (drawn, core)}, full, **QUIET)
    if source == "blocks":
        with pytest.raises(DataError, match=message):
            loo(drawn, core, blocks, **QUIET)


def test_counts_without_weights_have_an_elpd_by_a_coreset_of_all_rows():
    """The control."""
    X = ROWS[["a", "b"]].to_numpy()
    how = {"family": "poisson", "intercept": True, "exposure": E, **QUIET}
    core, full = bc.build_coreset(X, Y, random_state=1, **how), bc.all_rows(X, Y, **how)
    drawn = bc.sample(core, random_seed=2, **QUIET)
    found = bc.certify(drawn, core, full, **QUIET)
    assert found.dispersion is not None
    assert elpd_of(loo(drawn, core, full, **QUIET)) == pytest.approx(found.elpd_loo, abs=0.1)


def test_a_family_whose_constant_is_wrong_is_refused():
    class Bare(type(POISSON)):
        name = "bare"

        def log_constant(self, events, exposure):
            return np.zeros_like(events)

    with pytest.raises(ValueError, match=r"'bare': the sum of the probabilities of all counts, .* is 1, .*mend one"):
        bc.families.register(Bare())


@pytest.mark.slow
def test_overdispersed_visits_have_arvizs_sum(shared_data):
    """Real counts of a mean of 5.8 and a variance of 46: 6 visits too few or too many are nothing."""
    rows = pd.read_parquet(shared_data("nmes1988.parquet"))
    about = {"formula": "visits ~ hospital + chronic + age + gender + school", "family": "poisson", **QUIET}
    everything = bc.all_rows(rows, **about)
    beta = bc.sample(everything, random_seed=1, **QUIET).posterior["beta"].values[:, ::4]
    log_p = stats.poisson.logpmf(rows["visits"], np.exp(beta @ everything.design.transform(rows).T))
    wanted = leave_out(beta, log_p)
    core = bc.build_coreset(rows, method="condensed", random_state=1, **about)
    found = bc.certify(bc.sample(core, random_seed=2, **QUIET), core, rows, **QUIET)
    assert found.elpd_loo_mcse < 3.0
    assert found.elpd_loo == pytest.approx(elpd_of(wanted), abs=10.0)
    assert found.elpd_loo_se == pytest.approx(float(wanted.se), rel=0.02)


def test_a_fit_of_counts_leaves_them_out_without_roles():
    fit = bc.fit(HOW["formula"], ROWS, family="poisson", exposure="time", random_state=1, **QUIET)
    known = loo(fit.idata, fit.coreset, ROWS, exposure="time", **QUIET)
    np.testing.assert_allclose(values_of(fit.loo()), values_of(known), rtol=1e-12)
