"""Replicated labels follow p(x . beta), and ArviZ's plots of either stack take them."""

import arviz as az
import matplotlib as mpl
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.special import expit
from scipy.stats import binom

import bayescore as bc
from bayescore.compat import ARVIZ_1
from bayescore.validation import DataError
from tests.arviz_draws import inference_data
from tests.hand_made import fit_of, log_likelihood

mpl.use("Agg")


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 2))
    return bc.all_rows(X, np.where(rng.random(40) < expit(X[:, 0]), "yes", "no"), intercept=True, progressbar=False)


@pytest.fixture(scope="module")
def idata(rows):
    return bc.sample(rows, sampler="mala", draws=1000, tune=500, chains=2, random_seed=1, progressbar=False)


@pytest.mark.statistical(rate=1e-6)
def test_labels_have_the_predictive_probability_of_each_row(idata, rows):
    """Each row's count against its own binomial, given the draws; rate: Bonferroni over 40 rows."""
    check = fit_of(idata, rows).inference_data(rows, max_draws=2000, random_state=2)
    labels = check.posterior_predictive["y"].values
    assert labels.shape == (2, 1000, 40)
    p = expit(idata.posterior["beta"].values @ rows.X.T).mean(axis=(0, 1))
    counts = labels.sum(axis=(0, 1))
    tail = 2.0 * np.minimum(binom.cdf(counts, 2000, p), binom.sf(counts - 1, 2000, p))  # variance is at most this one's
    assert tail.min() > 1e-6 / 40
    wrong = 2.0 * np.minimum(binom.cdf(counts, 2000, 1.0 - p), binom.sf(counts - 1, 2000, 1.0 - p))
    assert wrong.min() < 1e-10  # the classes turned round would show
    np.testing.assert_array_equal(check.observed_data["y"].values, rows.y > 0)


def test_the_posterior_given_is_left_alone_and_a_seed_repeats(idata, rows):
    fit = fit_of(idata, rows)
    one, two = (fit.inference_data(rows, max_draws=10, random_state=5) for _ in range(2))
    assert "posterior_predictive" not in idata
    assert one.posterior_predictive["y"].shape == (2, 5, 40)
    np.testing.assert_array_equal(one.posterior_predictive["y"].values, two.posterior_predictive["y"].values)
    again = fit.inference_data(rows, max_draws=10, random_state=6)
    assert (again.posterior_predictive["y"].values != one.posterior_predictive["y"].values).any()


@pytest.mark.slow
def test_arviz_plots_take_it(idata, rows):
    check = fit_of(idata, rows).inference_data(rows, max_draws=50, random_state=5)
    if ARVIZ_1:
        with pytest.warns(UserWarning, match="binary|discrete"):
            az.plot_ppc_dist(check)
        az.plot_ppc_pava(check, data_type="binary")  # in place of plot_separation, and for binary labels of plot_ppc
        az.plot_ppc_interval(check)
        with pytest.warns(UserWarning, match="binary"):
            az.plot_ppc_tstat(check, t_stat="mean")  # in place of plot_bpv
    else:
        az.plot_ppc(check, num_pp_samples=20, random_seed=1)
        az.plot_separation(check, y="y")
        az.plot_bpv(check)


def test_groups_tell_who_made_them_and_which_draws_and_rows(idata, rows):
    fit = fit_of(idata, rows)
    check = fit.inference_data(rows, max_draws=10, random_state=5)
    parameters = fit.summary().index
    assert list(check["posterior"].data_vars) == list(parameters)
    for name, coef in zip(parameters, np.moveaxis(idata.posterior["coef"].values, 2, 0), strict=True):
        np.testing.assert_array_equal(check["posterior"][name], coef[:, check["posterior"]["draw"]])
    replicated = check.posterior_predictive["y"]
    assert replicated.dims == ("chain", "draw", "row")
    np.testing.assert_array_equal(replicated["draw"], [0, 250, 500, 749, 999])
    np.testing.assert_array_equal(replicated["row"], rows.index)
    for group in ("posterior", "log_likelihood", "posterior_predictive", "observed_data"):
        assert {"created_at", "inference_library", "inference_library_version"} <= set(check[group].attrs), group
    assert check.posterior.attrs["level"] == fit.level
    assert check.posterior_predictive.attrs["random_state"] == "5"


def test_leave_one_out_of_arviz_takes_the_log_likelihood(idata, rows):
    both = fit_of(idata, rows).inference_data()
    np.testing.assert_allclose(
        both["log_likelihood"]["y"], log_likelihood(idata, rows).sel(draw=both["log_likelihood"]["draw"])
    )
    assert both["log_likelihood"]["y"].dims == ("chain", "draw", "row")
    assert (found := az.loo(both)).n_data_points == 40
    assert -40.0 < found["elpd" if ARVIZ_1 else "elpd_loo"] < -10.0


def test_a_model_of_ones_own_has_predictions_too(rows):
    """PyMC's own predictive draws are none, as it says; the vector is called beta."""
    import pymc as pm

    with pm.Model(coords={"column": rows.feature_names}) as model:
        tau = pm.HalfNormal("tau", 2.0)
        beta = pm.Normal("beta", 0.0, tau, dims="column")
        bc.weighted_potential("loglik", rows, beta)
    rng = np.random.default_rng(4)
    draws = {"tau": np.ones((2, 50)), "beta": rng.normal(size=(2, 50, 3))}
    own = inference_data({"posterior": draws}, coords={"column": list(rows.feature_names)}, dims={"beta": ["column"]})
    with model, pytest.warns(UserWarning, match="effect of Potentials"):
        none = pm.sample_posterior_predictive(own, progressbar=False)
    assert "posterior_predictive" not in none
    other = inference_data({"posterior": {"b": draws["beta"]}})
    with pytest.raises(DataError, match=r"no posterior draws of 'beta'.*name the vector of coefficients 'beta'"):
        bc.Fit.from_draws(other, rows, model=model)
    fit = fit_of(own, rows)
    found = fit.inference_data(rows)
    assert found.posterior_predictive["y"].shape == (2, 50, 40)
    p = expit(draws["beta"] @ rows.X.T)
    np.testing.assert_allclose(fit.predict(rows.X[:, 1:])["mean"], p.mean(axis=(0, 1)), atol=1e-9)
    np.testing.assert_allclose(found["log_likelihood"]["y"], np.log(np.where(rows.y > 0, p, 1.0 - p)), rtol=1e-9)


def clicks(n=60):
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"age": rng.normal(size=n), "device": rng.choice(["phone", "tablet"], n)})
    return frame.assign(clicked=rng.choice(["no", "yes"], n), exposure=rng.normal(size=n))


def posterior_of(core):
    """Return draws about nothing, with the story that `sample` adds."""
    return bc.sample(core, sampler="mala", draws=20, tune=20, chains=2, random_seed=1, progressbar=False)


@pytest.mark.filterwarnings("ignore:.*(effective sample size|R-hat)")
@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.Table.from_pandas], ids=["pandas", "polars", "arrow"])
@pytest.mark.parametrize(
    "options",
    [{"formula": "clicked ~ age * device", "offset": "exposure"}, {"label": "clicked", "standardize": True}],
    ids=["formula", "label"],
)
@pytest.mark.filterwarnings("ignore:columns of text are coded")
def test_tables_of_raw_columns_and_labels_are_read_in_the_posterior_s_design(options, kind):
    frame = clicks()
    core = bc.all_rows(frame, **options, progressbar=False)
    drawn = posterior_of(core)
    others = frame.assign(w=2.0, id=[f"row {i}" for i in range(len(frame))])  # columns that the design knows nothing of
    found = fit_of(drawn, core).inference_data(kind(others), random_state=3)
    expected = fit_of(drawn, core).inference_data(core, random_state=3)
    for group in ("posterior_predictive", "log_likelihood", "observed_data"):
        np.testing.assert_array_equal(found[group]["y"].values, expected[group]["y"].values)
    np.testing.assert_array_equal(found["observed_data"]["y"].values, frame["clicked"] == "yes")


@pytest.mark.filterwarnings("ignore:.*(effective sample size|R-hat)")
def test_tables_that_lack_something_are_refused_by_name():
    frame = clicks()
    core = bc.all_rows(frame, formula="clicked ~ age * device", offset="exposure", progressbar=False)
    fit = fit_of(posterior_of(core), core)
    for changed, message in (
        (frame.drop(columns="clicked"), "label='clicked' is not a column"),
        (frame.drop(columns="exposure"), "offset='exposure' is not a column"),
        (frame.assign(device="fax"), "column 'device' has the level 'fax'"),
        (frame.assign(clicked="perhaps"), "column 'clicked' has the label 'perhaps'"),
        (frame.iloc[:0], "data is an empty table"),
    ):
        with pytest.raises(DataError, match=message):
            fit.inference_data(changed)
    with pytest.raises(DataError, match="offset is missing: the fit's data had one, 'exposure'"):
        fit.inference_data(frame["age"].to_numpy()[:, None], frame["clicked"])


def test_weighted_rows_and_foreign_posteriors_are_refused(idata, rows):
    fit = fit_of(idata, rows)
    with pytest.raises(DataError, match="row 0 one of 2, and ArviZ's functions count rows"):
        fit.inference_data(rows.with_weights(np.full(40, 2.0)))
    with pytest.raises(ValueError, match="max_draws"):
        fit.inference_data(rows, max_draws=0)
    foreign = inference_data(
        {"posterior": {"beta": np.zeros((2, 10, 3))}},
        coords={"feature": list(rows.feature_names)},
        dims={"beta": ["feature"]},
    )
    with pytest.raises(DataError, match="does not tell its prior"):
        bc.Fit.from_draws(foreign, rows)
