"""Predictions of a fit: rows of known groups, and of groups that it does not know."""

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.validation import DataError, RowError


@pytest.fixture(scope="module")
def fit():
    rng = np.random.default_rng(5)
    n, n_groups = 12_000, 40
    frame = pd.DataFrame({"x": rng.normal(size=n), "g": rng.integers(0, n_groups, n)})
    u = rng.normal(0, 0.8, n_groups)
    frame["y"] = 0.5 * frame["x"] + u[frame["g"]] + rng.logistic(size=n) > 0
    return bc.fit("y ~ x + (1 | g)", frame, random_state=1, progressbar=False)


NEW = pd.DataFrame({"x": [0.0, 0.0, 1.0, 1.0], "g": [100, 200, 100, 3]})


def test_the_interval_of_a_new_group_has_the_spread_of_groups(fit):
    """The mean of sigma is near 0.8: 95% of new groups are within 1.6 of the mean on the log odds."""
    sampled, averaged = fit.predict(NEW), fit.predict(NEW, new_groups="average")
    assert np.allclose(sampled["mean"], averaged["mean"])
    width = sampled["97.5%"] - sampled["2.5%"]
    assert (width[:3] > 0.5).all()
    assert (averaged["97.5%"] - averaged["2.5%"])[:3].max() < 0.25
    assert np.allclose(sampled.loc[3], averaged.loc[3])
    sigma = fit.idata.posterior["sigma_g"].values.ravel()
    beta = fit._used.posterior["beta"].values.reshape(len(sigma), -1) @ fit.coreset.design.transform(NEW)[0]
    draws = 1 / (1 + np.exp(-(beta + sigma * np.random.default_rng(0).normal(size=len(sigma)))))
    assert np.allclose(sampled.loc[0, ["2.5%", "97.5%"]], np.quantile(draws, [0.025, 0.975]), atol=0.03)


def test_rows_of_one_new_group_share_its_effect(fit):
    p = fit.predict(NEW, kind="draws")
    assert p.dims == ("sample", "row")
    logit = np.log(p / (1 - p)).values
    assert np.corrcoef(logit[:, 0], logit[:, 2])[0, 1] > 0.95
    assert abs(np.corrcoef(logit[:, 0], logit[:, 1])[0, 1]) < 0.5
    alone = fit.predict(NEW[2:], kind="draws").values
    assert np.allclose(alone, p.values[:, 2:])
    same = fit.predict(NEW.astype({"g": float}), kind="draws").values  # as pandas has whole numbers beside missing ones
    np.testing.assert_array_equal(same, p.values)
    wide = [NEW.assign(g=[10**15, 7, 10**15, 3]).astype({"g": kind}) for kind in (int, float, "category")]
    first, *others = (fit.predict(table, kind="draws").values for table in wide)
    for one in others:
        np.testing.assert_array_equal(one, first)


def test_predictions_have_the_level_and_the_data_s_index(fit):
    found = fit.predict(NEW.set_axis(list("abcd")), prob=0.9)
    assert list(found.columns) == ["mean", "sd", "5%", "95%"]
    assert list(found.index) == list("abcd")
    assert found.attrs["level"] == fit.level
    assert np.allclose(found["mean"], fit.predict(NEW)["mean"])
    labels = fit.predict(NEW, kind="response")
    assert labels.attrs["level"] == fit.level
    assert set(np.unique(labels)) == {False, True}
    assert np.allclose(labels.mean("sample"), found["mean"], atol=0.05)


@pytest.mark.parametrize(
    ("new", "options", "message"),
    [
        (NEW.drop(columns="x"), {}, "'x'"),
        (NEW.drop(columns="g"), {}, "'g'"),
        (NEW.assign(x="a"), {}, "'x'"),
        (NEW, {"kind": "odds"}, "kind='odds'"),
        (NEW, {"new_groups": "drop"}, "new_groups='drop'"),
        (NEW, {"prob": 1.5}, "prob"),
    ],
)
def test_bad_input_is_named(fit, new, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        fit.predict(new, **options)


def test_another_prior_answers_from_the_same_coreset(fit):
    """The likelihood of the slope is nearly normal: a prior N(0, s^2) shrinks its mean by s^2 / (s^2 + sd^2)."""
    other = fit.with_prior({"x": bc.priors.Normal(0, 0.05)})
    assert other.coreset is fit.coreset
    assert other.level in ("certified", "corrected")
    mean, sd = fit.summary().loc["x", ["mean", "sd"]]
    assert other.summary()["mean"]["x"] == pytest.approx(mean * 0.05**2 / (0.05**2 + sd**2), abs=0.25 * sd)
    assert other.prior_summary()["in_data_units"]["x"] == "Normal(mu=0, sigma=0.05)"
    with pytest.raises(ValueError, match="'z'"):
        fit.with_prior({"z": bc.priors.Normal(0, 1)})


def test_averages_by_group_are_those_of_known_groups(fit):
    known = pd.DataFrame({"x": [0.0, 1.0, 0.5], "g": [3, 3, 7]})
    found = fit.comparisons("x", by="g", data=known)
    assert found["g"].tolist() == [3, 7]
    with pytest.raises(DataError, match="by='g': row 0 of data is of a group that the posterior does not know"):
        fit.comparisons("x", by="g", data=NEW)


def test_rows_that_cannot_be_predicted_are_refused_with_a_remedy(fit):
    with pytest.raises(RowError, match=r"missing in 1 of .* first in row 1: drop such rows, or give them a level that"):
        fit.predict(NEW.assign(g=[1, None, 3, 4]))
    with pytest.raises(DataError, match=r"X='rows\.parquet' is text: read the rows of a file into a data frame"):
        fit.predict("rows.parquet")
    with pytest.raises(DataError, match=r"X is a dict: make a data frame of it first, pd.DataFrame\(X\)"):
        fit.predict(NEW.to_dict("list"))


def test_terms_that_are_not_finite_are_refused():
    rng = np.random.default_rng(6)
    rows = pd.DataFrame({"x": rng.exponential(size=3000)})
    rows["y"] = np.log1p(rows["x"]) + rng.logistic(size=3000) > 0
    fit = bc.fit("y ~ log1p(x)", rows, random_state=1, progressbar=False)
    bad = rows[:3].assign(x=[1.0, -5.0, 2.0])
    with pytest.raises(RowError, match=r"X: 'log1p\(x\)' is nan in row 1.*in 1 of the 3 rows") as found:
        fit.predict(bad)
    assert "missing=" not in str(found.value)
    assert np.isfinite(fit.predict(rows[:3])["mean"]).all()


@pytest.mark.parametrize("ask", ["average_predictions", "comparisons", "slopes"])
def test_averages_over_rows_whose_terms_are_not_finite_are_refused(ask):
    rng = np.random.default_rng(3)
    rows = pd.DataFrame({"x": rng.exponential(size=3000) + 0.1, "z": rng.normal(size=3000)})
    rows["y"] = np.log(rows["x"]) + rng.logistic(size=3000) > 0
    fit = bc.fit("y ~ log(x) + z", rows, random_state=1, progressbar=False)
    new = pd.DataFrame({"x": [1.0, 0.0, 2.0], "z": 0.0})
    variable = () if ask == "average_predictions" else ("z",)
    with pytest.raises(RowError, match=r"data( with 'z' [a-z ]+[\d.e-]+)?: 'log\(x\)' is -inf in row 1"):
        getattr(fit, ask)(*variable, data=new)
