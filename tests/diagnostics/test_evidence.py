"""Log evidence against quadrature and closed forms.

Rates: a single comparison allows 5.5 standard errors, 4e-8, and counts as 1e-6. The calibration of the standard errors
over 200 seeds allows what a chi-squared leaves with probability 5e-7 on each side.
"""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

import bayescore as bc
from bayescore.diagnostics import row_sums
from bayescore.diagnostics.evidence import log_evidence
from bayescore.types import WeightedData
from bayescore.validation import DataError

LOG_P = {"logistic": lambda eta: -np.logaddexp(0, -eta), "probit": special.log_ndtr}
FAMILIES = {
    "normal": (lambda c: bc.priors.Normal(0.3 / c, 1.5 / c), stats.norm(0.3, 1.5)),
    "student": (lambda c: bc.priors.StudentT(4, 0.3 / c, 1.5 / c), stats.t(4, 0.3, 1.5)),
    "cauchy": (lambda c: bc.priors.Cauchy(0.3 / c, 0.7 / c), stats.cauchy(0.3, 0.7)),
    "laplace": (lambda c: bc.priors.Laplace(0.3 / c, 0.4 / c), stats.laplace(0.3, 0.4)),
    "spike and slab": (lambda c: bc.priors.SpikeAndSlab(0.3 / c, 2.0 / c, 0.3), None),
}


def weighted(X, y, w=None):
    w = np.ones(len(X)) if w is None else np.asarray(w, dtype=float)
    return WeightedData(np.asarray(X, dtype=float), np.asarray(y, dtype=np.int8), w, np.arange(len(X)))


def some_rows(n, n_features, seed=0, weights=True):
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(n), rng.normal(size=(n, n_features))])[:, -n_features:]
    y = np.where(rng.random(n) < special.expit(X.sum(axis=1)), 1, -1)
    return weighted(X, y, rng.uniform(0.2, 3.0, n) if weights else None)


def quadrature(data, family, log_prior, centre=0.0, reach=12.0, n=241):
    """Integrate on a regular grid, D = 1 or 2: exact to 1e-8 for smooth densities, to 1e-4 at a kink."""
    D = data.n_features
    axis = np.linspace(-reach, reach, n)
    grid = centre + np.stack(np.meshgrid(*[axis] * D, indexing="ij"), axis=-1).reshape(-1, D)
    log_density = LOG_P[family](grid @ data.Z.T) @ data.weights + log_prior(grid).sum(axis=1)
    return special.logsumexp(log_density) + D * math.log(axis[1] - axis[0])


def log_prior_of(family):
    if FAMILIES[family][1] is None:
        return lambda x: np.log(0.7 * stats.norm.pdf(x, 0, 0.3) + 0.3 * stats.norm.pdf(x, 0, 2.0))
    return FAMILIES[family][1].logpdf


def errors(found, truth):
    return abs(found.log_evidence - truth) / found.se


@pytest.mark.statistical(rate=1e-6)
@pytest.mark.parametrize("n_features", [1, 2])
@pytest.mark.parametrize("family", ["logistic", "probit"])
def test_quadrature_with_weights(family, n_features):
    data = some_rows(25, n_features)
    found = log_evidence(data, family=family, prior=bc.priors.Normal(0, 2), draws=20_000, random_state=1)
    assert found.se < 0.01
    assert errors(found, quadrature(data, family, stats.norm(0, 2).logpdf)) < 5.5
    assert math.isnan(found.full)


@pytest.mark.statistical(rate=3e-6)
def test_closed_forms():
    """One row under a symmetric prior: 1/2. Two probit rows under a normal prior: the probability of an orthant."""
    for family in LOG_P:
        one = log_evidence(weighted([[1.0, 2.0]], [1]), family=family, draws=20_000, random_state=2)
        assert errors(one, -math.log(2)) < 5.5
    z = np.array([[1.0, 0.5], [0.2, -1.5]])
    cov = np.eye(2) + 4.0 * z @ z.T
    rho = cov[0, 1] / math.sqrt(cov[0, 0] * cov[1, 1])
    two = log_evidence(weighted(z, [1, 1]), family="probit", prior=bc.priors.Normal(0, 2), draws=20_000, random_state=3)
    assert errors(two, math.log(0.25 + math.asin(rho) / (2 * math.pi))) < 5.5


@pytest.mark.statistical(rate=1e-6)
@pytest.mark.parametrize("family", FAMILIES)
def test_priors_are_normalised(family, monkeypatch):
    data, make = some_rows(25, 1), FAMILIES[family][0]
    truth = quadrature(data, "logistic", log_prior_of(family), n=200_001)

    def found(scale=1.0):
        other = weighted(data.X * scale, data.y, data.weights)
        return log_evidence(other, family="logistic", prior=make(scale), draws=20_000, random_state=4)

    assert errors(found(), truth) < 5.5
    # the unit of a feature does not matter, if the prior's constants are there
    assert found(7.0).log_evidence == pytest.approx(found().log_evidence, abs=1e-4)

    kind = type(make(1.0))
    exact = kind.log_density
    monkeypatch.setattr(  # negative control: the scale missing from the prior's constant
        kind, "log_density", lambda prior, draws: exact(prior, draws) + np.log(prior.table(1)[1]).sum()
    )
    assert errors(found(), truth) > 10
    assert abs(found(7.0).log_evidence - found().log_evidence) > 1


@pytest.mark.statistical(rate=1e-6)
def test_rank_deficient_designs():
    """Twice the same column under Normal(0, 2) is the column once under Normal(0, 2 sqrt 2)."""
    once = some_rows(25, 1)
    twice = weighted(np.repeat(once.X, 2, axis=1), once.y, once.weights)
    found = log_evidence(twice, family="probit", prior=bc.priors.Normal(0, 2), draws=20_000, random_state=5)
    assert errors(found, quadrature(once, "probit", stats.norm(0, 2 * math.sqrt(2)).logpdf)) < 5.5
    same = log_evidence(twice, family="probit", prior=bc.priors.Laplace(0, 0.05), draws=2000, random_state=5)
    assert same.pareto_k < 0.7


def test_a_weight_is_a_number_of_copies():
    data = some_rows(20, 3, weights=False)
    counts = np.arange(20) % 3 + 1
    copies = data.take(np.repeat(np.arange(20), counts))
    a = log_evidence(data.with_weights(counts.astype(float)), family="logistic", random_state=0)
    b = log_evidence(copies, family="logistic", random_state=0)
    assert a.log_evidence == pytest.approx(b.log_evidence, abs=1e-8)


@pytest.fixture(scope="module")
def plane():
    """Full data of two features, ln E of all and of a coreset known by quadrature."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(1000, 2))
    y = np.where(rng.random(1000) < special.expit(X @ [0.8, -0.5]), 1, 0)
    core = bc.build_coreset(X, y, method="uniform", size=980, random_state=0, progressbar=False)
    full = bc.all_rows(X, y, progressbar=False)
    centre = bc.find_map(full).beta
    truth = [
        quadrature(rows, "logistic", stats.norm(0, 4).logpdf, centre, reach=1.0, n=101) for rows in (core, full)
    ]  # 1 is 12 standard deviations
    return X, y, core, truth


@pytest.mark.statistical(rate=5e-6)
@pytest.mark.slow
def test_standard_errors_are_calibrated(plane):
    """Mean squares of z over 400 seeds, and their means. Negative control: errors too small by sqrt(2)."""
    X, y, core, (own, full) = plane
    runs = [
        log_evidence(core, X, y, prior=bc.priors.Normal(0, 4), draws=500, random_state=seed, progressbar=False)
        for seed in range(400)
    ]
    low, high = stats.chi2.ppf([5e-7, 1 - 5e-7], 400) / 400
    kinds = {"log_evidence": ("se", own), "full": ("full_se", full), "difference": ("difference_se", full - own)}
    for name, (se, truth) in kinds.items():
        z = np.array([(getattr(run, name) - truth) / getattr(run, se) for run in runs])
        assert low < np.mean(z**2) < high, name
        assert abs(z.mean()) < 5.5 / math.sqrt(400), name
        assert 2.0 * np.mean(z**2) > high, name  # negative control: missed in 5e-7
    z = np.array([(run.difference - full + own) / math.hypot(run.se, run.full_se) for run in runs])
    assert np.mean(z**2) < low  # as if the draws were not common
    assert runs[0].difference == pytest.approx(runs[0].full - runs[0].log_evidence)
    assert (
        log_evidence(core, X, y, prior=bc.priors.Normal(0, 4), draws=500, random_state=3, progressbar=False) == runs[3]
    )


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(8000, 4))
    return X, np.where(rng.random(8000) < special.expit(X @ [1.0, -1.0, 0.5, 0.0] - 1.0), "yes", "no")


@pytest.mark.statistical(rate=1e-6)
@pytest.mark.parametrize("family", ["logistic", "probit"])
def test_a_calibrated_coreset_gives_the_full_datas_evidence(data, family):
    about = {"family": family, "intercept": True, "progressbar": False}
    core = bc.build_coreset(*data, method="calibrated", size=300, random_state=0, **about)
    full = bc.all_rows(*data, **about)
    truth = bc.log_evidence(full, draws=8000, random_state=8)
    found = bc.log_evidence(core, *data, random_state=9, progressbar=False)
    assert abs(found.full - truth.log_evidence) < 5.5 * math.hypot(found.full_se, truth.se)
    assert found.difference_se < 0.2 * found.full_se
    assert max(found.pareto_k, found.full_pareto_k) < 0.5
    assert found.interval[0] < truth.log_evidence < found.interval[1]
    text = repr(found)
    assert "full data" in text
    assert "± 0.0" in text
    same = bc.log_evidence(full, *data, random_state=9, progressbar=False)
    assert abs(same.difference) < 1e-4  # the sample's error
    assert same.epsilon < 1e-5


def test_a_sample_of_the_rows_tells_what_all_rows_at_all_draws_do(monkeypatch):
    rows = some_rows(60_000, 6, seed=8)
    y = rows.y > 0
    core = bc.build_coreset(rows.X, y, method="calibrated", random_state=1, progressbar=False)
    found = log_evidence(core, rows.X, y, random_state=2, progressbar=False)
    monkeypatch.setattr(row_sums, "MAX_SUM_ERROR", -1.0)
    exact = log_evidence(core, rows.X, y, random_state=2, progressbar=False)
    assert found.full != exact.full
    assert abs(found.full - exact.full) < 0.02
    assert found.full_se == pytest.approx(exact.full_se, rel=0.05, abs=0.02)


def test_a_poor_coreset_warns_and_its_interval_holds(data):
    core = bc.build_coreset(*data, method="uniform", size=200, intercept=True, random_state=0, progressbar=False)
    truth = bc.log_evidence(bc.all_rows(*data, intercept=True, progressbar=False), random_state=8)
    with pytest.warns(UserWarning, match="full data's log evidence cannot be trusted.*method='calibrated'"):
        found = bc.log_evidence(core, *data, random_state=9, progressbar=False)
    assert found.interval[0] < truth.log_evidence < found.interval[1]
    assert found.epsilon > 0.01
    assert found.full_pareto_k > 0.7


def test_two_modes_warn():
    prior = bc.priors.SpikeAndSlab(0.001, 5.0, 0.5)
    with pytest.warns(UserWarning, match="coreset's log evidence cannot be trusted"):
        log_evidence(some_rows(30, 8, weights=False), family="logistic", prior=prior, random_state=0)


def test_bad_input_is_named(data):
    X, y = data
    core = bc.build_coreset(X, y, method="uniform", size=200, random_state=0, progressbar=False)
    with pytest.raises(ValueError, match="no density in closed form, which the evidence needs; use Normal"):
        log_evidence(core, prior=bc.priors.Horseshoe())
    with pytest.raises(ValueError, match="draws=10 must be at least 100"):
        log_evidence(core, draws=10)
    with pytest.raises(TypeError, match="data is missing"):
        log_evidence(core, y=y)
    with pytest.raises(TypeError, match="core is a WeightedData; with full data it must be a Coreset"):
        log_evidence(some_rows(30, 4), X, y, family="logistic")
    with pytest.raises(ValueError, match="the coreset was built from"):
        log_evidence(core, X[:, :2], y)
    with pytest.raises(TypeError, match="is not a prior of bayescore"):
        log_evidence(core, prior="normal")
    with pytest.raises(ValueError, match="family is missing"):
        log_evidence(some_rows(30, 4))


@pytest.mark.statistical(rate=1e-6)
def test_pseudo_rows_have_the_evidence_of_all_rows_alone():
    """Within 5.5 standard errors of what a coreset of real rows says of the same data."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 2))
    y = rng.random(5000) < special.expit(X @ [0.5, -1.0])
    settings = {"random_state": 0, "progressbar": False}
    core = bc.build_coreset(X, y, method="condensed", **settings)
    with pytest.raises(DataError, match=r"core has pseudo-rows.*give the full data too"):
        log_evidence(core, progressbar=False)
    found = log_evidence(core, X, y, **settings)
    other = log_evidence(bc.build_coreset(X, y, method="calibrated", **settings), X, y, **settings)
    assert abs(found.full - other.full) < 5.5 * math.hypot(found.full_se, other.full_se)
    assert math.isnan(found.log_evidence)
    assert math.isnan(found.epsilon)
    assert "pseudo-rows have none of their own" in repr(found)
    assert "difference" not in repr(found)


def of_groups(counts, family):
    """Return the log evidence of binomial counts of groups, shape (G, 2), by the trapezium rule."""
    beta, log_sigma = np.arange(-8.0, 8.0, 0.1), np.arange(-7.0, 4.0, 0.1)
    t, log_p = np.arange(-8.0, 8.0, 0.05), LOG_P[family]
    found = np.zeros((len(beta), len(log_sigma)))
    for j, sigma in enumerate(np.exp(log_sigma)):
        eta = beta[:, None] + sigma * t
        up, down = log_p(eta), log_p(-eta)
        for ups, downs in counts:
            each = ups * up + downs * down + stats.norm.logpdf(t)
            found[:, j] += special.logsumexp(each, axis=1) + np.log(0.05)
    found += stats.norm.logpdf(beta, 0.0, 4.0)[:, None]
    found += np.log(2.0) + stats.t.logpdf(np.exp(log_sigma), 3.0, scale=2.5) + log_sigma
    return special.logsumexp(found) + 2.0 * np.log(0.1)


@pytest.mark.slow
@pytest.mark.statistical(rate=2e-6)
@pytest.mark.parametrize("family", ["logistic", "probit"])
def test_effects_of_groups_are_integrated_out(family):
    counts = [(30, 12), (9, 25), (20, 20), (14, 30), (25, 8)]
    rows = [(place, y) for place, (ups, downs) in enumerate(counts) for y in [1] * ups + [0] * downs]
    frame = pd.DataFrame(rows, columns=["g", "y"]).assign(one=1.0)
    told = {"formula": "y ~ 0 + one + (1 | g)", "family": family}
    truth, whole = of_groups(counts, family), bc.all_rows(frame, **told, progressbar=False)
    found = bc.log_evidence(whole, frame, prior=bc.priors.Normal(0, 4), draws=20_000, random_state=0, progressbar=False)
    assert found.se < 0.02
    assert abs(found.log_evidence - truth) < 5.5 * found.se
    assert found.full == pytest.approx(found.log_evidence, abs=1e-9)
    other = bc.log_evidence(
        whole, prior=bc.priors.Normal(0, 4), group_prior=bc.priors.HalfNormal(0.2), draws=20_000, random_state=0
    )  # the control
    assert abs(other.log_evidence - truth) > 5.5 * found.se
    core = bc.build_coreset(frame, **told, method="multilevel", random_state=0, progressbar=False)
    few = bc.log_evidence(core, frame, prior=bc.priors.Normal(0, 4), draws=20_000, random_state=1, progressbar=False)
    assert np.isnan(few.log_evidence)  # of pseudo-rows
    assert abs(few.full - truth) < 5.5 * few.full_se


@pytest.mark.parametrize("b", [0.2, 0.05])
def test_a_kinked_prior_of_grouped_rows_leaves_enough_draws(b):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=600), "z": rng.normal(size=600), "g": np.arange(600) % 20})
    frame["y"] = 0.3 * frame["x"] + rng.normal(size=20)[frame["g"]] + rng.logistic(size=600) > 0
    core = bc.all_rows(frame, formula="y ~ x + z + (1 | g)", progressbar=False)
    found = bc.log_evidence(core, prior=bc.priors.Laplace(0, b), draws=1000, random_state=0)
    assert found.ess > 300


def test_other_group_terms_are_refused_with_what_to_do():
    frame = pd.DataFrame({"x": np.arange(40) % 7 / 7.0, "y": np.arange(40) % 2, "a": np.arange(40) // 3 % 4})
    core = bc.all_rows(frame, formula="y ~ x + (1 + x | a)", progressbar=False)
    with pytest.raises(DataError, match=r"core has \(1 \+ x \| a\), and log_evidence .*loo_compare"):
        log_evidence(core)
    with pytest.raises(ValueError, match="group_prior is given, and core has no groups"):
        log_evidence(some_rows(30, 4), family="logistic", group_prior=bc.priors.HalfNormal(1.0))
