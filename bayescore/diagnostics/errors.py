"""Errors of one posterior against another, each with its Monte Carlo standard error.

They are (m - m_ref) / sd_ref of means m and of quantiles at 2.5% and 97.5%, sd / sd_ref - 1, r - r_ref of correlations,
and the negative log-likelihood of test rows. Standard errors follow by the delta method. The two posteriors are
independent runs, so variances add; the unit sd_ref is noisy, too.

Reference: Vehtari et al. (2021), Rank-normalization, folding, and localization, Bayesian Analysis 16, 667-718.
"""

from dataclasses import dataclass

import numpy as np
from scipy import stats

from bayescore.chains import ordered_columns, quantile_errors, quantiles, unit_scale
from bayescore.coresets.calibration.paired import influence_products
from bayescore.diagnostics.mcse import ess_mean, mcse_mean
from bayescore.limits import FAMILYWISE_ALPHA
from bayescore.models.families import Family
from bayescore.types import FloatArray, WeightedData

TAILS = (0.025, 0.975)
_BLOCK = 2**22


@dataclass(frozen=True, eq=False)
class Moments:
    """Mean, sd, shape (D,), correlation (D, D) and quantiles at 2.5% and 97.5% (2, D) of draws, or their errors."""

    mean: FloatArray
    sd: FloatArray
    correlation: FloatArray
    tail: FloatArray


def moments(draws: FloatArray, ordered: FloatArray | None = None) -> Moments:
    """Return the moments of draws, shape (n, D); `ordered` are their `ordered_columns`, where they are known."""
    mean, sd = draws.mean(axis=0), draws.std(axis=0, ddof=1)
    standard = (draws - mean) / np.where(sd > 0.0, sd, 1.0)
    correlation = standard.T @ standard / (len(draws) - 1)
    np.fill_diagonal(correlation, 1.0)
    columns = ordered_columns(draws) if ordered is None else ordered
    return Moments(mean, sd, correlation, np.stack([quantiles(columns, prob) for prob in TAILS]))


def moments_mcse(draws: FloatArray, ordered: FloatArray | None = None) -> Moments:
    """Return the Monte Carlo standard errors of the moments of draws, shape (chain, draw, D)."""
    columns = ordered_columns(draws) if ordered is None else ordered
    tail = np.stack([quantile_errors(draws, prob, columns) for prob in TAILS])
    scale = unit_scale(draws)
    standard = (draws - draws.mean(axis=(0, 1))) / scale
    squares = standard**2
    size, z = ess_mean(squares), standard.reshape(-1, draws.shape[2])
    # products of coordinates mix as their squares do, so the smaller ESS of the two squares stands for the pair
    variance = correlation_influence(z, np.full(len(z), 1.0 / len(z)))
    correlation: FloatArray = np.sqrt(variance / np.minimum(size[:, None], size))
    np.fill_diagonal(correlation, 0.0)
    sd = squares.std(axis=(0, 1), ddof=1) / np.sqrt(size) * scale / 2.0
    return Moments(mcse_mean(draws), sd, correlation, tail)


def errors(candidate: Moments, reference: Moments, *, scale: FloatArray) -> Moments:
    """Return the signed errors of a candidate's moments, those of location and sd in units of `scale`, shape (D,)."""
    return Moments(
        (candidate.mean - reference.mean) / scale,
        (candidate.sd - reference.sd) / scale,
        candidate.correlation - reference.correlation,
        (candidate.tail - reference.tail) / scale,
    )


def errors_mcse(candidate: Moments, candidate_mcse: Moments, reference: Moments, reference_mcse: Moments) -> Moments:
    """Return the standard errors of `errors`, from the moments of both sides and their standard errors."""
    ratio = candidate.sd / reference.sd

    def of_location(name: str) -> FloatArray:
        own, theirs = getattr(candidate, name), getattr(reference, name)
        scale_mcse = np.abs(own - theirs) / reference.sd * reference_mcse.sd  # the unit, sd_ref, is noisy too
        both = getattr(candidate_mcse, name) ** 2 + getattr(reference_mcse, name) ** 2
        return np.asarray(np.sqrt(both + scale_mcse**2) / reference.sd)

    return Moments(
        of_location("mean"),
        np.hypot(candidate_mcse.sd, ratio * reference_mcse.sd) / reference.sd,
        np.hypot(candidate_mcse.correlation, reference_mcse.correlation),
        of_location("tail"),
    )


def sidak_quantile(count: int) -> float:
    """Return the standard errors that one of `count` exact figures exceeds with probability `FAMILYWISE_ALPHA`.

    Two-sided and normal: the chance of each is 1 - (1 - alpha)^(1/count). Reference: Sidak (1967), JASA 62, 626-633.
    """
    return float(stats.norm.isf(-np.expm1(np.log1p(-FAMILYWISE_ALPHA) / count) / 2.0))


def negative_log_likelihood(draws: FloatArray, test: WeightedData, family: Family) -> tuple[float, float]:
    """Return -sum_i w_i log(mean_s p(y_i | x_i, beta_s)) / sum_i w_i of test rows, and its Monte Carlo standard error.

    The draws beta_s have the shape (chain, draw, D). The error is that of the mean over s of
    sum_i w_i p_i(beta_s) / E[p_i], the first-order influence of a draw.
    """
    flat = draws.reshape(-1, draws.shape[2])
    share = test.weights / test.weights.sum()
    total, influence = 0.0, np.zeros(len(flat))
    step = max(_BLOCK // len(flat), 1)
    for start in range(0, len(test), step):
        rows = slice(start, start + step)
        part = test.take(rows)
        log_p = family.log_p(part.with_offset(part.X @ flat.T), part.y[:, None])
        top = log_p.max(axis=1, keepdims=True)
        relative = np.exp(log_p - top)
        mean = relative.mean(axis=1, keepdims=True)
        total -= float(share[rows] @ (top + np.log(mean))[:, 0])
        influence += share[rows] @ (relative / mean)
    return total, float(mcse_mean(influence.reshape(*draws.shape[:2], 1))[0])


def correlation_influence(z: FloatArray, shares: FloatArray) -> FloatArray:
    """Return the sums over draws, each times its share, of its squared influence on each correlation, shape (D, D).

    The draws z, shape (S, D), are standardised.
    """
    r = z.T @ z / len(z)
    return np.maximum(influence_products(z, z, shares, r, r), 0.0)
