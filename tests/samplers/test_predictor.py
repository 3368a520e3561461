"""What follows from draws of models with groups, beside the linear predictor written down row by row."""

import json
from functools import partial

import arviz as az
import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

import bayescore as bc
from bayescore.data.design import terms_text
from bayescore.diagnostics.loo import loo
from bayescore.diagnostics.model_check import check_model
from bayescore.fitting.predictions import with_predictive
from bayescore.samplers.posterior import read_posterior
from bayescore.validation import DataError
from tests.arviz_draws import inference_data
from tests.hand_made import fit_of

N, G, CHAINS, DRAWS = 400, 7, 2, 60
QUIET = {"progressbar": False}
TERMS = {"": (), "(1 | a)": ("a",), "(1 + x | a)": ("a",), "(1 | a) + (1 | b)": ("a", "b")}


def people(seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"x": rng.normal(size=N), "kind": rng.choice(["p", "q", "r"], N)})
    frame = frame.assign(a=rng.integers(0, G, N), b=[f"b{k}" for k in rng.integers(0, 4, N)])
    return frame.assign(y=rng.random(N) < special.expit(0.5 * frame.x - 0.3 + 0.6 * (frame.a - 3)))


@pytest.fixture(scope="module", params=TERMS)
def model(request):
    """Return rows, a frame of them and draws of some posterior of theirs, not the right one."""
    frame, factors = people(), TERMS[request.param]
    rows = bc.all_rows(frame, formula=f"y ~ x + kind{' + ' * bool(factors)}{request.param}", **QUIET)
    rng = np.random.default_rng(1)
    draws = {"beta": np.array([-0.3, 0.5, 0.0, 0.1]) + 0.1 * rng.normal(size=(CHAINS, DRAWS, 4))}
    dims = {"beta": ["feature"]}
    for own in rows.groups:
        q = len(own.effects)
        shape = (CHAINS, DRAWS, len(own)) + (q,) * (q > 1)
        draws[f"u_{own.name}"] = 0.1 * rng.normal(size=shape) + 0.5 * (np.arange(len(own)) - 3.0)[:, None][
            :, :q
        ].reshape((-1, 1) if q > 1 else -1)
        draws[f"sigma_{own.name}"] = 0.5 + rng.random((CHAINS, DRAWS) + (q,) * (q > 1))
        dims[f"u_{own.name}"] = [own.name] + [f"{own.name}_effect"] * (q > 1)
        if q > 1:
            draws[f"rho_{own.name}"] = rng.uniform(-0.8, 0.8, (CHAINS, DRAWS, 1))
            dims |= {f"sigma_{own.name}": [f"{own.name}_effect"], f"rho_{own.name}": [f"{own.name}_pair"]}
    constants = {"X": rows.X, "weights": rows.weights} | ({"group": rows.group} if factors else {})
    idata = inference_data(
        {"posterior": draws, "constant_data": constants}, coords={"feature": rows.feature_names}, dims=dims
    )
    about = {"family": "logistic", "design": json.dumps(rows.design.to_dict())}
    about |= {"coreset": json.dumps(rows.summary())} | ({"group_terms": terms_text(rows.groups)} if factors else {})
    idata.posterior.attrs.update(about)
    return rows, frame, idata


def eta_of(idata, frame, rows, *, skip=()):
    """Return eta, shape (n, S), a row at a time; groups whose level is in `skip` have no effect."""
    flat = {name: own.values.reshape(CHAINS * DRAWS, *own.shape[2:]) for name, own in idata.posterior.data_vars.items()}
    found = []
    for _, row in frame.iterrows():
        kind = [float(row.kind == "q"), float(row.kind == "r")]
        eta = flat["beta"] @ np.array([1.0, row.x, *kind])
        for own in rows.groups:
            if row[own.name] not in skip:
                u = flat[f"u_{own.name}"][:, own.levels.index(row[own.name])]
                eta = eta + (u if u.ndim == 1 else u @ [1.0, row.x])
        found.append(eta)
    return np.array(found)


def test_probabilities_and_intervals(model):
    rows, frame, idata = model
    p = special.expit(eta_of(idata, frame, rows))
    fit = fit_of(idata, rows)
    found = fit.predict(frame, prob=0.9)
    np.testing.assert_allclose(found["mean"], p.mean(axis=1), rtol=1e-10)
    np.testing.assert_allclose(found["5%"], np.quantile(p, 0.05, axis=1), rtol=1e-10)


def test_new_groups_are_averaged_over(model):
    """Each new factor adds a variance z' S z to eta; 20,000 normals beside the quadrature."""
    rows, frame, idata = model
    if not rows.groups:
        with pytest.raises(DataError, match=r"groups is given, but the rows that fit\.idata was drawn from had none"):
            fit_of(idata, rows).predict(frame, groups={"a": frame.a})
        return
    few = frame.iloc[:3].assign(a=99)
    variance = np.zeros((3, CHAINS * DRAWS))
    sd = idata.posterior["sigma_a"].values.reshape(CHAINS * DRAWS, -1)
    for n, x in enumerate(few.x):
        variance[n] = sd[:, 0] ** 2
        if sd.shape[1] > 1:
            rho = idata.posterior["rho_a"].values.ravel()
            variance[n] += (x * sd[:, 1]) ** 2 + 2.0 * x * rho * sd[:, 0] * sd[:, 1]
    b = stats.norm.ppf((np.arange(2000) + 0.5) / 2000)
    eta = eta_of(idata, few, rows, skip=(99,))
    p = special.expit(eta[..., None] + np.sqrt(variance)[..., None] * b).mean(axis=(1, 2))
    np.testing.assert_allclose(fit_of(idata, rows).predict(few)["mean"], p, atol=1e-4)


def test_pointwise_log_likelihoods_are_given_the_groups_effects(model):
    rows, frame, idata = model
    found = fit_of(idata, rows).inference_data(rows)["log_likelihood"]["y"]
    eta = eta_of(idata, frame, rows) * np.where(frame.y, 1.0, -1.0)[:, None]
    np.testing.assert_allclose(found.values.reshape(-1, N).T, special.log_expit(eta), rtol=1e-10)
    if rows.groups:
        new = bc.all_rows(frame.iloc[:9].assign(a=99), label="y", design=rows.design, new_groups=True, **QUIET)
        assert "log_likelihood" not in fit_of(idata, rows).inference_data(new)


@pytest.mark.filterwarnings("ignore:Estimated shape parameter")
def test_loo_is_arvizs_on_the_pointwise_log_likelihoods(model):
    """Of a posterior of all rows: the weights to the full posterior are 1."""
    rows, frame, idata = model
    found = loo(idata, rows, frame, max_draws=CHAINS * DRAWS, **QUIET)
    expected = az.loo(fit_of(idata, rows).inference_data(frame), pointwise=True, reff=1.0)
    value = lambda one: float(getattr(one, "elpd_loo", getattr(one, "elpd", np.nan)))  # noqa: E731
    assert value(found) == pytest.approx(value(expected), abs=1e-4)


@pytest.mark.filterwarnings("ignore:models.*has no elpd")
def test_models_are_compared_by_rows_given_their_groups(model):
    rows, frame, idata = model
    twin = idata.copy()
    twin.posterior["beta"] = twin.posterior["beta"] + np.array([0.0, 1.0, 0.0, 0.0])
    both = bc.loo_compare({"good": (idata, rows), "bad": (twin, rows)}, frame, max_draws=CHAINS * DRAWS, **QUIET)
    each = loo(idata, rows, frame, max_draws=CHAINS * DRAWS, **QUIET)
    value = float(getattr(each, "elpd_loo", getattr(each, "elpd", np.nan)))
    assert both.loc["good", "elpd_loo"] == pytest.approx(value, abs=1e-3)


def test_loo_takes_what_build_coreset_takes(model):
    """Arrays with offsets, groups and holes as `certify` takes them; weights that ArviZ cannot count are refused."""
    rows, frame, idata = model
    if rows.groups:
        X = frame.drop(columns=["a", "b", "y"])
        given = {own.name: frame[own.name].to_numpy() for own in rows.groups}
        beside = loo(idata, rows, X, frame.y, groups=given, max_draws=CHAINS * DRAWS, **QUIET)
        whole = loo(idata, rows, frame, max_draws=CHAINS * DRAWS, **QUIET)
        np.testing.assert_array_equal(beside.loo_i, whole.loo_i) if hasattr(whole, "loo_i") else None
    holes = pd.concat([frame, frame.iloc[:5].assign(x=np.nan)])
    with pytest.warns(UserWarning, match="left out 5"):
        loo(idata, rows, holes, missing="drop", max_draws=CHAINS * DRAWS, **QUIET)
    with pytest.raises(DataError, match="offset is given, but the coreset was built from had none"):
        loo(idata, rows, frame, offset=np.zeros(N), **QUIET)
    with pytest.raises(DataError, match="weight"):
        loo(idata, rows, frame, weights=np.full(N, 2.0), **QUIET)


@pytest.mark.statistical(rate=1e-6)
def test_replicated_labels_have_the_rows_probabilities(model):
    """Rate: the largest of 400 z-scores of binomial shares, Bonferroni; new groups have the averaged probability."""
    rows, frame, idata = model
    most = stats.norm.isf(0.25e-6 / N)
    for new in (False, True)[: 1 + bool(rows.groups)]:
        table = frame.assign(a=99) if new else frame
        found = fit_of(idata, rows).inference_data(table, random_state=1)
        share = found["posterior_predictive"]["y"].values.reshape(-1, N).mean(axis=0)
        p = fit_of(idata, rows).predict(table)["mean"].to_numpy()
        assert np.abs(share - p).max() < most * 0.5 / np.sqrt(CHAINS * DRAWS)
        if rows.groups and not new:
            flat = special.expit(
                eta_of(idata, table, rows, skip=tuple(range(G)) + tuple(rows.groups[-1].levels) + (99,))
            )
            assert np.abs(p - flat.mean(axis=1)).max() > 0.1  # the control: effects are seen


def test_averages_over_rows_have_their_groups_effects(model):
    rows, frame, idata = model
    p = special.expit(eta_of(idata, frame, rows))
    for data in (None, frame, rows):
        found = fit_of(idata, rows).average_predictions(data=data, by="kind")
        np.testing.assert_allclose(found["mean"], [p[frame.kind == kind].mean() for kind in "pqr"], rtol=1e-9)
    as_if = fit_of(idata, rows).average_predictions(data=frame, variables="kind")
    each = [special.expit(eta_of(idata, frame.assign(kind=kind), rows)).mean() for kind in "pqr"]
    np.testing.assert_allclose(as_if["mean"], each, rtol=1e-9)


def test_the_binned_check_sees_effects(model):
    rows, frame, idata = model
    found = check_model(read_posterior(idata, "idata"), rows)
    np.testing.assert_allclose(found.p, special.expit(eta_of(idata, frame, rows)).mean(axis=1), rtol=1e-9)


def test_draws_without_effects_are_refused(model):
    rows, frame, idata = model
    if not rows.groups:
        return
    name = f"u_{rows.groups[-1].name}"
    lost = idata.copy()
    if hasattr(lost["posterior"], "to_dataset"):  # ArviZ 1: a tree
        lost["posterior"].dataset = lost["posterior"].to_dataset().drop_vars(name)
    else:
        lost["posterior"] = lost["posterior"].drop_vars(name)
    fit = fit_of(lost, rows)
    calls = (partial(fit.predict, frame), partial(loo, lost, rows, frame, **QUIET))
    for call in (*calls, partial(with_predictive, fit, frame, None, max_draws=9, random_state=0)):
        with pytest.raises(DataError, match=f"'{name}' is missing, not of shape"):
            call()
    for missing in (own.name for own in rows.groups):
        with pytest.raises(DataError, match=f"no column '{missing}'"):
            fit_of(idata, rows).predict(frame.drop(columns=missing))
