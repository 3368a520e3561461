"""Fits of formulas with s(x): the curve, its certificate, all questions, files, updates, and what is refused."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.validation import DataError

mpl.use("Agg")
QUIET = {"random_state": 1, "progressbar": False}
N = 4000
FORMULA = "y ~ s(x) + z"


def made(family="logistic", curve=np.sin, n=N, *, seed=0):
    rng = np.random.default_rng(seed)
    rows = pd.DataFrame({"x": rng.uniform(0.0, 10.0, n), "z": rng.normal(size=n)})
    eta = curve(rows["x"]) + 0.4 * rows["z"]
    if family == "logistic":
        return rows.assign(y=(rng.random(n) < 1.0 / (1.0 + np.exp(-eta))).astype(int))
    return rows.assign(
        y={
            "poisson": lambda: rng.poisson(np.exp(eta)),
            "normal": lambda: eta + 1.5 * rng.normal(size=n),
            "gamma": lambda: rng.gamma(2.0, np.exp(eta) / 2.0),
            "negative_binomial": lambda: rng.negative_binomial(2.0, 2.0 / (2.0 + np.exp(eta))),
        }[family]()
    )


@pytest.fixture(scope="module")
def fit():
    return bc.fit(FORMULA, made(), **QUIET)


def curve_of(fit):
    """Return draws of the curve at points, less its mean over these, shape (S, 9), and sin(x) alike."""
    new = pd.DataFrame({"x": np.linspace(0.5, 9.5, 9), "z": 0.0})
    design = fit.coreset.design
    coef = fit.idata.posterior["coef"].stack(sample=("chain", "draw")).transpose("sample", "feature").values
    eta = coef @ design.raw_columns(design.transform(new)).T
    return eta - eta.mean(axis=1, keepdims=True), np.sin(new["x"]) - np.sin(new["x"]).mean()


@pytest.mark.statistical(rate=1e-6)
@pytest.mark.parametrize("family", ["logistic", "poisson", "normal", "gamma", "negative_binomial"])
def test_the_curve_is_found_and_certified(family):
    """A curve of ten knots is off by less than an sd; 54 gaps beyond 6.5 sds: 5e-9."""
    fit = bc.fit(FORMULA, made(family), family=family, **QUIET)
    assert fit.level == "certified", fit.certificate.text
    curve, truth = curve_of(fit)
    assert (np.abs(curve.mean(axis=0) - truth) < 6.5 * curve.std(axis=0)).all()
    assert 0.2 < fit.summary()["mean"]["sigma_s(x)"] < 4.0


def test_where_the_truth_is_straight_sigma_goes_to_0_and_mixes():
    fit = bc.fit(FORMULA, made(curve=lambda x: 0.2 * (x - 5.0)), **QUIET)
    summary = fit.summary()
    assert fit.level == "certified", fit.certificate.text
    assert summary["ess_bulk"].min() >= 400.0
    assert summary["mean"]["sigma_s(x)"] < 0.3
    assert abs(summary["mean"]["s(x)[linear]"] - 0.2) < 5.0 * summary["sd"]["s(x)[linear]"]


def test_two_smooths_have_an_sd_each():
    fit = bc.fit("y ~ s(x, k=12) + s(z, k=5)", made(), **QUIET)
    assert fit.level == "certified", fit.certificate.text
    summary = fit.summary()["mean"]
    assert summary["sigma_s(x, k=12)"] > 3.0 * summary["sigma_s(z, k=5)"]


def test_curves_by_a_factor_have_an_sd_each_and_are_read_back(tmp_path):
    rng = np.random.default_rng(5)
    rows = pd.DataFrame({"x": rng.uniform(0.0, 10.0, N), "f": rng.choice(["line", "wave"], N)})
    eta = np.where(rows["f"] == "wave", np.sin(rows["x"]), 0.1 * rows["x"] - 0.5)
    rows["y"] = (rng.random(N) < 1.0 / (1.0 + np.exp(-eta))).astype(int)
    fit = bc.fit("y ~ f + s(x, by=f)", rows, **QUIET)
    assert fit.level == "certified", fit.certificate.text
    sd = fit.summary()["mean"].filter(like="sigma_")
    assert list(sd.index) == ["sigma_s(x, by=f)[line]", "sigma_s(x, by=f)[wave]"]
    assert sd.iloc[1] > 3.0 * sd.iloc[0]
    new = pd.DataFrame({"x": [np.pi / 2.0, 3.0 * np.pi / 2.0], "f": "wave"})
    mean = fit.predict(new)["mean"]
    assert mean[0] > 0.6
    assert mean[1] < 0.4
    fit.save(tmp_path / "fit")
    assert bc.read_fit(tmp_path / "fit").predict(new)["mean"].equals(mean)
    assert len(fit.slopes("x", by="f")) == 2
    with pytest.raises(ValueError, match="one sd"):
        fit.with_prior({"s(x, by=f)": bc.priors.Normal()})


def test_the_page_has_the_sd_and_leaves_the_bends_to_the_picture(fit):
    page = str(fit)
    assert "Smooth terms (standard deviations of the bends)" in page
    assert "sigma_s(x)" in page
    assert "s(x)[linear]" in page
    assert "s(x)[3]" not in page
    assert "fit.plot('x')" in page
    assert fit._pull is None


def test_prior_summary_names_the_sd_of_bends(fit):
    priors = fit.prior_summary()["in_data_units"]
    assert priors["s(x)[3]"] == "Normal(mu=0, sigma=sigma_s(x))"
    assert priors["sigma_s(x)"] == "HalfStudentT(nu=3, sigma=2.5)"


def test_predictions_and_pictures_follow_the_curve(fit):
    new = pd.DataFrame({"x": [np.pi / 2.0, 3.0 * np.pi / 2.0, -5.0, 15.0], "z": 0.0})
    mean = fit.predict(new)["mean"]
    assert mean[0] > 0.65
    assert mean[1] < 0.35
    assert mean.between(0.0, 1.0).all()  # straight beyond the knots
    assert len(fit.plot("x").lines) > 0
    assert fit.comparisons("z")["mean"].iloc[0] > 0.0


def test_slopes_are_those_of_the_curve(fit):
    """The average slope over rows at one place is that of differences of predictions there."""
    rows = pd.DataFrame({"x": [2.0], "z": [0.0]})
    step = 1e-3
    ends = [fit.predict(rows.assign(x=2.0 + move), kind="draws").values for move in (-step, step)]
    expected = float((ends[1] - ends[0]).mean() / (2.0 * step))
    # slopes are of 1,000 of the 4,000 draws, whose mean is 0.03 sd off: six times that
    slope = fit.slopes("x", data=rows).iloc[0]
    assert abs(slope["mean"] - expected) < 0.18 * slope["sd"]
    assert abs(slope["mean"] - fit.summary(scale="coef").loc["z", "mean"]) > 0.18 * slope["sd"]  # the control


def test_a_fit_is_read_back_and_updated_with_its_knots(fit, tmp_path):
    fit.save(tmp_path / "fit")
    read = bc.read_fit(tmp_path / "fit")
    assert read.summary().equals(fit.summary())
    new = made(n=500, seed=1).assign(x=lambda rows: rows["x"] + 1.0)
    assert read.predict(new)["mean"].equals(fit.predict(new)["mean"])
    more = read.update(new, progressbar=False)
    assert more.level == "certified", more.certificate.text
    assert more.coreset.design.state == fit.coreset.design.state
    assert more.coreset.n_total == N + 500


def test_another_prior_of_the_straight_parts_keeps_the_bends(fit):
    tight = fit.with_prior({"z": bc.priors.Normal(0.0, 0.05)})
    assert tight.level == "certified", tight.certificate.text
    assert tight.summary()["mean"]["z"] < 0.9 * fit.summary()["mean"]["z"]
    assert tight._design_prior.bends == fit._design_prior.bends
    other = bc.fit(FORMULA, made(), prior=bc.priors.StudentT(3.0, 0.0, 2.5), **QUIET)
    assert other.level == "certified", other.certificate.text


@pytest.mark.parametrize("family", ["logistic", "normal"])
def test_group_prior_is_that_of_the_sds_of_bends(family, tmp_path):
    tight = bc.priors.HalfNormal(0.05)
    fit = bc.fit(FORMULA, made(family, n=2000), family=family, group_prior=tight, **QUIET)
    assert fit.level == "certified", fit.certificate.text
    assert fit.summary()["mean"]["sigma_s(x)"] < 0.5
    assert fit.group_prior == tight
    assert fit.prior_summary()["prior"]["sigma_s(x)"] == "HalfNormal(sigma=0.05)"
    fit.save(tmp_path / "fit")
    read = bc.read_fit(tmp_path / "fit")
    assert read.group_prior == tight
    assert read.update(made(family, n=500, seed=2), progressbar=False)._design_prior.bends[0].scale == 0.05
    idata = bc.sample(fit.coreset, group_prior=tight, random_seed=1, progressbar=False)
    assert float(idata.posterior["sigma_s(x)"].mean()) < 0.5


def test_sensitivity_weighs_the_sds_too(fit):
    table = fit.prior_sensitivity(scales=[0.5, 2.0])
    sd = table[table["parameter"] == "sigma_s(x)"].set_index("scale")
    assert (sd["by"] == "weights").all()
    assert sd["mean"][0.5] < sd["mean"][2.0]


def test_draws_are_those_of_all_rows_from_every_source(fit, tmp_path):
    made().to_parquet(tmp_path / "rows.parquet", row_group_size=900)
    assert bc.fit(FORMULA, tmp_path / "rows.parquet", **QUIET).summary().equals(fit.summary())


def test_draws_of_sample_are_certified_by_name(fit):
    idata = bc.sample(fit.coreset, random_seed=5, progressbar=False)
    assert idata.posterior.attrs["sampler"] == "smooths"
    assert idata.posterior["sigma_s(x)"].shape == (4, 1000)
    assert bc.Fit.from_draws(idata, fit.coreset, made(), progressbar=False).level == "certified"


def test_the_sd_is_corrected_with_the_coefficients(fit):
    """Of 400 uniform rows the coefficients are far off, and so is the sd; both are moved to those of all rows."""
    few = bc.fit(FORMULA, made(), method="uniform", size=400, **QUIET)
    assert few.level == "corrected", few.certificate.text
    summary, expected = few.summary().loc["sigma_s(x)"], fit.summary().loc["sigma_s(x)"]
    assert abs(summary["mean"] - expected["mean"]) < 0.25 * expected["sd"]
    assert summary["sd"] == pytest.approx(expected["sd"], rel=0.25)
    few_alone = bc.sample(few.coreset, random_seed=1, progressbar=False).posterior["sigma_s(x)"]
    assert abs(float(few_alone.mean()) - expected["mean"]) > 0.5 * expected["sd"]


def test_draws_whose_sds_were_changed_are_not_certified(fit):
    idata = bc.sample(fit.coreset, random_seed=5, progressbar=False)
    idata.posterior["sigma_s(x)"] = 1.5 * idata.posterior["sigma_s(x)"]
    with pytest.warns(UserWarning, match="go with the coefficients"):
        found = bc.Fit.from_draws(idata, fit.coreset, made(), progressbar=False)
    assert found.level == "not certified"


def test_draws_whose_bends_were_shrunk_are_not_certified(fit):
    idata = bc.sample(fit.coreset, random_seed=5, progressbar=False)
    beta = idata.posterior["beta"]
    shrunk = beta.values.copy()
    shrunk[..., 2:10] *= 0.8
    idata.posterior["beta"] = beta.copy(data=shrunk)
    del idata["posterior"]["coef"]
    with pytest.warns(UserWarning, match="not certified"):
        found = bc.Fit.from_draws(idata, fit.coreset, made(), progressbar=False)
    assert found.level == "not certified"


REFUSED = [
    ({"sampler": "langevin"}, ValueError, "knows nothing of the sd of s"),
    ({"prior": bc.priors.Horseshoe()}, DataError, "prior is a Horseshoe, which does not go with s"),
    ({"prior": bc.priors.SpikeAndSlab()}, DataError, "prior is a SpikeAndSlab"),
    ({"prior": {"s(x)": bc.priors.Normal()}}, ValueError, "leave it out, or give one of 's"),
    ({"prior": {"s(x)[2]": bc.priors.Normal()}}, ValueError, "one sd, sigma_s"),
    ({"cluster": "c"}, DataError, "fit a natural spline"),
    ({"groups": "c"}, DataError, "without groups so far"),
]


@pytest.mark.parametrize(("options", "kind", "said"), REFUSED, ids=lambda value: str(value)[:30])
def test_what_does_not_go_with_a_smooth_is_refused_before_sampling(options, kind, said):
    rows = made(n=400).assign(c=np.arange(400) // 20)
    with pytest.raises(kind, match=said):
        bc.fit(FORMULA, rows, **options, **QUIET)


def test_modes_and_evidence_are_refused(fit):
    for verb in (bc.find_map, bc.log_evidence):
        with pytest.raises(DataError, match=r"s\(x\)"):
            verb(fit.coreset)
    with pytest.raises(DataError, match="natural spline"):
        fit.cluster_robust(np.arange(N) // 10)
    with pytest.raises(ValueError, match="leave sampler out"):
        bc.sample(fit.coreset, sampler="mala", progressbar=False)
    with pytest.raises(ValueError, match="is for terms"):
        bc.fit("y ~ x", made(n=300), sampler="smooths", **QUIET)


def test_the_report_has_no_odds_ratios_of_a_smooth(fit, tmp_path):
    fit.report(tmp_path / "report.html")
    ratios = (tmp_path / "report.html").read_text().split("Odds ratios")[1].split("</table>")[0]
    assert ">z<" in ratios
    assert "s(x)" not in ratios


def test_bends_that_rows_do_not_tell_apart_are_no_dependent_columns():
    """Rows of a level lie between two knots; warnings are errors."""
    rows = made().assign(f=lambda data: np.where(data["x"] < 1.0, "low", "high"))
    fit = bc.fit("y ~ f + s(x, by=f)", rows, **QUIET)
    assert fit.level == "certified", fit.certificate.text
    with pytest.warns(UserWarning, match=r"'s\(x\)\[linear\]', 's\(2 [*] x\)\[linear\]' depend"):
        bc.build_coreset(rows, formula="y ~ s(x) + s(2 * x)", random_state=1, progressbar=False)
