from dataclasses import replace

import numpy as np
import pandas as pd
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from scipy import stats

from bayescore import all_rows, build_coreset
from bayescore.data.coreset import feature_names
from bayescore.families.family import FAMILIES
from bayescore.models.posterior import posterior
from bayescore.models.pymc import model as pymc_model
from bayescore.models.pymc import weighted_potential
from bayescore.priors import Cauchy, Horseshoe, Laplace, MultivariateNormal, Normal, SpikeAndSlab, StudentT
from bayescore.types import NO_GROUP
from bayescore.validation import DataError
from tests.conftest import make_rows


@pytest.fixture(autouse=True)
def _quick_compilation():
    with pytensor.config.change_flags(mode="FAST_COMPILE"):  # the same expressions, without the C compiler
        yield


@pytest.mark.parametrize(
    "prior",
    [
        Normal(0, (1, 2, 3)),
        MultivariateNormal((0, 1, 2), np.eye(3) + 0.5),
        StudentT(4),
        Cauchy(),
        Laplace(0.2, 0.7),
        SpikeAndSlab(),
    ],
    ids=repr,
)
@pytest.mark.parametrize("family", FAMILIES)
def test_model_equals_the_compiled_density(rows, family, prior):
    rows = replace(rows, offset=np.linspace(-1.0, 1.0, len(rows))) if isinstance(prior, StudentT) else rows
    model = pymc_model(rows, prior, family=family)
    logp, dlogp = model.compile_logp(), model.compile_dlogp()
    target = posterior(rows, family, prior)
    for beta in np.random.default_rng(0).normal(size=(3, 3)):
        value, gradient = target.log_density(beta)
        assert float(logp({"beta": beta})) == pytest.approx(value, rel=1e-10)
        np.testing.assert_allclose(dlogp({"beta": beta}), gradient, rtol=1e-8)


def test_model_has_named_coordinates(rows):
    model = pymc_model(rows, family="logistic")
    assert tuple(model.coords["feature"]) == feature_names(rows) == ("beta_0", "beta_1", "beta_2")
    assert [v.name for v in model.potentials] == ["log_likelihood"]


def log_prior(model, point):
    """Return beta at a point of a horseshoe's model and its log prior density, shape (D,), given the scales."""
    u, beta = model["beta_standardised"], model["beta"]

    def at(value):
        given = {model[name]: entry for name, entry in point.items()} | {u: value}
        return beta.eval(given), pm.logp(u, u).eval(given)

    u_0 = np.array([-0.3, 1.0, 2.0])
    (beta_0, density), (beta_1, _) = at(u_0), at(u_0 + 1.0)
    return beta_0, density - np.log(beta_1 - beta_0)


def test_horseshoe_is_a_hierarchy_with_a_slab():
    model = pymc_model(make_rows(), Horseshoe(0.5), family="logistic")
    assert {v.name for v in model.free_RVs} == {"tau", "lambda", "c2", "beta_standardised"}
    assert model["tau"].ndim == 0
    point = {"tau": 0.3, "lambda": np.array([1.0, 5.0, 1e6]), "c2": 4.0}
    sd = np.sqrt(4.0 * (0.3 * point["lambda"]) ** 2 / (4.0 + (0.3 * point["lambda"]) ** 2))
    assert sd[2] == pytest.approx(2.0)  # the slab's, however large lambda is
    beta, found = log_prior(model, point)
    np.testing.assert_allclose(found, stats.norm.logpdf(beta, scale=sd))


@pytest.mark.parametrize("how", [{"intercept": True}, {"formula": "a + b"}], ids=["keyword", "formula"])
@pytest.mark.parametrize(("shrink", "sd"), [(False, 4.0), (True, 0.003)])
def test_the_horseshoe_leaves_the_intercept_alone_unless_told(shrink, sd, how):
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 2)), columns=["a", "b"])
    data = all_rows(X, np.arange(50) % 2, progressbar=False, **how)
    model = pymc_model(data, Horseshoe(shrink_intercept=shrink), family="logistic")
    beta, found = log_prior(model, {"tau": 0.001, "lambda": np.full(3, 3.0), "c2": 4.0})
    np.testing.assert_allclose(found, stats.norm.logpdf(beta, scale=[sd, 0.003, 0.003]), rtol=1e-4)


def test_potential_inside_a_hierarchical_model_equals_bernoulli_copies():
    """A user's own model: partial pooling of the slopes, an offset, and weights that are counts."""
    data = make_rows(weights=False)
    counts = np.arange(60) % 3 + 1
    weighted = data.with_weights(counts.astype(float))
    copies = data.take(np.repeat(np.arange(60), counts))
    offset = np.linspace(-1, 1, 60)

    def hierarchy():
        mu = pm.Normal("mu", 0, 1)
        tau = pm.HalfNormal("tau", 1)
        return pm.Normal("slopes", mu, tau, shape=3)

    with pm.Model() as ours:
        weighted_potential("loglik", weighted, hierarchy(), "probit", offset=offset)
    with pm.Model() as theirs:
        slopes = hierarchy()
        eta = pt.dot(copies.X, slopes) + np.repeat(offset, counts)
        pm.Bernoulli("y", p=pm.math.invprobit(eta), observed=copies.y > 0)
    point = {"mu": np.array(0.3), "tau_log__": np.array(-0.2), "slopes": np.array([0.1, -0.4, 0.5])}
    # PyTensor's invprobit has a float32 constant, hence the tolerance
    assert float(ours.compile_logp()(point)) == pytest.approx(float(theirs.compile_logp()(point)), rel=1e-7)
    with ours:
        idata = pm.sample(20, tune=20, chains=1, cores=1, random_seed=1, progressbar=False)
    assert np.isfinite(idata.posterior["slopes"].values).all()


def test_wrong_number_of_coefficients_is_named(rows):
    with pm.Model():
        beta = pm.Normal("beta", shape=4)
        with pytest.raises(DataError, match=r"beta has shape \(4,\); the data have 3 features"):
            weighted_potential("loglik", rows, beta)


@pytest.fixture(scope="module")
def grouped():
    """Rows of few distinct columns in two crossed factors, and the effects of both."""
    rng = np.random.default_rng(3)
    n = 600
    frame = pd.DataFrame(
        {
            "a": rng.integers(0, 3, n).astype(float),
            "state": rng.choice(list("dbac"), n),
            "age": rng.integers(20, 25, n),
        }
    )
    frame["y"] = rng.integers(0, 2, n)
    return frame, rng.normal(size=(4, 2)), rng.normal(size=5)


@pytest.mark.parametrize("family", [name for name, own in FAMILIES.items() if not own.counts])
def test_effects_of_groups_equal_the_formula_on_all_rows(grouped, family):
    """A model of crossed factors, one with a slope, over rows that `aggregate` merged."""
    frame, slopes, levels = grouped
    core = build_coreset(
        frame, formula="y ~ a + (1 + a | state) + (1 | age)", method="aggregate", family=family, progressbar=False
    )
    assert len(core) < len(frame) / 2
    beta = np.array([0.4, -0.7])
    with pm.Model() as model:
        given = pm.Normal("beta", shape=2)
        by = {"state": pm.Normal("state", shape=(4, 2)), "age": pm.Normal("age", shape=5)}
        alpha = pm.Normal("alpha")
        weighted_potential("rows", core, given, family, alpha, groups=by)
    point = {"beta": beta, "state": slopes, "age": levels, "alpha": np.float64(0.3)}
    found = float(model.compile_logp(vars=model.potentials)(point))
    state = pd.Categorical(frame.state).codes
    eta = 0.3 + beta[0] + frame.a * beta[1] + slopes[state, 0] + slopes[state, 1] * frame.a + levels[frame.age - 20]
    signs = 2.0 * frame.y - 1.0
    assert found == pytest.approx(FAMILIES[family].log_p(eta.to_numpy(), signs.to_numpy()).sum(), rel=1e-9)


def test_a_row_of_no_group_has_no_effect(grouped):
    frame, _, levels = grouped
    core = all_rows(frame[["a", "age", "y"]], label="y", groups="age", progressbar=False)
    codes = core.group.copy()
    codes[::2] = NO_GROUP
    b, beta = pt.as_tensor_variable(levels), pt.as_tensor_variable(np.array([0.5]))
    with pm.Model():
        found = weighted_potential("rows", replace(core, group=codes), beta, groups={"age": b}).eval()
    effect = np.where(np.arange(len(core)) % 2, levels[codes[:, 0]], 0.0)
    expected = FAMILIES["logistic"].log_p(core.X[:, 0] * 0.5 + effect, core.y).sum()
    assert found == pytest.approx(expected, rel=1e-9)


def test_an_offset_by_row_on_a_coreset_that_knows_no_groups_is_refused(grouped):
    """The route that a user of PyMC writes first, which is off by hundreds of posterior sds."""
    frame, _, _ = grouped
    codes = pd.Categorical(frame.state).codes
    table = frame[["a", "age", "y"]].astype(float)
    core = build_coreset(table, label="y", method="uniform", size=50, progressbar=False, random_state=0)
    merged = build_coreset(table, label="y", method="aggregate", progressbar=False)
    with pm.Model():
        beta, alpha, u = pm.Normal("beta", shape=2), pm.Normal("alpha"), pm.Normal("u", shape=4)
        with pytest.raises(DataError, match=r"chosen and weighted without it.*groups=.*\(1 \| g\).*aggregate"):
            weighted_potential("wrong", core, beta, offset=alpha + u[codes[core.index]])
        with pytest.raises(DataError, match=r"build_coreset\(offset=\)"):
            weighted_potential("known", core, beta, offset=np.linspace(0, 1, 50))
        with pytest.warns(
            UserWarning, match="merged without it: right only if it depends on the coreset's own columns"
        ):
            weighted_potential("merged", merged, beta, offset=alpha + u[codes[merged.index]])
        # none of these differs from row to row, or the rows are all, or they know groups
        weighted_potential("scalar", core, beta, offset=alpha)
        weighted_potential("number", core, beta, offset=np.full(50, 0.5))
        weighted_potential("all", all_rows(table, label="y", progressbar=False), beta, offset=alpha + u[codes])
        known = build_coreset(table, label="y", groups=frame.state, method="aggregate", progressbar=False)
        weighted_potential("groups", known, beta, offset=alpha + u[known.group[:, 0]])


def test_effects_that_do_not_fit_are_refused(grouped):
    frame, slopes, _ = grouped
    core = all_rows(frame, formula="y ~ a + (1 + a | state)", progressbar=False)
    plain = all_rows(frame[["a", "y"]], label="y", progressbar=False)
    with pm.Model():
        beta = pt.zeros(2)
        with pytest.raises(DataError, match=r"effects of 'county', and the coreset no such factor; it knows 'state'"):
            weighted_potential("a", core, beta, groups={"county": slopes})
        with pytest.raises(DataError, match=r"it knows no groups: build it with groups="):
            weighted_potential("b", plain, beta[:1], groups={"state": slopes})
        with pytest.raises(DataError, match=r"groups\['state'\] has shape \(4,\); it must be \(4, 2\)"):
            weighted_potential("c", core, beta, groups={"state": slopes[:, 0]})
        with pytest.raises(DataError, match=r"has shape \(3, 2\); it must be \(4, 2\)"):
            weighted_potential("d", core, beta, groups={"state": slopes[:3]})


@pytest.mark.parametrize("method", ["multilevel", "full"])
def test_groups_are_not_left_out_in_silence(grouped, method):
    """Offsets of a multilevel coreset's pseudo-rows hold minus the effects' means: without effects it is no model."""
    frame, _, _ = grouped
    frame = frame.assign(a=frame.a + np.linspace(0, 1, len(frame)))
    told = {"formula": "y ~ a + (1 | state)", "progressbar": False}
    core = all_rows(frame, **told) if method == "full" else build_coreset(frame, method=method, **told)
    potential(all_rows(frame, formula="y ~ a", progressbar=False))
    cause = "whose effects" if method == "full" else "pseudo-rows, whose offsets"
    said = rf"have groups.*{cause}.*weighted_potential without groups=.*sample, bayescore.model, or weighted_p"
    with pytest.raises(DataError, match=said):
        potential(core)
    with pytest.raises(DataError, match="leaves"):
        potential(core, offset=pt.zeros(()))
    potential(core, groups={"state": np.zeros(4)})


def potential(data, **given):
    with pm.Model():
        weighted_potential("rows", data, pm.Normal("beta", shape=data.n_features), **given)
