"""Counts with a Poisson likelihood: from rows to draws, certificate, predictions and checks."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy import optimize, special, stats

import bayescore as bc
from bayescore.data import responses
from bayescore.samplers.sample import sample
from bayescore.validation import DataError
from tests.counted import FORMULA, QUIET, covariates, fixtures
from tests.hand_made import fit_of

N = 6000
TRUE = np.array([-2.0, 0.4, -0.5, 0.3])


def counts(n=N, seed=0, spread=0.0):
    """Return rows of counts with exposure, a skewed and a rare column; `spread` is the sd of rows' log rates."""
    rng = np.random.default_rng(seed)
    rows, time, eta = covariates(rng, n, TRUE)
    return rows.assign(time=time, n=rng.poisson(time * np.exp(eta + spread * rng.normal(size=n))))


ROWS = counts()
HOW = {"formula": FORMULA, "exposure": "time", "family": "poisson", **QUIET}


everything, core, draws = fixtures(ROWS, HOW)


def test_the_mode_is_that_of_scipys_likelihood(everything):
    X, y, E = everything.design.transform(ROWS), ROWS["n"].to_numpy(), ROWS["time"].to_numpy()

    def loss(beta):
        return -stats.poisson.logpmf(y, E * np.exp(X @ beta)).sum() + 0.5 * (beta @ beta) / 16.0

    best = optimize.minimize(loss, TRUE, method="BFGS", options={"gtol": 1e-4})
    found = bc.find_map(everything, prior=bc.priors.Normal(0, 4))
    np.testing.assert_allclose(found.beta, best.x, atol=1e-4)
    assert everything.weights[everything.y > 0].sum() == y.sum()
    assert everything.weights[everything.y < 0].sum() == pytest.approx(E.sum())


def test_the_potential_is_poissons_up_to_its_constant(everything):
    y, E, X = ROWS["n"].to_numpy(), ROWS["time"].to_numpy(), everything.design.transform(ROWS)
    with pm.Model() as model:
        beta = pm.Flat("beta", shape=4)
        bc.weighted_potential("counts", everything, beta, family="poisson")
    value = model.compile_logp()
    for at in (TRUE, TRUE + 0.3):
        wanted = stats.poisson.logpmf(y, E * np.exp(X @ at)).sum() - (y * np.log(E) - special.gammaln(y + 1.0)).sum()
        assert float(value({"beta": at})) == pytest.approx(wanted, rel=1e-10)


@pytest.mark.parametrize("kind", ["array", "frame", "parquet", "callable", "iterator"])
def test_the_same_rows_from_every_source(kind, tmp_path):
    X, y, E = ROWS[["a", "rare", "b"]].to_numpy(), ROWS["n"].to_numpy(), ROWS["time"].to_numpy()

    def blocks():
        return ((X[i : i + 700], y[i : i + 700], None, None, E[i : i + 700]) for i in range(0, N, 700))

    path = tmp_path / "rows.parquet"
    ROWS.to_parquet(path)
    given = {
        "array": ((X, y), {"exposure": E}),
        "frame": ((ROWS,), {"label": "n", "exposure": "time"}),
        "parquet": ((path,), {"label": "n", "exposure": "time"}),
        "callable": ((blocks,), {}),
        "iterator": ((blocks(),), {}),
    }
    data, roles = given[kind]
    found = bc.build_coreset(*data, method="aggregate", family="poisson", **roles, **QUIET)
    order = np.lexsort((found.y, found.index))
    np.testing.assert_array_equal(found.X[order], X[found.index[order]])
    weights = np.where(found.y > 0, y[found.index], E[found.index])
    np.testing.assert_allclose(found.weights, weights, rtol=1e-12)
    assert len(found) == N + (y > 0).sum()


def test_without_exposure_it_is_one_and_weights_multiply_both_sides():
    X, y, w = ROWS[["a"]].to_numpy(), ROWS["n"].to_numpy(), np.arange(N) % 3
    plain = bc.all_rows(X, y, family="poisson", **QUIET)
    assert (plain.weights[plain.y < 0] == 1.0).all()
    weighted = bc.all_rows(X, y, weights=w, exposure=ROWS["time"].to_numpy(), family="poisson", **QUIET)
    assert weighted.weights[weighted.y > 0].sum() == (w * y).sum()
    assert weighted.weights[weighted.y < 0].sum() == pytest.approx((w * ROWS["time"]).sum())


BAD = {
    "negative": ("n", -1.0, "column 'n' is no count in 1 of rows .* first -1 in row 5"),
    "fraction": ("n", 1.5, "column 'n' is no count .* first 1.5 in row 5; counts are whole numbers"),
    "missing": ("n", np.nan, "column 'n' is no count .* first nan in row 5.*missing='drop' leaves missing ones out"),
    "no exposure": ("time", 0.0, "column 'time' is no exposure .* first 0 in row 5; an exposure is a positive number"),
    "missing exposure": ("time", np.nan, "column 'time' is no exposure .* first nan in row 5"),
    "infinite exposure": ("time", np.inf, "column 'time' is no exposure .* first inf in row 5"),
}


@pytest.mark.parametrize("kind", BAD)
def test_what_is_no_count_or_exposure_is_refused_with_its_row(kind):
    column, value, message = BAD[kind]
    rows = ROWS.astype({"n": float})
    rows.loc[5, column] = value
    with pytest.raises(DataError, match=message):
        bc.build_coreset(rows, **HOW)


def test_rows_that_miss_a_count_or_an_exposure_can_be_left_out():
    rows = ROWS.astype({"n": float})
    rows.loc[5, "n"], rows.loc[7, "time"] = np.nan, np.nan
    with pytest.warns(UserWarning, match="left out 2 of 6,000 rows"):
        found = bc.all_rows(rows, missing="drop", **HOW)
    assert not {5, 7} & set(found.index)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"family": "logistic", "exposure": "time"}, "exposure is given, but the family takes labels"),
        ({"family": "poisson", "trials": "time"}, "trials are given, but the family takes counts"),
        ({"family": "poisson", "positive": 1}, "positive=1 is given, but the family takes counts"),
    ],
)
def test_roles_of_another_kind_of_response_are_refused(given, message):
    with pytest.raises(DataError, match=message):
        bc.build_coreset(ROWS, label="n", **given, **QUIET)


def test_a_coreset_of_counts_is_none_of_labels(core):
    with pytest.raises(DataError, match="family='logistic' takes labels, and the coreset was built of counts"):
        sample(core, family="logistic", **QUIET)
    labels = bc.all_rows(ROWS[["a"]], ROWS["n"] > 0, **QUIET)
    with pytest.raises(DataError, match="family='poisson' takes counts, and the coreset was built of labels"):
        bc.build_coreset(labels, family="poisson", **QUIET)


def test_pseudo_rows_are_one_a_column_and_have_the_posterior_of_all_rows(core, draws, everything):
    assert len(core) == 8
    assert core.to_counts()[["events", "exposure"]].shape == (4, 2)
    certificate = bc.certify(draws, core, ROWS, **QUIET)
    assert certificate.level == "certified"
    reference, own = bc.find_map(everything), bc.find_map(core)
    sd = np.sqrt(np.diag(reference.covariance))
    assert np.abs((own.beta - reference.beta) / sd).max() < 0.02
    assert np.abs(np.sqrt(np.diag(own.covariance)) / sd - 1.0).max() < 0.01
    shifted = bc.build_coreset(ROWS.assign(n=ROWS["n"] + (ROWS["a"] > 1.5)), method="condensed", random_state=1, **HOW)
    assert np.abs((bc.find_map(shifted).beta - reference.beta) / sd).max() > 1.0


@pytest.mark.parametrize("method", ["calibrated", "merge_reduce", "auto"])
def test_other_methods_are_certified_too(method):
    found = bc.build_coreset(ROWS, method=method, random_state=1, **HOW)
    certificate = bc.certify(sample(found, random_seed=2, **QUIET), found, ROWS, **QUIET)
    assert certificate.trusted
    assert -20_000.0 < certificate.elpd_loo < 0.0


def test_the_default_is_condensed_where_that_is_within_the_tolerance(core):
    found = bc.build_coreset(ROWS, random_state=1, **HOW)
    assert found.method == "condensed"
    np.testing.assert_array_equal(found.weights, core.weights)
    for own in ({"tolerance": 1e-6}, {"size": 200}):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # no size is within that tolerance
            assert bc.build_coreset(ROWS, random_state=1, **own, **HOW).method == "calibrated"


def test_a_file_keeps_the_exposures_name(core, tmp_path):
    core.save(tmp_path / "core.parquet")
    again = bc.read_coreset(tmp_path / "core.parquet")
    assert again.design.exposure == "time"
    assert again.counts
    with pytest.raises(DataError, match="exposure='time' is not a column"):
        bc.certify(sample(again, random_seed=1, **QUIET), again, ROWS.drop(columns="time"), **QUIET)


def test_random_effects_of_counts_are_certified():
    rng = np.random.default_rng(4)
    rows = counts(4000, seed=3)
    code = rng.integers(0, 30, len(rows))
    rows["clinic"] = np.array([f"c{k:02d}" for k in range(30)])[code]
    rows["n"] = rng.poisson(rows["time"] * np.exp(-1.5 + 0.4 * rows["a"] + 0.5 * rng.normal(size=30)[code]))
    core = bc.build_coreset(
        rows[["n", "time", "a", "clinic"]],
        formula="n ~ a + (1 | clinic)",
        exposure="time",
        family="poisson",
        random_state=1,
        **QUIET,
    )
    assert core.method == "multilevel"
    assert len(core) <= 2 * (30 + 2)
    certificate = bc.certify(sample(core, random_seed=2, **QUIET), core, rows, **QUIET)
    assert certificate.level == "certified"
    assert not certificate.dispersion.over
    # groups left out with their constants: log p(y_g | beta, sigma) on a grid of the effect
    posterior, x = certificate.idata["posterior"], core.design.transform(rows)
    b = np.linspace(-6.0, 6.0, 1001)
    log_p = []
    for beta, sigma in zip(
        posterior["beta"].values.reshape(-1, 2)[::20], posterior["sigma_clinic"].values.ravel()[::20], strict=True
    ):
        mu = rows["time"].to_numpy() * np.exp(x @ beta)
        log_mu = np.bincount(code, rows["n"] * np.log(mu)) + np.outer(sigma * b, np.bincount(code, rows["n"]))
        rate = np.outer(np.exp(sigma * b), np.bincount(code, mu))
        prior = stats.norm.logpdf(b)[:, None] + np.log(b[1] - b[0])
        constant = -np.bincount(code, special.gammaln(rows["n"] + 1.0))
        log_p.append(special.logsumexp(log_mu - rate + prior, axis=0) + constant)
    each = np.log(len(log_p)) - special.logsumexp(-np.array(log_p), axis=0)
    assert certificate.elpd_logo == pytest.approx(each.sum(), abs=2.0)
    assert certificate.elpd_logo_se == pytest.approx(np.sqrt(30 * each.var()), rel=0.02)


@pytest.mark.parametrize(("spread", "over"), [(0.0, False), (1.0, True)])
def test_overdispersion_is_found_and_said(spread, over):
    rows = counts(seed=5, spread=spread)
    core = bc.build_coreset(rows, method="condensed", random_state=1, **HOW)
    certificate = bc.certify(sample(core, random_seed=2, **QUIET), core, rows, **QUIET)
    found = certificate.dispersion
    y = rows["n"].to_numpy()
    mu = rows["time"].to_numpy() * np.exp(core.design.transform(rows) @ bc.find_map(core).beta)
    assert found.ratio == pytest.approx(((y - mu) ** 2).sum() / mu.sum(), rel=0.01)
    assert found.over is over
    assert ("overdispersed" in repr(certificate)) is over


def test_predictions_are_rates_and_replicated_counts_have_their_exposures(core, draws):
    new = ROWS.head(200)
    X = core.design.transform(new)
    made = fit_of(draws, core)
    table = made.predict(new, prob=0.9)
    beta = draws.posterior["beta"].values.reshape(-1, 4)
    np.testing.assert_allclose(table["mean"], np.exp(beta @ X.T).mean(axis=0), rtol=1e-8)
    assert (table["5%"] < table["95%"]).all()
    replicated = made.inference_data(new)
    np.testing.assert_array_equal(replicated["observed_data"]["y"].values, new["n"])
    total = replicated["posterior_predictive"]["y"].values.sum(axis=2)
    wanted = (table["mean"] * new["time"]).sum()
    assert total.mean() == pytest.approx(wanted, rel=0.03)
    at = replicated["posterior_predictive"]["draw"].values
    rates = np.exp(draws.posterior["beta"].values[:, at] @ X.T) * new["time"].to_numpy()
    log_p = replicated["log_likelihood"]["y"].values
    np.testing.assert_allclose(log_p, stats.poisson.logpmf(new["n"].to_numpy(), rates), rtol=1e-9)


def test_average_rates_are_by_exposure(core, draws):
    made = bc.Fit.from_draws(draws, core, ROWS, label="n", exposure="time", **QUIET)
    table = made.average_predictions(by="rare", max_draws=4000).set_index("rare")
    for level, part in ROWS.groupby("rare"):
        mean = made.predict(part)["mean"]
        assert table["mean"][level] == pytest.approx(float(np.average(mean, weights=part["time"])), rel=1e-4)


@pytest.fixture(scope="module")
def fit():
    return bc.fit(FORMULA, ROWS, family="poisson", exposure="time", random_state=1, **QUIET)


def test_a_fit_of_counts_answers_in_rates(fit, tmp_path):
    assert fit.level == "certified"
    assert "Dispersion " in repr(fit)
    checked = fit.check()
    assert checked["outside"].sum() <= 4
    assert float(checked["observed"].mean()) == pytest.approx(ROWS["n"].sum() / ROWS["time"].sum(), rel=0.5)
    ratio = fit.comparisons("rare", comparison="ratio")["mean"][0]
    assert ratio == pytest.approx(np.exp(fit.summary()["mean"]["rare"]), rel=0.02)
    drawn = fit.predict(ROWS.head(50), kind="response").values
    assert drawn.max() > 1
    assert drawn.mean() == pytest.approx(float(fit.predict(ROWS.head(50))["mean"].mean()), rel=0.05)
    fit.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "counts are as spread as the family says" in page
    assert "rate ratio" in page.lower()
    fit.save(tmp_path / "model")
    again = bc.read_fit(tmp_path / "model", ROWS)
    assert again.certificate.dispersion == fit.certificate.dispersion
    assert len(again.check()) == len(checked)


def test_an_update_of_counts_is_the_fit_of_all(fit):
    new = counts(3000, seed=9)
    both = pd.concat([ROWS, new], ignore_index=True)
    more, whole = fit.update(new, **QUIET), bc.fit(FORMULA, both, family="poisson", exposure="time", **QUIET)
    assert more.level == "certified"
    assert more.coreset.weight_total == pytest.approx(both["n"].sum() + both["time"].sum())
    own, other, old = more.summary(), whole.summary(), fit.summary()
    assert (np.abs(own["mean"] - other["mean"]) < 0.2 * other["sd"]).all()
    assert not (np.abs(old["mean"] - other["mean"]) < 0.2 * other["sd"]).all()
    assert fit.update(new, data=both, **QUIET).certificate.dispersion is not None


def test_a_fit_that_misses_a_column_is_outside_its_check():
    rows = counts(seed=7)
    rows["n"] = np.where(rows["a"] > 1.0, 0, rows["n"])
    checked = bc.fit("n ~ a", rows, family="poisson", exposure="time", random_state=1, **QUIET).check()
    assert checked["outside"].any()


def test_a_check_of_a_coresets_rows_is_refused(draws):
    found = bc.build_coreset(ROWS, method="calibrated", random_state=1, **HOW)
    with pytest.raises(DataError, match=r"events of row .* without their exposure"):
        fit_of(draws, found).inference_data(found)


def test_a_copy_of_rates_weighs_as_rates_do():
    """Workers of a cluster have a copy, not the object itself."""
    copied = pickle.loads(pickle.dumps(responses.RATES))
    pair = np.array([[3.0, 1.0], [10.0, 5.0]])
    assert np.array_equal(copied.weights(pair, ("y", "E"), 0, drop=False), pair)


def test_weights_do_not_pass_for_overdispersion():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 1))
    y = rng.poisson(np.exp(0.3 * X[:, 0] - 1.0))
    known = {"family": "poisson", "weights": np.full(2000, 4.0)}
    fit = bc.fit(X, y, **known, random_state=1, progressbar=False)
    assert fit.certificate.dispersion is None
