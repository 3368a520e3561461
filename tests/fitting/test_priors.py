"""Priors of a fit: by default by the sd of each column given the others; and others in units of the data."""

import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import bayescore as bc
from bayescore.data.design import Design
from bayescore.families.family import check_family
from bayescore.fitting.prior import design_prior, draws_under, rescaled
from bayescore.models.posterior import likelihood_terms
from bayescore.priors.by_name import prior_from_dict, prior_of
from bayescore.priors.groups import prior_on_columns
from tests.fitting.printed import one_line

DESIGN = Design(("age", "tall"), intercept=True, center=(40.0, 0.5), scale=(10.0, 0.5))


def test_the_default_is_2_5_over_the_sd_of_each_column():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(40, 10, 2000), rng.integers(0, 2, 2000)])
    fit = bc.fit(X, rng.random(2000) < 0.5, random_state=1, progressbar=False)
    told = fit.prior_summary()["in_data_units"].to_dict()
    sd = X.std(axis=0)
    assert told == {
        "Intercept": "Normal(mu=0, sigma=2.5), at the columns' means",
        "x0": f"Normal(mu=0, sigma={2.5 / sd[0]:.4g})",
        "x1": f"Normal(mu=0, sigma={2.5 / sd[1]:.4g})",
    }
    assert "2.5 / sd" in one_line(fit)


def test_a_prior_is_in_units_of_the_data():
    prior = design_prior(bc.priors.Normal(0.1, 0.2), DESIGN)
    assert prior == bc.priors.Normal((0.1, 1.0, 0.05), (0.2, 2.0, 0.1))
    student = design_prior(bc.priors.StudentT(3, 0, 1), DESIGN)
    assert student == bc.priors.StudentT(3.0, 0.0, (1.0, 10.0, 0.5))


def test_coefficients_without_a_prior_of_their_own_have_the_default():
    prior = design_prior({"age": bc.priors.Laplace(0, 1)}, DESIGN)
    assert prior.of_coefficient(1, "age", 3) == bc.priors.Laplace(0.0, 10.0)
    assert prior.of_coefficient(2, "tall", 3) == bc.priors.Normal(0.0, 2.5)
    every = design_prior({"age": bc.priors.Laplace(0, 1), "*": bc.priors.Normal(0, 1)}, DESIGN)
    assert every.of_coefficient(2, "tall", 3) == bc.priors.Normal(0.0, 0.5)


def test_columns_that_are_not_standardised_have_their_sds():
    prior = prior_on_columns(np.array([0.0, 30.0, 7.0]), np.array([0.0, 10.0, 0.0]), 0)
    assert prior.mu == (0.0, 0.0, 0.0)
    assert prior.sigma == pytest.approx((2.5 * np.sqrt(1.0 + 3.0**2), 0.25, 2.5))


@pytest.mark.filterwarnings("ignore:the draws are not certified", "ignore:column 'year' has the mean")
@pytest.mark.parametrize("weights", [None, "w"])
def test_a_streams_coreset_has_the_default_prior_whatever_comes_after(weights, tmp_path):
    """Its columns are not standardised: years lie a hundred sds from 0, where its intercept is."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"year": rng.integers(2000, 2025, 4000).astype(float), "z": rng.normal(0.0, 0.001, 4000)})
    rows["w"] = rng.uniform(0.5, 2.0, 4000)
    rows["y"] = 0.1 * (rows["year"] - 2012) + 1000.0 * rows["z"] + rng.logistic(size=4000) > 0
    stream = bc.stream(formula="y ~ year + z", size=300, weights=weights, random_state=1)
    for start in range(0, 4000, 1000):
        stream.partial_fit(rows[start : start + 1000])
    fit = bc.fit(stream.coreset(), random_state=1, progressbar=False)
    whole = bc.fit("y ~ year + z", rows, weights=weights, random_state=1, progressbar=False).summary()
    fit.save(tmp_path / "model")
    updated = fit.update(data=rows, progressbar=False)
    read = bc.read_fit(tmp_path / "model", rows, progressbar=False).with_prior(None)
    share = rows["w"] / rows["w"].sum() if weights else np.full(4000, 1 / 4000)
    mean = share @ rows[["year", "z"]]
    sds = np.sqrt(share @ (rows[["year", "z"]] - mean) ** 2)
    scales = [2.5 * np.sqrt(1.0 + ((mean / sds) ** 2).sum()), *(2.5 / sds)]
    for found, rtol in ((fit, 0.1), (updated, 0.1), (updated.with_prior(None), 3e-3), (read, 3e-3)):
        told = [float(own.split("sigma=")[1].rstrip(")")) for own in found.prior_summary()["prior"]]
        assert told == pytest.approx(scales, rel=rtol)
        if found is not fit:  # which was made about another mode
            moved = (found.summary()["mean"] - whole["mean"]) / whole["sd"]
            assert moved[["year", "z"]].abs().max() < 0.3
    assert "sqrt(1 + sum (mean / sd)^2)) of the intercept where they are 0" in one_line(fit)


@pytest.mark.parametrize("options", [{"intercept": False}, {}])
def test_the_default_prior_of_a_column_does_not_depend_on_the_intercept(options):
    rng = np.random.default_rng(0)
    X = rng.normal(0, 10, (1500, 1))
    fit = bc.fit(X, rng.random(1500) < 0.5, random_state=1, progressbar=False, **options)
    assert fit.prior_summary()["in_data_units"]["x0"] == f"Normal(mu=0, sigma={2.5 / X.std():.4g})"


@pytest.mark.parametrize("formula", ["y ~ age + device", None])
def test_a_name_that_is_no_coefficient_is_refused_before_the_build(formula, monkeypatch):
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"age": rng.normal(size=500), "device": rng.choice(["phone", "tablet"], 500)})
    rows["y"] = rng.random(500) < 0.5
    monkeypatch.setattr("bayescore.fitting.route.build_coreset", None)  # not called
    first = (formula, rows) if formula else (rows,)
    roles = {} if formula else {"label": "y"}
    with pytest.raises(ValueError, match=r"'agee'.*Intercept.*age.*device"):
        bc.fit(*first, prior={"agee": bc.priors.Normal(0, 1)}, progressbar=False, **roles)


def test_the_default_prior_of_a_stream_has_the_sds_of_its_columns():
    """It was Normal(0, 2.5) in the columns' own units, and the text said otherwise."""
    rng = np.random.default_rng(0)
    X = rng.normal(3.0, [0.1, 20.0], (8000, 2))
    y = rng.random(8000) < 0.5
    with pytest.warns(UserWarning, match="came once"):
        fit = bc.fit(iter([(X[:4000], y[:4000]), (X[4000:], y[4000:])]), random_state=1, progressbar=False)
    prior = prior_from_dict(fit._posterior().story["prior"])
    assert np.allclose(prior.sigma, [2.5 * np.hypot(1.0, 3.0 / 0.1), 2.5 / 0.1, 2.5 / 20.0], rtol=0.1)
    assert "where they are 0" in one_line(fit)


@pytest.fixture(scope="module")
def few():
    rng = np.random.default_rng(3)
    X = rng.normal(0.0, [1.0, 10.0], (400, 2))
    y = X[:, 0] + rng.logistic(size=400) > 0
    return bc.fit(X, y, prior=bc.priors.Normal(0, 1), random_state=1, progressbar=False)


def test_a_prior_of_another_scale_moves_the_coefficients_as_a_fit_under_it_does(few):
    found = few.prior_sensitivity([0.1, 0.7, 1.0]).set_index(["scale", "parameter"])
    assert found.groupby("scale")["level"].first().to_dict() == {
        0.1: "not certified",
        0.7: few.level,
        1.0: few.level,
    }
    assert found.attrs["level"] == "not certified"
    assert repr(few.prior_sensitivity([0.1, 0.7])).endswith("\nrows that are not certified: do not use")
    assert few.prior_sensitivity([1.0]).attrs["level"] == few.level
    by = found["by"].groupby("scale").first()
    assert by.to_dict() == {0.1: "new draws", 0.7: "weights", 1.0: "weights"}
    assert np.allclose(found.loc[1.0, "shift"], 0.0)
    own = few.summary()
    ends = ["mean", "2.5%", "97.5%"]
    assert (found.loc[1.0, ends] - own[ends]).abs().div(own["sd"], axis=0).max(axis=None) < 0.01
    for scale in (0.1, 0.7):
        known = few.with_prior(bc.priors.Normal(0, scale)).summary()
        off = (found.loc[scale, "mean"] - known["mean"]) / known["sd"]
        assert off.abs().max() < 0.15  # five Monte Carlo errors of a difference of 2,000 effective draws each
        assert np.allclose(found.loc[scale, "sd"], known["sd"], rtol=0.1)
    assert found.loc[(0.1, "x0"), "shift"] < -4.0  # the control: it is a strong prior


def test_scales_of_named_priors_are_multiplied_each():
    found = rescaled(prior_of({"a": bc.priors.Laplace(0.5, 2), "*": bc.priors.Normal(0, 1)}, ("a", "b")), 3.0)
    assert [own for _, own in found.priors] == [bc.priors.Laplace(0.5, 6.0), bc.priors.Normal(0.0, 3.0)]


@pytest.mark.parametrize(
    ("scales", "message"), [([1.0, 0.0], r"scales\[1\]=0"), ([], "scales is empty"), (["wide"], "scales")]
)
def test_scales_that_are_none_are_named(few, scales, message):
    with pytest.raises((ValueError, TypeError), match=message):
        few.prior_sensitivity(scales)


def test_a_calibrated_fit_has_its_prior_still():
    """The certificate's draws do not tell it; those that were drawn do."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(5000, 2))
    fit = bc.fit(X, X[:, 0] + rng.logistic(size=5000) > 0, random_state=1, progressbar=False)
    table = fit.prior_sensitivity([0.5, 1.0])
    assert fit.coreset.method == "calibrated"
    assert (table["shift"].abs() < 0.5).all()


@pytest.fixture(scope="module")
def grouped():
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"x": rng.normal(3.0, 2.0, 3000), "g": rng.choice(list("abcdefgh"), 3000)})
    u = dict(zip("abcdefgh", rng.normal(0.0, 0.8, 8), strict=True))
    return frame.assign(y=0.3 * frame["x"] - 1.0 + frame["g"].map(u) + rng.logistic(size=3000) > 0)


@pytest.mark.slow
def test_the_prior_of_sds_of_effects_is_kept_by_all_that_draws_again(grouped, tmp_path):
    """A prior near 0 pulls the sd of 8 effects far below where the default leaves it."""
    tight, quiet = bc.priors.HalfNormal(0.05), {"progressbar": False}
    fit = bc.fit("y ~ x + (1 | g)", grouped, group_prior=tight, random_state=1, **quiet)
    default = bc.fit("y ~ x + (1 | g)", grouped, random_state=1, **quiet)
    sigma = default.summary()["mean"]["sigma_g"]
    assert sigma > 0.4
    drawn = bc.sample(fit.coreset, prior=bc.priors.Normal(0.0, 2.5), group_prior=tight, random_seed=2, **quiet)
    fit.save(tmp_path / "model")
    with pytest.warns(UserWarning, match="not certified: The rows are a coreset"):
        of_core = bc.fit(fit.coreset, prior=bc.priors.Normal(0.0, 2.5), group_prior=tight, random_state=1, **quiet)
    for each in (
        fit,
        of_core,
        fit.with_prior({"x": bc.priors.Normal(0.0, 1.0)}),
        fit.update(grouped[:500], **quiet),
        bc.read_fit(tmp_path / "model", grouped, **quiet).with_prior(None),
        bc.Fit.from_draws(drawn, fit.coreset, grouped, **quiet).with_prior(None),
    ):
        assert each.summary()["mean"]["sigma_g"] < 0.6 * sigma
        assert each.group_prior == tight
        assert each.prior_summary()["prior"]["sigma_g"] == "HalfNormal(sigma=0.05)"
        assert "Group prior: HalfNormal(sigma=0.05)" in one_line(each)
    assert default.prior_summary()["in_data_units"]["sigma_g"] == "HalfStudentT(nu=3, sigma=2.5)"
    assert "group prior" not in repr(default)
    again = draws_under(fit, bc.priors.Normal(0.0, 2.5))
    assert float(again.posterior["sigma_g"].mean()) < 0.6 * sigma


@pytest.mark.slow
def test_priors_of_slopes_sds_and_correlations_are_stated(grouped):
    fit = bc.fit(
        "y ~ x + (1 + x | g)", grouped, group_prior=bc.priors.HalfNormal(1.0), random_state=1, progressbar=False
    )
    table = fit.prior_summary()["in_data_units"]
    assert table["sigma_g[1]"] == "HalfNormal(sigma=1), at the columns' means"
    assert table["sigma_g[x]"] == f"HalfNormal(sigma={1.0 / grouped['x'].std(ddof=0):.4g})"
    assert table["rho_g"] == "LKJ(eta=2), at the columns' means"
    assert set(table.index) >= {name for name in fit.summary().index if name.startswith("sigma_")}


def test_a_group_prior_without_groups_is_refused_before_work_starts(grouped):
    for rows in (("y ~ x", grouped), (grouped[["x"]], grouped["y"])):
        with pytest.raises(ValueError, match=r"group_prior=.* and the model has none; give a term \(1 \| g\)"):
            bc.fit(*rows, group_prior=bc.priors.HalfNormal(1.0), progressbar=False)
    with pytest.raises(TypeError, match="is no prior of a group sd; use HalfStudentT or HalfNormal"):
        bc.fit("y ~ x + (1 | g)", grouped, group_prior=bc.priors.Normal(), progressbar=False)


@pytest.fixture(scope="module")
def curved():
    """Years and their squares, whose correlation is 0.99997, and the events of four families."""
    rng = np.random.default_rng(11)
    n = 6000
    rows = pd.DataFrame({"year": rng.integers(1990, 2020, n).astype(float), "g": rng.integers(0, 8, n)})
    c = rows["year"] - 2004.0
    eta = 0.6 - 0.02 * c - 0.006 * c**2
    rows["y"] = (eta + rng.logistic(size=n) > 0).astype(int)
    return rows.assign(k=rng.poisson(np.exp(eta)), z=eta + rng.normal(size=n), square=rows["year"] ** 2)


FAMILIES = [("y", "logistic"), ("y", "probit"), ("y", "cloglog"), ("k", "poisson"), ("k", "negative_binomial(3)")]


@pytest.mark.parametrize(("label", "family"), [*FAMILIES, ("z", "normal")])
@pytest.mark.parametrize("groups", ["", pytest.param(" + (1 | g)", marks=pytest.mark.slow)])
def test_the_default_prior_leaves_a_raw_polynomial_to_the_data(curved, label, family, groups):
    """Beside the same model in columns that do not determine each other, under a prior that says nothing."""
    how = {"family": family, "random_state": 1, "progressbar": False}
    fit = bc.fit(f"{label} ~ year + I(year**2){groups}", curved, **how)
    plain = curved.assign(c=curved["year"] - 2004.0)
    known = bc.fit(f"{label} ~ c + I(c**2){groups}", plain, prior=bc.priors.Normal(0, 1e3), **how)
    own, other = fit.summary().loc["I(year ** 2)"], known.summary().loc["I(c ** 2)"]
    assert abs(own["mean"] - other["mean"]) < 0.25 * other["sd"]
    assert own["sd"] == pytest.approx(other["sd"], rel=0.15)
    assert fit._pull is None
    assert fit.level != "not certified"


@pytest.mark.parametrize("kind", ["frame", "parquet", "csv", "arrow", "blocks", "arrays"])
def test_every_source_has_the_same_default_prior(curved, kind, tmp_path):
    rows = curved[["year", "square", "y"]]
    rows.to_parquet(tmp_path / "rows.parquet", row_group_size=700)
    rows.to_csv(tmp_path / "rows.csv", index=False)
    X, y = rows[["year", "square"]].to_numpy(), rows["y"].to_numpy()
    blocks = lambda: ((X[at : at + 900], y[at : at + 900]) for at in range(0, len(X), 900))  # noqa: E731
    given = {
        "frame": ("y ~ year + square", rows),
        "parquet": ("y ~ year + square", str(tmp_path / "rows.parquet")),
        "csv": ("y ~ year + square", str(tmp_path / "rows.csv")),
        "arrow": ("y ~ year + square", pa.table(rows)),
        "blocks": (blocks,),
        "arrays": (X, y),
    }[kind]
    fit = bc.fit(*given, random_state=1, progressbar=False)
    told = fit.prior_summary()["in_data_units"]
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    left = [Z[:, d] - Z[:, 1 - d] * (Z[:, d] @ Z[:, 1 - d] / len(Z)) for d in range(2)]
    sds = [own.std() * spread for own, spread in zip(left, X.std(axis=0), strict=True)]
    for own, sd in zip(told[1:], sds, strict=True):
        assert float(own.split("sigma=")[1].rstrip(")")) == pytest.approx(2.5 / sd, rel=1e-3)


def test_a_fit_that_is_updated_or_read_keeps_the_default_prior(curved, tmp_path):
    fit = bc.fit("y ~ year + I(year**2)", curved[:4000], random_state=1, progressbar=False)
    more = fit.update(curved[4000:], progressbar=False)
    assert more.prior_summary().equals(fit.prior_summary())
    fit.save(tmp_path / "model")
    again = bc.read_fit(tmp_path / "model", curved[:4000], progressbar=False).with_prior(None)
    assert again.prior_summary().equals(fit.prior_summary())
    assert (
        bc.fit(bc.read_coreset(tmp_path / "model" / "coreset.parquet").take(slice(None)), progressbar=False).prior
        is None
    )


RAW = "raw"  # the prior by the columns' sds alone


@pytest.mark.parametrize("groups", ["", pytest.param(" + (1 | g)", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("terms", "prior", "named"),
    [
        ("year + I(year**2)", RAW, r"I\(year \*\* 2\)|year"),
        ("I((year - 2004) / 10)", bc.priors.Normal(0, 0.01), "I"),
        ("I((year - 2004) / 10)", bc.priors.Laplace(0, 0.002), "I"),
        ("I((year - 2004) / 10)", {"Intercept": bc.priors.Normal(-2, 0.02)}, "Intercept"),
    ],
)
@pytest.mark.filterwarnings("ignore:the draws are not certified")
def test_the_first_line_says_what_a_prior_moves_by_more_than_2_nats(curved, groups, terms, prior, named):
    if prior == RAW:
        prior = {name: bc.priors.Normal(0, 2.5 / own.std()) for name, own in
                 (("year", curved["year"]), ("I(year ** 2)", curved["square"]))}  # fmt: skip
    fit = bc.fit(f"y ~ {terms}{groups}", curved, prior=prior, random_state=1, progressbar=False)
    said = one_line(fit)
    assert re.search(rf"BUT CHECK THE PRIOR: it moves '({named}).*?' by [\d.,]+ nats", said)
    assert re.search(rf"The prior moves '({named}).*? to \S+ from the data's \S+, at a cost of [\d.,]+ nats", said)
    assert fit._pull.nats > 2.0


def test_the_pull_is_what_the_likelihood_loses(curved):
    rows = bc.all_rows(curved, formula="y ~ I((year - 2004) / 10)", progressbar=False)
    prior = bc.priors.Normal(0, (2.5, 0.02))
    fit = bc.fit(rows, prior=prior, random_state=1, progressbar=False)
    mode, free = bc.find_map(rows, prior=prior), bc.find_mle(rows)
    lost = free.terms.value - likelihood_terms(mode.beta, rows, check_family("logistic")).value
    assert fit._pull.nats == pytest.approx(lost, rel=1e-3)
    assert fit._pull.without == pytest.approx(free.beta[1], rel=1e-3)
    assert fit._pull.under == pytest.approx(mode.beta[1], rel=1e-3)


@pytest.mark.filterwarnings("ignore:the labels are completely separated")
def test_of_separated_rows_the_first_line_says_that_the_data_ask_for_more(curved):
    rows = curved.assign(y=(curved["year"] > 2004).astype(int))
    fit = bc.fit("y ~ year", rows, random_state=1, progressbar=False)
    assert re.search(r"BUT CHECK THE PRIOR: it moves 'year' by [\d.,]+ nats or more", one_line(fit))
    assert "The prior keeps 'year' at" in one_line(fit)
    assert fit.level == "certified"
    assert np.isfinite(fit.summary()["sd"]).all()
