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
from bayescore.compat import ARVIZ_1, inference_data
from bayescore.validation import DataError

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
    check = bc.posterior_predictive(idata, rows, max_draws=2000, random_state=2)
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
    one, two = (bc.posterior_predictive(idata, rows, max_draws=10, random_state=5) for _ in range(2))
    assert "posterior_predictive" not in idata
    assert one.posterior_predictive["y"].shape == (2, 5, 40)
    np.testing.assert_array_equal(one.posterior_predictive["y"].values, two.posterior_predictive["y"].values)
    again = bc.posterior_predictive(idata, rows, max_draws=10, random_state=6)
    assert (again.posterior_predictive["y"].values != one.posterior_predictive["y"].values).any()


@pytest.mark.slow
def test_arviz_plots_take_it(idata, rows):
    check = bc.posterior_predictive(idata, rows, max_draws=50, random_state=5)
    if ARVIZ_1:
        az.plot_ppc_pava(check, data_type="binary")  # in place of plot_separation, and for binary labels of plot_ppc
        az.plot_ppc_interval(check)
        with pytest.warns(UserWarning, match="binary"):
            az.plot_ppc_tstat(check, t_stat="mean")  # in place of plot_bpv
    else:
        az.plot_ppc(check, num_pp_samples=20, random_seed=1)
        az.plot_separation(check, y="y")
        az.plot_bpv(check)


def test_groups_tell_who_made_them_and_which_draws_and_rows(idata, rows):
    check = bc.posterior_predictive(idata, rows, max_draws=10, random_state=5)
    replicated = check.posterior_predictive["y"]
    assert replicated.dims == ("chain", "draw", "row")
    np.testing.assert_array_equal(replicated["draw"], [0, 250, 500, 749, 999])
    np.testing.assert_array_equal(replicated["row"], rows.index)
    for group in ("posterior", "sample_stats", "constant_data", "posterior_predictive", "observed_data"):
        assert {"created_at", "inference_library", "inference_library_version"} <= set(check[group].attrs), group
    assert check.sample_stats.attrs["sampler"] == "mala"
    assert check.sample_stats.attrs["tuning_steps"] == 500
    assert check.posterior_predictive.attrs["random_state"] == "5"


def test_leave_one_out_of_arviz_takes_the_log_likelihood(idata, rows):
    both = idata.copy()
    both["log_likelihood"] = bc.log_likelihood(idata, rows).to_dataset()
    assert both["log_likelihood"]["y"].dims == ("chain", "draw", "row")
    assert (found := az.loo(both)).n_data_points == 40
    assert -40.0 < found["elpd" if ARVIZ_1 else "elpd_loo"] < -10.0


def test_a_model_of_ones_own_has_predictions_too(rows):
    """PyMC's own predictive draws are none, as it says; `var_name` names the vector."""
    import pymc as pm

    with pm.Model(coords={"column": rows.feature_names}) as model:
        tau = pm.HalfNormal("tau", 2.0)
        b = pm.Normal("b", 0.0, tau, dims="column")
        bc.weighted_potential("loglik", rows, b)
    rng = np.random.default_rng(4)
    draws = {"tau": np.ones((2, 50)), "b": rng.normal(size=(2, 50, 3))}
    own = inference_data({"posterior": draws}, coords={"column": list(rows.feature_names)}, dims={"b": ["column"]})
    with model, pytest.warns(UserWarning, match="effect of Potentials"):
        none = pm.sample_posterior_predictive(own, progressbar=False)
    assert "posterior_predictive" not in none
    with pytest.raises(DataError, match=r"no posterior draws of 'beta'.*var_name= takes another name"):
        bc.posterior_predictive(own, rows)
    with pytest.raises(DataError, match=r"set idata\.posterior\.attrs"):
        bc.posterior_predictive(own, rows, var_name="b")
    own.posterior.attrs["family"] = "logistic"
    assert bc.posterior_predictive(own, rows, var_name="b").posterior_predictive["y"].shape == (2, 50, 40)
    p = expit(draws["b"] @ rows.X.T)
    np.testing.assert_allclose(bc.predict(own, rows.X, var_name="b")["mean"], p.mean(axis=(0, 1)), atol=1e-9)
    np.testing.assert_allclose(
        bc.log_likelihood(own, rows, var_name="b"), np.log(np.where(rows.y > 0, p, 1.0 - p)), rtol=1e-9
    )


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
    found = bc.posterior_predictive(drawn, kind(others), random_state=3)
    expected = bc.posterior_predictive(drawn, core, random_state=3)
    for group in ("posterior_predictive", "observed_data"):
        np.testing.assert_array_equal(found[group]["y"].values, expected[group]["y"].values)
    np.testing.assert_array_equal(found["observed_data"]["y"].values, frame["clicked"] == "yes")


@pytest.mark.filterwarnings("ignore:.*(effective sample size|R-hat)")
def test_tables_that_lack_something_are_refused_by_name():
    frame = clicks()
    drawn = posterior_of(bc.all_rows(frame, formula="clicked ~ age * device", offset="exposure", progressbar=False))
    for changed, message in (
        (frame.drop(columns="clicked"), "data has no column 'clicked' of labels.*or use predict"),
        (frame.drop(columns="exposure"), "offset='exposure' is not a column"),
        (frame.assign(device="fax"), "column 'device' has the level 'fax'"),
        (frame.assign(clicked="perhaps"), "column 'clicked' has the label 'perhaps'"),
        (frame.iloc[:0], "data is an empty table"),
    ):
        with pytest.raises(DataError, match=message):
            bc.posterior_predictive(drawn, changed)
    with pytest.raises(TypeError, match=r"data is a ndarray; give a data frame .*all_rows\(X, y, design="):
        bc.posterior_predictive(drawn, frame["age"].to_numpy())


def test_weighted_rows_and_foreign_posteriors_are_refused(idata, rows):
    with pytest.raises(DataError, match="counts rows"):
        bc.posterior_predictive(idata, rows.with_weights(np.full(40, 2.0)))
    with pytest.raises(ValueError, match="max_draws"):
        bc.posterior_predictive(idata, rows, max_draws=0)
    foreign = inference_data(
        {"posterior": {"beta": np.zeros((2, 10, 3))}},
        coords={"feature": list(rows.feature_names)},
        dims={"beta": ["feature"]},
    )
    with pytest.raises(DataError, match="family"):
        bc.posterior_predictive(foreign, rows)
