"""Differences of elpds and their errors: those of ArviZ where all rows are left out, unbiased where some are."""

import arviz as az
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayescore as bc
from bayescore.compat import ARVIZ_1
from bayescore.data.dataset import Dataset
from bayescore.diagnostics import elpd, row_sums
from bayescore.diagnostics import loo as loo_pass
from bayescore.diagnostics.loo import loo
from bayescore.validation import DataError
from tests.diagnostics.helpers import PARETO_APART, SMOOTHED_APART
from tests.hand_made import log_likelihood

QUIET = {"progressbar": False}


def table(n_rows, seed):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"a": rng.normal(size=n_rows), "b": rng.normal(size=n_rows)})
    frame["c"] = rng.choice(["low", "mid", "high"], n_rows)
    eta = frame["a"] - 0.3 * frame["b"] + 0.5 * (frame["c"] == "low")
    frame["y"] = np.where(eta + rng.logistic(size=n_rows) > 0, "yes", "no")
    return frame


def sampled(core, **options):
    quick = {"sampler": "mala", "draws": 250, "tune": 300, "chains": 2, "random_seed": 1}
    return bc.sample(core, **QUIET, **{**quick, **options})


@pytest.fixture(scope="module")
def few():
    """A table of 600 rows, and models of all of them: name to (posterior, rows)."""
    frame = table(600, 0)
    models = {}
    for name, formula in {"all": "y ~ a + b + c", "one": "y ~ a"}.items():
        rows = bc.all_rows(frame, formula=formula, **QUIET)
        models[name] = sampled(rows), rows
    rows = models["all"][1]
    models["probit"] = sampled(rows, family="probit", random_seed=2), rows
    return frame, models


def in_arviz(idata, rows):
    """Return ArviZ's own leave-one-out, its relative efficiency 1 as bayescore has it."""
    both = idata.copy()
    both["log_likelihood"] = xr.Dataset({"y": log_likelihood(idata, rows)})
    return az.loo(both, pointwise=True, reff=1.0)


@pytest.fixture(scope="module")
def theirs(few):
    return {name: in_arviz(*given) for name, given in few[1].items()}


def values(elpd):
    return (elpd.elpd_i if ARVIZ_1 else elpd.loo_i).values


def test_with_every_row_left_out_it_is_arvizs(few, theirs):
    frame, models = few
    found = bc.loo_compare(models, frame, **QUIET)
    each = {name: values(elpd) for name, elpd in theirs.items()}
    order = sorted(each, key=lambda name: -each[name].sum())
    assert list(found.index) == order
    assert list(found["rank"]) == [0, 1, 2]
    best = each[order[0]]
    for name in order:
        apart = each[name] - best
        row = found.loc[name]
        assert row["elpd_loo"] == pytest.approx(each[name].sum(), abs=SMOOTHED_APART)
        assert row["se"] == pytest.approx(np.sqrt(600 * each[name].var()), rel=SMOOTHED_APART)
        assert row["elpd_diff"] == pytest.approx(apart.sum(), abs=SMOOTHED_APART)
        assert row["dse"] == pytest.approx(np.sqrt(600 * apart.var()), rel=SMOOTHED_APART, abs=SMOOTHED_APART)
        assert row["bad_k"] == 0
        assert row["pareto_k"] == 0.0
    worst = found.loc["one"]
    assert worst["dse"] < 0.5 * np.hypot(worst["se"], found["se"].iloc[0])  # separate errors would say nothing


@pytest.mark.statistical(rate=1e-6)
def test_some_rows_tell_what_all_do(few, monkeypatch):
    """60 of 600 rows by 25 seeds: the mean is within 7 standard errors of all rows' figure, 3e-7 by Student's t.

    Sampled rows alone, scaled up, would have an sd of 3 `dse`; with the cumulants of all rows it is a sixtieth of that.
    """
    frame, models = few
    whole = bc.loo_compare(models, frame, **QUIET)
    monkeypatch.setattr(elpd, "ROWS", 60)
    found = []
    for seed in range(25):
        monkeypatch.setattr(elpd, "_SEED", seed)
        found.append(bc.loo_compare(models, frame, **QUIET).loc[whole.index])
    for name in whole.index[1:]:
        gaps = np.array([part.loc[name, "elpd_diff"] for part in found]) - whole.loc[name, "elpd_diff"]
        assert abs(gaps.mean()) < 7.0 * gaps.std(ddof=1) / 5.0
        assert gaps.std() < 0.05 * whole.loc[name, "dse"]
        assert all(part.loc[name, "dse"] == pytest.approx(whole.loc[name, "dse"], rel=0.05) for part in found)
        noise = np.array([part.loc[name, "diff_mcse"] for part in found])
        assert gaps.std() < noise.mean() < 1.5 * whole.loc[name, "diff_mcse"]


@pytest.mark.filterwarnings("ignore:The inplace keyword:DeprecationWarning")  # ArviZ 0.23 uses it
def test_arvizs_compare_takes_what_loo_returns(few, theirs):
    frame, models = few
    own = {name: loo(*given, frame, **QUIET) for name, given in models.items()}
    for name, found in own.items():
        assert type(found) is type(theirs[name])
        np.testing.assert_allclose(values(found), values(theirs[name]), atol=SMOOTHED_APART)
        np.testing.assert_allclose(found["pareto_k"].values, theirs[name]["pareto_k"].values, atol=PARETO_APART)
        for field in ("elpd", "se", "p") if ARVIZ_1 else ("elpd_loo", "se", "p_loo"):
            assert found[field] == pytest.approx(theirs[name][field], rel=SMOOTHED_APART)
        for field in ("n_samples", "n_data_points", "warning", "scale", "good_k"):
            assert found[field] == theirs[name][field]
        assert ARVIZ_1 or str(found) == str(theirs[name])
    mine, reference = az.compare(own), az.compare(theirs)
    pd.testing.assert_frame_equal(mine, reference, rtol=1e-3, atol=1e-6)
    az.plot_compare(mine)


@pytest.mark.slow
@pytest.mark.statistical(rate=1e-6)
def test_coresets_tell_the_difference_that_all_rows_do():
    """A coreset against MCMC on all of 20,000 rows: within 6 Monte Carlo errors of both, 2e-9 each.

    Such errors are themselves estimated, and skewed: a rate of 1e-6 is stated.
    """
    frame = table(20_000, 3)
    formulas = {"all": "y ~ a + b + c", "one": "y ~ a + c"}
    cores = {name: bc.build_coreset(frame, formula=formula, size=200, random_state=0, **QUIET)
             for name, formula in formulas.items()}  # fmt: skip
    full = {name: bc.all_rows(frame, formula=formula, **QUIET) for name, formula in formulas.items()}
    small, whole = (
        bc.loo_compare({name: (sampled(rows), rows) for name, rows in each.items()}, frame, **QUIET)
        for each in (cores, full)
    )
    gap = abs(small.loc["one", "elpd_diff"] - whole.loc["one", "elpd_diff"])
    noise = np.hypot(small.loc["one", "diff_mcse"], whole.loc["one", "diff_mcse"])
    assert noise < 0.2 * whole.loc["one", "dse"]
    assert gap < 6.0 * noise
    assert small.loc["one", "dse"] == pytest.approx(whole.loc["one", "dse"], rel=0.1)
    certificate = bc.certify(sampled(cores["one"], draws=2000), cores["one"], frame, **QUIET)
    assert small.loc["one", "elpd_loo"] == pytest.approx(certificate.elpd_loo, abs=6.0 * certificate.elpd_loo_mcse + 1)
    moved = bc.loo_compare(
        {"one": (certificate.idata, cores["one"]), "all": (sampled(cores["all"]), cores["all"])}, frame, **QUIET
    )
    assert moved.loc["one", "pareto_k"] == 0.0
    assert abs(moved.loc["one", "elpd_diff"] - whole.loc["one", "elpd_diff"]) < 6.0 * noise


def test_a_sample_of_the_rows_tells_what_all_rows_at_all_draws_do(monkeypatch):
    frame = table(40_000, 7)
    models = {}
    for name, formula in {"all": "y ~ a + b + c", "one": "y ~ a + c"}.items():
        core = bc.build_coreset(frame, formula=formula, method="calibrated", size=100, random_state=3, **QUIET)
        models[name] = sampled(core), core
    found = bc.loo_compare(models, frame, **QUIET)
    monkeypatch.setattr(loo_pass, "_plan", lambda _: None)
    exact = bc.loo_compare(models, frame, **QUIET)
    assert (exact["elpd_diff"] < -100.0).any()
    apart = found["elpd_diff"] - exact["elpd_diff"]
    assert apart.abs().max() < 0.1  # nats: 0.02 of each sum, and control variates of the rows left out
    np.testing.assert_allclose(found["elpd_loo"], exact["elpd_loo"], atol=0.1)
    np.testing.assert_allclose(found[["se", "dse"]], exact[["se", "dse"]], rtol=1e-3)
    monkeypatch.undo()
    passes = []
    monkeypatch.setattr(row_sums, "MAX_SUM_ERROR", 0.0)  # no sample tells enough
    monkeypatch.setattr(Dataset, "map", lambda self, *given, _map=Dataset.map, **more: (
        passes.append(given[1]), _map(self, *given, **more))[1])  # fmt: skip
    again = bc.loo_compare(models, frame, **QUIET)
    assert passes.count("comparing") == 4
    np.testing.assert_allclose(again["elpd_diff"], exact["elpd_diff"], rtol=1e-12)


def test_draws_far_from_the_full_posterior_have_no_elpd():
    frame = table(20_000, 3)
    good, bad = (
        bc.build_coreset(frame, formula="y ~ a + b", method=method, size=60, random_state=0, **QUIET)
        for method in ("calibrated", "uniform")
    )
    posteriors = {"good": (sampled(good), good), "bad": (sampled(bad), bad)}
    with pytest.warns(UserWarning, match=r"models\['bad'\] has no elpd.*certificate\.idata"):
        found = bc.loo_compare(posteriors, frame, **QUIET)
    assert np.isnan(found.loc["bad", ["elpd_loo", "se", "elpd_diff", "dse", "diff_mcse"]].astype(float)).all()
    assert found.loc["good", "elpd_diff"] == 0.0
    with pytest.raises(DataError, match="too far from the full data's posterior"):
        loo(*posteriors["bad"], frame, **QUIET)


@pytest.mark.filterwarnings("ignore:missing='drop'")
def test_rows_with_missing_values_are_left_out_of_all_models_alike():
    frame = table(600, 5)
    holes = frame.assign(b=frame["b"].where(np.arange(600) % 7 != 0))
    formulas = {"both": "y ~ a + b", "product": "y ~ a * b", "one": "y ~ a"}
    models = {}
    for name, formula in formulas.items():
        core = bc.all_rows(holes, formula=formula, missing="drop", **QUIET)
        models[name] = sampled(core), core
    one = models.pop("one")
    found = bc.loo_compare(models, holes, missing="drop", **QUIET)
    expected = bc.loo_compare(models, holes.dropna(), **QUIET)
    pd.testing.assert_frame_equal(found, expected, rtol=1e-9)
    with pytest.raises(DataError, match=r"of the same rows and responses, .*; with missing='drop' each leaves out"):
        bc.loo_compare({**models, "one": one}, holes, missing="drop", **QUIET)
    with pytest.raises(DataError, match="column 'b' is nan in row 0; drop such rows"):
        bc.loo_compare(models, holes, **QUIET)


def test_numbers_of_other_units_are_not_compared():
    frame = table(600, 5).assign(amount=np.random.default_rng(1).lognormal(size=600))
    kept = {"family": "normal", "random_state": 0, **QUIET}
    models = {"plain": bc.fit("amount ~ a", frame, **kept), "log": bc.fit("log(amount) ~ a", frame, **kept)}
    with pytest.raises(DataError, match="of the same rows and responses, in the same unit"):
        bc.loo_compare(models, **QUIET)
    more = {"plain": models["plain"], "both": bc.fit("amount ~ a + b", frame, **kept)}
    assert list(bc.loo_compare(more, **QUIET)["elpd_loo"].notna()) == [True, True]


def test_offsets_and_trials_are_given_as_to_build_coreset():
    frame = table(600, 5).assign(o=np.linspace(-0.5, 0.5, 600), n=3)
    s, features = (frame["y"] == "yes") * 2, frame[["a", "b"]]
    core = bc.all_rows(features, s, trials=frame["n"], offset=frame["o"], **QUIET)
    models = {name: (sampled(core, random_seed=seed), core) for name, seed in (("first", 1), ("second", 2))}
    found = bc.loo_compare(models, features, s, trials=frame["n"], offset=frame["o"], **QUIET)
    assert found["elpd_diff"].abs().max() < 1.0
    with pytest.raises(DataError, match="offset='offset' is not a column"):
        bc.loo_compare(models, features, s, trials=frame["n"], **QUIET)


def test_bad_input_is_named(few):
    frame, models = few
    idata, rows = models["all"]
    with pytest.raises(DataError, match="models has 1 entries"):
        bc.loo_compare({"a": (idata, rows)}, frame)
    with pytest.raises(TypeError, match=r"models\['a'\] is a .*; give a fit, or \(posterior, coreset\)"):
        bc.loo_compare({"a": idata, "b": idata}, frame)
    with pytest.raises(TypeError, match="a DataFrame stands for the coreset"):
        bc.loo_compare({"a": (idata, frame), "b": (idata, rows)}, frame)
    with pytest.raises(DataError, match="the draws are of another coreset's posterior"):
        bc.loo_compare({"a": (idata, rows.take(slice(300))), "b": (idata, rows)}, frame)
    with pytest.raises(DataError, match="total weight"):
        bc.loo_compare(models, frame[:500], **QUIET)
    turned = bc.all_rows(frame, formula="y ~ a", positive="no", **QUIET)
    said = r"models\['t'\] has the labels \('yes', 'no'\), models\['a'\] the labels \('no', 'yes'\)"
    with pytest.raises(DataError, match=said):
        bc.loo_compare({"a": models["one"], "t": (sampled(turned), turned)}, frame, **QUIET)
    for beside in ({"y": np.zeros(600)}, {"weights": frame["a"]}, {"missing": "drop"}):
        with pytest.raises(TypeError, match=f"{next(iter(beside))} is given and data is not"):
            bc.loo_compare(models, **beside)
    with pytest.raises(ValueError, match="max_draws=5 must"):
        loo(idata, rows, frame, max_draws=5)
    double = bc.all_rows(frame, formula="y ~ a", weights=np.full(600, 2.0), **QUIET)
    with pytest.raises(DataError, match="total weight"):
        loo(sampled(double), double, frame, **QUIET)
    with pytest.raises(DataError, match="weight other than 1"):
        loo(sampled(double), double, double, **QUIET)
