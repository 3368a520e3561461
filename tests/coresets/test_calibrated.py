"""Calibrated coresets: the fit of weights, the fixed-size draw, and the accuracy of the whole."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import optimize
from threadpoolctl import threadpool_limits

import bayescore as bc
from bayescore.coresets import calibration
from bayescore.coresets.calibration import fit_weights
from bayescore.data.sources import as_source
from bayescore.families.family import FAMILIES
from bayescore.models.posterior import log_likelihoods
from bayescore.numerics.sampling import Candidates, choose, hash_uniforms
from bayescore.types import WeightedData
from tests.cuts import Recut, build_in_blocks

logistic = FAMILIES["logistic"]

N, D = 20_000, 6


def make(seed=0, n=N, shift=-2.0):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.standard_t(4, size=(n, D - 2)), rng.random(n) < 0.01])
    p = 1 / (1 + np.exp(-shift - X @ np.array([1.0, -0.5, 0.3, 0.0, 2.0])))
    return X, np.where(rng.random(n) < p, 1, 0)


@pytest.fixture(scope="module")
def data():
    return make()


ASKED = {"method": "calibrated", "size": 20 * D, "intercept": True, "random_state": 0}


def build(X, y, **options):
    return bc.build_coreset(X, y, **{**ASKED, "progressbar": False, **options})


def errors(core, X, y, **options):
    """Return the largest error of the mode in posterior sds, and the largest relative error of an sd."""
    full = bc.find_map(bc.all_rows(X, y, intercept=True, family=core.family, progressbar=False), **options)
    own = bc.find_map(core, **options)
    return np.abs((own.beta - full.beta) / full.sd).max(), np.abs(own.sd / full.sd - 1).max()


@pytest.mark.parametrize("family", ["logistic", "probit"])
def test_mode_and_curvature_of_the_full_data_at_20_rows_a_column(data, family):
    for seed in range(5):
        core = build(*data, family=family, random_state=seed)
        mean, sd = errors(core, *data)
        assert mean < 0.01
        assert sd < 0.03
        assert len(core) == 20 * D - core.params["dropped"]
        assert core.params["residual_mean"] < 0.01
        assert core.weights.sum() == pytest.approx(N, rel=0.3)


def test_the_same_draw_without_calibration_fails(data):
    """Negative control: the sample's own weights miss the mode by several sds."""
    core = build(*data)
    drawn = core.with_weights(np.full(len(core), N / len(core)))
    assert errors(drawn, *data)[0] > 1.0


@pytest.mark.slow
def test_posterior_matches_the_full_data_in_sampling(data):
    core = build(*data)
    full = bc.all_rows(*data, intercept=True, progressbar=False)
    settings = {"sampler": "mala", "draws": 2000, "random_seed": 1, "progressbar": False}
    result = bc.compare_posteriors({"calibrated": bc.sample(core, **settings)}, bc.sample(full, **settings, thin=3))
    assert result.verdicts["calibrated"].level in ("close", "indistinguishable")


def test_same_coreset_from_every_source_and_cut(data, tmp_path):
    X, y = data
    core = build(X, y)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(D - 1)]).assign(y=y)
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=777)
    others = [build(tmp_path / "rows.parquet", None, label="y"), build(frame, None, label="y")]
    others.append(build(Recut(as_source(X, y), 1234), None))
    for other in others:
        for name in ("X", "y", "weights", "index"):
            np.testing.assert_array_equal(getattr(core, name), getattr(other, name))
    # many canonical blocks: other sums, same rows
    other = build_in_blocks(X, y, **ASKED, block_rows=1500)
    np.testing.assert_array_equal(core.index, other.index)
    np.testing.assert_allclose(core.weights, other.weights, rtol=1e-9)


def test_same_coreset_for_every_number_of_threads(data):
    with threadpool_limits(1):
        one = build(*data)
    np.testing.assert_array_equal(one.weights, build(*data).weights)


def test_weighted_rows_and_coresets_of_coresets(data):
    X, y = data
    weights = np.random.default_rng(1).uniform(0.2, 5, N)
    core = build(X, y, weights=weights)
    full = bc.find_map(bc.all_rows(X, y, weights=weights, intercept=True, progressbar=False))
    own = bc.find_map(core)
    assert np.abs((own.beta - full.beta) / full.sd).max() < 0.01
    first = build(X, y, size=1000)
    second = bc.build_coreset(first, method="calibrated", size=20 * D, random_state=1, progressbar=False)
    assert second.n_total == N
    assert errors(second, X, y)[0] < 0.02


def test_priors_by_name_are_those_of_sample(data):
    X, y = data
    frame = pd.DataFrame(X[:, :3], columns=["a", "b", "c"])
    given = {
        "a": bc.priors.Normal(0, 0.05),
        "Intercept": bc.priors.StudentT(3, 0, 2.5),
        "*": bc.priors.Normal(0.0, 4.0),
    }
    core = build(frame, y, prior=given, intercept=True)
    assert core.params["prior"] == repr(given)
    whole = bc.all_rows(frame, y, intercept=True, progressbar=False)
    modes = [bc.find_map(rows, prior=given).beta for rows in (core, whole)]
    assert float(np.abs(modes[0] - modes[1]).max()) < 0.01
    assert abs(float(bc.find_map(core).beta[1] - modes[1][1])) > 0.1  # a prior that counts
    tree = build(frame, y, method=bc.methods.MergeReduce(reducer=bc.methods.Calibrated(prior=given)), intercept=True)
    assert len(tree) > 50
    with pytest.raises(ValueError, match="prior: 'z' is no coefficient; they are 'a', 'b', 'c'"):
        build(frame, y, prior={"z": bc.priors.Normal(0, 1)}, intercept=False)
    with pytest.raises(ValueError, match=r"prior\['a'\] is Horseshoe.*, a prior of all coefficients"):
        build(frame, y, prior={"a": bc.priors.Horseshoe()})
    with pytest.raises(ValueError, match="goes by names, and rows of a stream have none yet"):
        bc.stream(size=50, reducer=bc.methods.Calibrated(prior=given))


def test_a_prior_of_ones_own_moves_the_mode_that_is_matched(data):
    prior = bc.priors.Normal(0, 0.05)
    core = build(*data, prior=prior)
    assert core.params["prior"] == repr(prior)
    assert errors(core, *data, prior=prior)[0] < 0.01
    with pytest.raises(ValueError, match="leave prior out: only the likelihood is calibrated"):
        build(*data, prior=bc.priors.Horseshoe())


def test_auto_calibrates_and_finds_the_smallest_size_within_the_tolerance(data):
    core = bc.build_coreset(*data, random_state=0, progressbar=False)
    assert core.method == "calibrated"
    assert core.params["passes"] <= 14
    curve = core.params["size_curve"]
    sizes = [point["size"] for point in curve]
    worst = [max(point["mean_error"], point["sd_error"]) for point in curve]
    assert sizes == sorted(sizes)
    assert sizes[-1] == 20 * (D - 1)
    within = [size for size, error in zip(sizes, worst, strict=True) if error <= 0.05]
    assert len(core) + core.params["dropped"] == min(within)
    assert max(core.params["mean_error"], core.params["sd_error"]) <= 0.05
    assert f"{sizes[0]}: {worst[0]:.2g}, {sizes[1]}: {worst[1]:.2g}" in repr(core)
    tight = bc.build_coreset(*data, random_state=0, tolerance=0.005, progressbar=False)
    assert len(tight) > len(core)
    with pytest.raises(ValueError, match=r"tolerance=1\.5"):
        bc.build_coreset(*data, tolerance=1.5)


def heavy_tails(n=20_000):
    """Return rows of t_2 features with few positives: a skewed posterior."""
    rng = np.random.default_rng(0)
    X = rng.standard_t(2, size=(n, 5))
    b = np.array([3.0, -2.0, 1.0, 0.5, 0.0])
    return X, rng.random(n) < 1 / (1 + np.exp(np.clip(15 - X @ b, -500, 500)))


@pytest.mark.slow
def test_a_skewed_posterior_is_met_and_the_predicted_errors_hold():
    """Predicted errors against long runs on all data, whose Monte Carlo sd is about 0.015."""
    X, y = heavy_tails()
    settings = {"intercept": True, "standardize": True, "progressbar": False}
    full, prior = bc.all_rows(X, y, **settings), bc.priors.Normal(0, 4)
    truth = bc.sample(full, prior=prior, sampler="langevin", draws=3000, random_seed=1, progressbar=False)
    truth = truth.posterior["beta"].to_numpy().reshape(-1, 6)
    mode = bc.find_map(full, prior=prior).beta
    core = bc.build_coreset(X, y, method="calibrated", size=120, prior=prior, random_state=3, **settings)
    own = bc.sample(core, prior=prior, sampler="mala", draws=3000, random_seed=2, progressbar=False)
    own = own.posterior["beta"].to_numpy().reshape(-1, 6)
    mean_error = np.abs((own.mean(0) - truth.mean(0)) / truth.std(0)).max()
    sd_error = np.abs(own.std(0) / truth.std(0) - 1).max()
    assert mean_error < 0.1
    assert sd_error < 0.15
    assert abs(mean_error - core.params["mean_error"]) < 0.07
    assert abs(sd_error - core.params["sd_error"]) < 0.1
    # negative control: the Laplace approximation of the full data's own posterior
    assert np.abs((mode - truth.mean(0)) / truth.std(0)).max() > 0.2


@pytest.mark.slow
def test_rows_drawn_anew_mend_a_posterior_that_its_mode_says_little_of(monkeypatch):
    """Without the second stage (negative control) the log-likelihoods differ far more over the posterior."""
    rng = np.random.default_rng(0)
    X, b = rng.standard_t(2, size=(8000, 20)), rng.normal(size=20)
    y = rng.random(8000) < 1 / (1 + np.exp(np.clip(8 - X @ b, -500, 500)))
    prior = bc.priors.Normal(0, 4)
    settings = {"size": 420, "standardize": True, "random_state": 2, "prior": prior}
    full = bc.all_rows(X, y, intercept=True, standardize=True, progressbar=False)
    spread, expected = {}, {}
    for rounds in (2, 0):
        monkeypatch.setattr(calibration, "MAX_ROUNDS", rounds)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # what is left may be above twice the tolerance
            core = build(X, y, **settings)
        assert core.params["rounds"] == min(rounds, core.params["rounds"])
        assert (core.params["rounds"] > 0) == (rounds > 0)
        idata = bc.sample(core, prior=prior, sampler="mala", random_seed=1, progressbar=False)
        draws = idata.posterior["beta"].to_numpy().reshape(-1, 21)[::10]
        spread[rounds] = (log_likelihoods(draws, full, logistic) - log_likelihoods(draws, core, logistic)).std()
        expected[rounds] = core.params["mean_error"]
    assert spread[2] < 0.7 * spread[0]
    assert expected[2] <= 0.05 < expected[0]


def test_the_log_likelihood_of_the_full_data_at_the_mode_is_met(data):
    X, y = data
    full = bc.all_rows(X, y, intercept=True, progressbar=False)
    beta = bc.find_map(full).beta
    values = [float(rows.weights @ logistic.log_p(rows.X @ beta, rows.y)) for rows in (full, build(X, y))]
    assert values[0] == pytest.approx(values[1], abs=0.05)


def test_a_rare_category_is_seen_by_the_pilot():
    """Two positives among 40 rows of a category carry its coefficient; Newton's method still ends in few passes."""
    rng = np.random.default_rng(5)
    X, y = make(5)
    rare = np.zeros(N)
    rare[rng.choice(N, 40, replace=False)] = 1.0
    y[rare > 0] = 0
    y[np.flatnonzero(rare)[:2]] = 1
    X = np.column_stack([X, rare])
    full = bc.find_map(bc.all_rows(X, y, intercept=True, standardize=True, progressbar=False))
    for seed in range(5):
        core = build(X, y, size=140, standardize=True, random_state=seed)
        own = bc.find_map(core)
        assert np.abs((own.beta - full.beta) / full.sd).max() < 0.02
        assert core.params["passes"] <= 18


def test_few_rows_are_all_kept():
    X, y = make(n=80)
    core = build(X[:, :3], y, size="auto")
    assert len(core) == 80
    np.testing.assert_allclose(core.weights, 1.0)


def test_too_few_rows_for_the_totals_are_said(data):
    with pytest.warns(UserWarning, match=r"no weights on these 8 rows meet .* size='auto' looks for one"):
        build(*data, size=8)


def test_separable_data_build():
    X = np.linspace(-1, 1, 3000)[:, None]
    with pytest.warns(UserWarning, match="the labels (are|may be) completely separated"):
        core = build(X, X[:, 0] > 0.1, size=60)
    assert errors(core, X, X[:, 0] > 0.1)[0] < 0.05


@pytest.mark.parametrize("seed", range(5))
def test_fit_is_the_minimum(seed):
    rng = np.random.default_rng(seed)
    shares, totals, ridge = rng.normal(size=(5, 30)) * 10.0 ** rng.integers(-2, 3, (5, 1)), rng.normal(size=5), 1e-2
    fit = fit_weights(shares, totals, ridge)

    def loss(u):
        return 0.5 * ridge * ((u - 1) ** 2).sum() + 0.5 * ((shares @ u - totals) ** 2).sum()

    def slope(u):
        return ridge * (u - 1) + shares.T @ (shares @ u - totals)

    best = optimize.minimize(loss, np.ones(30), jac=slope, bounds=[(0, None)] * 30, options={"maxiter": 10_000})
    assert (fit.factors >= 0).all()
    assert loss(fit.factors) <= best.fun * (1 + 1e-6) + 1e-9
    # the conditions of the minimum: no slope where a factor is positive, upward slope where it is 0
    gradient = slope(fit.factors)
    scale = np.abs(shares).max() * max(1, np.abs(totals).max())
    assert np.abs(gradient[fit.factors > 0]).max() < 1e-6 * scale
    assert (gradient[fit.factors == 0] > -1e-6 * scale).all()
    np.testing.assert_allclose(fit.residual, totals - shares @ fit.factors)


def test_a_fit_that_takes_too_long_tells_what_it_misses():
    rng = np.random.default_rng(0)
    shares = rng.normal(size=(300, 200)) * np.exp(rng.normal(size=200) * 2) * 100  # more totals than rows, far apart
    totals = shares @ rng.exponential(size=200) * (1 + 1e-3 * rng.standard_normal(300))
    fit = fit_weights(shares, totals, max_steps=2)
    assert fit.n_steps == 2
    assert (fit.factors >= 0).all()
    np.testing.assert_array_equal(fit.residual, totals - shares @ fit.factors)
    better = fit_weights(shares, totals)
    assert np.abs(better.residual).max() < 0.1 * np.abs(fit.residual).max()

    # at the optimum, up to rounding: 1e-4 here, of entries of 5e4 and a ridge of 1e-4. Steps are judged by the dual,
    # whose last halves are below that, so that loss and residual go up and down in the last 30 of 40 steps
    assert better.n_steps < 60
    ridge = np.sqrt(1e-4) * np.eye(200)
    best = optimize.lsq_linear(
        np.vstack([shares, ridge]), np.concatenate([totals, ridge.sum(axis=0)]), (0.0, np.inf), method="bvls"
    )
    loss = 0.5e-4 * ((better.factors - 1.0) ** 2).sum() + 0.5 * (better.residual**2).sum()
    assert best.cost <= loss * (1.0 + 1e-9)
    assert loss < 1.001 * best.cost


@pytest.mark.statistical(rate=1e-6)
def test_inclusion_probabilities_of_the_fixed_size_draw():
    """Each row's frequency over 4000 draws against pi; largest of 40 z below 6: 8e-8.

    Sequential Poisson sampling meets pi only up to O(1/M), hence 3% are allowed on top. Negative control: equal pi.
    """
    n, size, runs = 40, 15, 4000
    p = np.random.default_rng(0).gamma(0.7, size=n) + 0.02
    p /= p.sum()
    rows = WeightedData(np.zeros((n, 1)), np.ones(n, np.int8), np.ones(n), np.arange(n))
    counts, weight_sum, certain = np.zeros(n), np.zeros(n), 0
    for seed in range(runs):
        chosen, certain = choose(Candidates(p, hash_uniforms(0, n, seed) / p, np.arange(n), rows), size, 1.0)
        assert len(chosen) == size
        counts[chosen.index] += 1
        weight_sum[chosen.index] += chosen.weights
    order = np.argsort(-p)
    left = 1 - p[order[:certain]].sum()
    pi = np.minimum(1.0, p * (size - certain) / left)
    pi[order[:certain]] = 1.0
    assert pi.sum() == pytest.approx(size)
    assert (counts[order[:certain]] == runs).all()

    def surprise(expected):
        error = np.sqrt(expected * (1 - expected) / runs) + 1e-12
        return (np.maximum(np.abs(counts / runs - expected) - 0.03 * expected, 0) / error).max()

    assert certain >= 1
    assert surprise(pi) < 6.0
    assert surprise(np.full(n, size / n)) > 20.0
    assert (np.abs(weight_sum / runs - 1.0) < 0.03 + 6.0 * np.sqrt((1.0 - pi) / (pi * runs))).all()
