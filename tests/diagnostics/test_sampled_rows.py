"""Weights of draws of (1 | g) from a pass and a sample of the rows of few, large groups: those of all rows."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy import special

import bayescore as bc
from bayescore.data.dataset import Dataset
from bayescore.diagnostics.certificate import nodes as sampled_rows
from bayescore.diagnostics.certificate.nodes import node_sums, sampled_row_sums
from bayescore.families.family import check_family
from bayescore.models.groups.marginal import CollapsedTarget
from bayescore.priors.groups import DEFAULT_GROUP_PRIOR

TOLD = {"intercept": True, "progressbar": False}
PRIORS = bc.priors.Normal(0.0, 4.0), DEFAULT_GROUP_PRIOR
KINDS = {
    "sizes alike": {"spread": 0.1},
    "sizes unlike, rare": {"spread": 1.5, "intercept": -4.0},
    "probit": {"family": "probit"},
    "cloglog": {"family": "cloglog"},
    "weights": {"weighted": True},
    "offsets": {"offsets": True},
    "large effects": {"sigma": 3.0},
}


@cache
def rows_of(kind, seed=0):
    """Return 50,000 rows in 12 groups and their multilevel coreset: a skewed column that differs between groups."""
    told = {"spread": 0.5, "family": "logistic", "intercept": -1.0, "sigma": 0.7, **KINDS[kind]}
    rng, n, G = np.random.default_rng(seed), 50_000, 12
    share = rng.lognormal(0.0, told["spread"], G)
    group = rng.choice(G, n, p=share / share.sum())
    X = np.column_stack([rng.normal(size=n), rng.exponential(size=n) * (1.0 + group % 3)])
    beside = {"weights": rng.integers(1, 5, n).astype(float)} if told.get("weighted") else {}
    beside |= {"offset": 0.5 * rng.normal(size=n)} if told.get("offsets") else {}
    eta = told["intercept"] + X @ [0.5, 0.2] + rng.normal(0.0, told["sigma"], G)[group] + beside.get("offset", 0.0)
    y = rng.random(n) < special.expit(eta)
    beside |= {"groups": np.array([f"g{code:02d}" for code in group]), "family": told["family"]}
    core = bc.build_coreset(X, y, method="multilevel", random_state=0, **beside, **TOLD)
    return bc.all_rows(X, y, **beside, **TOLD), core


def sums_of(full, core):
    """Return sums by a sample and by all rows, at draws from the normal approximation."""
    target = CollapsedTarget.of(core, check_family(core.family), PRIORS, len(core.groups[0]))
    theta = target.point.theta + np.random.default_rng(1).normal(size=(150, 4)) @ target.factor.T
    dataset = Dataset(full.as_source(), core.design)
    return sampled_row_sums(theta, core, dataset, target), node_sums(theta, core, dataset, target)


def size(gap):
    return np.std(gap)


@pytest.mark.essential("groups of large effects, from their mode to the certificate")
@pytest.mark.parametrize("kind", KINDS)
def test_sums_and_effects_are_those_of_all_rows_within_the_said_error(kind):
    """An error of draws is beyond 3 said ones in about 0.3% of sets; seeds are fixed."""
    sampled, whole = sums_of(*rows_of(kind))
    assert 0.0 < sampled.error < 0.02
    assert size(sampled.ratio - whole.ratio) <= 3.0 * sampled.error
    np.testing.assert_allclose(sampled.labels, whole.labels)
    found, true = (own.group_figures(np.ones(len(own.theta)), 0.5).columns for own in (sampled, whole))
    gap = (found["corrected_mean"] - true["corrected_mean"]) / true["corrected_sd"]
    assert np.abs(gap).max() < 0.02
    assert np.abs(np.log(found["corrected_sd"] / true["corrected_sd"])).max() < 0.02


def test_a_sample_without_the_second_order_terms_of_all_rows_fails(monkeypatch):
    """The negative control: the sample alone, weighed, is far beyond the said error."""
    monkeypatch.setattr(sampled_rows, "add_second_order", lambda *_: None)
    sampled, whole = sums_of(*rows_of("sizes alike"))
    assert size(sampled.ratio - whole.ratio) > 30.0 * sampled.error


def test_all_rows_are_evaluated_where_a_sample_does_not_tell(monkeypatch):
    full, core = rows_of("sizes alike")
    monkeypatch.setattr(sampled_rows, "MAX_SUM_ERROR", 1e-9)
    assert sums_of(full, core)[0] is None
    monkeypatch.undo()
    monkeypatch.setattr(sampled_rows, "_MOST_NUMBERS", 100)
    assert sums_of(full, core)[0] is None


def test_a_wrong_coreset_is_refused():
    """More rows of +1 in one of 12 groups: its mean is off by some sds."""
    full, core = rows_of("sizes alike")
    more = (core.group[:, 0] == 3) & (core.y > 0)
    wrong = replace(core, weights=np.where(more, 2.0 * core.weights, core.weights))
    idata = bc.sample(wrong, random_seed=2, progressbar=False)
    certificate = bc.certify(idata, wrong, full, progressbar=False)
    assert certificate.level != "certified"
