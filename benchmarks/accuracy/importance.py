r"""Figures of the full data's posterior by importance sampling from its normal approximation N(m, C) at the MAP.

.. math:: \mathrm E f = \mathrm E_N f + \sum_s (w_s - 1/S) f(\theta_s), \qquad w_s \propto p(\theta_s) / N(\theta_s)

with the normal's own mean, sds and correlations exact: nearly normal posteriors, of which weights change little, are
known many times better than from as many draws. `share` is the part of the draws that count, 1 / (S sum w^2).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import optimize

import bayescore as bc
from bayescore.families.family import check_family
from bayescore.models.laplace import Mode
from bayescore.models.posterior import log_likelihoods

PROPOSALS = 4000
MOST, MANY = 2e9, 100_000  # rows by points; rows from which a posterior is nearly normal


class Known(NamedTuple):
    """Means, sds and correlations of a posterior, shapes (D,), (D,) and (D, D), and standard errors of the means."""

    mean: np.ndarray
    sd: np.ndarray
    correlation: np.ndarray
    mean_error: np.ndarray
    share: float


def correlations(covariance: np.ndarray) -> np.ndarray:
    """Return a covariance as correlations."""
    sd = np.sqrt(np.diagonal(covariance))
    return covariance / sd / sd[:, None]


def weighed_t(
    data: bc.Coreset, prior: Any, center: np.ndarray, root: np.ndarray, n: int, df: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return draws of a Student t, shape (n, D), and their log weights, up to a constant, for the posterior of `data`.

    The t has `df` degrees of freedom and the scale root @ root.T.
    """
    rng = np.random.default_rng(1)
    t = rng.standard_normal((n, len(center))) / np.sqrt(rng.chisquare(df, (n, 1)) / df)
    x = center + t @ root.T
    log_t = -0.5 * (df + len(center)) * np.log1p((t**2).sum(axis=1) / df)
    return x, log_likelihoods(x, data, check_family(data.family)) + prior.log_density(x) - log_t


class Moments(NamedTuple):
    """Means and sds of a posterior, shapes (D,), and how many of the weighed points count."""

    mean: np.ndarray
    sd: np.ndarray
    effective: float


def adapted(
    log_density: Callable[[np.ndarray], np.ndarray],
    center: np.ndarray,
    root: np.ndarray,
    n_rows: int,
    rounds: Sequence[int],
) -> Moments:
    """Return the moments of a posterior by weighed points of a Student t, which each round fits to those before.

    `log_density` is that of points, shape (S, D); the first t has the scale root @ root.T about `center`.
    """
    df, D = 30.0 if n_rows >= MANY else 6.0, len(center)
    rng = np.random.default_rng(3)
    for n in (min(each, int(MOST / n_rows)) for each in rounds):
        z = rng.standard_normal((n // 2, D)) * np.sqrt(df / rng.chisquare(df, (n // 2, 1)))
        z = np.vstack([z, -z])
        points = center + z @ root.T
        logs = log_density(points) + 0.5 * (df + D) * np.log1p((z**2).sum(axis=1) / df)
        w = np.exp(logs - logs.max())
        w /= w.sum()
        # in large sets, by the sd of proposals over that of the points, noise cancels
        known = np.ones(D)
        if n_rows >= MANY:
            known = np.sqrt((root**2).sum(axis=1) * df / (df - 2.0)) / points.std(axis=0)
        center = w @ points
        root = np.linalg.cholesky((w * (points - center).T) @ (points - center))
    return Moments(center, known * np.sqrt(w @ (points - center) ** 2), 1.0 / float(w @ w))


def by_weighed_points(
    log_density: Callable[[np.ndarray], np.ndarray], start: np.ndarray, n_rows: int, tolerance: float, *rounds: int
) -> Moments:
    """Return the moments of a posterior, by points about its mode, which is searched for from `start`."""
    told = {"gtol": tolerance * n_rows**0.5}
    found = optimize.minimize(lambda point: -log_density(point[None])[0], start, method="BFGS", options=told)
    return adapted(log_density, found.x, np.linalg.cholesky(found.hess_inv), n_rows, rounds)


def by_blocks(
    points: np.ndarray, n_rows: int, sums: Callable[[slice], np.ndarray], entries: int = 4_000_000
) -> np.ndarray:
    """Return what `sums` of blocks of rows add up to at points, shape (S,)."""
    step = max(1, entries // len(points))
    return np.sum([sums(slice(start, start + step)) for start in range(0, n_rows, step)], axis=0)


def antithetic(mode: Mode, prior: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return n points of a mode's normal approximation, in opposite pairs, and log p(prior) - log N of each."""
    half = np.random.default_rng(1).standard_normal((n // 2, len(mode.beta)))
    z = np.vstack([half, -half])
    x = mode.beta + z @ mode.factor.T
    return x, prior.log_density(x) + 0.5 * (z**2).sum(axis=1)


def by_importance(data: bc.Coreset, full: Mode, family: str, prior: bc.priors.Normal) -> Known:
    """Return the figures of the posterior of `data`, whose MAP is `full`."""
    z = np.random.default_rng(0).standard_normal((PROPOSALS, data.n_features))
    x = full.beta + z @ full.factor.T
    ratio = log_likelihoods(x, data, check_family(family)) + prior.log_density(x) + 0.5 * (z**2).sum(axis=1)
    w = np.exp(ratio - ratio.max())
    w /= w.sum()
    change = w - 1.0 / len(w)
    mean, plain = w @ x, x.std(axis=0)
    sd = np.sqrt(w @ (x - mean) ** 2)
    weighed, even = (x - mean) / sd, (x - x.mean(axis=0)) / plain
    return Known(
        full.beta + change @ x,
        full.sd * sd / plain,
        correlations(full.covariance) + (weighed.T * w) @ weighed - even.T @ even / len(w),
        sd * np.sqrt(change**2 @ weighed**2),
        float(1.0 / (len(w) * (w @ w))),
    )
