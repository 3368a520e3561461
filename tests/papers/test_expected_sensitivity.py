"""Proposition 3.8 against mean bounds of drawn rows: right for a small radius, refuted for a large one."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from bayescore.coresets.sensitivity import sensitivity_bounds
from bayescore.papers.huggins import expected_sensitivity
from bayescore.validation import DataError

ONE = {"shares": [1.0], "means": [[0.0]], "traces": [1.0], "mean_labels": [0.0]}
# labels of the far component are sure, those of the others a coin: the printed B_i is then too small
FAR = {
    "shares": [0.5, 0.5],
    "means": [[4.0, 0.0], [0.0, 1.0]],
    "traces": [0.1, 0.1],
    "mean_labels": [1.0, 0.0],
}


def drawn(mixture, n, seed):
    """Signed rows of a mixture with spherical components, labels independent of the rows."""
    rng = np.random.default_rng(seed)
    means, p = np.array(mixture["means"]), np.array(mixture["shares"])
    which = rng.choice(len(p), n, p=p)
    sd = np.sqrt(np.array(mixture["traces"]) / means.shape[1])
    X = means[which] + sd[which][:, None] * rng.standard_normal((n, means.shape[1]))
    y = np.where(2.0 * rng.random(n) - 1.0 < np.array(mixture["mean_labels"])[which], 1.0, -1.0)
    return y[:, None] * X, which


def mean_bound(mixture, n, radius, seed):
    """Mean bound with the components as clusters, straight from Lemma 3.1, and its standard error."""
    Z, which = drawn(mixture, n, seed)
    total = np.ones(n)
    for i in range(len(mixture["shares"])):
        inside = which == i
        count, mean = inside.sum(), Z[inside].sum(axis=0)
        others = np.where(inside[:, None], mean - Z, mean) / (count - inside)[:, None]
        total += (count - inside) * np.exp(-radius * np.linalg.norm(others - Z, axis=1))
    bounds = n / total
    return bounds.mean(), bounds.std() / math.sqrt(n)


def printed_limit(mixture, radius):
    """The limit with B_i as printed, ybar_j in place of ybar_i."""
    p, mu, label = (np.array(mixture[key]) for key in ("shares", "means", "mean_labels"))
    trace, k = np.array(mixture["traces"]), len(p)
    B = [
        sum(
            p[j] * (trace[j] + label[j] ** 2 * mu[i] @ mu[i] - 2 * label[i] * label[j] * mu[i] @ mu[j] + mu[j] @ mu[j])
            for j in range(k)
        )
        for i in range(k)
    ]
    return 1.0 / sum(p[i] * math.exp(-radius * math.sqrt(B[i])) for i in range(k))


def test_the_limit_is_the_formula_of_the_proof():
    p, mu, label, trace = (np.array(FAR[key]) for key in ("shares", "means", "mean_labels", "traces"))
    B = [
        sum(
            p[j] * (trace[j] + label[i] ** 2 * mu[i] @ mu[i] - 2 * label[i] * label[j] * mu[i] @ mu[j] + mu[j] @ mu[j])
            for j in range(2)
        )
        for i in range(2)
    ]
    asked = 1.0 / sum(p[i] * math.exp(-0.7 * math.sqrt(B[i])) for i in range(2))
    assert expected_sensitivity(math.inf, 0.7, **FAR) == pytest.approx(asked, rel=1e-12)


def test_a_component_alone_is_the_corollary():
    mu, label, trace, radius = np.array([1.0, -2.0]), 0.6, 3.0, 0.8
    found = expected_sensitivity(math.inf, radius, shares=[1.0], means=[mu], traces=[trace], mean_labels=[label])
    assert found == pytest.approx(math.exp(radius * math.sqrt(trace + (1.0 - label**2) * mu @ mu)))


def test_finite_rows_ask_for_more_and_tend_to_the_limit():
    limit = expected_sensitivity(math.inf, 0.5, **FAR)
    values = [expected_sensitivity(10**power, 0.5, **FAR) for power in (1, 3, 6, 12)]
    assert values == sorted(values, reverse=True) or values[0] == 10.0
    assert all(value > limit for value in values)
    assert values[-1] == pytest.approx(limit, rel=1e-3)


@pytest.mark.statistical(rate=1e-6)
def test_measured_mean_bounds_keep_below_it_and_not_below_the_printed_one():
    """Five standard errors: a false alarm in 3.5 million."""
    n, radius = 20_000, 0.3
    mean, error = mean_bound(FAR, n, radius, seed=0)
    assert mean - 5.0 * error < expected_sensitivity(n, radius, **FAR)
    assert mean - 5.0 * error > printed_limit(FAR, radius)  # the misprint is refuted


@pytest.mark.statistical(rate=1e-6)
@pytest.mark.parametrize(("radius", "holds"), [(0.5, True), (3.0, False)])
def test_it_holds_for_a_small_radius_only(radius, holds):
    """Ten standard errors on either side, where bounds are above; below, the mean bound has to be below at all."""
    n = 20_000
    Z, _ = drawn(ONE, n, seed=1)
    bounds = sensitivity_bounds(Z, centers=[[0.0]], radius=radius)
    np.testing.assert_allclose(bounds.mean(), mean_bound(ONE, n, radius, seed=1)[0], rtol=1e-9)
    gap = (bounds.mean() - expected_sensitivity(n, radius, **ONE)) / (bounds.std() / math.sqrt(n))
    assert (gap < 0.0) if holds else (gap > 10.0)
    limit = 2.0 * math.exp(radius**2 / 2.0) * norm.cdf(radius)
    assert (limit < expected_sensitivity(math.inf, radius, **ONE)) == holds


def test_bad_arguments():
    for change, error, message in (
        ({"shares": [0.5]}, ValueError, "must be positive and sum to 1"),
        ({"shares": [0.5, 0.5]}, ValueError, r"shares has shape \(2,\); it must be \(1,\)"),
        ({"traces": [-1.0]}, ValueError, "traces=.* must not be negative"),
        ({"mean_labels": [1.5]}, ValueError, "between -1 and 1"),
        ({"means": [0.0]}, DataError, "means has shape"),
        ({"n_rows": 0}, ValueError, "n_rows=0 must"),
        ({"n_rows": 1.5}, TypeError, "n_rows=1.5 must be a whole number"),
        ({"radius": 0.0}, ValueError, "radius=0 must"),
    ):
        with pytest.raises(error, match=message):
            expected_sensitivity(**{"n_rows": 10, "radius": 1.0, **ONE, **change})
