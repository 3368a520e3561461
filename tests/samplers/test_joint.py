"""The joint sampler: its density is the model's, its draws are an independent sampler's, bad input is refused."""

import json
import warnings
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayescore as bc
from bayescore.compat import as_xarray
from bayescore.families.family import check_family
from bayescore.models.groups.joint import gradient_size, level_slopes
from bayescore.models.groups.joint_mode import joint_mode
from bayescore.models.groups.rows import JointRows
from bayescore.models.predictor import multipliers
from bayescore.numerics.chains import ess
from bayescore.priors import Normal
from bayescore.priors.groups import HalfStudentT
from bayescore.samplers import groups as joint_frame
from bayescore.samplers.groups import JointFrame
from bayescore.samplers.posterior import draws_digest
from benchmarks.groups.several_terms import made
from tests import group_draws
from tests.coresets.celled import celled
from tests.hand_made import fit_of
from tests.reference_moments import Moments, moments
from tests.samplers.frames import checked_coordinates, density_at

QUIET = {"progressbar": False}
FEW = ("y ~ w + x + z + (1 + x | a) + (1 | b)", {"n_a": 6, "n_b": 4, "median": 80, "slope": 0.9})  # means are moved
THREE = "y ~ w + x + z + (1 + x + z | a) + (1 | b)"


def rows_of(formula, **shape):
    return bc.all_rows(celled(**shape), formula=formula, **QUIET)


def log_density(core, posterior, family="logistic", prior_sd=4.0):
    """Return the log density of beta, effects, log sds and correlations, written down once more."""
    beta = posterior["beta"].values[0]
    total = stats.norm.logpdf(beta, 0.0, prior_sd).sum(axis=1)
    eta = beta @ core.X.T + (0.0 if core.offset is None else core.offset)
    for place, factor in enumerate(core.groups):
        q, S = len(factor.effects), len(beta)
        sd = posterior[f"sigma_{factor.name}"].values[0].reshape(S, q)
        u = posterior[f"u_{factor.name}"].values[0].reshape(S, len(factor), q)
        R = np.tile(np.eye(q), (S, 1, 1))
        if q > 1:
            i, j = np.triu_indices(q, 1)
            R[:, i, j] = R[:, j, i] = posterior[f"rho_{factor.name}"].values[0]
        total += (stats.t.logpdf(sd / 2.5, 3.0) + np.log(sd)).sum(axis=1)
        total += np.linalg.slogdet(R)[1]  # LKJ(2)
        for s in range(S):
            covariance = sd[s][:, None] * R[s] * sd[s]
            total[s] += stats.multivariate_normal(np.zeros(q), covariance).logpdf(u[s]).sum()
        code = core.group[:, place]
        padded = np.concatenate([u, np.zeros((S, 1, q))], axis=1)
        eta += np.einsum("snq,nq->sn", padded[:, code], multipliers(core.X, core.design, factor))
    return total + check_family(family).log_p(eta, core.y) @ core.weights


def rows_of_reference():
    """Return rows that are the same under every shift of the seeds, as a frame and as all rows."""
    rng = np.random.Generator(np.random.PCG64(4))
    frame = celled(n_a=12, n_b=6, median=20, slope=0.7, rng=rng)
    return frame, bc.all_rows(frame, formula="y ~ w + x + z + (1 + x | a) + (1 | b)", **QUIET)


@pytest.fixture(scope="module")
def drawn():
    """Return rows of slopes and a crossed factor, and draws."""
    frame, core = rows_of_reference()
    return frame, core, bc.sample(core, draws=500, tune=400, random_seed=1, **QUIET)


def test_several_terms_take_it_by_default(drawn):
    _, _, idata = drawn
    posterior = idata["posterior"]
    assert posterior.attrs["sampler"] == "joint"
    assert posterior["u_a"].dims == ("chain", "draw", "a", "a_effect")
    assert posterior["rho_a"].coords["a_pair"].values.tolist() == ["1, x"]
    assert posterior["sigma_b"].dims == ("chain", "draw")
    sizes = [ess(np.log(posterior[name].values.reshape(4, 500, -1)), "bulk").min() for name in ("sigma_a", "sigma_b")]
    assert min(sizes) > 300.0


@pytest.mark.parametrize(
    ("formula", "shape"),
    [
        (THREE, {"n_a": 8, "n_b": 4, "median": 8, "slope": 0.5}),
        ("y ~ w + x + z + (1 | a) + (1 | b)", {"n_a": 5, "n_b": 4, "nested": True, "median": 6}),
        ("y ~ w + x + z + (1 + x | a)", {"n_a": 6, "n_b": 2, "median": 30, "slope": 0.0}),
        FEW,
    ],
)
def test_the_density_is_the_models(formula, shape):
    """`lp` differs from the density written down by a constant, in a frame where sds have signs and where not."""
    core = rows_of(formula, **shape)
    told = {"draws": 30, "tune": 40, "chains": 1, "thin": 1, "random_seed": 3, **QUIET}
    idata = bc.sample(core, prior=Normal(0.0, 4.0), sampler="joint", **told)
    gap = idata["sample_stats"]["lp"].values[0] - log_density(core, idata["posterior"])
    assert np.ptp(gap) < 1e-6


def test_lp_is_of_pseudo_rows_and_another_family_too():
    frame = celled("cloglog", n_a=6, n_b=3, nested=True, median=15, slope=0.5)
    told = {"formula": "y ~ w + x + z + (1 + x | a) + (1 | b)", "method": "multilevel", "random_state": 0, **QUIET}
    core = bc.build_coreset(frame, family="cloglog", **told)
    assert core.pseudo.any()
    told = {"draws": 20, "tune": 40, "chains": 1, "thin": 1, "random_seed": 3, **QUIET}
    idata = bc.sample(core, prior=Normal(0.0, 2.0), **told)
    gap = idata["sample_stats"]["lp"].values[0] - log_density(core, idata["posterior"], "cloglog", 2.0)
    assert np.ptp(gap) < 1e-6


@pytest.mark.parametrize(
    ("formula", "shape", "moved"),
    [
        (THREE, {"n_a": 8, "n_b": 4, "median": 8, "slope": 0.0}, 4),
        (THREE, {"n_a": 8, "n_b": 4, "median": 8, "slope": 0.7}, 4),
        (*FEW, 3),
    ],
)
def test_gradients_are_those_of_differences(formula, shape, moved):
    core = rows_of(formula, **shape)
    frame = JointFrame.of(core, check_family("probit"), Normal(0.0, 4.0), HalfStudentT())
    assert len(frame.means.information) == moved
    x = checked_coordinates(frame)
    first = frame.shapes[0][0] * frame.shapes[0][1]
    np.testing.assert_array_equal(frame.monitored(x)[:4], frame.theta(x)[first : first + 4])
    assert np.abs(frame.whitening.moves).sum(axis=0).all()


@pytest.mark.parametrize("rate", [1.0, 10.0, 14.0])
def test_the_mode_is_found_however_much_rows_say(rate):
    """From a mean of 3 to one of a million counts a row: 40,000 posterior sds from effects of 0."""
    rng = np.random.Generator(np.random.PCG64(3))
    x, a, b = rng.normal(size=600), np.arange(600) % 20, rng.integers(0, 6, 600)
    eta = rate + 0.3 * x + 0.5 * rng.normal(size=20)[a] + 0.3 * rng.normal(size=6)[b]
    frame = pd.DataFrame({"y": rng.poisson(np.exp(eta)), "x": x, "a": a, "b": b})
    core = bc.all_rows(frame, label="y", formula="x + (1 | a) + (1 | b)", family="poisson", **QUIET)
    mode = joint_mode(JointRows.of(core), check_family("poisson"), Normal(0.0, 4.0), HalfStudentT())
    of_a, of_b = mode.effects
    gaps = mode.beta[0] + mode.beta[1] * x + of_a[a, 0] + of_b[b, 0] - eta
    assert np.sqrt(np.mean(gaps**2)) < 2.0 * np.sqrt(28 / 600 / np.exp(rate))


def test_a_level_adds_what_its_coordinates_change():
    """A gradient with room ends with each level's part of the log density; rows of no level have the last one."""
    core = rows_of(THREE, n_a=8, n_b=4, median=8, slope=0.7)
    group = core.group.copy()
    group[:5, 0] = 8  # of no level
    frame = JointFrame.of(replace(core, group=group), check_family("probit"), Normal(0.0, 4.0), HalfStudentT())
    (G, q), rng, D = frame.shapes[0], np.random.default_rng(0), len(frame.center)
    x, plain, (one, other) = rng.normal(size=D), np.empty(D), np.zeros((2, gradient_size(D, (G, q))))
    value = density_at(*frame.target, x, one)
    assert density_at(*frame.target, x, plain) == value
    np.testing.assert_array_equal(plain, one[:D])
    assert one[D + G] < 0.0
    for g in range(G):
        moved = x.copy()
        moved[g * q : (g + 1) * q] = rng.normal(size=q)
        change = density_at(*frame.target, moved, other) - value
        expected = np.where(np.arange(G + 1) == g, change, 0.0)
        np.testing.assert_allclose((other - one)[D : D + G + 1], expected, atol=1e-9 * abs(value))


@pytest.mark.parametrize(("formula", "n_effects"), [("y ~ w + x + z + (1 + x | a)", 2), ("y ~ w + x + (x | a)", 2)])
def test_pseudo_rows_of_levels_need_no_columns(formula, n_effects, monkeypatch):
    """Their x = M' z: the density is that by columns, and what levels' rows say may be given."""
    frame = celled("logistic", n_a=8, n_b=3, nested=True, median=60, slope=0.5)
    core = bc.build_coreset(frame, formula=formula, method="multilevel", random_state=0, **QUIET)
    told = check_family("logistic"), Normal(0.0, 4.0), HalfStudentT()
    short = JointFrame.of(core, *told)
    monkeypatch.setattr(
        joint_frame, "level_slopes", lambda X, z, codes, G: (np.zeros((G + 1, 2, X.shape[1])), codes < 0)
    )
    long = JointFrame.of(core, *told)
    assert short.arguments.columns.shape[1] < 0.5 * len(core) < long.arguments.columns.shape[1] == len(core)
    (G, q), D, rng = short.shapes[0], len(short.center), np.random.default_rng(0)
    assert q == n_effects
    assert short.arguments.z.flags.c_contiguous
    assert short.arguments.codes.flags.c_contiguous
    for x in rng.normal(size=(3, D)):
        found, by_columns, plain = np.zeros(gradient_size(D, (G, q))), np.zeros(gradient_size(D, (G, q))), np.empty(D)
        value = density_at(*short.target, x, found)
        assert value == pytest.approx(density_at(*long.target, x, by_columns), rel=1e-12)
        np.testing.assert_allclose(found[: D + G + 1], by_columns[: D + G + 1], rtol=1e-9, atol=1e-9 * abs(value))
        assert density_at(*short.target, x, plain) == value
        again = found.copy()
        again[: D + G + 1], again[-1] = np.nan, 1.0
        assert density_at(*short.target, x, again) == value
        np.testing.assert_array_equal(again[:-1], found[:-1])
        other = x.copy()
        other[:q] += 1.0  # a control: sums of another point are not this one's
        assert density_at(*short.target, other, again) != pytest.approx(
            density_at(*short.target, other, plain), rel=1e-9
        )


def test_a_column_of_levels_in_a_large_unit_hides_no_other():
    """Its size is no measure of what a column of rows may differ from M' z by."""
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(6), 5)
    z, own, x = np.ones((30, 1)), rng.normal(size=6)[codes], rng.normal(size=30)
    for unit in (1.0, 1e12):
        M, linear = level_slopes(np.stack([own * unit, x], axis=1), z, codes, 6)
        assert not linear.any()
        assert not M.any()
        M, linear = level_slopes(np.stack([own * unit, own], axis=1), 1e8 * z, codes, 6)
        assert linear.all()
        np.testing.assert_allclose(1e8 * M[codes, 0, 0], own * unit, rtol=1e-12)


def test_few_draws_of_levels_that_move_by_themselves_are_thinned(monkeypatch):
    """Below 100 draws a chain their effective size tells nothing, so that warm-up's does."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"g": rng.integers(0, 200, 1000), "x": rng.normal(size=1000)})
    eta = -3.0 + 0.5 * frame["x"] + 1.5 * rng.normal(size=200)[frame["g"]]
    frame["y"] = rng.random(1000) < 1.0 / (1.0 + np.exp(-eta))
    core = bc.all_rows(frame, formula="y ~ x + (1 + x | g)", **QUIET)
    monkeypatch.setattr(joint_frame, "_MIN_EFFECTS_BY_LEVEL", 1)
    idata = bc.sample(core, sampler="joint", draws=90, random_seed=1, **QUIET)
    assert ess(idata["posterior"]["beta"].values, "bulk").min() > 90.0  # half of what is asked for


@pytest.mark.filterwarnings("ignore:the chains have not mixed")  # of the control
@pytest.mark.parametrize(("shape", "moved"), [((2, 2, False, 600, -1.0), 2), ((3, 3, False, 600, -1.0), 2)])
def test_an_intercept_beside_few_levels_mixes(shape, moved, monkeypatch):
    """Of few levels of many rows each, intercept and sigma take few gradients; the control moves no mean."""
    told = {"formula": "y ~ x0 + x1 + x2 + x3 + (1 | a) + (1 | b)", "method": "multilevel", "random_state": 0, **QUIET}
    prior = bc.priors.Normal(0, 4)
    core = bc.build_coreset(made(*shape, "logistic"), prior=prior, **told)

    def effective():
        idata = bc.sample(core, prior=prior, thin=1, random_seed=1, **QUIET)
        own = idata["posterior"]["beta"].values[..., :1], np.log(idata["posterior"]["sigma_a"].values)[..., None]
        gradients = float(idata["sample_stats"]["n_steps"].sum())
        return min(float(ess(each, "bulk").min()) for each in own) / gradients

    assert effective() > 0.1
    assert (
        len(JointFrame.of(core, check_family("logistic"), Normal(0.0, 4.0), HalfStudentT()).means.information) == moved
    )
    monkeypatch.setattr(
        joint_frame, "free_columns", lambda rows, *_: [np.zeros((q, rows.rows.n_features)) for _, q in rows.shapes]
    )
    assert effective() < 0.06


@pytest.mark.parametrize(("prior_sd", "alone", "moved"), [(4.0, 0, 1), (0.01, 0, 0), (4.0, 400, 0)])
def test_a_mean_that_else_is_held_is_not_moved(prior_sd, alone, moved):
    """A narrow prior of the intercept holds it, or rows of no group."""
    frame = celled(n_a=6, n_b=4, median=80, slope=0.0)
    core = bc.all_rows(frame, formula="y ~ w + x + z + (1 | a)", **QUIET)
    group = core.group.copy()
    group[:alone] = -1
    frame = JointFrame.of(replace(core, group=group), check_family("logistic"), Normal(0.0, prior_sd), HalfStudentT())
    assert len(frame.means.information) == moved


def visits(slope_sd, correlation, subjects=300, seed=0):
    """Return binary responses of subjects whose intercepts have the sd 4, as toenail's."""
    rng = np.random.Generator(np.random.PCG64(seed))
    covariance = [[16.0, 4.0 * slope_sd * correlation], [4.0 * slope_sd * correlation, slope_sd**2]]
    u = rng.multivariate_normal([0.0, 0.0], covariance, subjects)
    frame = pd.DataFrame({"id": np.repeat(np.arange(subjects), 7), "t": np.tile(np.arange(7) / 2.0, subjects)})
    eta = -1.5 - 0.4 * frame["t"] + u[frame["id"], 0] + u[frame["id"], 1] * frame["t"]
    return frame.assign(y=(rng.random(len(frame)) < 1.0 / (1.0 + np.exp(-eta))).astype(int))


def nested(seed=0, broods=60, places=30):
    """Return counts in broods of a row or a few, most alone in their place, where the places' sd may be 0."""
    rng = np.random.Generator(np.random.PCG64(seed))
    place = np.sort(rng.integers(0, places, broods))
    brood = np.sort(rng.integers(0, broods, 200))
    eta = 0.5 + rng.normal(0.0, 0.9, broods)[brood] + rng.normal(0.0, 0.3, places)[place[brood]]
    rows = pd.DataFrame({"y": rng.poisson(np.exp(eta)), "brood": brood, "place": place[brood]})
    return rows.assign(chick=np.arange(200))


def crossed(seed=0, levels=(3, 12), n=400, scale=1.0, origin=0.0):
    """Return labels of two factors, of which the second has no effects, and a column in any unit."""
    rng = np.random.Generator(np.random.PCG64(seed))
    a, b, x = rng.integers(0, levels[0], n), rng.integers(0, levels[1], n), rng.normal(size=n)
    eta = 0.3 + 0.7 * x + rng.normal(0.0, 0.8, levels[0])[a]
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-eta))).astype(int)
    return pd.DataFrame({"y": y, "x": origin + scale * x, "a": a, "b": b})


def judged(idata):
    """Return draws of beta, log sds and Fisher's z, shape (chains, draws, k)."""
    found = []
    for name, own in idata["posterior"].data_vars.items():
        values = own.transpose("chain", "draw", ...).values
        values = values.reshape(*values.shape[:2], -1)
        if name.startswith("sigma"):
            found.append(np.log(values))
        elif name.startswith("rho"):
            found.append(np.arctanh(values))
        elif name == "beta":
            found.append(values)
    return np.concatenate(found, axis=-1)


def sizes(idata):
    return [float(ess(judged(idata), kind).min()) for kind in ("bulk", "tail")]


def core_of(frame, formula, family):
    return bc.all_rows(frame, formula=formula, family=family, standardize=True, **QUIET)


NESTED = "y ~ 1 + (1 | brood) + (1 | chick) + (1 | place)"
KINDS = {
    "nested, few rows": (nested, "y ~ 1 + (1 | brood) + (1 | place)", "poisson"),
    "three nested factors": (nested, NESTED, "poisson"),
    "crossed, an sd near 0": (crossed, "y ~ x + (1 | a) + (1 | b)", "logistic"),
    "few levels with slopes": (crossed, "y ~ x + (1 + x | a)", "logistic"),
    "a correlation near 1": (lambda: visits(1.0, 0.95, 60), "y ~ t + (1 + t | id)", "probit"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_more_draws_are_worth_more(kind):
    """Chains that stick where an sd is near 0 lose effective draws as they get longer."""
    made, formula, family = KINDS[kind]
    core = core_of(made(), formula, family)
    short, long = (bc.sample(core, draws=n, thin=1, tune=600, random_seed=1, **QUIET) for n in (500, 4000))
    assert min(sizes(long)) > 3.0 * min(sizes(short))
    assert min(sizes(long)) > 400.0


def test_three_nested_factors_have_the_models_density_and_gradient():
    core = core_of(nested(), NESTED, "poisson")
    told = {"draws": 20, "tune": 40, "chains": 1, "thin": 1, "random_seed": 3, **QUIET}
    idata = bc.sample(core, prior=Normal(0.0, 4.0), **told)
    gap = idata["sample_stats"]["lp"].values[0] - log_density(core, idata["posterior"], "poisson")
    assert np.ptp(gap) < 1e-6
    frame = JointFrame.of(core, check_family("poisson"), Normal(0.0, 4.0), HalfStudentT())
    first, second = (G * q for G, q in frame.shapes[:2])
    follows = np.diff(frame.arguments.start)
    assert (follows[: first + second] > 0).all()
    assert not follows[first + second :].any()
    checked_coordinates(frame)


def test_effects_pass_from_a_factor_to_the_one_that_it_is_within(monkeypatch):
    """Where the sd of places goes to 0 broods take their effects over; of the control broods stay."""
    core = core_of(nested(), NESTED, "poisson")

    def effective():
        idata = bc.sample(core, thin=1, random_seed=1, **QUIET)
        return min(sizes(idata)) / float(idata["sample_stats"]["n_steps"].sum())

    following = effective()
    monkeypatch.setattr(joint_frame, "funnel_columns", lambda *_: [0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the chains have not mixed
        control = effective()
    assert following > 2.0 * control, (following, control)


@pytest.mark.slow
def test_visits_of_subjects_that_differ_much_mix():
    """The values with which rows were made are within three posterior sds."""
    slope_sd, correlation = 1.0, 0.9
    core = bc.all_rows(visits(slope_sd, correlation), formula="y ~ t + (1 + t | id)", **QUIET)
    idata = bc.sample(core, random_seed=1, **QUIET)
    assert min(sizes(idata)) > 400.0
    draws = judged(idata).reshape(-1, 5)
    made = [-1.5, -0.4, np.log(4.0), np.log(slope_sd), np.arctanh(correlation)]
    assert np.abs((draws.mean(axis=0) - made) / draws.std(axis=0)).max() < 3.5


def test_units_and_origin_of_a_column_do_not_matter():
    """By hand, in the data's own units: the same line and the same spread where the rows are; sds of draws are equal.

    The control is another set of rows. Wide priors hold nothing; that of a correlation is about x = 0, and so the
    effects' sd is compared where x is at its mean.
    """

    def found(scale, origin, seed=0):
        frame = crossed(seed, (12, 3), 1500, scale, origin)
        prior = {"Intercept": Normal(0.0, 100.0), "x": Normal(0.0, 4.0 / scale), "*": Normal(0.0, 4.0)}
        core = bc.build_coreset(frame, formula="y ~ x + (1 + x | a)", random_state=0, **QUIET)
        posterior = bc.sample(core, prior=prior, random_seed=1, **QUIET)["posterior"]
        beta, sd, rho = posterior["beta"].values, posterior["sigma_a"].values, posterior["rho_a"].values[..., 0]
        at = frame["x"].mean()
        spread = sd[..., 0] ** 2 + 2.0 * at * rho * sd[..., 0] * sd[..., 1] + (at * sd[..., 1]) ** 2
        draws = np.stack([beta[..., 0] + beta[..., 1] * at, beta[..., 1] * scale, 0.5 * np.log(spread)], axis=-1)
        assert ess(draws, "bulk").min() > 400.0
        return draws.mean(axis=(0, 1)), draws.std(axis=(0, 1))

    (mean, sd), (moved, moved_sd), (other, _) = found(1.0, 0.0), found(1000.0, 1e4), found(1.0, 0.0, 1)
    assert np.abs((moved - mean) / sd).max() < 0.25
    assert np.abs(np.log(moved_sd / sd)).max() < 0.2
    assert np.abs((other - mean) / sd).max() > 0.25


def test_draws_do_not_depend_on_cores(drawn):
    _, core, idata = drawn
    again = bc.sample(core, draws=500, tune=400, random_seed=1, cores=1, **QUIET)
    np.testing.assert_array_equal(idata["posterior"]["u_a"].values, again["posterior"]["u_a"].values)


def coordinates(idata):
    """Return draws of beta, log sds and Fisher's z in the order of the reference, shape (chains, draws, 8)."""
    posterior = as_xarray(idata["posterior"]).transpose("chain", "draw", ...)
    shape = (posterior.sizes["chain"], posterior.sizes["draw"], -1)
    parts = (
        posterior["beta"],
        np.log(posterior["sigma_a"]),
        np.arctanh(posterior["rho_a"]),
        np.log(posterior["sigma_b"]),
    )
    return np.concatenate([part.values.reshape(shape) for part in parts], axis=2)


def arrays(frame):
    return [frame[name] for name in ("w", "x", "z", "a", "b", "y")]


def reference_draws(_):
    """Return draws of walkers, and rows, for `tests.reference_moments`."""
    frame, core = rows_of_reference()
    return coordinates(group_draws.drawn(core, chains=4, draws=1500)), arrays(frame)


@pytest.mark.slow
@pytest.mark.statistical(rate=1e-5)
def test_draws_are_those_of_an_independent_sampler(drawn, monkeypatch):
    """Eight means beside walkers that know nothing of the frame; the control has another prior of the sds.

    So are draws of levels that move by themselves, as those of many effects do.
    """
    frame, core, idata = drawn
    bound = stats.norm.isf(0.5 * 1e-5 / 16)
    walkers = moments("walkers", arrays(frame))

    def gap(own):
        ours = Moments.of(coordinates(own))
        return np.abs((ours.mean - walkers.mean) / np.hypot(ours.mean_error, walkers.mean_error)).max()

    assert gap(idata) < bound
    told = {"group_prior": bc.priors.HalfNormal(0.3), "draws": 500, "tune": 400, "random_seed": 1, **QUIET}
    assert gap(bc.sample(core, **told)) > bound
    monkeypatch.setattr(joint_frame, "_MIN_EFFECTS_BY_LEVEL", 1)
    assert gap(bc.sample(core, draws=1000, random_seed=1, **QUIET)) < bound
    assert gap(bc.sample(core, **told)) > bound


def test_draws_are_certified_and_predict(drawn):
    frame, core, idata = drawn
    found = bc.certify(idata, core, frame, label="y", **QUIET)
    assert found.level != "not certified", found.text
    assert len(fit_of(idata, core).predict(frame.iloc[:3])) == 3
    changed = deepcopy(idata)
    values = changed["posterior"]["u_b"].values
    values += 0.02
    changed["posterior"].attrs["effects_of"] = json.dumps(
        json.loads(idata["posterior"].attrs["effects_of"]) | {"u_b": draws_digest(values)}
    )
    found = bc.certify(changed, core, frame, label="y", **QUIET)
    assert "log densities stored with them (sample_stats), were changed" in found.text


def test_rows_without_groups_are_refused():
    core = bc.all_rows(pd.DataFrame({"x": [0.0, 1.0] * 50, "y": [0, 1, 1, 0] * 25}), label="y", **QUIET)
    with pytest.raises(ValueError, match="sampler='joint' is for rows with groups"):
        bc.sample(core, sampler="joint", **QUIET)
