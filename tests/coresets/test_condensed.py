"""Condensed coresets: what pseudo-rows meet, the posterior they have, and what they may not be used for."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.coresets.condensed import (
    WHOLE,
    Condensation,
    CondensedRows,
    SizeSearch,
    largest_difference,
    largest_error,
    nearest_normal,
)
from bayescore.coresets.pilot import Shares
from bayescore.coresets.pseudo_rows import GaussianDensity
from bayescore.data.dataset import open_rows
from bayescore.data.sources import as_source
from bayescore.families.family import FAMILIES
from bayescore.models.laplace import LaplaceApproximation
from bayescore.models.posterior import log_likelihoods
from bayescore.numerics.moments import Errors, WeightedDraws, errors_between
from bayescore.numerics.sampling import Chosen
from bayescore.types import NO_ROW
from bayescore.validation import DataError
from tests.cuts import Recut, build_in_blocks
from tests.hand_made import fit_of

N, D = 6000, 6
LINKS = ("logistic", "probit")
PRIOR = bc.priors.Normal(0, 4)


def make(seed=0, n=N, family="logistic", offset=False):
    """Return skewed columns, labels with some 15% positives, and offsets of sd 1 if asked for."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([(np.exp(rng.normal(size=(n, D - 2))) - 1.6) / 2.0, rng.random(n) < 0.03]).astype(float)
    o = rng.normal(size=n) if offset else np.zeros(n)
    noise = rng.logistic(size=n) if family == "logistic" else rng.normal(size=n)
    y = (X @ np.linspace(0.8, -0.6, D - 1) - 1.8 + o + noise > 0).astype(int)
    return (X, y, o) if offset else (X, y)


def build(X, y, **options):
    asked = {"method": "condensed", "intercept": True, "random_state": 0, "progressbar": False}
    return bc.build_coreset(X, y, **{**asked, **options})


def whole(X, y, **options):
    return bc.all_rows(X, y, intercept=True, progressbar=False, **options)


def spread(core, data, family, *, n_draws=2000):
    """Return the sd of the log ratio of two posteriors over draws of the first, and the errors of its moments."""
    family, full = FAMILIES[family], bc.find_map(data, family, PRIOR)
    z = np.random.default_rng(1).standard_normal((n_draws, data.n_features))
    draws = full.beta + z @ full.factor.T
    base, prior = -0.5 * (z**2).sum(axis=1), PRIOR.log_density(draws)
    own, true = (WeightedDraws(draws, log_likelihoods(draws, rows, family) + prior - base) for rows in (core, data))
    assert min(own.ess, true.ess) > 0.5 * n_draws
    ratio, w = own.log_weights - true.log_weights, true.weights
    return float(np.sqrt(w @ (ratio - w @ ratio) ** 2)), errors_between(own, true)


def condensation(data, family, width=1.0):
    """Return rows to condense at their mode, averaged over `width` times the sds of the normal approximation."""
    mode = bc.find_map(data, family, PRIOR)
    white = LaplaceApproximation(FAMILIES[family], mode.beta, width * mode.factor)
    dataset = open_rows(data)
    shares = Shares.estimated(white, Chosen(data, np.ones(len(data)), len(data)), dataset.scan.weight_total)
    return Condensation.of(dataset, shares, len(data), 50, 0), mode


@pytest.mark.parametrize("width", [1.0, 1e-3])
@pytest.mark.parametrize("n_kept", [0, 30])
@pytest.mark.parametrize("family", LINKS)
def test_score_whole_curvature_and_third_derivatives_are_met(family, n_kept, width):
    """Averaged, and with no width to speak of at the mode; along the pseudo-rows' directions the third ones too."""
    X, y, o = make(family=family, offset=True)
    data = whole(X, y, family=family, offset=o)
    found, mode = condensation(data, family, width)
    rows = found.rows(n_kept)
    assert rows.pseudo.sum() == 2 * D
    assert len(rows) == 2 * D + n_kept
    own, true = found.density.terms(rows), found.density.terms(data)
    np.testing.assert_allclose((own.gradient - true.gradient) @ mode.factor, 0.0, atol=1e-8)
    np.testing.assert_allclose(mode.factor.T @ (own.precision - true.precision) @ mode.factor, 0.0, atol=1e-8)
    pseudo = rows.take(rows.pseudo)
    dual = np.linalg.pinv(pseudo.X[::2])
    dual /= np.sqrt(((mode.factor.T @ np.linalg.inv(mode.factor @ mode.factor.T) @ dual) ** 2).sum(axis=0))
    thirds = [(found.density.derivatives(part)[2] @ (part.X @ dual) ** 3) for part in (rows, data)]
    np.testing.assert_allclose(*thirds, atol=1e-8)
    assert np.abs(thirds[1]).max() > 0.01


@pytest.mark.parametrize("family", LINKS)
def test_posterior_of_two_rows_a_column(family):
    """Against importance sampling of all rows from the same draws; without offsets and at the mode it is worse."""
    X, y = make(family=family)
    data, core = whole(X, y, family=family), build(X, y, family=family)
    assert len(core) == 2 * D
    assert (core.params["pseudo_rows"], core.params["kept"]) == (D, 0)
    sd, errors = spread(core, data, family)
    assert sd < 0.05
    assert max(errors) < 0.01
    assert max(core.params[f"{kind}_error"] for kind in ("mean", "sd", "correlation")) < 0.02
    at_mode = condensation(data, family, 1e-3)[0].rows(0)
    assert spread(at_mode, data, family)[0] > 1.4 * sd
    bare = bc.find_map(replace(core, offset=np.zeros(len(core))), family, PRIOR)
    full = bc.find_map(data, family, PRIOR)
    assert np.abs((bare.beta - full.beta) / full.sd).max() > 1.0


def test_turned_directions_leave_less_than_columns(monkeypatch):
    data = whole(*make())
    found, _ = condensation(data, "logistic")
    turned = spread(found.rows(0), data, "logistic")[0]
    monkeypatch.setattr("bayescore.coresets.condensed.diagonalising", lambda start, *_: start)
    assert spread(found.rows(0), data, "logistic")[0] > 1.2 * turned


def test_draws_are_certified_and_under_a_prior_far_from_the_pilots_they_are_not():
    X, y = make()
    core = build(X, y)
    idata = bc.sample(core, sampler="mala", random_seed=1, progressbar=False)
    assert str(bc.certify(idata, core, X, y, progressbar=False).level) == "certified"
    far = bc.sample(core, prior=bc.priors.Normal(3.0, 0.05), sampler="mala", random_seed=1, progressbar=False)
    certificate = bc.certify(far, core, X, y, progressbar=False)
    assert str(certificate.level) != "certified"
    assert len(fit_of(idata, core).predict(X[:3])) == 3  # rows of the data have no offset


@pytest.mark.parametrize("family", LINKS)
def test_offsets_and_weights_of_the_data(family):
    X, y, o = make(family=family, offset=True)
    w = np.random.default_rng(1).uniform(0.5, 3.0, N)
    data = whole(X, y, family=family, offset=o, weights=w)
    core = build(X, y, family=family, offset=o, weights=w, size=2 * D + 20)
    assert core.params["kept"] == 20
    assert core.design.offset == "offset"
    sd, errors = spread(core, data, family)
    assert sd < 0.05
    assert max(errors) < 0.01
    full, without = bc.find_map(data, family, PRIOR), bc.find_map(build(X, y, family=family, weights=w), family, PRIOR)
    assert np.abs((without.beta - full.beta) / full.sd).max() > 1.0


def test_same_bits_for_every_source_cut_and_number_of_threads(tmp_path):
    X, y = make()
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(D - 1)]).assign(y=y)
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=777)
    asked = {"method": "condensed", "size": 30, "intercept": True, "block_rows": 500}
    core = build_in_blocks(X, y, cores=1, **asked)
    others = [
        build_in_blocks(X, y, cores=3, **asked),
        build_in_blocks(tmp_path / "rows.parquet", label="y", **asked),
        build_in_blocks(Recut(as_source(X, y), 123), **asked),
    ]
    for other in others:
        for name in ("X", "y", "weights", "index", "offset"):
            np.testing.assert_array_equal(getattr(core, name), getattr(other, name))
    whole_at_once = build_in_blocks(X, y, **{**asked, "block_rows": None})  # other sums
    np.testing.assert_array_equal(whole_at_once.index, core.index)
    np.testing.assert_allclose(whole_at_once.weights, core.weights, rtol=1e-6)


def test_kept_rows_are_rows_of_the_data_as_they_are():
    X, y = make()
    core = build(X, y, size=40)
    kept = core.take(~core.pseudo)
    assert len(kept) == 40 - 2 * D
    np.testing.assert_array_equal(kept.X[:, 1:], X[kept.index])
    np.testing.assert_array_equal(kept.y, 2 * y[kept.index] - 1)
    assert set(kept.weights) == {1.0}
    assert kept.offset is None
    assert set(core.index[core.pseudo]) == {NO_ROW}


def test_file_counts_and_print(tmp_path):
    X, y = make()
    core = build(X, y, size=2 * D + 5)
    core.save(tmp_path / "core.parquet")
    back = bc.read_coreset(tmp_path / "core.parquet")
    for name in ("X", "y", "weights", "index", "offset"):
        np.testing.assert_array_equal(getattr(core, name), getattr(back, name))
    assert back.summary() == core.summary()
    assert f"{2 * D} of pseudo-rows, with offsets" in repr(back)
    counts = core.to_counts()
    assert len(counts) == D + 5
    assert list(counts.columns) == [*core.feature_names, "successes", "failures", "offset"]
    assert counts[["successes", "failures"]].to_numpy().sum() == pytest.approx(core.weights.sum())
    pair = core.index == NO_ROW
    np.testing.assert_array_equal(counts["successes"][:D], core.weights[pair & (core.y > 0)])


def test_unions_and_coresets_of_condensed_ones():
    X, y = make()
    one, other = build(X[:3000], y[:3000]), build(X[3000:], y[3000:], method="calibrated", size=200)
    both = bc.build_coreset(X, y, method="uniform", size=100, intercept=True, random_state=0, progressbar=False).concat(
        [other, one]
    )
    assert both.offset[: len(other)].any() == False  # noqa: E712
    np.testing.assert_array_equal(both.offset[len(other) :], one.offset)
    full = bc.find_map(whole(X, y), prior=PRIOR)
    assert np.abs((bc.find_map(both, prior=PRIOR).beta - full.beta) / full.sd).max() < 0.1
    again = build(build(X, y, size=200), None, intercept=False, size=2 * D)
    assert np.abs((bc.find_map(again, prior=PRIOR).beta - full.beta) / full.sd).max() < 0.05
    assert again.n_total == N


def test_few_rows_are_kept_as_they_are():
    X, y = make(n=40)
    core = build(X, y, size=40)
    np.testing.assert_array_equal(core.X[:, 1:], X)
    assert core.offset is None
    assert (core.params["kept"], core.params["pseudo_rows"]) == (40, 0)


def test_where_it_cannot_meet_the_tolerance_it_names_calibrated():
    with pytest.warns(UserWarning, match="tolerance=0.0001: expect errors .* method='calibrated' keeps real"):
        core = build(*make(n=2000), tolerance=1e-4)
    assert [point["size"] / D for point in core.params["size_curve"]] == [2, 3, 5, 7]


class _Found:
    """Stands for what a pass finds."""

    density = None

    def expansion(self):
        return None


@pytest.mark.parametrize(("errors", "sizes"), [([1.1, 0.9], [0, 5]), ([0.9, 0.8, 0.7, 0.6], [0, 1, 3, 5])])
def test_sizes_between_are_not_tried_where_the_first_is_far_off(errors, sizes, monkeypatch):
    """Where no density is found they are tried twice, the second time by shorter steps, up to one that leads away."""
    tried, steps = [], []

    def one(self, found, n_kept, expansion):
        tried.append(n_kept)
        steps.append(len(self.shares))
        change = 0.0 if len(self.shares) == 1 else -0.05 if n_kept else 0.05  # larger at the first size, then smaller
        return CondensedRows(None, n_kept, Errors(errors[sizes.index(n_kept)] + change, 0.0, 0.0))

    monkeypatch.setattr(SizeSearch, "_try_size", one)
    found, moves = SizeSearch(None, PRIOR, 0.05, 0).run(_Found(), [0, 1, 3, 5])
    assert (tried, moves) == (sizes + sizes[:2], 0)
    assert steps == [1] * len(sizes) + [3] * 2
    assert [one.errors.mean for one in found] == pytest.approx([errors[0], errors[1] - 0.05, *errors[2:]])


def test_sds_and_correlations_are_held_to_less_than_means():
    assert largest_error(Errors(0.05, 0.0, 0.0)) == 0.05
    assert largest_error(Errors(0.0, 0.03, 0.0)) == largest_error(Errors(0.0, 0.0, 0.03)) == pytest.approx(0.05)


def test_a_posterior_far_off_by_the_sample_is_not_passed_over(monkeypatch):
    """Where all count as far off, a doubtful posterior costs no pass."""
    monkeypatch.setattr("bayescore.coresets.condensed._far_from_normal", lambda *_: True)
    passes = []
    for limit in (1.0, -1.0):
        monkeypatch.setattr("bayescore.coresets.condensed.LOST", limit)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            passes.append(build(*make(), size=2 * D).params["passes"])
    assert passes[0] == passes[1] + 1


def test_what_cannot_work_is_refused():
    X, y = make()
    with pytest.raises(ValueError, match=f"size=11 is less than two rows.* give at least {2 * D}"):
        build(X, y, size=2 * D - 1)
    with pytest.raises(ValueError, match="reads the rows more than once"):
        build(iter([(X, y)]), None)
    with pytest.raises(ValueError, match="size=100 and tolerance"):
        build(X, y, size=100, tolerance=0.1)


def test_pseudo_rows_are_not_taken_for_rows(tmp_path):
    X, y = make()
    frame = pd.DataFrame(X[:, :2], columns=["a", "b"]).assign(kind=np.where(X[:, -1] > 0, "u", "v"), y=y)
    core = bc.build_coreset(frame, formula="y ~ a + b + kind", method="condensed", random_state=0, progressbar=False)
    idata = bc.sample(core, sampler="mala", draws=200, tune=200, random_seed=0, progressbar=False)
    fit = fit_of(idata, core)
    with pytest.raises(DataError, match="pseudo-rows, which say nothing"):
        fit.average_predictions(data=core, by="kind")
    with pytest.raises(DataError, match="data has pseudo-rows, which stand for many rows: give"):
        fit.inference_data(core)
    assert len(fit.average_predictions(data=frame[:500], by="kind")) == 2
    certificate = bc.certify(idata, core, frame, label="y", progressbar=False)
    with pytest.raises(DataError, match="give test=, a sample of rows"):
        certificate.to_html(tmp_path / "page.html", idata, core)
    test = bc.all_rows(frame[:500], label="y", design=core.design, progressbar=False)
    certificate.to_html(tmp_path / "page.html", idata, core, test=test)
    assert "of the rows' weight" not in (tmp_path / "page.html").read_text()
    pm = pytest.importorskip("pymc")
    with pm.Model():
        beta = pm.Normal("beta", 0, 4, shape=core.n_features)
        with pytest.raises(DataError, match="offset is given, but the data have pseudo-rows"):
            bc.weighted_potential("loglik", core, beta, offset=np.zeros(len(core)))


@pytest.mark.parametrize("family", LINKS)
def test_the_nearest_normal_density_is_a_fixed_point(family):
    data = whole(*make(family=family), family=family)
    found, mode = condensation(data, family)
    near = nearest_normal(data, found.density.at, PRIOR)
    terms = GaussianDensity(near).terms(data)
    np.testing.assert_allclose(near.factor.T @ (terms.gradient - near.theta / 16.0), 0.0, atol=1e-5)
    precision = terms.precision + np.eye(D) / 16.0
    np.testing.assert_allclose(near.factor.T @ precision @ near.factor, np.eye(D), atol=1e-5)
    assert np.abs((near.theta - mode.beta) / mode.sd).max() > 0.05
    assert largest_difference(near, nearest_normal(data, near, PRIOR)) < 1e-5
    assert largest_difference(found.density.at, near) > 0.05


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:columns .* depend on each other linearly")  # those of areas add up to 1
def test_errors_far_from_the_mode_are_predicted(shared_data):
    """Rare soil types separate rows; few kept rows leave mass where all rows have none, far from the mode.

    Chains that stay beside it say 0.001 sd of an error of 1.
    """
    frame = pd.read_parquet(shared_data("covtype_ramp16pct.parquet"))
    X, y = frame.drop(columns=["y", "cover_type"]), frame["y"].to_numpy()
    with pytest.warns(UserWarning, match="calibrated"):
        core = build(X.loc[:, X.nunique() > 1], y, family="probit", size=162, standardize=True)
    assert core.params["mean_error"] > 0.3


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:columns .* depend on each other linearly")  # yes, no and unknown
def test_nearly_separated_rows_are_condensed_by_shorter_steps(shared_data, monkeypatch):
    """Whole steps to the density of the pseudo-rows circle it; without it the pseudo-rows are off by most of an sd."""
    frame = pd.read_parquet(shared_data("phishing_libsvm.parquet"))
    X, y = frame.drop(columns=["y"]), frame["y"].to_numpy()
    core = build(X, y, standardize=True, random_state=1, prior=bc.priors.Normal(0, 4))
    assert core.params["moves"] > 0
    assert max(core.params["mean_error"], core.params["sd_error"]) < 0.02
    monkeypatch.setattr("bayescore.coresets.condensed.SHORTER", WHOLE)
    with pytest.warns(UserWarning, match="calibrated"):
        poor = build(X, y, standardize=True, random_state=1, prior=bc.priors.Normal(0, 4))
    assert poor.params["sd_error"] > 0.3


def test_groups_are_refused_before_any_pass():
    X, y = make(n=400)
    with pytest.raises(DataError, match=r"knows nothing of groups.*method='multilevel' for \(1 \| g\), or 'aggregate'"):
        build(X, y, groups=np.arange(400) % 5)
