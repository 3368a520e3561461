"""Group terms of one factor whose effects are uncorrelated: densities, dense quadrature, units and origins, and verbs.

Correlations depend on a column's origin: that effects are uncorrelated is about the data's own columns, whatever is
centred inside.
"""

import json
import re
from functools import cache
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayescore as bc
from bayescore.data.design import Grouping, terms_text
from bayescore.families.family import check_family
from bayescore.models.groups.joint import covariance_factors, orthogonal_columns
from bayescore.models.normal import GroupSdPosterior
from bayescore.models.predictor import multipliers
from bayescore.numerics.chains import ess
from bayescore.priors import Normal
from bayescore.priors.groups import LKJ_ETA, HalfStudentT, log_sigma_terms
from bayescore.samplers import groups as joint_frame
from bayescore.samplers.groups import JointFrame
from bayescore.samplers.posterior import Posterior
from bayescore.validation import DataError
from tests.samplers.frames import checked_coordinates

QUIET = {"progressbar": False}
LABELS = {"logistic": "bought", "normal": "spent", "poisson": "visits"}
TERMS = {  # effects, and which are correlated
    "(1 + x || g)": [("1",), ("x",)],
    "(1 | g) + (0 + x | g)": [("1",), ("x",)],
    "(0 + x || g)": [("x",)],
    "(1 + x | g) + (0 + z | g)": [("1", "x"), ("z",)],
    "(0 + z | g) + (x + kind | g)": [("z",), ("1", "x", "kind[b]")],
    "(1 + kind || g)": [("1",), ("kind[a]", "kind[b]")],
}


def made(n=300, n_groups=6, origin=0.0, scale=1.0, seed=0):
    rng = np.random.default_rng(seed)
    rows = pd.DataFrame({"x": rng.normal(1.0, 0.8, n), "z": rng.normal(size=n), "kind": rng.choice(["a", "b"], n)})
    rows["g"], rows["h"] = rng.integers(0, n_groups, n), rng.integers(0, 4, n)
    u = rng.normal(size=(n_groups, 3)) * [0.7, 0.6, 0.4]
    eta = 0.4 - 0.3 * rows["x"] + u[rows["g"], 0] + u[rows["g"], 1] * rows["x"] + u[rows["g"], 2] * rows["z"]
    rows["bought"], rows["spent"] = (eta + rng.logistic(size=n) > 0).astype(int), eta + rng.normal(size=n)
    rows["visits"] = rng.poisson(np.exp(0.5 * eta))
    return rows.assign(x=scale * rows["x"] + origin)


def core_of(terms, family="logistic", *, rows=None, standardize=True, **options):
    formula = f"{LABELS[family]} ~ x + z + kind + {terms}"
    arguments = {"formula": formula, "family": family, "standardize": standardize, **options}
    return bc.build_coreset(made() if rows is None else rows, random_state=0, **arguments, **QUIET)


# ------------------------------------------------------------------------------------------------------------- design


@pytest.mark.parametrize("terms", TERMS)
def test_a_factor_has_all_its_effects_and_says_which_are_correlated(terms, tmp_path):
    core = bc.all_rows(made(), formula=f"bought ~ x + z + kind + {terms}", **QUIET)
    (grouping,) = core.groups
    assert grouping.effect_blocks == TERMS[terms]
    pairs = [(a, b) for block in TERMS[terms] for i, a in enumerate(block) for b in block[i + 1 :]]
    assert sorted(grouping.paired_effects) == sorted(pairs)
    assert len(grouping.parameters) == len(grouping.effects) + len(pairs)
    core.save(tmp_path / "core.parquet")
    assert bc.read_coreset(tmp_path / "core.parquet").groups == (grouping,)
    assert Grouping.from_dict(grouping.to_dict()) == grouping


WRITTEN_OUT = {
    "(1 + x || g)": "(1 | g) + (0 + x | g)",
    "(1 + x || g) + (0 + z || g)": "(1 | g) + (0 + x | g) + (0 + z | g)",
    "(1 + kind || g)": "(1 | g) + (0 + kind | g)",
    "(1 + x || g) + (1 | h)": "(1 | g) + (1 | h) + (0 + x | g)",
}


@pytest.mark.parametrize("terms", WRITTEN_OUT)
def test_two_bars_are_several_terms_written_out(terms):
    one, other = (core_of(each) for each in (terms, WRITTEN_OUT[terms]))
    assert one.groups == other.groups
    np.testing.assert_array_equal(one.X, other.X)
    options = {"sampler": "joint", "draws": 25, "tune": 40, "chains": 1, "random_seed": 3, **QUIET}
    drawn = [bc.sample(core, **options)["posterior"] for core in (one, other)]
    assert drawn[0].equals(drawn[1])
    apart = bc.sample(core_of(terms.replace("||", "|", 1)), **options)["posterior"]  # the control: correlated effects
    assert not apart["sigma_g"].equals(drawn[0]["sigma_g"])


def test_group_terms_are_written_as_in_a_formula():
    grouping = Grouping("g", (0, 1), ("1", "x", "z"), blocks=(2, 1))
    assert terms_text([grouping]) == "(1 + x | g), (0 + z | g)"
    assert grouping.pairs[0].tolist() == [0]
    assert Grouping("g", (0, 1), ("1", "x")).pairs[1].tolist() == [1]


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("terms", ["(1 + x || g)", "(0 + x | g)", "(1 + z | g) + (0 + x | g)"])
def test_a_column_apart_from_the_intercept_keeps_its_origin(terms, standardize):
    """Its effects are in units of its sd. A column beside the intercept is centred: the control."""
    rows = made(origin=30.0)
    core = bc.all_rows(rows, formula=f"bought ~ x + z + {terms}", standardize=standardize, **QUIET)
    z = dict(zip(core.groups[0].effects, multipliers(core.X, core.design, core.groups[0]).T, strict=True))
    sd = rows["x"].std(ddof=0) if standardize else 1.0
    np.testing.assert_allclose(z["x"], rows["x"] / sd, rtol=1e-8)
    if "z" in z:
        assert abs(z["z"].mean()) < 1e-9 or not standardize


def test_rows_standardised_without_an_intercept_have_no_such_effects():
    with pytest.raises(DataError, match=r"standardize=True: 'x' varies by 'g'.*no intercept"):
        bc.all_rows(made(), formula="bought ~ 0 + x + (0 + x | g)", standardize=True, **QUIET)


# ---------------------------------------------------------------------------------------------------------- densities


def log_density(core, posterior, blocks):
    """Return the log density of beta, effects, log sds and z of correlations at draws, written down with SciPy."""
    beta = posterior["beta"].values[0]
    S, G = len(beta), len(core.groups[0])
    sd = posterior["sigma_g"].values[0].reshape(S, -1)
    u = posterior["u_g"].values[0].reshape(S, G, -1)
    R = np.tile(np.eye(sd.shape[1]), (S, 1, 1))
    effects = [effect for block in blocks for effect in block]
    for k, pair in enumerate(posterior["g_pair"].values.tolist() if "rho_g" in posterior else []):
        i, j = map(effects.index, pair.split(", "))
        R[:, i, j] = R[:, j, i] = posterior["rho_g"].values[0][:, k]
    total = stats.norm.logpdf(beta, 0.0, 4.0).sum(axis=1)
    total += (stats.t.logpdf(sd / 2.5, 3.0) + np.log(sd)).sum(axis=1)
    at = 0
    for block in blocks:  # LKJ(2) of each
        part = slice(at, at + len(block))
        total += np.linalg.slogdet(R[:, part, part])[1]
        at += len(block)
    for s in range(S):
        total[s] += stats.multivariate_normal(np.zeros(len(R[s])), sd[s][:, None] * R[s] * sd[s]).logpdf(u[s]).sum()
    z = multipliers(core.X, core.design, core.groups[0])
    eta = beta @ core.X.T + np.einsum("snq,nq->sn", u[:, core.group[:, 0]], z)
    if core.offset is not None:
        eta += core.offset
    return total + check_family(core.family).log_p(eta, core.y) @ core.weights


@pytest.mark.parametrize("terms", TERMS)
def test_lp_is_the_models_log_density(terms):
    core = core_of(terms)
    idata = bc.sample(
        core, sampler="joint", prior=Normal(0.0, 4.0), draws=25, tune=40, chains=1, random_seed=3, **QUIET
    )
    gap = idata["sample_stats"]["lp"].values[0] - log_density(core, idata["posterior"], TERMS[terms])
    assert np.ptp(gap) < 1e-6


@pytest.mark.parametrize("terms", [f"{terms} + (1 | h)" for terms in TERMS])
def test_gradients_are_those_of_differences(terms):
    frame = JointFrame.of(core_of(terms), check_family("probit"), Normal(0.0, 4.0), HalfStudentT())
    checked_coordinates(frame)


@pytest.mark.parametrize("terms", TERMS)
def test_sds_and_correlations_of_numbers_have_their_prior(terms):
    """In coordinates log sd and z: half t of each sd, LKJ(2) of each block, and the map's Jacobian by differences."""
    core = core_of(terms, "normal")
    target = GroupSdPosterior.of(core, Normal(0.0, 4.0), HalfStudentT(3.0, 2.0), HalfStudentT(3.0, 1.5))
    (grouping,), rng = target.rows.factors, np.random.default_rng(0)
    q, (i, j) = len(grouping.effects), grouping.pairs
    first = 1 + q

    def correlations(point):
        B = target.unpack(point[None]).factors[0][0]
        R = B @ B.T / np.sqrt(np.outer(np.diag(B @ B.T), np.diag(B @ B.T)))
        assert (
            abs(np.delete(R.ravel(), np.append(np.r_[:q] * (q + 1), np.r_[i * q + j, j * q + i]))).max(initial=0) == 0
        )
        return R

    gaps = []
    for _ in range(3):
        point = 0.5 * rng.normal(size=first + len(i))
        own = log_sigma_terms(point[0], 3.0, 1.5)[0] + sum(
            log_sigma_terms(each, 3.0, 2.0)[0] for each in point[1:first]
        )
        own += (LKJ_ETA - 1.0) * np.linalg.slogdet(correlations(point))[1]
        steps = 1e-5 * np.eye(len(point))[first:]
        J = [(correlations(point + e) - correlations(point - e))[i, j] / 2e-5 for e in steps]
        own += np.linalg.slogdet(np.array(J))[1] if len(i) else 0.0
        gaps.append(target.log_priors(point[None])[0] - own)
    assert np.ptp(gaps) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("terms", ["(1 + x || g)", "(1 + x | g) + (0 + z | g)"])
def test_the_density_of_pymcs_model_is_the_models(terms):
    """Log densities at two points differ by as much as those written down, of effects that the points are of."""
    core, blocks = core_of(terms), TERMS[terms]
    model = bc.model(core, prior=Normal(0.0, 4.0), group_prior=HalfStudentT(3.0, 2.5))
    names = [name for name in ("beta", "u_g", "sigma_g", "rho_g") if name in model.named_vars]
    values_of = model.compile_fn(
        model.replace_rvs_by_values([model[name] for name in names]), inputs=model.value_vars, mode="FAST_COMPILE"
    )
    log_p = model.compile_logp(mode="FAST_COMPILE")
    rng, gaps = np.random.default_rng(0), []
    for _ in range(2):
        point = {name: 0.3 * rng.normal(size=np.shape(own)) for name, own in model.initial_point().items()}
        found = dict(zip(names, values_of(point), strict=True))
        posterior = bc.compat.inference_data(
            {"posterior": {name: each[None, None] for name, each in found.items()}},
            coords={"g_pair": ["1, x"]},
            dims={"rho_g": ["g_pair"]},
        )["posterior"]
        own = log_density(core, posterior, blocks)[0]
        z = point["u_g_standardised"]
        moved = [
            dict(zip(names, values_of({**point, "u_g_standardised": z + step}), strict=True))["u_g"] - found["u_g"]
            for step in np.eye(z.shape[1])
        ]  # du / dz: it is affine
        own += np.log(np.abs(np.linalg.det(np.stack(moved, axis=2)))).sum()
        if "rho_g" in found:  # d rho / d log odds: log_density is that of rho
            own += np.log(1.0 - found["rho_g"] ** 2).sum()
        gaps.append(float(log_p(point)) - own)
    assert gaps[0] == pytest.approx(gaps[1], abs=1e-6)


# --------------------------------------------------------------------------------------------------- dense quadrature


def quadrature(rows, noise, prior_sd=2.5):
    """Return mean and sd of log sds of (1 + x || g) on a grid, all else normal: effects on the columns as they are.

    Priors are in units of the columns' sds, and that of the coefficients is about the columns' means.
    """
    x, g = rows["x"].to_numpy(), rows["g"].to_numpy()
    sd = x.std()
    X = np.column_stack([np.ones(len(x)), (x - x.mean()) / sd])
    same = g[:, None] == g
    one, two = prior_sd**2 * X @ X.T + noise**2 * np.eye(len(x)), same * np.outer(x, x) / sd**2
    logs = np.linspace(-6.0, 2.5, 48)
    log_p = np.empty((48, 48))
    for i, a in enumerate(logs):
        for j, b in enumerate(logs):
            S = one + np.exp(2.0 * a) * same + np.exp(2.0 * b) * two
            L = np.linalg.cholesky(S)
            white = np.linalg.solve(L, rows["spent"].to_numpy())
            log_p[i, j] = -0.5 * white @ white - np.log(np.diag(L)).sum()
            log_p[i, j] += log_sigma_terms(a, 3.0, 2.5)[0] + log_sigma_terms(b, 3.0, 2.5)[0]
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    found = []
    for own in (p.sum(axis=1), p.sum(axis=0)):
        mean = own @ logs
        found.append((mean, np.sqrt(own @ (logs - mean) ** 2)))
    return np.array(found).T


@pytest.mark.slow
@pytest.mark.statistical(rate=1e-6)
@pytest.mark.parametrize("origin", [0.0, 4.0])
def test_draws_are_those_of_dense_quadrature_on_the_columns_as_they_are(origin):
    """Two means at 5.5 standard errors and an error of the grid of 0.02 sd: 8e-8. The control is the other origin."""
    rows, noise = made(60, origin=origin), 1.0
    arguments = {"formula": "spent ~ x + (1 + x || g)", "family": f"normal({noise})", "standardize": True}
    core = bc.all_rows(rows, **arguments, **QUIET)
    options = {"prior": Normal(0.0, 2.5), "group_prior": HalfStudentT(3.0, 2.5), "draws": 2000}
    draws = np.log(bc.sample(core, random_seed=1, **options, **QUIET)["posterior"]["sigma_g"].values)
    error = 5.5 / np.sqrt(ess(draws, "bulk")) + 0.02
    mean, sd = quadrature(rows, noise)
    assert (np.abs(draws.mean(axis=(0, 1)) - mean) / sd < error).all()
    assert (np.abs(np.log(draws.std(axis=(0, 1)) / sd)) < 3.0 * error).all()
    wrong, _ = quadrature(rows.assign(x=rows["x"] + 4.0 - 2.0 * origin), noise)
    assert (np.abs(draws.mean(axis=(0, 1)) - wrong) / sd > error).any()


@pytest.mark.slow
@pytest.mark.statistical(rate=1e-6)
@pytest.mark.parametrize(("family", "terms"), [("normal", "(1 + x || g)"), ("logistic", "(1 + z | g) + (0 + x | g)")])
def test_the_unit_of_a_column_changes_units_only(family, terms):
    """Means of log sds at 5.5 standard errors of the difference: 4e-8 each."""
    found = []
    for scale in (1.0, 1000.0):
        rows = made(scale=scale)
        fit = bc.fit(f"{LABELS[family]} ~ x + z + {terms}", rows, family=family, random_state=1, **QUIET)
        assert fit.level == "certified"
        found.append(np.log(fit._used["posterior"]["sigma_g"].values))
        table = fit.summary()["mean"]
        assert table["sigma_g[x]"] * scale == pytest.approx(
            np.exp(found[0][..., -1]).mean() / made()["x"].std(), rel=0.1
        )
    one, two = found
    error = np.hypot(1.0 / np.sqrt(ess(one, "bulk")), 1.0 / np.sqrt(ess(two, "bulk")))
    assert (np.abs(two.mean(axis=(0, 1)) - one.mean(axis=(0, 1))) / one.std(axis=(0, 1)) < 5.5 * error).all()


# ------------------------------------------------------------------------------------------------------- far from zero


FAR = {  # and by which columns are far from 0
    "(1 + x || g)": ("x",),
    "(1 | g) + (0 + x + z | g)": ("x", "z"),
    "(1 + z | g) + (0 + x | g)": ("x",),
    "(1 + x || g) + (1 | h)": ("x",),
}


def far(terms, sd=20.0, **options):
    """Return rows whose columns are 20 sds from 0."""
    rows = made(**options)
    return rows.assign(**{name: rows[name] + sd * rows[name].std() for name in FAR[terms]})


@pytest.mark.parametrize("terms", FAR)
def test_columns_are_orthogonal_across_blocks(terms):
    """And their effects have the model's covariance: T T', turned back to the model's columns, is 0 across blocks."""
    frame = JointFrame.of(core_of(terms, rows=far(terms)), check_family("probit"), Normal(0.0, 4.0), HalfStudentT())
    theta = frame.theta(np.random.default_rng(0).normal(size=(4, len(frame.center))))
    factors = frame.covariances(theta[:, -frame.n_sds :], frame.arguments.across)
    for T, z, basis, order, own, (sd, R) in zip(
        factors, frame.rows.z, frame.bases, frame.orders, frame.rows.factors, frame.sds(theta), strict=True
    ):
        moments = z.T @ (frame.rows.rows.weights[:, None] * z)
        size = np.sqrt(np.diagonal(moments))
        np.testing.assert_allclose(moments / np.outer(size, size), np.eye(len(size)), atol=1e-9)
        turned = basis[:, order] @ T
        S = sd[:, :, None] * R * sd[:, None]
        np.testing.assert_allclose(turned @ turned.transpose(0, 2, 1), S, rtol=1e-6, atol=1e-9 * S.max())
        assert (np.tril(T) == T).all()
        assert (np.diagonal(T, axis1=1, axis2=2) > 0.0).all()
        across = own.block_ends[:, [0]] != own.block_ends[:, 0]
        assert np.abs(R[:, across]).max(initial=0.0) < 1e-9
    checked_coordinates(frame)


def test_a_covariance_whose_sds_are_tiny_keeps_its_factor():
    """T of (1 + x || g) where the sd of either is 1e-140, beside its closed form."""
    across, blocks, T = np.array([[1.0, 20.0], [0.0, 1.0]]), np.array([[0, 1], [1, 2]]), np.empty((1, 2, 2))
    for logs in ([-322.0, 0.0], [0.0, -322.0], [-322.0, -322.0]):
        covariance_factors(np.zeros((1, 2)), np.array(logs), blocks, across, T)
        one, two = np.exp(logs)
        size = np.hypot(one, 20.0 * two)
        np.testing.assert_allclose(T[0], [[size, 0.0], [20.0 * two / size * two, one / size * two]], rtol=1e-12)


def about_the_mean(family, seed):
    """Return rows in 20 groups whose slopes are about the mean of x, 20 sds from 0: far from the model's."""
    rng, known = np.random.default_rng(seed), check_family(family)
    g, x = np.repeat(np.arange(20), 20), 20.0 + rng.normal(size=400)
    u = rng.normal(size=(20, 2)) * [0.5, 0.3]
    eta = 0.5 + 0.3 * (x - 20.0) + u[g, 0] + u[g, 1] * (x - 20.0)
    mean = eta if known.name == "normal" else known.mean(eta)
    if known.name in ("poisson", "negative_binomial"):
        y = rng.poisson(mean * (rng.gamma(2.0, 0.5, size=400) if known.name != "poisson" else 1.0))
    else:
        y = mean + rng.normal(size=400) if known.name == "normal" else (rng.random(400) < mean).astype(int)
    return pd.DataFrame({"x": x, "g": g, "y": y})


def efficiency(family, seed):
    """Return the least ESS of log sds and coefficients of 4 x 1,000 draws, and that for each gradient."""
    core = bc.all_rows(
        about_the_mean(family, seed), formula="y ~ x + (1 + x || g)", family=family, standardize=True, **QUIET
    )
    idata = bc.sample(core, sampler="joint", prior=Normal(0.0, 4.0), random_seed=1, **QUIET)
    draws = np.log(idata["posterior"]["sigma_g"].values), idata["posterior"]["beta"].values
    least = min(ess(own, "bulk").min() for own in draws)
    return np.array([least, least / idata["sample_stats"]["n_steps"].values.sum()])


@pytest.mark.slow
@pytest.mark.statistical(rate=1e-9)
@pytest.mark.parametrize("family", ["poisson", "negative_binomial(2)", "logistic", "probit", "cloglog", "normal(1)"])
def test_draws_mix_where_a_column_is_far_from_zero(family):
    """An ESS of some 1,100 to 1,900, whose logarithm has an sd of some 0.15: 400 is over 6 of these away."""
    assert efficiency(family, 0)[0] > 400.0


@pytest.mark.slow
@pytest.mark.statistical(rate=1e-9)
@pytest.mark.filterwarnings("ignore:the (cap of max_gradients|chains have not mixed)")
def test_columns_that_are_orthogonal_within_blocks_alone_take_more_gradients(monkeypatch):
    """The control: more than twice as many for an effective draw of counts; up to 16 times, at the cap."""
    across = efficiency("poisson", 1)[1]
    monkeypatch.setattr(joint_frame, "orthogonal_columns", lambda z, *own: (orthogonal_columns(z, *own)[0], np.eye(2)))
    assert across > 2.0 * efficiency("poisson", 1)[1]


# -------------------------------------------------------------------------------------------------------------- verbs


@cache
def fit_of(family):
    formula = f"{LABELS[family]} ~ x + z + (1 + x || g)"
    return bc.fit(formula, made(400), family=family, random_state=1, **QUIET)


@pytest.mark.slow
@pytest.mark.parametrize("family", LABELS)
def test_predictions_and_slopes_are_those_of_effects_on_the_columns_as_they_are(family):
    fit, rows = fit_of(family), made(400).iloc[:20]
    known = check_family(fit.coreset.family)
    names = ["Intercept", "x", "z"]
    beta = fit.coreset.design.raw_coefficients(fit._posterior().flat)
    u = [fit.effects("g", effect=effect, draws=list(range(6))).values.reshape(-1, 6) for effect in ("1", "x")]
    x, z, g = (rows[name].to_numpy() for name in ("x", "z", "g"))
    eta = beta @ np.stack([np.ones(20), x, z]) + u[0][:, g] + u[1][:, g] * x
    assert names == list(fit._posterior().features)
    mean = eta if family == "normal" else known.mean(eta)
    np.testing.assert_allclose(fit.predict(rows)["mean"], mean.mean(axis=0), rtol=1e-6)
    every = {"data": rows, "max_draws": len(beta)}
    steep = np.exp(eta) if family == "poisson" else mean * (1.0 - mean) if family == "logistic" else np.ones_like(eta)
    slope = (steep * (beta[:, [1]] + u[1][:, g])).mean(axis=1)
    assert fit.slopes("x", **every)["mean"].to_numpy() == pytest.approx([slope.mean()], rel=1e-6)
    new = fit.predict(rows.assign(g=99), new_groups="average")
    assert (new["sd"].to_numpy() > 0.0).all()


@pytest.mark.slow
@pytest.mark.parametrize("family", ["logistic", "normal"])
def test_every_verb_answers(family, tmp_path):
    fit, rows = fit_of(family), made(400)
    names = ["sigma_g[1]", "sigma_g[x]"]
    assert [name for name in fit.summary().index if "_g" in name] == names
    assert "(1 + x || g)" in repr(fit)
    assert fit.idata["posterior"].attrs["group_terms"] == "(1 | g), (0 + x | g)"
    assert "rho_g" not in fit.idata["posterior"]
    fit.save(tmp_path / "m")
    again = bc.read_fit(tmp_path / "m", rows)
    assert again.coreset.groups == fit.coreset.groups
    np.testing.assert_allclose(again.predict(rows[:9])["mean"], fit.predict(rows[:9])["mean"])
    assert fit.icc().loc["icc_g", "mean"] > 0.0
    assert len(fit.loo().pareto_k) == len(rows)
    assert len(fit.check()) > 0
    more = fit.update(made(400, n_groups=8, seed=5))
    assert more.coreset.groups[0].blocks == (1, 1)
    assert more.coreset.groups[0].levels == tuple(range(8))
    fit.report(tmp_path / "page.html")
    assert "sigma_g[x]" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "log sigma_g[x]" in bc.compare_posteriors({"again": again}, fit).coordinates.to_csv()


SEVERAL = {  # terms of one factor: names of their parameters, and the correlated effects
    "(1 + x | g) + (0 + z | g)": (["sigma_g[1]", "sigma_g[x]", "sigma_g[z]", "rho_g[1,x]"], (0, 1)),
    "(1 | g) + (0 + kind | g)": (
        ["sigma_g[1]", "sigma_g[kind[a]]", "sigma_g[kind[b]]", "rho_g[kind[a],kind[b]]"],
        (1, 2),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("terms", SEVERAL)
def test_several_terms_of_a_factor_have_every_source_and_verb(terms, tmp_path):
    names, (i, j) = SEVERAL[terms]
    rows, formula = made(400), f"bought ~ x + z + kind + {terms}"
    options = {"draws": 100, "tune": 200, "random_state": 1, **QUIET}
    fit = bc.fit(formula, rows, **options)
    table = fit.summary()
    assert [name for name in table.index if "_g" in name] == names
    prior = fit.prior_summary()
    assert [name for name in prior.index if "_g" in name] == [*names[:3], "rho_g"]
    rows.to_parquet(tmp_path / "rows.parquet", row_group_size=90)
    frame = pytest.importorskip("dask.dataframe").from_pandas(rows, npartitions=3)
    for data in (tmp_path / "rows.parquet", frame):  # the draws follow from the coreset
        core = bc.build_coreset(data, formula=formula, standardize=True, random_state=fit.coreset.random_state, **QUIET)
        assert core.groups == fit.coreset.groups
        np.testing.assert_allclose(core.X, fit.coreset.X, atol=1e-12)
        np.testing.assert_array_equal(core.group, fit.coreset.group)
    assert bc.certify(fit.idata, fit.coreset, rows, progressbar=False).level == "certified"

    new, posterior, design = rows.head(6).assign(g=99), fit._used["posterior"], fit.coreset.design
    sd, rho = (posterior[name].values for name in ("sigma_g", "rho_g"))
    S = np.einsum("csq,qr->csqr", sd**2, np.eye(3))
    S[..., i, j] = S[..., j, i] = rho[..., 0] * sd[..., i] * sd[..., j]
    z, X = multipliers(design.transform(new), design, fit.coreset.groups[0]), design.transform(new)
    b = np.sqrt(np.einsum("nq,csqr,nr->csn", z, S, z))
    nodes, weights = np.polynomial.hermite_e.hermegauss(99)
    eta = (posterior["beta"].values @ X.T)[..., None] + b[..., None] * nodes
    expected = (weights / np.sqrt(2.0 * np.pi) / (1.0 + np.exp(-eta))).sum(axis=-1).mean(axis=(0, 1))
    np.testing.assert_allclose(fit.predict(new, new_groups="average")["mean"], expected, rtol=1e-5)
    sampled = fit.predict(new, random_state=2)
    assert (sampled["sd"].to_numpy() > 1.5 * fit.predict(rows.head(6))["sd"].to_numpy()).all()

    fit.save(tmp_path / "model")
    again = bc.read_fit(tmp_path / "model", rows)
    np.testing.assert_allclose(again.predict(rows[:9])["mean"], fit.predict(rows[:9])["mean"])
    more = again.update(made(100, n_groups=8, seed=5))
    assert more.coreset.groups[0].blocks == fit.coreset.groups[0].blocks
    assert more.coreset.groups[0].levels == tuple(range(8))
    assert [name for name in more.summary().index if "_g" in name] == names
    more.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert all(name in page for name in names)


def earlier(design):
    """Return a stored design as versions wrote it whose effects of (0 + x | g) were on the centred column."""
    return {name: value for name, value in design.items() if name != "origins"}


@pytest.mark.parametrize("terms", ["(0 + x | g)", "(1 + x || g)", "(1 + z | g) + (0 + x | g)"])
def test_what_an_earlier_version_wrote_of_centred_columns_is_refused(terms, tmp_path):
    """Of coresets and posteriors; the controls, as they are read: correlated effects, and columns as they were."""
    refused = rf"effects of 'x' in {re.escape(terms_text(core_of(terms).groups))} .* earlier version.*again"
    for standardize, all_terms in ((True, terms), (False, terms), (True, "(1 + x | g)")):
        core = core_of(all_terms, standardize=standardize)
        core.save(tmp_path / "core.parquet")
        assert bc.read_coreset(tmp_path / "core.parquet").design == core.design
        fields = core.design.to_dict()
        if not (standardize and all_terms == terms):
            assert fields == earlier(fields)
            continue
        with patch.object(type(core.design), "to_dict", return_value=earlier(fields)):
            core.save(tmp_path / "core.parquet")
        with pytest.raises(DataError, match=rf"core\.parquet': {refused}"):
            bc.read_coreset(tmp_path / "core.parquet")
        attrs = {"design": json.dumps(earlier(fields))}
        with pytest.raises(DataError, match=f"draws: {refused}"):
            _ = Posterior("draws", np.zeros((1, 4, core.n_features)), core.feature_names, attrs=attrs).design
