"""Multilevel coresets: the marginal posterior of all rows, from a pseudo-row a group; with a negative control."""

from contextlib import ExitStack, contextmanager
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from scipy import special

import bayescore as bc
from bayescore.coresets import cell_centre, cell_rows, cells
from bayescore.coresets import multilevel as condense
from bayescore.coresets.build import build_dataset
from bayescore.coresets.cell_centre import CellNodes, Integrated
from bayescore.coresets.multilevel import Multilevel
from bayescore.data.dataset import Dataset, joined
from bayescore.data.open import open_designed, open_in
from bayescore.diagnostics.certificate.nodes import core_moments
from bayescore.families.family import check_family
from bayescore.models.groups.marginal import CollapsedTarget, collapsed_density
from bayescore.models.laplace import NoModeError
from bayescore.priors import Normal
from bayescore.types import WeightedData
from bayescore.validation import DataError
from tests.models.grouped_rows import PRIORS, grouped

LINKS = ("logistic", "probit")


def frame(rows):
    columns = {f"x{d}": rows.X[:, d] for d in range(1, rows.n_features)}
    return pd.DataFrame(columns).assign(county=[f"c{code:04d}" for code in rows.group[:, 0]], y=rows.y)


def build(rows, family="logistic", **options):
    told = {"method": "multilevel", "intercept": True, "random_state": 0, "progressbar": False, **options}
    return bc.build_coreset(frame(rows), label="y", groups="county", family=family, **told)


def nothing(points, parts):
    """Return zeros: what rows say of beta stays as averaged over the normal density."""
    list(parts)  # the pass
    p = len(points.at.beta)
    return Integrated(np.zeros(p), np.zeros((p, p)))


@contextmanager
def without_averages():
    """Let coresets be condensed at the joint mode of coefficients and effects, without averages over these."""
    with ExitStack() as stack:
        for target, name, value in (
            (cells, "_variances_of_beta", lambda gap, *_: np.zeros(len(gap))),
            (cells, "_add_variances", lambda *_: None),
            (cell_centre, "_MAX_TURNS", 1),
            (cell_centre, "_sums_by_quadrature", lambda found: (found.sums, found.points.at)),
            (cell_centre, "_sums_by_series", lambda sums, at, *_: (sums, at)),
            (cell_rows, "_ROUNDS", 1),
            (condense, "SHAPE", np.inf),
            (condense, "TOGETHER", np.inf),
        ):
            stack.enter_context(patch.object(target, name, value))
        stack.enter_context(patch.object(CellNodes, "total", nothing))
        yield


def densities(target, theta):
    gradient, arguments = np.empty(theta.shape[1]), target.arguments()
    return np.array([collapsed_density(each, gradient, arguments) for each in theta])


def errors(rows, core, family, n_groups, n_draws=400):
    """Return errors of means (in sds), sds, and of effects' means (in sds) of a coreset, by importance weights."""
    family = check_family(family)
    full, own = (CollapsedTarget.of(each, family, PRIORS, n_groups) for each in (rows, core))
    L = full.factor
    noise = np.random.default_rng(1).standard_normal((n_draws // 2, len(L)))
    noise = np.vstack([noise, -noise])
    theta = full.point.theta + noise @ L.T
    base = -0.5 * (noise**2).sum(axis=1)
    figures = []
    for target in (full, own):
        w = special.softmax(densities(target, theta) - base)
        b, variance = core_moments(theta, target.arguments())[1].effects
        spread = np.sqrt(w @ (variance + (b - w @ b) ** 2))
        mean = w @ theta
        figures.append((mean, np.sqrt(w @ (theta - mean) ** 2), w @ b, spread, 1.0 / (w @ w)))
    (mean, sd, b, spread, size), (mean_, sd_, b_, _, _) = figures
    assert size > 0.5 * n_draws
    return np.abs(mean_ - mean) / sd, np.abs(sd_ / sd - 1.0), np.abs(b_ - b) / spread


@pytest.mark.parametrize("family", LINKS)
@pytest.mark.parametrize(
    ("n", "n_groups", "intercept", "sigma"), [(6000, 60, 0.0, 1.0), (4000, 400, -1.5, 0.7), (8000, 30, -3.0, 1.5)]
)
def test_the_marginal_posterior_is_that_of_all_rows(family, n, n_groups, intercept, sigma):
    """Against all rows, weights on the same points, so that noise cancels: means 0.05 sd, sds 4%, effects 0.02 sd."""
    rows, _ = grouped(n, n_groups, family, intercept=intercept, sigma=sigma)
    core = build(rows, family)
    mean, sd, effects = errors(rows, core, family, n_groups)
    assert mean.max() < 0.05
    assert sd.max() < 0.04
    assert np.quantile(effects, 0.99) < 0.02
    facts = core.params
    assert facts["merged_cells"] + facts["kept_small"] + facts["kept_shape"] == facts["cells"] == n_groups
    assert facts["pseudo_rows"] >= facts["merged_cells"] + 2  # the intercept does not vary within groups
    assert facts["pseudo_rows"] < 4 * n_groups
    assert facts["shape_error"] < condense.SHAPE
    assert len(core) <= 2 * facts["pseudo_rows"] + facts["kept_rows"]
    assert facts["mode_error"] < 0.01
    assert ((core.index == -1) | (core.index >= 0)).all()
    assert (core.index[core.group[:, 0] == -1] == -1).all()


@pytest.mark.slow
def test_the_mean_is_met_where_groups_are_many_and_small():
    """What small groups say about slopes tells the intercept, too, along which rows within groups are flat."""
    n_groups = 3000
    rows, _ = grouped(30_000, n_groups, intercept=-2.0, n_features=10)
    core = build(rows)
    assert core.params["mode_error"] < 1e-6
    mean, sd, _ = errors(rows, core, "logistic", n_groups)
    assert mean.max() < 0.02
    assert sd.max() < 0.04


@pytest.mark.filterwarnings("ignore:the posterior's centre was not reached:UserWarning")
def test_without_averages_it_is_far_off():
    """The negative control: sums at the joint mode of coefficients and effects, as if these were known."""
    n_groups = 400
    rows, _ = grouped(4000, n_groups, sigma=1.0)
    core = build(rows)
    with without_averages():
        control = build(rows)
    assert errors(rows, control, "logistic", n_groups)[0].max() > 0.2
    assert errors(rows, core, "logistic", n_groups)[0].max() < 0.05


@pytest.mark.parametrize("family", LINKS)
def test_effects_need_no_column_of_ones(family):
    """Without an intercept effects stand about 0, and pseudo-rows multiply theirs by 1."""
    n_groups = 40
    rows, _ = grouped(4000, n_groups, family)
    core = build(rows, family, intercept=False)
    assert core.feature_names == tuple(f"x{d}" for d in range(1, rows.n_features))
    assert core.params["merged_cells"] == n_groups
    slopes = replace(rows, X=np.ascontiguousarray(rows.X[:, 1:]))
    mean, sd, effects = errors(slopes, core, family, n_groups)
    assert mean.max() < 0.05
    assert sd.max() < 0.04
    assert np.quantile(effects, 0.99) < 0.02


def test_the_bits_do_not_depend_on_source_cuts_or_threads(tmp_path):
    rows, _ = grouped(3000, 50)
    table = frame(rows)
    table.to_parquet(tmp_path / "rows.parquet", row_group_size=700)
    told = {"label": "y", "groups": "county", "method": "multilevel", "intercept": True, "progressbar": False}
    first = bc.build_coreset(table, **told)
    second = bc.build_coreset(tmp_path / "rows.parquet", **told)
    assert first.rows_digest == second.rows_digest
    assert first.params == second.params
    path = tmp_path / "core.parquet"
    first.save(path)
    again = bc.read_coreset(path)
    assert again.rows_digest == first.rows_digest
    assert again.params == first.params


def test_auto_takes_it_for_rows_with_groups_unless_few_are_distinct():
    rows, _ = grouped(3000, 50)
    assert build(rows, method="auto").method == "multilevel"
    discrete = frame(rows).assign(x1=1.0, x2=0.0)
    core = bc.build_coreset(discrete, label="y", groups="county", random_state=0, progressbar=False)
    assert core.method == "aggregate"


def test_groups_of_few_rows_keep_them():
    rng = np.random.default_rng(0)
    n = 600
    rows = WeightedData(
        np.column_stack([np.ones(n), rng.normal(size=n)]),
        np.where(rng.random(n) < 0.5, 1, -1).astype(np.int8),
        np.ones(n),
        np.arange(n),
        group=(np.arange(n) // 2)[:, None],
    )
    with pytest.warns(UserWarning, match="at least 600 of 600 rows: all rows are kept"):
        core = build(rows)
    assert core.params["kept_small"] == 300
    assert core.params["merged_cells"] == 0
    assert (core.index >= 0).sum() == n
    assert core.lossless


def test_rows_are_kept_where_condensing_leaves_most_of_them():
    rows, _ = grouped(600, 200)  # three rows a group: two pseudo-rows each
    sizes = np.bincount(rows.group[:, 0])
    with pytest.warns(UserWarning, match=f"at least {np.minimum(sizes, 2).sum():,} of 600 rows"):
        few = build(rows)
    assert few.lossless
    rows, _ = grouped(600, 60)
    many = build(rows)
    assert len(many) < 600
    assert not many.lossless


def test_bad_input_is_refused_before_work():
    rows, _ = grouped(500, 10)
    table = frame(rows)
    told = {"label": "y", "method": "multilevel", "progressbar": False}
    with pytest.raises(DataError, match="needs groups"):
        bc.build_coreset(table.drop(columns="county"), **told)
    with pytest.raises(DataError, match=r"\(1 \+ x \| g\), the intercept about a mean that is no column: give interc"):
        bc.build_coreset(table, formula="y ~ 0 + x1 + (1 + x1 | county)", method="multilevel", progressbar=False)
    with pytest.raises(DataError, match="one level only"):
        bc.build_coreset(table.assign(county="same"), groups="county", **told)
    with pytest.raises(ValueError, match="takes no size"):
        bc.build_coreset(table, groups="county", size=10, **told)
    with pytest.raises(ValueError, match="no density in closed form"):
        Multilevel(prior=bc.priors.Horseshoe())


def test_counts_for_r_are_refused_where_pseudo_rows_have_no_group():
    """R's na.omit would drop them; rows that all have a group are given."""
    rows, _ = grouped(500, 10)
    core = build(rows)
    assert core.to_frame()["county"].isna().any()
    with pytest.raises(DataError, match=r"na\.omit would drop: use bayescore\.sample or bayescore.model"):
        core.to_counts()
    full = bc.all_rows(frame(rows), label="y", groups="county", progressbar=False)
    assert len(full.to_counts()) == 500


@pytest.mark.parametrize(("option", "value"), [("size", 50), ("tolerance", 0.1)])
def test_auto_drops_no_option_in_silence(option, value):
    rows, _ = grouped(1500, 10)
    with pytest.raises(TypeError, match=f"'{option}' is not an option of method='multilevel', which 'auto' uses"):
        build(rows, method="auto", **{option: value})


@pytest.mark.parametrize("error", [0.06, np.nan])
def test_a_mode_that_is_off_is_warned_of(monkeypatch, error):
    rows, _ = grouped(500, 10)
    found = condense.rows_within
    monkeypatch.setattr(condense, "rows_within", lambda *given: (found(*given)[0], error))
    with pytest.warns(UserWarning, match=r"mean of the coreset's coefficients is \S+ sds off the full data's"):
        build(rows)


def rare(k):
    """Return a month of few rows in groups; one row in fifty has the label."""
    rng = np.random.default_rng([48, k])
    rows = pd.DataFrame({"x": rng.gamma(3.0, 12.0, 300), "g": rng.integers(2 * k, 20 + 2 * k, 300)})
    effect = np.random.default_rng(5).normal(0.0, 0.6, 60)[rows["g"]]
    return rows.assign(y=0.03 * (rows["x"] - 36.0) - 4.0 + effect + rng.logistic(size=300) > 0)


def test_months_of_few_labels_are_condensed_one_after_another():
    """Pseudo-rows of weight 1e9 are exponentials beside their place, where full steps lead further and further away."""
    core = bc.build_coreset(rare(0), formula="y ~ x + (1 | g)", method=Multilevel(), random_state=0, progressbar=False)
    for k in range(1, 6):
        new = open_in(core.design, rare(k), learn_groups=True)
        rows = joined(replace(core, design=new.design), new)
        core = build_dataset(rows, Multilevel(), None, 0, check_family("logistic"))
        assert core.params["mode_error"] < 0.05
    months = pd.concat([rare(k) for k in range(6)], ignore_index=True)
    whole = bc.build_coreset(months, design=core.design, method=Multilevel(), random_state=0, progressbar=False)
    assert core.params["effect_sds"] == pytest.approx(whole.params["effect_sds"], rel=0.05)
    assert core.params["effect_sds"][0] < 1.0


@pytest.mark.parametrize(("sd", "intercept"), [(0.1, 2.0), (2.0, 2.0), (0.1, 5.0)])
def test_large_counts_in_groups_are_condensed(sd, intercept):
    """Rates are exponentials: from 0, the first step's end is one of 1e300."""
    rng = np.random.default_rng(8)
    rows = pd.DataFrame({"x": rng.gamma(3.0, 12.0, 4000), "g": rng.integers(0, 20, 4000)})
    effect = rng.normal(0.0, sd, 20)[rows["g"]]
    rows["y"] = rng.poisson(np.exp(0.03 * (rows["x"] - 36.0) + intercept + effect))
    core = bc.build_coreset(
        rows, formula="y ~ x + (1 | g)", family="poisson", method=Multilevel(), random_state=0, progressbar=False
    )
    assert core.params["mode_error"] < 0.05
    assert core.params["effect_sds"][0] == pytest.approx(np.hypot(np.std(effect), 0.5 / np.sqrt(20)), rel=0.1)


@pytest.mark.slow
def test_where_no_centre_is_found_builds_say_what_to_do_and_a_fit_takes_all_rows(monkeypatch):
    monkeypatch.setattr(cell_centre, "_LOST", 0.0)
    rows = pd.concat([rare(k) for k in range(4)], ignore_index=True)
    with pytest.raises(ArithmeticError, match=r"centre.* was not found: give a narrower prior=, or sample all_rows"):
        bc.build_coreset(rows, formula="y ~ x + (1 | g)", method="multilevel", progressbar=False)
    fit = bc.fit("y ~ x + (1 | g)", rows, random_state=0, progressbar=False)
    assert fit.coreset.method == "full"
    assert any("the default build failed: the posterior's centre" in step.why for step in fit.story)


def test_weights_whose_curvature_is_lost_in_rounding_are_refused():
    """At 2.5e10 a row the coefficients keep 1e-14 of it beside the effects; their sd was found to be the largest."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"x": rng.normal(size=4000), "g": rng.integers(0, 20, 4000)})
    effect = rng.normal(0.0, 0.3, 20)[rows["g"]]
    rows["y"] = rng.random(4000) < 1.0 / (1.0 + np.exp(1.0 - rows["x"] - effect))
    how = {"formula": "y ~ x + (1 | g)", "method": Multilevel(), "random_state": 0, "progressbar": False}
    core = bc.build_coreset(rows, weights=np.full(4000, 2.5e6), **how)
    assert core.params["effect_sds"][0] == pytest.approx(0.33, abs=0.01)
    with pytest.raises(ArithmeticError, match="the posterior's centre"):
        bc.build_coreset(rows, weights=np.full(4000, 2.5e10), **how)


@pytest.mark.parametrize("unit", [0.001, 100.0])
def test_the_unit_of_a_column_does_not_matter(unit):
    rng, g = np.random.default_rng(3), np.repeat(np.arange(200), 40)
    x, b = rng.normal(size=8000), rng.normal(size=(200, 2)) * [0.7, 0.5]
    rows = pd.DataFrame({"g": g, "y": rng.poisson(np.exp(-0.5 + 0.3 * x + b[g, 0] + b[g, 1] * x))})
    how = {"formula": "y ~ x + (1 + x | g)", "family": "poisson", "random_state": 0, "progressbar": False}
    one, other = (
        bc.build_coreset(rows.assign(x=own * x), method=Multilevel(prior=Normal(0.0, [10.0, 10.0 / own])), **how)
        for own in (1.0, unit)
    )
    np.testing.assert_allclose(other.params["effect_sds"] * np.array([1.0, unit]), one.params["effect_sds"], rtol=1e-6)
    assert one.params["passes"] == other.params["passes"]


@pytest.mark.parametrize(
    ("family", "rate", "terms"), [("poisson", 0.0003, "(1 | g)"), ("logistic", 0.003, "(1 + x | g)")]
)
def test_rare_events_have_a_centre(family, rate, terms):  # warnings are errors
    """Rows say little about sds of effects, and sums that are averaged over the effects go to and fro with these."""
    rng, g = np.random.default_rng(5), np.repeat(np.arange(100), 40)
    rows = pd.DataFrame({"x": rng.normal(size=4000), "g": g, "y": (rng.random(4000) < rate).astype(int)})
    how = {"family": family, "method": "multilevel", "random_state": 0, "progressbar": False}
    assert bc.build_coreset(rows, formula=f"y ~ x + {terms}", **how).params["passes"] <= 20


@pytest.mark.parametrize(("sd", "n_groups", "size"), [(0.02, 500, 50), (3.0, 500, 50), (1.0, 3000, 8)])
def test_counts_settle_in_few_passes(sd, n_groups, size):
    """From coefficients of 0, and by the EM algorithm, 25 passes were too few."""
    rng = np.random.default_rng(1)
    rows = pd.DataFrame({"x": rng.exponential(size=n_groups * size), "g": rng.integers(0, n_groups, n_groups * size)})
    rows["y"] = rng.poisson(np.exp(0.5 * rows["x"] + sd * rng.normal(size=n_groups)[rows["g"]]))
    how = {"family": "poisson", "method": "multilevel", "random_state": 0, "progressbar": False}
    core = bc.build_coreset(rows, formula="y ~ x + (1 | g)", **how)
    assert core.params["passes"] <= 24
    assert core.params["effect_sds"][0] == pytest.approx(sd, abs=0.05 * sd + 0.06)


def test_the_centre_needs_no_seed_and_no_flat_mode(monkeypatch):
    rng, g = np.random.default_rng(0), np.repeat(np.arange(50), 60)
    rows = pd.DataFrame({"x": rng.normal(size=3000), "g": g})
    rows["y"] = rng.random(3000) < 1.0 / (1.0 + np.exp(1.0 - rows["x"] - rng.normal(size=50)[g]))
    how = {"formula": "y ~ x + (1 | g)", "method": "multilevel", "progressbar": False}
    one, other = (bc.build_coreset(rows, random_state=seed, **how) for seed in (1, 2))
    assert one.rows_digest == other.rows_digest

    def none(*_):
        raise NoModeError("no mode", None)

    monkeypatch.setattr(condense, "mode_of", none)
    again = bc.build_coreset(rows, random_state=1, **how)
    assert again.params["effect_sds"] == pytest.approx(one.params["effect_sds"], rel=0.05)


def test_rows_are_checked_sampled_and_counted_in_one_pass():
    rows, _ = grouped(4000, 40)
    seen, original = [], Dataset.map

    def noted(self, function, description="", **options):
        seen.append(description)
        return original(self, function, description, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Dataset, "map", noted)
        build(rows)
    assert seen.count("checking rows") == 1
    assert "cells of groups" not in seen


def many(n_groups, n=40_000):
    """Return rows of groups whose sizes differ, enough for a search that begins with a sample."""
    rng = np.random.default_rng(6)
    share = rng.lognormal(0.0, 0.8, n_groups)
    rows = pd.DataFrame({"x": rng.normal(size=n), "g": rng.choice(n_groups, n, p=share / share.sum())})
    effect = rng.normal(size=n_groups)[rows["g"]]
    return rows.assign(y=rng.random(n) < special.expit(-1.0 + 0.5 * rows["x"] + effect))


@pytest.mark.parametrize("n_groups", [20, 800])
def test_many_rows_take_five_passes_and_the_source_does_not_matter(tmp_path, n_groups):
    """A check, two sums by cell, one look at nodes, and the last; the sample is the same however rows are cut."""
    rows = many(n_groups)
    how = {"formula": "y ~ x + (1 | g)", "method": "multilevel", "random_state": 0, "progressbar": False}
    core = bc.build_coreset(rows, **how)
    assert core.params["passes"] == 5
    rows.to_parquet(tmp_path / "rows.parquet", row_group_size=7000)
    assert bc.build_coreset(tmp_path / "rows.parquet", **how).rows_digest == core.rows_digest


@pytest.mark.parametrize(("n_groups", "whole"), [(20, False), (2000, True)])
def test_a_sample_has_whole_groups_if_these_are_many(n_groups, whole):
    rows = many(n_groups)
    dataset = open_designed(rows, formula="y ~ x + (1 | g)")
    counted = cells.Cells.of(dataset)
    sample = dataset.cells.sample
    levels, sizes = np.unique(sample.group[:, 0], return_counts=True)
    assert 0.5 < len(sample) / 10_000 < 2.0
    assert (len(levels) < 0.5 * n_groups) == whole
    assert (sizes == counted.counts[levels]).all() == whole
    assert dataset.cells.label_weights.sum(axis=0).tolist() == [(~rows["y"]).sum(), rows["y"].sum()]


def test_few_rows_have_no_sample():
    dataset = open_designed(many(20, 4000), formula="y ~ x + (1 | g)")
    cells.Cells.of(dataset)
    assert dataset.cells.sample is None


def counts(n_groups=500, n=20_000):
    """Return counts of groups whose intercepts and slopes vary; groups are too few for a sample to have them whole."""
    rng, g = np.random.default_rng(0), np.random.default_rng(1).integers(0, n_groups, n)
    x, b = rng.normal(size=n), rng.normal(size=(n_groups, 2)) * [0.5, 0.4]
    return pd.DataFrame({"x": x, "g": g, "y": rng.poisson(np.exp(1.0 + 0.3 * x + b[g, 0] + b[g, 1] * x))})


def test_a_sample_has_both_rows_of_a_count():
    """Events without their exposure have no mode: the search went to sds of effects of 12, and found no centre."""
    how = {"formula": "y ~ x + (1 + x | g)", "family": "poisson", "method": "multilevel", "progressbar": False}
    rows = counts()
    dataset = open_designed(rows, formula=how["formula"], response=check_family("poisson").response)
    cells.Cells.of(dataset)
    of_count, of_sample = (
        np.bincount(each, minlength=len(rows)) for each in (dataset.load().index, dataset.cells.sample.index)
    )
    assert 0 < np.count_nonzero(of_sample) < 0.7 * len(rows)
    assert (of_sample[of_sample > 0] == of_count[of_sample > 0]).all()
    core = bc.build_coreset(rows, random_state=0, **how)
    assert core.params["passes"] <= 6
    assert core.params["effect_sds"] == pytest.approx([0.5, 0.4], rel=0.1)


def test_a_search_that_does_not_end_in_the_sample_begins_elsewhere(monkeypatch):
    how = {"formula": "y ~ x + (1 | g)", "method": "multilevel", "random_state": 0, "progressbar": False}
    rows, whole = many(20), condense.approach_centre

    def far(*given, **options):
        at, _ = whole(*given, **options)
        return replace(at, beta=at.beta + 50.0, prior=400.0 * at.prior), False

    monkeypatch.setattr(condense, "approach_centre", far)
    digest = bc.build_coreset(rows, **how).rows_digest
    monkeypatch.setattr(cells, "_LEAST_SAMPLE", len(rows))  # none
    assert bc.build_coreset(rows, **how).rows_digest == digest


def test_steps_are_near_the_end_only_if_they_are_short():
    """After a step of 1000 sds one of 20 is much shorter, and quadrature from there led nowhere."""
    rng, n = np.random.default_rng(0), 12_000
    g, x, z = rng.integers(0, 100, n), rng.normal(size=n), 1.0 * (rng.exponential(size=n) > 1.5)
    eta = 2.0 + 0.5 * x - 0.3 * z + 4.0 * rng.normal(size=100)[g]
    y = np.exp(np.clip(eta, -15.0, 8.0)) * rng.gamma(2.0, 0.5, n)
    rows, how = pd.DataFrame({"x": x, "z": z, "g": g, "y": y}), {"method": "multilevel", "progressbar": False}
    core = bc.build_coreset(rows, formula="y ~ x + z + (1 | g)", family="gamma(2)", random_state=0, **how)
    assert core.params["effect_sds"] == pytest.approx([3.75], abs=0.05)
    assert core.params["mode_error"] < 1e-3


@pytest.mark.parametrize("error", [ArithmeticError, np.linalg.LinAlgError])
def test_where_a_sample_of_groups_leads_nowhere_the_search_begins_without_it(error, monkeypatch):
    rng = np.random.default_rng(0)
    n = 4 * cells._LEAST_SAMPLE
    g, x = rng.integers(0, 40, n), rng.normal(size=n)
    frame = pd.DataFrame({"x": x, "g": g, "y": rng.logistic(size=n) < x + rng.normal(size=40)[g]})
    told = {"formula": "y ~ x + (1 | g)", "random_state": 0, "progressbar": False}
    usual, starts, find = bc.build_coreset(frame, **told), [], condense.find_centre

    def fails_once(dataset, start, **asked):
        starts.append(start)
        if len(starts) == 1:
            raise error
        return find(dataset, start, **asked)

    monkeypatch.setattr(condense, "find_centre", fails_once)
    again = bc.build_coreset(frame, **told)
    assert [start.from_sample for start in starts] == [True, False]
    assert len(again) == len(usual)
    starts.clear()
    few = bc.build_coreset(frame[:4000], **told)  # a small table has no sample: only 0 is left to begin at
    assert few.params["mode_error"] < 1e-3
    assert [start.beta.any() for start in starts] == [True, False]

    def fails(*given, **asked):
        raise error

    monkeypatch.setattr(condense, "find_centre", fails)
    with pytest.raises(error):
        bc.build_coreset(frame[:4000], **told)
