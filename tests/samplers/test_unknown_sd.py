"""The sampler of numbers whose sd is unknown: its densities are closed forms, its draws those of dense quadrature."""

import re
from copy import deepcopy

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayescore as bc
from bayescore.data.dataset import Dataset
from bayescore.diagnostics.certificate.joint import NoiseStrategy
from bayescore.diagnostics.certificate.whole import squares_within
from bayescore.models.normal import GroupSdPosterior, NoiseSdPosterior
from bayescore.models.predictor import multipliers
from bayescore.numerics.chains import ess
from bayescore.priors.groups import HalfStudentT, autoscaled_prior, sd_prior_for
from bayescore.samplers import normal
from bayescore.validation import DataError
from tests.exact_normal import Exact
from tests.hand_made import log_likelihood

QUIET = {"progressbar": False}
FAMILY = {"family": "normal", **QUIET}
FLAT, GROUPED, CROSSED = "y ~ a + b", "y ~ a + b + (1 | g)", "y ~ a + b + (1 + a | g) + (1 | h)"
FAR = 5.5  # standard errors: 4e-8 of a normal figure


def made(n=60, n_groups=6, seed=0):
    rng = np.random.default_rng(seed)
    rows = pd.DataFrame({"a": rng.normal(size=n), "b": rng.random(n) < 0.3, "w": rng.integers(1, 4, n)})
    rows["g"], rows["h"] = rng.integers(0, n_groups, n), np.arange(n) % 4
    rows["y"] = 7.0 + rows["a"] - rows["b"] + rng.normal(size=n_groups)[rows["g"]] + rng.normal(0.0, 2.0, n)
    return rows


def sampled(formula, rows, *, standardize=True, **options):
    core = bc.build_coreset(rows, formula=formula, standardize=standardize, **FAMILY)
    return core, bc.sample(core, random_seed=1, **QUIET, **options)


# ------------------------------------------------------------------------------------------------------- closed forms


def test_few_rows_have_students_t_under_wide_priors():
    rows = made(7)
    core = bc.build_coreset(rows, formula=FLAT, **FAMILY)
    X, y = np.column_stack([np.ones(7), rows["a"], rows["b"]]), rows["y"].to_numpy()
    target = NoiseSdPosterior.of(core, bc.priors.Normal(0.0, 1e6), HalfStudentT(3.0, 1e6))
    points, share = target.grid
    best, square = np.linalg.lstsq(X, y, rcond=None)[:2]
    # a flat prior of sigma: one degree of freedom less than that of log sigma
    nu = 7 - 3 - 1
    known = stats.chi2.sf(square / np.exp(2.0 * points), nu)
    np.testing.assert_allclose(share, known, atol=2e-4)
    assert abs(share - stats.chi2.sf(square / np.exp(2.0 * points), nu + 1)).max() > 0.05  # a control
    beta, _ = target.draw(40_000, np.random.default_rng(0))
    scale = np.sqrt(square / nu * np.diagonal(np.linalg.inv(X.T @ X)))
    for d in range(3):
        assert stats.kstest((beta[:, d] - best[d]) / scale[d], stats.t(nu).cdf).pvalue > 1e-6


def dense(core, prior, B, sd):
    """Return mean and covariance of y, and of coefficients and effects given y, of all rows."""
    X, y = core.X, -core.offset
    Z = []
    for place, own in enumerate(core.groups):
        z = multipliers(X, core.design, own)
        each = np.zeros((len(X), len(own), z.shape[1]))
        each[np.arange(len(X)), core.group[:, place]] = z
        Z.append(each.reshape(len(X), -1))
    p = X.shape[1]
    M = np.hstack([X, *Z])
    parts = [np.kron(np.eye(len(own)), L @ L.T) for own, L in zip(core.groups, B, strict=True)]
    sizes = np.cumsum([p, *map(len, parts)])
    V = np.zeros((M.shape[1], M.shape[1]))
    V[:p, :p] = np.diag(prior.vector("sigma", p) ** 2)
    for at, part in zip(sizes, parts, strict=False):
        V[at : at + len(part), at : at + len(part)] = part
    mean = np.append(prior.vector("mu", p), np.zeros(len(V) - p))
    S = M @ V @ M.T + sd**2 * np.eye(len(y))
    gain = V @ M.T @ np.linalg.inv(S)
    log_p = stats.multivariate_normal(M @ mean, S).logpdf(y)
    return log_p, mean + gain @ (y - M @ mean), V - gain @ M @ V


@pytest.mark.parametrize("formula", [GROUPED, CROSSED])
@pytest.mark.parametrize("sparse", [False, True])
def test_the_density_is_that_of_the_dense_model_and_draws_given_it_are(formula, sparse, monkeypatch):
    if sparse:
        monkeypatch.setattr("bayescore.models.normal._DENSE", 0)
    rows, prior = made(50), bc.priors.Normal((1.0, 0.5, -0.3), (5.0, 2.0, 3.0))
    core = bc.build_coreset(rows, formula=formula, **FAMILY)
    everything = bc.all_rows(rows, formula=formula, **FAMILY)
    target = GroupSdPosterior.of(core, prior, HalfStudentT(3.0, 2.0), HalfStudentT(3.0, 4.0))
    rng, gaps = np.random.default_rng(1), []
    order = [[own.name for own in target.rows.factors].index(own.name) for own in core.groups]
    for _ in range(4):
        point = target.starting_point(2.0) + 0.7 * rng.normal(size=len(target.starting_point(2.0)))
        own, at = target.unpack(point[None]), point[None]
        log_p, mean, covariance = dense(everything, prior, [own.factors[k][0] for k in order], own.sd[0])
        gaps.append(float(target.log_densities(at)[0] - target.log_priors(at)[0]) - log_p)
    assert abs(np.array(gaps)).max() < 1e-4  # sums of rows are rounded
    n = 2_000 if sparse else 20_000
    beta, effects = target.draw_effects(np.tile(point, (n, 1)), rng)
    drawn = np.hstack([beta, *(effects[k].reshape(len(beta), -1) for k in order)])
    sd = np.sqrt(np.diagonal(covariance))
    assert abs((drawn.mean(axis=0) - mean) / sd).max() < FAR / np.sqrt(n)
    assert abs(np.cov(drawn.T) - covariance).max() < 8.0 * sd.max() ** 2 / np.sqrt(n)


@pytest.mark.statistical(rate=1e-6)
@pytest.mark.parametrize("n", [8, 60, 2000])
@pytest.mark.parametrize("formula", [FLAT, GROUPED])
def test_draws_are_those_of_dense_quadrature(formula, n):
    """At most four means at 5.5 standard errors of 4,000 draws, at their effective sizes: 2e-7."""
    rows = made(n)
    core, idata = sampled(formula, rows)
    mean, sd = Exact.of(bc.all_rows(rows, formula=formula, standardize=True, **FAMILY)).moments(
        core.params["sd"], given=False
    )
    draws = idata.posterior["beta"].values
    if core.groups:
        draws = np.concatenate([draws, np.log(idata.posterior["sigma_g"].values)[..., None]], axis=2)
    error = FAR / np.sqrt(ess(draws, "bulk"))
    gap = (draws.mean(axis=(0, 1)) - mean) / sd
    assert (abs(gap) < error).all()
    assert (abs(np.log(draws.std(axis=(0, 1)) / sd)) < 3.0 * error + 0.01).all()
    assert (abs((draws + 0.2 * sd).mean(axis=(0, 1)) - mean) / sd > error).any()  # a control


@pytest.mark.statistical(rate=1e-6)
def test_other_priors_have_the_same_posterior_where_they_are_nearly_normal():
    rows = made(12)
    core = bc.build_coreset(rows, formula=FLAT, **FAMILY)
    found = [
        bc.sample(core, prior=prior, random_seed=seed, draws=4000, **QUIET).posterior
        for seed, prior in enumerate([bc.priors.Normal(0, 3), bc.priors.StudentT(1e4, 0, 3), bc.priors.Normal(0, 1)])
    ]
    assert {own.attrs["sampler"] for own in found} == {"normal"}
    draws = [np.concatenate([own["beta"].values, np.log(own["sigma"].values)[..., None]], axis=2) for own in found]
    sd = draws[0].std(axis=(0, 1))
    error = [FAR / np.sqrt(ess(own, "bulk")) for own in draws]
    gap, other = (abs(own.mean(axis=(0, 1)) - draws[0].mean(axis=(0, 1))) / sd for own in draws[1:])
    assert (gap < np.hypot(*error[:2])).all()
    assert (other > np.hypot(error[0], error[2])).any()  # a control


@pytest.mark.parametrize("terms", ["(1 | g) + (1 | h)", "(1 + a | g)"])
def test_proposals_reach_the_left_tail_of_sds_that_may_be_0(terms, monkeypatch):
    """Where rows say that an sd is small the density of its logarithm falls as exp(s), and a chain must not stay there.

    The log of a stay's length is that of the density over the proposals', which rises by 2 on average in four sets of
    rows, down to exp(-6) of the sd; without the bend by 5 and more.
    """
    rises = {True: 0.0, False: 0.0}
    for seed in range(4):
        rng, rows = np.random.default_rng(seed), made(1500, 40, seed)
        rows["y"] = rows["a"] + 0.12 * rng.normal(size=40)[rows["g"]] + rng.normal(size=1500)
        core = bc.build_coreset(rows, formula=f"y ~ a + b + {terms}", standardize=True, **FAMILY)
        prior = sd_prior_for(core)
        target = GroupSdPosterior.of(core, autoscaled_prior(core), prior, prior)
        mode = target.find_mode(core.params["sd"])
        points = mode.point - np.linspace(0.0, 6.0, 25)[:, None] * np.eye(len(mode.point))[target.log_sds["g"].start]
        for bent in rises:
            monkeypatch.setattr(normal, "_BEND_SDS", 2.0 if bent else 1e6)
            density = normal.BentDensity.of(target, mode)
            proposals = normal.fit_proposals(density, mode, rng)[0]
            below = np.minimum(points - density.bend, 0.0)
            t = np.where(below < 0.0, density.bend + 1.0 - np.sqrt(1.0 - 2.0 * below), points)
            np.testing.assert_allclose(density.points(t), points)
            ratios = density.log_densities(t) - proposals.log_density(t)
            rises[bent] += 0.25 * (ratios - ratios[0]).max()
    assert rises[True] < 3.5
    assert rises[False] > 4.0  # a control


@pytest.mark.slow
@pytest.mark.parametrize("formula", [FLAT, "y ~ a + b + (1 + a | g)"])
def test_nuts_agrees(formula):
    rows = made(80)
    core, idata = sampled(formula, rows)
    told = {"draws": 2000, "tune": 500, "target_accept": 0.95}  # so many that they are certified
    drawn = bc.sample(core, sampler="nuts", random_seed=2, **told, **QUIET)
    other = drawn.posterior
    names = ["beta", "sigma", *(["sigma_g", "rho_g"] if core.groups else [])]
    assert "sd_prior" in other.attrs
    for name in names:
        one, two = (own[name].values.reshape(*own[name].shape[:2], -1) for own in (idata.posterior, other))
        if name.startswith("sigma"):
            one, two = np.log(one), np.log(two)
        error = np.hypot(1.0 / np.sqrt(ess(one, "bulk")), 1.0 / np.sqrt(ess(two, "bulk")))
        assert (abs(one.mean(axis=(0, 1)) - two.mean(axis=(0, 1))) / one.std(axis=(0, 1)) < FAR * error).all(), name
    assert bc.Fit.from_draws(drawn, core, **QUIET).level == "certified"


@pytest.mark.slow
def test_many_levels_have_sigma_by_its_standard_error(monkeypatch):
    rows = made(3000, 1000)
    core, exact = sampled(GROUPED, rows)
    monkeypatch.setattr(normal, "_MAX_SECONDS", 0.0)
    monkeypatch.setattr("bayescore.models.normal._DENSE", 0)
    monkeypatch.setattr(normal, "_NORMAL_FROM_DF", 100.0)
    _, other = sampled(GROUPED, rows)
    assert "icc_g" in other.posterior
    for name in ("sigma", "sigma_g"):
        one, two = (np.log(own.posterior[name].values) for own in (exact, other))
        assert abs(one.mean() - two.mean()) < 0.15 * one.std()
        assert two.std() == pytest.approx(one.std(), rel=0.12)
    corr = np.corrcoef(
        np.log(other.posterior["sigma"].values.ravel()), np.log(other.posterior["sigma_g"].values.ravel())
    )
    assert corr[0, 1] < -0.2  # rows tell their sum
    assert bc.certify(other, core, rows, **QUIET).level == "certified"


# --------------------------------------------------------------------------------------------------------------- units


@pytest.mark.statistical(rate=1e-6)
@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("formula", [FLAT, GROUPED, "y ~ a + b + (1 + a | g)"])
def test_units_and_origins_change_nothing_but_units(formula, standardize):
    """Means at 5.5 standard errors of the difference: 4e-8 each."""
    rows = made(80)
    other = rows.assign(a=1000.0 * rows["a"] + 1e4 * standardize, y=1000.0 * rows["y"] + 1e4)
    one, two = (sampled(formula, own, standardize=standardize)[1].posterior for own in (rows, other))
    for name in ("sigma", *(["sigma_g"] if "(" in formula else [])):
        a, b = (np.log(own[name].values).reshape(*own[name].shape[:2], -1) for own in (one, two))
        gap = b.mean(axis=(0, 1)) - a.mean(axis=(0, 1)) - np.log(1000.0)
        if not standardize and a.shape[2] == 2:
            gap[1] += np.log(1000.0)  # a slope
        error = np.hypot(1.0 / np.sqrt(ess(a, "bulk")), 1.0 / np.sqrt(ess(b, "bulk")))
        if standardize or a.shape[2] == 1:  # the priors of slopes' sds are in units of raw columns
            assert (abs(gap) / a.std(axis=(0, 1)) < FAR * error).all()


# -------------------------------------------------------------------------------------------------------------- verbs


@pytest.fixture(scope="module")
def fit():
    return bc.fit(GROUPED, made(40), family="normal", random_state=1, **QUIET)


def test_new_responses_have_the_noise_of_each_draw(fit):
    new = made(40).iloc[:3]
    mean, drawn = fit.predict(new, kind="draws").values, fit.predict(new, kind="response", random_state=3).values
    z = (drawn - mean) / fit._posterior().size[:, None]
    assert stats.kstest(z.ravel(), stats.norm.cdf).pvalue > 1e-6
    plugged = (drawn - mean) / fit._posterior().size.mean()
    assert stats.kurtosis(plugged.ravel()) > 0.05  # a control
    rows = bc.all_rows(made(40), design=fit.coreset.design, family=fit.coreset.family, **QUIET)
    log_p = log_likelihood(fit.idata, rows).values.reshape(-1, 40)
    eta = fit._posterior().predictor().eta(rows)
    np.testing.assert_allclose(log_p.T, stats.norm.logpdf(eta, 0.0, fit._posterior().size), rtol=1e-9)


def _least_squares(rows):
    X = np.column_stack([np.ones(len(rows)), rows["a"]])
    return rows["y"], X @ np.linalg.lstsq(X, rows["y"], rcond=None)[0]


def test_leaving_rows_out_integrates_the_sd():
    rows = made(40)
    fit = bc.fit("y ~ a", rows, family="normal", prior=bc.priors.Normal(0, 100), random_state=1, **QUIET)
    found = float(fit.certificate.elpd_loo)
    exact = 0.0
    for n in range(40):
        part = bc.all_rows(rows.drop(index=n), formula="y ~ a", **FAMILY)
        target = NoiseSdPosterior.of(part, bc.priors.Normal(0, 100), sd_prior_for(fit.coreset))
        beta, sd = target.draw(20_000, np.random.default_rng(n))
        exact += np.log(stats.norm.pdf(rows["y"][n], beta @ [1.0, rows["a"][n]], sd).mean())
    assert found == pytest.approx(exact, abs=0.25)
    plugged = stats.norm.logpdf(*_least_squares(rows), fit._posterior().size.mean()).sum()
    assert plugged - exact > 1.0  # a control


def test_groups_have_the_density_of_their_multivariate_normal(fit):
    rows, core, posterior = made(40), fit.coreset, fit._posterior()
    everything = bc.all_rows(rows, design=core.design, family=core.family, **QUIET)
    at = np.arange(0, 4000, 400)
    within = squares_within(posterior.flat[at], core, Dataset(everything.as_source(), core.design))
    found = NoiseStrategy(fit._used, posterior, core, None).of_groups(at, within)
    for place, s in enumerate(at):
        gap, sd, sigma = (
            everything.X @ posterior.flat[s] + everything.offset,
            *(posterior.variables[name][s] for name in ("sigma", "sigma_g")),
        )
        for g in range(6):
            own = gap[everything.group[:, 0] == g]
            V = sd**2 * np.eye(len(own)) + sigma**2
            assert found[place, g] == pytest.approx(
                stats.multivariate_normal(np.zeros(len(own)), V).logpdf(own), rel=1e-5
            )
    assert -150.0 < fit.certificate.elpd_logo < -60.0


def test_changed_draws_are_refused(fit):
    for name, change in (("sigma", 1.1), ("sigma_g", 1.1), ("beta", 1.01), ("u_g", 1.1)):
        for whole in (True, False):
            idata = deepcopy(fit._drawn)
            idata["posterior"][name] = idata["posterior"][name] * change
            if name == "beta":
                del idata["posterior"]["coef"]
            if not whole:
                idata = idata.isel(draw=slice(None, 400))
            assert bc.certify(idata, fit.coreset, fit.coreset, **QUIET).level == "not certified", (name, whole)
    part = deepcopy(fit._drawn).isel(draw=slice(None, 900))
    assert bc.certify(part, fit.coreset, fit.coreset, **QUIET).level == "certified"  # a control
    with pytest.raises(DataError, match="data are not the rows of the coreset"):
        bc.certify(fit._drawn, fit.coreset, made(40, seed=1), **QUIET)


@pytest.mark.parametrize(("formula", "n"), [("y ~ 1", 4), ("y ~ a", 3), ("y ~ 0 + a", 5), ("y ~ a + (1 | h)", 9)])
def test_few_rows_end_certified(formula, n):
    fit = bc.fit(formula, made(n), family="normal", random_state=1, **QUIET)
    assert fit.level == "certified"
    low, high = fit.summary().loc["sigma", ["2.5%", "97.5%"]]
    assert high > 2.0 * low


def test_parts_with_units_of_their_own_are_united():
    rows = made(200)
    parts = [bc.build_coreset(own, formula=FLAT, **FAMILY) for own in (rows[:50], rows[50:])]
    assert parts[0].family != parts[1].family
    whole = bc.Coreset.concat(parts)
    assert whole._sd_unknown
    found, known = (bc.sample(own, random_seed=1, **QUIET).posterior for own in (whole, sampled(FLAT, rows)[0]))
    error = FAR * known["sigma"].values.std() / np.sqrt(2000.0)
    assert abs(found["sigma"].values.mean() - known["sigma"].values.mean()) < error
    given = bc.build_coreset(rows[50:], formula=FLAT, family="normal(2)", **QUIET)
    with pytest.raises(ValueError, match="coresets differ in family"):
        bc.Coreset.concat([parts[0], given])


def test_what_takes_the_sd_as_given_says_so():
    core, idata = sampled(FLAT, made())
    for sampler in ("langevin", "mala"):
        with pytest.raises(ValueError, match=r"takes the sd of the noise as given, .* family='normal\(\d"):
            bc.sample(core, sampler=sampler, **QUIET)
    with pytest.raises(ValueError, match="sampler='normal' is for numbers whose sd is unknown"):
        bc.sample(core, family="normal(2)", sampler="normal", **QUIET)
    with pytest.raises(DataError, match=re.escape(f"give a sd, family={core.family!r}, or compare models by loo_")):
        bc.log_evidence(core, random_state=1)
    given = bc.sample(core, family=core.family, random_seed=1, **QUIET)
    assert "sigma" not in given.posterior
    assert "sigma" in idata.posterior
    grouped = bc.build_coreset(made(), formula=GROUPED, **FAMILY)
    with pytest.raises(ValueError, match="with groups needs a normal prior"):
        bc.sample(grouped, prior=bc.priors.StudentT(3, 0, 3), sampler="normal", **QUIET)


def test_models_of_ones_own_have_the_sd_they_give():
    pm = pytest.importorskip("pymc")
    core = bc.build_coreset(made(), formula=FLAT, **FAMILY)
    assert [own.name for own in bc.model(core).free_RVs] == ["beta", "sigma"]
    with pm.Model():
        beta = pm.Normal("beta", 0, 5, shape=3)
        with pytest.raises(DataError, match=r"sd is missing: .* sd=pm\.HalfNormal"):
            bc.weighted_potential("numbers", core, beta)
        potential = bc.weighted_potential("numbers", core, beta, sd=2.5)
    at = {beta: np.array([7.0, 1.0, -1.0])}
    rows = made()
    gap = rows["y"] - 7.0 - rows["a"] + rows["b"]
    assert float(potential.eval(at)) == pytest.approx(stats.norm.logpdf(gap, 0.0, 2.5).sum(), rel=1e-6)
    labels = bc.build_coreset(rows.assign(y=rows["y"] > 7), formula=FLAT, random_state=1, **QUIET)
    with pm.Model():
        beta = pm.Normal("beta", 0, 5, shape=3)
        with pytest.raises(DataError, match="sd is given, and the family is 'logistic'"):
            bc.weighted_potential("labels", labels, beta, sd=2.5)
