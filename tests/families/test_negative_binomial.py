"""Negative binomial counts of a given size: from rows to draws, certificate, comparison of sizes, and files."""

import math
import subprocess
import sys
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy import optimize, special, stats

import bayescore as bc
from bayescore.cli import main
from bayescore.diagnostics.loo import loo
from bayescore.diagnostics.model_check import Dispersion
from bayescore.families.family import FAMILIES, SIZED, check_family
from bayescore.fitting.route import Given
from bayescore.models.groups.marginal import CollapsedTarget, collapsed_density
from bayescore.models.posterior import log_likelihoods, prior_part
from bayescore.models.row_kernels import add_terms
from bayescore.numerics.moments import WeightedDraws, errors_between
from bayescore.priors.groups import log_sigma_terms
from bayescore.samplers.sample import sample
from bayescore.validation import DataError
from tests.counted import FORMULA, QUIET, covariates, fixtures, likely_size
from tests.diagnostics.test_loo_counts import elpd_of
from tests.hand_made import fit_of
from tests.models.grouped_rows import PRIORS, brute_force, grouped

SIZE = 1.5
FAMILY = bc.families.NegativeBinomial(SIZE)
TRUE = np.array([-0.5, 0.4, -0.5, 0.3])
PRIOR = bc.priors.Normal(0.0, 4.0)


def counts(n=6000, seed=0, size=SIZE):
    """Return rows of counts with log exposures, a skewed and a rare column."""
    rng = np.random.default_rng(seed)
    rows, time, eta = covariates(rng, n, TRUE)
    drawn = bc.families.NegativeBinomial(size).draw(eta + np.log(time), rng)
    return rows.assign(log_time=np.log(time), n=drawn.astype(int))


ROWS = counts()
HOW = {"formula": FORMULA, "offset": "log_time", "family": FAMILY, **QUIET}


def log_pmf(rows, X, beta, size=SIZE):
    """Return scipy's log probabilities of counts at coefficients, shape (S, n)."""
    mean = np.exp(beta @ X.T + rows["log_time"].to_numpy())
    return stats.nbinom.logpmf(rows["n"].to_numpy(), size, size / (size + mean))


everything, core, draws = fixtures(ROWS, HOW)


@pytest.mark.parametrize("size", [0.05, 1.0, 2.5, 3e4])
def test_sides_and_constant_are_scipys_probabilities(size):
    family, eta = bc.families.NegativeBinomial(size), np.linspace(-6.0, 5.0, 23)
    y = np.array([0.0, 1.0, 7.0, 300.0])[:, None]
    found = y * family.log_p(eta, 1) + family.log_p(eta, -1) + family.log_constant(y, np.ones_like(y))
    t = np.exp(eta)
    wanted = stats.nbinom.logpmf(y, size, size / (size + t))
    np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-7)
    about = stats.nbinom(size, size / (size + t)).stats("mvk")
    for part, known in zip((family.mean(eta), family.variance(eta), family.excess_kurtosis(eta)), about, strict=True):
        np.testing.assert_allclose(part, known, rtol=1e-8)
    assert not np.allclose(found, stats.poisson.logpmf(y, t), atol=1e-3)


def test_a_large_size_is_poissons():
    family, eta, poisson = bc.families.NegativeBinomial(9.9e6), np.linspace(-5.0, 3.0, 17), FAMILIES["poisson"]
    np.testing.assert_allclose(family.log_p(eta, -1), poisson.log_p(eta, -1), rtol=1e-5)
    np.testing.assert_allclose(family.score(eta, 1), poisson.score(eta, 1), rtol=1e-5)


@pytest.mark.statistical(rate=1e-6)
@pytest.mark.parametrize("size", [0.3, 20.0])
def test_drawn_counts_have_the_mean_and_variance(size):
    """Five standard errors of each; Poisson counts of the mean have another variance."""
    family, n = bc.families.NegativeBinomial(size), 200_000
    y = family.draw(np.full(n, 1.0), np.random.default_rng(7))
    mean, var, kurtosis = (
        float(part(np.array(1.0))) for part in (family.mean, family.variance, family.excess_kurtosis)
    )
    assert abs(y.mean() - mean) < 5.0 * np.sqrt(var / n)
    error = 5.0 * var * np.sqrt((2.0 + kurtosis) / n)
    assert abs(y.var() - var) < error
    assert abs(y.var() - mean) > error


def test_kernels_are_compiled_once_for_all_sizes():
    X, y = ROWS[["a", "b"]].to_numpy(), ROWS["n"].to_numpy()
    modes = []
    seen = []
    for size in (0.7, 1.9, 12.0):
        modes.append(bc.find_map(bc.all_rows(X, y, family=bc.families.NegativeBinomial(size), **QUIET)).sd)
        seen.append(len(add_terms.signatures))
    assert seen[0] == seen[1] == seen[2]
    assert modes[0][0] > 1.05 * modes[1][0] > 1.05 * modes[2][0]


def test_the_mode_is_that_of_scipys_likelihood(everything):
    X = everything.design.transform(ROWS)
    best = optimize.minimize(
        lambda beta: -log_pmf(ROWS, X, beta).sum() + 0.5 * (beta @ beta) / 16.0,
        TRUE,
        method="BFGS",
        options={"gtol": 1e-3},
    )
    np.testing.assert_allclose(bc.find_map(everything).beta, best.x, atol=1e-4)
    assert everything.family == "negative_binomial(1.5)"
    assert everything.weights[everything.y > 0].sum() == ROWS["n"].sum()


def test_the_potential_is_scipys_up_to_its_constant(everything):
    X, y = everything.design.transform(ROWS), ROWS["n"].to_numpy()
    constant = special.gammaln(y + SIZE) - special.gammaln(SIZE) - special.gammaln(y + 1.0)
    with pm.Model() as model:
        beta = pm.Flat("beta", shape=4)
        bc.weighted_potential("counts", everything, beta)
    value = model.compile_logp()
    for at in (TRUE, TRUE + 0.3):
        assert float(value({"beta": at})) == pytest.approx((log_pmf(ROWS, X, at) - constant).sum(), rel=1e-10)


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("method", ["condensed", "calibrated"])
def test_the_posterior_is_that_of_all_rows(everything, method, seed):
    """By importance weights of the same points, from scipy for all rows; the control has Poisson's likelihood."""
    core = bc.build_coreset(ROWS, method=method, random_state=seed, **HOW)
    mode = bc.find_map(everything)
    half = np.random.default_rng(seed).standard_normal((1000, 4))
    noise = np.vstack([half, -half])
    at = mode.beta + noise @ mode.factor.T
    base = PRIOR.log_density(at) + 0.5 * (noise**2).sum(axis=1)
    full = WeightedDraws(at, log_pmf(ROWS, everything.design.transform(ROWS), at[:, None]).sum(axis=-1).ravel() + base)
    found = errors_between(WeightedDraws(at, log_likelihoods(at, core, FAMILY) + base), full)
    assert full.ess > 1000
    assert found.mean < 0.02
    assert found.sd < 0.02
    poisson = bc.all_rows(ROWS, **{**HOW, "family": "poisson"})
    wrong = errors_between(WeightedDraws(at, log_likelihoods(at, poisson, FAMILIES["poisson"]) + base), full)
    assert wrong.mean > 0.2


def test_few_events_of_a_small_size_are_condensed():
    rows = counts(20_000, seed=3, size=0.2)
    rows["n"] = np.where(np.arange(len(rows)) % 40, 0, rows["n"])
    how = {**HOW, "family": "negative_binomial(0.2)"}
    core = bc.build_coreset(rows, method="condensed", random_state=1, **how)
    assert len(core) <= 8
    assert bc.certify(sample(core, random_seed=2, **QUIET), core, rows, **QUIET).level == "certified"


@pytest.mark.slow
@pytest.mark.parametrize("size", [0.4, 300.0])
def test_certificates_state_dispersion_by_the_size(size):
    """A larger size than the counts' leaves them overdispersed, a smaller one underdispersed, their own neither."""
    rows, said = counts(8000, seed=5, size=size), {}
    for name in ("poisson", *(f"negative_binomial({own * size:g})" for own in (0.2, 1.0, 5.0))):
        core = bc.build_coreset(rows, method="condensed", random_state=1, **{**HOW, "family": name})
        said[name] = bc.certify(sample(core, random_seed=2, **QUIET), core, rows, **QUIET).dispersion
    own, poisson = said[f"negative_binomial({size:g})"], said["poisson"]
    assert not own.over
    assert not own.under
    assert "as spread as the family says" in own.text
    if size < 1.0:
        assert said[f"negative_binomial({5.0 * size:g})"].over
        assert said[f"negative_binomial({0.2 * size:g})"].under
        assert "underdispersed" in said[f"negative_binomial({0.2 * size:g})"].text
        assert poisson.over
        assert poisson.size == pytest.approx(size, rel=0.2)
        assert f"or give family='negative_binomial', of a size near {poisson.size:.3g}" in poisson.text
        check_family(poisson.text.split("family='")[1].split("'")[0], seek=True)
    else:
        assert not poisson.over


@pytest.mark.slow
def test_sizes_and_families_are_compared_by_leave_one_out(core, draws):
    models = {"1.5": (draws, core)}
    for family in ("negative_binomial(4)", "poisson"):
        other = bc.build_coreset(ROWS, method="condensed", random_state=1, **{**HOW, "family": family})
        models[family] = sample(other, random_seed=2, **QUIET), other
    table = bc.loo_compare(models, ROWS, **QUIET)
    assert list(table.index) == ["1.5", "negative_binomial(4)", "poisson"]
    X = core.design.transform(ROWS)
    for name, log_p in (
        ("1.5", lambda beta: log_pmf(ROWS, X, beta)),
        ("negative_binomial(4)", lambda beta: log_pmf(ROWS, X, beta, 4.0)),
        ("poisson", lambda beta: stats.poisson.logpmf(ROWS["n"], np.exp(beta @ X.T + ROWS["log_time"].to_numpy()))),
    ):
        beta = models[name][0].posterior["beta"].values.reshape(-1, 4)[::8]
        each = log_p(beta)
        wanted = -(special.logsumexp(-each, axis=0) - np.log(len(beta))).sum()
        assert table["elpd_loo"][name] == pytest.approx(wanted, abs=8.0)
    assert elpd_of(loo(draws, core, ROWS, **QUIET)) == pytest.approx(table["elpd_loo"]["1.5"], abs=1.0)


@pytest.mark.slow
def test_predicted_counts_and_checks_have_the_familys_spread(core, draws):
    new = ROWS.head(400)
    made = fit_of(draws, core)
    mean = made.predict(new, prob=0.9)["mean"]
    beta = draws.posterior["beta"].values.reshape(-1, 4)
    log_time = new["log_time"].to_numpy()
    np.testing.assert_allclose(mean, np.exp(beta @ core.design.transform(new).T + log_time).mean(axis=0), rtol=1e-8)
    found = made.inference_data(new)
    drawn = found["posterior_predictive"]["y"].values.reshape(-1, 400)
    wanted = (FAMILY.variance(np.log(mean))).mean()
    assert drawn.var(axis=0).mean() == pytest.approx(wanted, rel=0.1)
    assert wanted > 1.5 * mean.mean()
    fit = bc.fit(FORMULA, ROWS, family=FAMILY, offset="log_time", random_state=1, **QUIET)
    assert fit.level == "certified"
    kind = fit.predict(new, kind="response", random_state=1).values
    assert kind.dtype == np.int64
    assert kind.var(axis=0).mean() == pytest.approx(wanted, rel=0.1)
    assert fit.check()["outside"].sum() <= 3
    poisson = bc.fit(FORMULA, ROWS, family="poisson", offset="log_time", random_state=1, **QUIET)
    own, other = ((each.check()["97.5%"] - each.check()["2.5%"]).mean() for each in (fit, poisson))
    assert own > 1.3 * other
    rate = fit.average_predictions()["mean"][0]
    X = fit.coreset.design.transform(ROWS)
    used = fit._used.posterior["beta"].values.reshape(-1, 4)
    assert rate == pytest.approx(np.exp(used @ X.T + ROWS["log_time"].to_numpy()).mean(), rel=1e-3)


def test_averages_over_a_sample_of_many_rows_are_those_of_all():
    rows = counts(60_000, seed=8)
    core = bc.build_coreset(rows, method="condensed", random_state=1, **HOW)
    idata = sample(core, random_seed=2, draws=100, **QUIET)
    fit = fit_of(idata, core, _given=Given(rows, roles={"label": "n", "offset": "log_time"}))
    table = fit.average_predictions(by="rare", max_draws=400).set_index("rare")
    beta, X = idata.posterior["beta"].values.reshape(-1, 4), core.design.transform(rows)
    for level, part in rows.groupby("rare"):
        means = np.exp(beta @ X[part.index].T + part["log_time"].to_numpy()).mean()
        assert table["mean"][level] == pytest.approx(means, rel=1e-4)


@pytest.mark.parametrize(("intercept", "size"), [(-0.5, 0.5), (1.0, 8.0)])
def test_the_marginal_posterior_of_groups_is_that_of_brute_force(intercept, size):
    """Sides of labels serve as well as counts do."""
    name = f"negative_binomial({size})"
    rows, _ = grouped(1500, 40, "logistic", intercept=intercept, sigma=0.8)
    target, rng = CollapsedTarget.of(rows, check_family(name), PRIORS, 40), np.random.default_rng(1)
    arguments, gap = target.arguments(), {name: [], "poisson": []}
    for _ in range(5):
        theta = target.point.theta + target.factor @ rng.standard_normal(4)
        value = collapsed_density(theta, np.empty(4), arguments)
        value -= prior_part(theta[:-1], PRIORS[0]).value + log_sigma_terms(theta[-1], *PRIORS[1].table)[0]
        for each, found in gap.items():
            found.append(value - brute_force(rows, each, theta[:-1], theta[-1], 40)[0])
    assert np.ptp(gap[name]) < 0.02
    assert np.ptp(gap["poisson"]) > 0.5


@pytest.mark.parametrize("terms", ["(1 | clinic)", "(1 + a | clinic)", "(1 | clinic) + (1 | day)"])
def test_random_effects_are_certified(terms):
    rng = np.random.default_rng(3)
    rows = counts(4000, seed=3).drop(columns="log_time")
    clinic, day = rng.integers(0, 30, len(rows)), rng.integers(0, 12, len(rows))
    eta = -0.5 + 0.4 * rows["a"] + 0.5 * rng.normal(size=30)[clinic] + 0.3 * rng.normal(size=12)[day]
    rows["n"] = FAMILY.draw(eta.to_numpy(), rng).astype(int)
    rows["clinic"], rows["day"] = clinic.astype(str), day.astype(str)
    core = bc.build_coreset(rows, formula=f"n ~ a + {terms}", family=FAMILY, random_state=1, **QUIET)
    assert core.method == "multilevel"
    certificate = bc.certify(sample(core, random_seed=3, **QUIET), core, rows, **QUIET)
    assert certificate.level == "certified"
    assert not certificate.dispersion.over


def test_a_size_is_asked_for_and_checked():
    X, y = ROWS[["a"]].to_numpy(), ROWS["n"].to_numpy()
    with pytest.raises(
        ValueError, match=r"'negative_binomial' lacks its size: give it, as in 'negative_binomial\(2.5\)'"
    ):
        bc.build_coreset(X, y, family="negative_binomial")
    for given, error, words in (
        ("negative_binomial()", ValueError, "lacks its size"),
        ("negative_binomial(0)", ValueError, "size=0 must be positive and finite"),
        ("negative_binomial(-2)", ValueError, "size=-2 must be positive and finite"),
        ("negative_binomial(nan)", ValueError, "size=nan must be positive and finite"),
        ("negative_binomial(many)", ValueError, r"must be written as 'negative_binomial\(2.5\)'"),
        ("negative_binomial(1e7)", ValueError, r"size=1e\+07 must be below 1e\+07: such counts are Poisson's"),
        ("negbin", ValueError, "lacks its size"),
        ("negbinomials", ValueError, r"choose one of 'logistic', .*'negative_binomial\(size\)'"),
    ):
        with pytest.raises(error, match=words):
            bc.build_coreset(X, y, family=given, **QUIET)
    with pytest.raises(DataError, match="is no count"):
        bc.build_coreset(X, y - 0.5, family=FAMILY, **QUIET)
    assert check_family("negative_binomial( 1.50 )") == FAMILY
    assert check_family("negative_binomial(1.5)").name == FAMILY.name == "negative_binomial(1.5)"
    assert bc.families.NegativeBinomial(3).name == "negative_binomial(3)"


def test_an_exposure_is_refused_at_every_door(core, draws):
    X, y, E = ROWS[["a"]].to_numpy(), ROWS["n"].to_numpy(), np.exp(ROWS["log_time"].to_numpy())
    blocks = [(X, y, None, None, E)]
    stream = bc.stream("merge_reduce", size=100, family=FAMILY)
    for door in (
        lambda: bc.build_coreset(X, y, exposure=E, family=FAMILY, **QUIET),
        lambda: bc.all_rows(X, y, exposure=E, family=FAMILY, **QUIET),
        lambda: bc.fit(X, y, exposure=E, family=FAMILY, **QUIET),
        lambda: bc.build_coreset(lambda: iter(blocks), family=FAMILY, **QUIET),
        lambda: bc.build_coreset(iter(blocks), family=FAMILY, size=100, **QUIET),
        lambda: stream.partial_fit(X, y, exposure=E),
    ):
        with pytest.raises(DataError, match=r"'negative_binomial\(1.5\)' has none.*give log\(exposure\) as offset"):
            door()
    with pytest.raises(DataError, match="exposure is given, but the coreset was built from had none"):
        bc.certify(draws, core, ROWS.assign(E=E), exposure="E", **QUIET)
    stream.partial_fit(X, y, offset=np.log(E))
    assert stream.coreset().family == FAMILY.name


@pytest.mark.slow
def test_weights_are_not_drawn_as_exposures(everything):
    X, y = ROWS[["a"]].to_numpy(), ROWS["n"].to_numpy()
    full = bc.all_rows(X, y, weights=np.full(len(y), 2.0), family=FAMILY, **QUIET)
    with pytest.raises(DataError, match="row 0 one of 2, and ArviZ"):
        fit_of(sample(full, sampler="mala", random_seed=1, **QUIET), full).inference_data(full)


SCRIPT = """
import sys
import numpy as np, pandas as pd, bayescore as bc
folder, rows = sys.argv[1], pd.read_parquet(sys.argv[2])
core, fit = bc.read_coreset(folder + "/core.parquet"), bc.read_fit(folder + "/model", rows)
print(core.family, fit.coreset.family, fit.certificate.dispersion.size)
print(fit.predict(rows.head(1), kind="mean")["mean"][0])
idata = bc.sample(core, random_seed=2, progressbar=False)
print(bc.certify(idata, core, rows, progressbar=False).level)
"""


@pytest.mark.slow
def test_another_process_reads_a_coreset_and_a_fit(core, tmp_path):
    ROWS.to_parquet(tmp_path / "rows.parquet")
    core.save(tmp_path / "core.parquet")
    fit = bc.fit(FORMULA, ROWS, family="negative_binomial(1.50)", offset="log_time", random_state=1, **QUIET)
    fit.save(tmp_path / "model")
    command = [sys.executable, "-c", SCRIPT, str(tmp_path), str(tmp_path / "rows.parquet")]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert said[:2] == [FAMILY.name, FAMILY.name]
    assert float(said[2]) == fit.certificate.dispersion.size
    assert float(said[3]) == pytest.approx(float(fit.predict(ROWS.head(1))["mean"][0]), rel=1e-6)
    assert said[4] == "certified"


def test_the_command_line_takes_a_size(tmp_path, capsys):
    rows, model = tmp_path / "rows.parquet", tmp_path / "model"
    ROWS.to_parquet(rows)
    asked = ["fit", str(rows), FORMULA, "--offset", "log_time", "-o", str(model), "--quiet"]
    assert main([*asked, "--family", "negative_binomial(1.5)"]) == 0
    assert "negative binomial(1.5) regression" in capsys.readouterr().out
    assert bc.read_fit(model).coreset.family == FAMILY.name
    assert main([*asked, "--family", "negative_binomial"]) == 0
    printed = capsys.readouterr().out
    assert "Bayesian negative binomial regression" in printed
    assert "Size (variance = mean + mean^2 / size)" in printed
    assert "size" in bc.read_fit(model).summary().index
    core = ["build", str(rows), "--formula", FORMULA, "--offset", "log_time", "-o", str(tmp_path / "core.parquet")]
    assert main([*core, "--family", "negative_binomial"]) == 2
    assert "lacks its size" in capsys.readouterr().err


def test_a_family_of_ones_own_with_a_size_is_registered():
    @dataclass(frozen=True)
    class Own(bc.families.NegativeBinomial):
        kind: ClassVar[str] = "own"

    try:
        with pytest.raises(TypeError, match="is not registered"):
            check_family(Own(2.0))
        bc.families.register(Own(2.0))
        assert check_family("own(7)") == Own(7.0)
        rows = ROWS[["a"]].to_numpy(), ROWS["n"].to_numpy()
        own, ours = (
            bc.find_map(bc.all_rows(*rows, family=name, **QUIET)).beta for name in ("own(7)", "negative_binomial(7)")
        )
        np.testing.assert_allclose(own, ours, rtol=1e-9)
        found = bc.fit(*(part[:200] for part in rows), family="own", random_state=1, **QUIET)
        assert found.coreset.family.startswith("own(")
    finally:
        SIZED.pop("own", None)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"mean": lambda self, eta: 2.0 * np.exp(eta)},
            r"'own\(2\)': mean\(eta\) score\(eta, 1\) is .* a count of the mean has the score 0",
        ),
        (
            {"log_constant": lambda self, events, exposure: 0.0 * events},
            "sum of the probabilities of all counts, by log_constant, is",
        ),
        (
            {"variance": lambda self, eta: np.exp(eta)},
            r"variance\(eta\) is .* and that of its probabilities",
        ),
        ({"excess_kurtosis": lambda self, eta: np.exp(-eta)}, r"excess_kurtosis\(eta\) is .* mend one"),
        ({"rows": staticmethod(lambda *_: None)}, "lacks the compiled rows"),
    ],
)
def test_one_that_does_not_keep_the_contract_is_refused(changes, message):
    own = dataclass(frozen=True)(type("Own", (bc.families.NegativeBinomial,), {"kind": "own", **changes}))
    with pytest.raises((ValueError, TypeError), match=message):
        bc.families.register(own(2.0))
    assert list(SIZED) == ["negative_binomial", "gamma", "weibull", "normal", "student_t"]


def test_visits_to_physicians(shared_data):
    """Real counts with a variance eight times their mean: the dispersion names the size that scipy finds most likely.

    At the size that `fit` finds they are more spread still, by a fifth, and none is named. The elpd gains thousands.
    """
    rows = pd.read_parquet(shared_data("nmes1988.parquet"))
    formula = "visits ~ hospital + chronic + age + gender + school"
    poisson = bc.fit(formula, rows, family="poisson", random_state=1, **QUIET)
    found = poisson.certificate.dispersion
    assert found.over
    assert found.size == pytest.approx(likely_size(rows["visits"], poisson.predict(rows)["mean"]), rel=0.01)
    name = found.text.split("family='")[1].split("'")[0]
    fit = bc.fit(formula, rows, family=name, random_state=1, **QUIET)
    assert fit.level == "certified"
    assert fit.certificate.dispersion.ratio < 1.3 < found.ratio / 4.0
    assert "give" not in fit.certificate.dispersion.text
    elpd = bc.loo_compare({"own": fit, "poisson": poisson}, progressbar=False)["elpd_loo"]
    assert elpd["own"] > elpd["poisson"] + 4000.0
    assert (fit.summary()["sd"].drop("size") > 1.5 * poisson.summary()["sd"]).all()


def test_replicated_counts_of_weighted_rows_spread_as_the_rows_one_by_one_do():
    """A weight of 9 is 9 counts. Means and variances by 20,000 draws, false alarms 1e-6; control: one count."""
    family, eta, rng = bc.families.NegativeBinomial(0.7), np.full(20_000, 1.2), np.random.default_rng(1)
    own, apart = family.draw(eta, rng, 9.0), family.draw(np.tile(eta, (9, 1)), rng).sum(axis=0)
    for drawn in (own, apart):
        assert drawn.mean() == pytest.approx(9.0 * np.exp(1.2), rel=0.02)
        assert drawn.var() == pytest.approx(9.0 * family.variance(eta)[0], rel=0.08)
    assert family.draw(eta + np.log(9.0), rng).var() > 3.0 * own.var()


def test_rates_that_overflow_are_said_and_sizes_are_written_as_numbers():
    assert "logarithm of an exposure" in Dispersion(math.nan, 1.0, 400).text
    assert "logarithm of an exposure" in Dispersion(1.0, math.inf, 400).text
    assert check_family("negative_binomial(size=2)") == bc.families.NegativeBinomial(2)
    for wrong in ("negative_binomial(2.5", "negative_binomial(many)"):
        with pytest.raises(ValueError, match=r"must be written as 'negative_binomial\(2.5\)'"):
            check_family(wrong)
    for size in ("2.5", True):
        with pytest.raises(TypeError, match="must be a number"):
            bc.families.NegativeBinomial(size)
