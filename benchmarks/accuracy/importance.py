r"""Figures of the full data's posterior by importance sampling from its normal approximation N(m, C) at the MAP.

.. math:: \mathrm E f = \mathrm E_N f + \sum_s (w_s - 1/S) f(\theta_s), \qquad w_s \propto p(\theta_s) / N(\theta_s)

with the normal's own mean, sds and correlations exact: nearly normal posteriors, of which weights change little, are
known many times better than from as many draws. `share` is the part of the draws that count, 1 / (S sum w^2).
"""

from typing import Any, NamedTuple

import numpy as np

import bayescore as bc
from bayescore.families.family import check_family
from bayescore.models.laplace import Mode
from bayescore.models.posterior import log_likelihoods

PROPOSALS = 4000


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
