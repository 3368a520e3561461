r"""Errors of one posterior against another, each with its Monte Carlo standard error.

They are (m - m_ref) / sd_ref of means m and of quantiles at 2.5% and 97.5%, sd / sd_ref - 1, r - r_ref of correlations,
and the negative log-likelihood of test rows. Standard errors follow by the delta method. The two posteriors are
independent runs, so variances add; the unit sd_ref is noisy, too.

Reference: Vehtari et al. (2021), Rank-normalization, folding, and localization, Bayesian Analysis 16, 667-718.

Two posteriors by the same draws, moved to each of them and weighed: how far their moments are apart.

Draws theta_s of a base density b, normal or a coreset's posterior, are moved to a posterior p by the affine map that
takes the base's mode and Hessian to p's (`models.laplace`) and weighed by p(theta'_s) / b(theta_s). Moments of two
posteriors from the same draws share their noise, and the error is the difference

.. math:: m_1 - m_2, \qquad m = \sum_s w_s f(\theta'_s),

whose Monte Carlo standard error follows from the difference of the two influence functions, draw by draw.

When to use it: to tell how far a coreset's posterior is from the full data's, with hundreds of columns too.

How far figures of draws may be off, one kind at a time, and the chance that any of them is off by too much.

A figure x of the draws differs from the full posterior's by e, known within a numerical error; the draws' own Monte
Carlo error comes on top: together the standard error s. The *risk* bounds the chance that any is off by more,

.. math:: \sum_x P(|e_x + s_x Z| > 0.25), \qquad Z \sim N(0, 1)

(sds in a mean, relative in an sd, a correlation's own unit). The same rules hold for draws as they are and for
corrected ones, each in the units of its own sds: see `certificate.estimates`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import optimize, special
from scipy.special import ndtri

from bayescore.limits import (
    FAMILYWISE_ALPHA,
    MAX_ERROR,
    MAX_FAILURE_PROBABILITY,
    NEGLIGIBLE_CORRECTION,
    NEGLIGIBLE_ERROR,
)
from bayescore.numerics.chains import (
    ess_and_mcse,
    mcse_mean,
    ordered_columns,
    quantile_errors,
    quantiles,
    standardised_columns,
)
from bayescore.text import number, with_error
from bayescore.types import FloatArray


class Errors(NamedTuple):
    """Largest error of a mean, in sds of the second posterior, of an sd, relatively, and of a correlation."""

    mean: float
    sd: float
    correlation: float


@dataclass(frozen=True, eq=False)
class WeightedDraws:
    """Draws, shape (S, D), with log weights, shape (S,), up to a constant."""

    draws: FloatArray
    log_weights: FloatArray

    @property
    def weights(self) -> FloatArray:
        """Importance weights that sum to 1, see `importance`."""
        return importance(self.log_weights)

    @property
    def ess(self) -> float:
        """Effective number of draws."""
        return float(1.0 / (self.weights**2).sum())


class _WeightedMoments(NamedTuple):
    """Weights, means and sds, standardised draws, shape (S, D), and correlations, shape (D, D)."""

    weights: FloatArray
    mean: FloatArray
    sd: FloatArray
    scaled: FloatArray
    correlation: FloatArray


def importance(log_ratio: FloatArray) -> FloatArray:
    """Return importance weights that sum to 1, cut off at sqrt(S) times their mean (Ionides 2008)."""
    weights = np.exp(log_ratio - log_ratio.max())
    weights = np.minimum(weights, math.sqrt(len(weights)) * weights.mean())
    return np.asarray(weights / weights.sum())


def _moments(of: WeightedDraws) -> _WeightedMoments:
    weights = of.weights
    mean = weights @ of.draws
    centred = of.draws - mean
    sd = np.sqrt(weights @ centred**2)
    scaled = centred / np.where(sd > 0.0, sd, 1.0)
    return _WeightedMoments(weights, mean, sd, scaled, (scaled * weights[:, None]).T @ scaled)


def errors_between(one: WeightedDraws, other: WeightedDraws) -> Errors:
    """Return the largest errors of `one` against `other`, whose draws are the same ones moved.

    An error beyond what noise alone makes of the largest is taken as it is, less its own standard error in quadrature.
    The others of its kind are shrunk by the share of noise in all of them (James and Stein 1961), which says nothing
    about a lone one among thousands; no kind is said to be below its noise.
    """
    a, b = _moments(one), _moments(other)
    sd = np.where(b.sd > 0.0, b.sd, 1.0)
    ratio = a.sd / sd
    wa, wb = a.weights[:, None], b.weights[:, None]
    squares = a.scaled**2, b.scaled**2
    mean_noise = (wa * a.scaled * ratio - wb * b.scaled) ** 2
    sd_noise = 0.25 * (wa * ratio * (squares[0] - 1.0) - wb * (squares[1] - 1.0)) ** 2
    lower = np.tril_indices(len(sd), -1)
    return Errors(
        _largest((a.mean - b.mean) / sd, mean_noise.sum(axis=0)),
        _largest(ratio - 1.0, sd_noise.sum(axis=0)),
        _largest((a.correlation - b.correlation)[lower], _correlation_noise(a, b)[lower]),
    )


def _correlation_noise(a: _WeightedMoments, b: _WeightedMoments) -> FloatArray:
    """Return the variances of differences of correlations, shape (D, D)."""

    def products(of: _WeightedMoments, by: _WeightedMoments) -> FloatArray:
        return influence_products(of.scaled, by.scaled, of.weights * by.weights, of.correlation, by.correlation)

    return np.maximum(products(a, a) - 2.0 * products(a, b) + products(b, b), 0.0)


def influence_products(
    x: FloatArray, y: FloatArray, shares: FloatArray, r_x: FloatArray, r_y: FloatArray
) -> FloatArray:
    """Return sum_s c_s f_s(x) f_s(y), shape (D, D): products of influences on correlations, with shares c.

    Draws x and y, shape (S, D), are standardised. f = z_i z_j - r_ij (z_i^2 + z_j^2) / 2 is a draw's influence on r_ij.
    """
    w, xx, yy = shares[:, None], x**2, y**2
    mixed_x = (w * x * yy).T @ x
    if x is y:
        half = np.sqrt(w) * xx  # BLAS finds half of the entries of a product with itself
        mixed_y, even = mixed_x, half.T @ half
        both = even
    else:
        xy = x * y
        mixed_y, even, both = (w * y * xx).T @ y, (w * xx).T @ yy, (w * xy).T @ xy
    diagonal = np.diagonal(even)
    return np.asarray(
        both
        - 0.5 * r_y * (mixed_x + mixed_x.T)
        - 0.5 * r_x * (mixed_y + mixed_y.T)
        + 0.25 * r_x * r_y * (even + even.T + diagonal + diagonal[:, None])
    )


def _largest(errors: FloatArray, variances: FloatArray) -> float:
    """Return the largest of errors of one kind, given the variances of their noise, shape (n,) each; 0 of none."""
    if not len(errors):
        return 0.0
    noise, squares = float(variances.mean()), errors**2
    share = min(1.0, noise / max(float(squares.mean()), float(np.finfo(float).tiny)))
    beyond = squares > ndtri(0.5 * FAMILYWISE_ALPHA / len(errors)) ** 2 * variances
    alone = float((squares - variances)[beyond].max(initial=0.0))
    return max(math.sqrt(float(squares.max())) * (1.0 - share), math.sqrt(alone), math.sqrt(noise))


TAILS = (0.025, 0.975)


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
    standard, sd = standardised_columns(draws)
    size, of_squares = ess_and_mcse(np.moveaxis(standard**2, 0, 2))
    # products of coordinates mix as their squares do, so the smaller ESS of the two squares stands for the pair
    variance = correlation_influence(standard.reshape(len(sd), -1).T, np.full(standard[0].size, 1.0 / standard[0].size))
    correlation: FloatArray = np.sqrt(variance / np.minimum(size[:, None], size))
    np.fill_diagonal(correlation, 0.0)
    return Moments(mcse_mean(draws), 0.5 * of_squares * sd, correlation, tail)


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
        ours, theirs = getattr(candidate, name), getattr(reference, name)
        scale_mcse = np.abs(ours - theirs) / reference.sd * reference_mcse.sd  # the unit, sd_ref, is noisy too
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
    return float(-special.ndtri(-np.expm1(np.log1p(-FAMILYWISE_ALPHA) / count) / 2.0))


def correlation_influence(z: FloatArray, shares: FloatArray) -> FloatArray:
    """Return the sums over draws, each times its share, of its squared influence on each correlation, shape (D, D).

    The draws z, shape (S, D), are standardised.
    """
    r = z.T @ z / len(z)
    return np.maximum(influence_products(z, z, shares, r, r), 0.0)


_LEAST = 1e-12  # standard error: an exact figure is off by nothing


_READ = 1e-3  # of an error: a smaller standard error is not worth reading


@dataclass(frozen=True, eq=False)
class ErrorFamily:
    """Figures of one kind, flat, in units of the judged draws' own sds; arrays have the shape (n,)."""

    kind: str  # "mean", "sd", "correlation", "combination", "tail" or "quartile"
    names: Sequence[str]
    error: FloatArray  # the draws' figure minus the full posterior's; of sds the logarithm of the ratio
    error_mcse: FloatArray  # its numerical error, given the draws
    noise: FloatArray  # Monte Carlo error of the draws' figure
    limit: FloatArray | float = MAX_ERROR  # size from which an error is too large
    unit: str = " sd"  # or "%" or ""

    def spread(self, shrink: float = 1.0) -> FloatArray:
        """Return the standard errors of the errors, Monte Carlo noise times `shrink`."""
        return np.maximum(np.hypot(self.error_mcse, shrink * self.noise), _LEAST)

    @property
    def size(self) -> FloatArray:
        """Sizes of the errors, two standard errors on top, in limits."""
        return np.asarray((np.abs(self.error) + 2.0 * self.spread()) / self.limit)

    def phrase(self, i: int) -> str:
        """Return a clause on one of them."""
        error, s = float(self.error[i]), float(self.spread()[i])
        if self.unit == "%" and abs(error) > math.log(2.0):
            return f"the {self.names[i]} is off by a factor of {number(math.exp(min(abs(error), 700.0)), 2)}"
        if self.unit == "%":
            error, s = 100.0 * math.expm1(error), 100.0 * math.exp(error) * s
        if s < _READ * abs(error):
            return f"the {self.names[i]} is off by {number(abs(error), 2)}{self.unit}"
        shown, its_error = with_error(abs(error), s, digits=1)
        return f"the {self.names[i]} is off by {shown} ± {its_error}{self.unit}"


def risk(families: Sequence[ErrorFamily], *, shrink: float = 1.0) -> float:
    """Return the bound of the chance that any figure is off by more than its limit, Monte Carlo noise times `shrink`.

    Tails, whose noise is several times as large, count as a certain failure where error and two standard errors reach
    the limit, and not at all elsewhere.
    """
    total = 0.0
    for each in families:
        s = each.spread(shrink)
        if each.kind != "tail":
            total += _chance_beyond(each, each.limit, s)
        elif (np.abs(each.error) + 2.0 * s >= each.limit).any():
            return 1.0
    return total


def bound_of_means(families: Sequence[ErrorFamily]) -> float:
    """Return by how many sds means may be off: the chance that any is off by more is `MAX_FAILURE_PROBABILITY`.

    Quartiles count where a coordinate has no mean. It is 0 where nothing was judged.
    """
    judged = [each for each in families if each.kind in ("mean", "quartile") and len(each.names)]
    if not judged:
        return 0.0
    high = max(float((np.abs(each.error) + 40.0 * each.spread()).max()) for each in judged)

    def spare(limit: float) -> float:
        return MAX_FAILURE_PROBABILITY - sum(_chance_beyond(each, limit, each.spread()) for each in judged)

    return float(optimize.brentq(spare, 0.0, high, xtol=1e-6))  # at 0 the chance is 1 or more


def errors_negligible(families: Sequence[ErrorFamily]) -> bool:
    """Whether every error of the coreset plus two standard errors is below `NEGLIGIBLE_ERROR`."""
    return _largest_of_shape(families, 2.0) <= NEGLIGIBLE_ERROR


def corrections_negligible(families: Sequence[ErrorFamily]) -> bool:
    """Whether every error of moved draws is below `NEGLIGIBLE_CORRECTION` but for noise, so that they can stay."""
    return _largest_of_shape(families, -2.0) <= NEGLIGIBLE_CORRECTION


def describe_worst(families: Sequence[ErrorFamily]) -> str:
    """Return a clause on the figure that comes nearest to its limit, two standard errors on top.

    Combinations, which have no name, are named where they are beyond their limit and no other figure is.
    """

    def order(family: ErrorFamily) -> tuple[bool, bool, float]:
        size, named = float(family.size.max()), family.kind != "combination"
        return size >= 1.0, named, float(f"{size:.9g}")

    first = max((f for f in families if len(f.names)), key=order)
    largest = first.size >= (1.0 - 1e-9) * first.size.max()  # those that differ by rounding are one, on any processor
    return first.phrase(int(largest.argmax()))


def _chance_beyond(family: ErrorFamily, limit: FloatArray | float, s: FloatArray) -> float:
    """Bound the probability that the error of any figure exceeds a limit, given standard errors s."""
    return float((special.ndtr((family.error - limit) / s) + special.ndtr((-family.error - limit) / s)).sum())


def _largest_of_shape(families: Sequence[ErrorFamily], mcse: float) -> float:
    """Return the largest error of a mean, sd or correlation, so many standard errors added to each."""
    shape = [f for f in families if f.kind not in ("tail", "combination")]
    return float(np.max([(np.abs(f.error) + mcse * f.error_mcse).max(initial=0.0) for f in shape], initial=0.0))
