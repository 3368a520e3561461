"""Weights of draws of (1 | g) from a pass and a sample of groups: those of all groups, within the said error."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy import special

import bayescore as bc
from bayescore.data.dataset import Dataset
from bayescore.diagnostics.certificate import nodes as sampled_groups
from bayescore.diagnostics.certificate import weigh
from bayescore.diagnostics.certificate.marginal import MarginalDraws
from bayescore.diagnostics.certificate.nodes import node_sums, sampled_sums
from bayescore.diagnostics.certificate.weigh import effect_slices
from bayescore.families.family import check_family
from bayescore.models.groups.marginal import CollapsedTarget
from bayescore.numerics.psis import full_weights
from bayescore.priors.groups import DEFAULT_GROUP_PRIOR

TOLD = {"intercept": True, "progressbar": False}
PRIORS = bc.priors.Normal(0.0, 4.0), DEFAULT_GROUP_PRIOR
KINDS = {
    "sizes alike": {"spread": 0.1},
    "sizes unlike": {"spread": 1.5},
    "probit": {"family": "probit"},
    "cloglog": {"family": "cloglog"},
    "weights": {"weighted": True},
    "offsets": {"offsets": True},
}


@cache
def rows_of(seed=0, *, n=24_000, G=2000, spread=0.8, family="logistic", weighted=False, offsets=False):
    """Return full data and a multilevel coreset: groups of unlike sizes, a skewed column that differs between them."""
    rng = np.random.default_rng(seed)
    share = rng.lognormal(0.0, spread, G)
    group = rng.choice(G, n, p=share / share.sum())
    group[:G] = np.arange(G)
    X = np.column_stack([rng.normal(size=n), rng.exponential(size=n) * (1.0 + group % 3)])
    beside = {"weights": rng.integers(1, 5, n).astype(float)} if weighted else {}
    beside |= {"offset": rng.normal(size=n)} if offsets else {}
    eta = -1.0 + X @ [0.5, 0.2] + rng.normal(size=G)[group] + beside.get("offset", 0.0)
    y = rng.random(n) < special.expit(eta)
    beside |= {"groups": np.array([f"g{code:05d}" for code in group]), "family": family}
    core = bc.build_coreset(X, y, method="multilevel", random_state=0, **beside, **TOLD)
    return bc.all_rows(X, y, **beside, **TOLD), core


def sums_of(full, core):
    """Return sums by a sample and by all groups, at draws from the normal approximation."""
    target = CollapsedTarget.of(core, check_family(core.family), PRIORS, len(core.groups[0]))
    theta = target.point.theta + np.random.default_rng(1).normal(size=(150, 4)) @ target.factor.T
    dataset = Dataset(full.as_source(), core.design)
    return sampled_sums(theta, core, dataset, target), node_sums(theta, core, dataset, target)


@cache
def made(seed=0, kind=None):
    """Return rows, a coreset, and sums by a sample and by all groups."""
    full, core = rows_of(seed, **KINDS.get(kind, {}))
    return full, core, *sums_of(full, core)


def gap_of(sampled, whole):
    gap = sampled.ratio - whole.ratio
    return gap - gap.mean()


def size(errors):
    return np.sqrt((errors**2).mean())


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "seed"), [*((kind, 0) for kind in KINDS), ("sizes unlike", 1), ("sizes unlike", 2)])
def test_the_sum_is_that_of_all_groups_within_three_said_errors(kind, seed):
    """Errors of draws are alike, so that they are beyond 3 said ones in about 0.3% of sets; seeds are fixed."""
    *_, sampled, whole = made(seed, kind)
    assert sampled.sample.error.max() < 0.02
    assert size(gap_of(sampled, whole)) <= 3.0 * size(sampled.sample.error) + 1e-9
    np.testing.assert_array_equal(sampled.labels, whole.labels)
    some = slice(0, 2000)
    np.testing.assert_allclose(sampled.core.of(some).log_p, whole.core.of(some).log_p)
    (mean, sd), (true, true_sd) = map(mean_and_sd, (sampled, whole))
    assert np.abs((mean - true) / true_sd).max() < 0.02
    assert np.abs(np.log(sd / true_sd)).max() < 0.02


def mean_and_sd(sums):
    columns = sums.group_figures(np.ones(len(sums.theta)), 0.5).columns
    return columns["corrected_mean"], columns["corrected_sd"]


@pytest.mark.slow
def test_pieces_and_draws_apart_have_the_figures_of_all_groups(monkeypatch):
    """Sampled groups are evaluated in pieces of 150 draws, and all groups are looked at at 37 of them.

    Figures agree as far as nodes go, whose number is that of the largest sigma in a piece.
    """
    full, core, at_once, whole = made()
    for name, value in (("_PIECE", 160_000), ("_FIGURES", 74_000), ("MIN_FIGURE_DRAWS", 10)):
        monkeypatch.setattr(sampled_groups, name, value)
    sampled = sums_of(full, core)[0]
    places, at = sampled.sample.places, sampled.at
    assert len(at) == 37
    np.testing.assert_allclose(sampled.ratio, at_once.ratio, atol=1e-7)
    np.testing.assert_allclose(sampled.sample.error, at_once.sample.error, atol=1e-7)
    np.testing.assert_allclose(sampled.sample.log_p, whole.full.log_p[:, places], rtol=1e-5)
    ours, theirs = sampled.of(slice(0, 2000))
    np.testing.assert_allclose(ours.log_p, whole.core.log_p[at, :-1], rtol=1e-5)
    np.testing.assert_allclose(theirs.effects.mean[:, places], whole.full.effects.mean[at][:, places], rtol=1e-5)
    np.testing.assert_allclose(
        theirs.effects.variance[:, places], whole.full.effects.variance[at][:, places], rtol=1e-5
    )
    assert np.abs(theirs.effects.mean - whole.full.effects.mean[at]).max() < 0.02


@pytest.mark.slow
def test_without_their_probabilities_groups_tell_too_much():
    """The negative control of the said error: every sampled group counted once."""
    *_, sampled, whole = made(0, "sizes unlike")
    own = sampled.sample
    wrong = sampled.ratio - (own.each - 1.0) @ (own.log_p - whole.core.log_p[:, own.places]).T
    gap = wrong - whole.ratio
    assert size(gap - gap.mean()) > 3.0 * size(own.error)


@pytest.mark.slow
def test_groups_that_the_coreset_does_not_fit_are_in_the_sample():
    """One of 2,000 groups has a third of its weight: it is evaluated, and its effect is all rows' own."""
    full, core = rows_of()
    g = int(np.bincount(full.group[:, 0]).argmax())
    wrong = replace(core, weights=np.where(core.group[:, 0] == g, core.weights / 3.0, core.weights))
    sampled, whole = sums_of(full, wrong)
    assert g in sampled.sample.places
    effects = sampled.of(slice(g, g + 1))[1].effects
    np.testing.assert_allclose(effects.mean[:, 0], whole.full.effects.mean[:, g])
    assert size(gap_of(sampled, whole)) <= 3.0 * size(sampled.sample.error) + 1e-9


def test_all_groups_are_evaluated_where_a_sample_does_not_tell(monkeypatch):
    few = rows_of(0, n=900, G=40)
    assert sums_of(*few)[0] is None  # fewer than a sample
    most = rows_of(0, n=3000, G=500)
    assert sums_of(*most)[0] is None  # no fewer than a sample
    full, core = rows_of()
    monkeypatch.setattr(sampled_groups, "MAX_SUM_ERROR", 1e-9)
    assert sums_of(full, core)[0] is None


def test_effects_are_drawn_about_their_means_given_the_full_data():
    *_, sampled, whole = made()
    rng, found = np.random.default_rng(2), sampled.group_figures(np.ones(150), 0.5)
    u, v = (np.array([own.draw_effects(s, rng.random(2000), found) for s in range(150)]) for own in (sampled, whole))
    z = (u.mean(axis=0) - v.mean(axis=0)) / v.std(axis=0)
    assert np.abs(z).max() < 5.0 * np.sqrt(2.0 / 150)  # 2,000 effects: a false alarm in 1 of 800 seeds
    assert abs(np.log(u.std(axis=0) / v.std(axis=0)).mean()) < 0.02


def weighed(sums, core):
    at, own = np.arange(len(sums.theta)), full_weights(sums.ratio)
    figures = sums.group_figures(own.weights, 0.5)
    return MarginalDraws(at=at, weights=own, grouping=core.groups[0], sums=sums, figures=figures)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_the_elpd_is_that_of_all_groups(seed):
    """The moved log-likelihoods alone are 3 nats off; sampled groups tell by how much, here to 0.4."""
    _, core, *sums = made(seed, "weights")
    found, true = (weighed(own, core).elpd() for own in sums)
    assert abs(found["elpd_logo"] - true["elpd_logo"]) < 1.0
    assert found["elpd_logo_se"] == pytest.approx(true["elpd_logo_se"], rel=1e-3)


@pytest.mark.slow
def test_figures_of_pieces_of_the_groups_are_those_of_all_at_once(monkeypatch):
    """Of 7 of 2,000 groups: sampled ones are the first and the last of some pieces, and the last piece is shorter."""
    _, core, sampled, whole = made()
    sampled = replace(sampled, full=replace(sampled.full, poor=np.arange(2000) % 3 == 0))
    places, w = sampled.sample.places, full_weights(sampled.ratio).weights

    def figures():
        draws = weighed(sampled, core)
        return *draws.figures[1:], draws.elpd()["elpd_logo"], draws.effects(1.0)

    assert len(effect_slices(2000, len(w))) == 1
    at_once = figures()
    true = whole.group_figures(w, 0.5)
    np.testing.assert_allclose(at_once[1][places], true.stretch[places], rtol=1e-6)
    for name in ("corrected_mean", "corrected_sd"):
        np.testing.assert_allclose(at_once[-1][name].to_numpy()[places], true.columns[name][places], rtol=1e-6)
    assert at_once[3] == np.count_nonzero(np.setdiff1d(np.arange(2000), places) % 3 == 0)
    monkeypatch.setattr(weigh, "_PIECE", 7 * len(w))
    assert len(effect_slices(2000, len(w))) == 286
    assert {0, 6} <= set(places % 7)
    for own, other in zip(figures(), at_once, strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-9, atol=1e-12)
