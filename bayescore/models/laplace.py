r"""Factors of covariances given by their inverses, and the affine map between two normal densities.

L with L L' = H^-1 is unique up to a rotation: samplers take the lower triangular one, calibration the upper one.
Columns may have different scales.

Mode of a log density by damped Newton steps, and the Laplace approximation there.

The method only sees a function beta -> `Derivatives`, so a step may be a pass over a file. References: Moré (1978), The
Levenberg-Marquardt algorithm: implementation and theory; Nielsen (1999), Damping parameter in Marquardt's method.

Draws of a coreset's posterior moved to the mode and the curvature of the full data's, without a pass over the data.

With the quadratic Q of `Shortfall`, what the coreset's log-likelihood L~ misses of the full data's, and the prior,

.. math:: \log\pi(\theta) \approx \tilde L(\theta) + Q(\theta) + \log\pi_0(\theta)

has a mode t and a curvature H, found by Newton's method on the coreset's rows. `Transport` takes draws from the mode
and the curvature of the coreset's posterior to those. They are exact to second order for the prior of the build, whose
mode is where Q was taken; for another prior the error is of third order in how far that moves the mode.

The map is determined by the coreset and the prior, so that what made moved draws can be found again.

What is left of the full data's log-likelihood beyond second order, estimated from some of its rows.

With value, gradient g and minus the Hessian H of the log-likelihood known at a point t,

.. math:: L(\theta) = L(t) + g'\delta - \tfrac12 \delta' H \delta + \sum_n w_n e_n(\theta), \qquad \delta = \theta - t,

so that only the remainders e_n have to be summed. A row's is of the order of its `reach`,

.. math:: w \left(|l'''| |zL|^3 / 6 + |c| |zL|^4 / 24\right),

LL' the posterior's covariance; rows are drawn by that and by 0.1 of an equal share, without replacement, and weigh
w / pi in the sum, whose standard error over rows is known too (Horvitz and Thompson 1952, for Poisson sampling). Where
draws lie far from t, as on separated data, that error is large, and a pass over all rows is needed. Neither sum nor
error includes what the sample missed: a few rows that contribute little at t and much at the draws may be absent.
`certify` passes over all rows.

When to use it: for the log-likelihood of many rows at many points near their mode.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import linalg
from scipy.linalg.blas import dtrmm
from scipy.sparse import issparse

from bayescore.data.coreset import Coreset, Shortfall
from bayescore.data.passes import TileRows, csr_if_sparse
from bayescore.families import Family
from bayescore.models.posterior import (
    WIDE,
    Derivatives,
    likelihood_terms,
    log_likelihoods,
    moments_over_draws,
    posterior,
)
from bayescore.models.row_kernels import predictors, remainders_near, score_rows
from bayescore.priors import Prior
from bayescore.types import FloatArray, WeightedData, read_only
from bayescore.validation import DataError


def factor_of_inverse(precision: FloatArray) -> FloatArray:
    """Return lower triangular L with L L' the inverse of `precision`, shape (D, D).

    With the coordinates in reverse order, precision = K K'. The inverse is K'^-1 K^-1, and K'^-1, upper triangular, is
    lower triangular in the first order. Raises `DataError` if the precision is not positive definite.
    """
    reverse = _cholesky(precision[::-1, ::-1])
    scale = linalg.solve_triangular(reverse, np.eye(len(precision)), lower=True).T[::-1, ::-1]
    return np.ascontiguousarray(scale, dtype=np.float64)


def upper_factor_of_inverse(precision: FloatArray) -> FloatArray:
    """Return upper triangular L with L L' the inverse of `precision`, shape (D, D), or raise `DataError`."""
    scale = 1.0 / np.sqrt(np.diagonal(precision))
    upper = _cholesky(precision * scale * scale[:, None], lower=False)
    return np.asarray(scale[:, None] * linalg.solve_triangular(upper, np.eye(len(scale))))


def _cholesky(precision: FloatArray, *, lower: bool = True) -> FloatArray:
    try:
        return np.asarray(linalg.cholesky(precision, lower=lower))
    except (linalg.LinAlgError, ValueError) as error:  # ValueError: of entries that are not finite
        raise DataError(
            "X has columns that are nearly collinear, the posterior's precision is not positive definite in floating "
            "point: standardise the columns, or drop one of two collinear ones"
        ) from error


@dataclass(frozen=True, eq=False)
class Transport:
    r"""The map theta -> end + A (theta - start) from draws of a posterior to the mode and scales of another, det A > 0.

    With modes t~ and t and minus the Hessians H~ and H of two log densities there,

    .. math:: \theta' = t + A (\theta - \tilde t), \qquad A = F (F' \tilde H F)^{1/2} F^{-1}, \qquad F F' = H^{-1}.

    A turns a normal density with precision H~ into one with precision H; of all maps that do, the symmetric root is the
    one nearest the identity in the scale of the target. Moved draws keep their skewness and tails. Importance weights
    p(theta') / p~(theta) correct those, and their spread does not grow with the number of columns. References: Meng and
    Schilling (2002), Warp bridge sampling, JCGS 11, 552-586; Paananen, Piironen, Bürkner and Vehtari (2021), Implicitly
    adaptive importance sampling, Statistics and Computing 31, 16.
    """

    start: FloatArray
    end: FloatArray
    matrix: FloatArray
    root: FloatArray  # F
    stretch: FloatArray  # eigenvalues of A, shape (D,): by these sds change, between the smallest and the largest

    @classmethod
    def between(
        cls, start: FloatArray, own_precision: FloatArray, end: FloatArray, precision: FloatArray
    ) -> "Transport":
        """Return the map from a mode and minus the Hessian there, shapes (D,) and (D, D), to another pair."""
        F = factor_of_inverse(precision)
        values, vectors = linalg.eigh(F.T @ own_precision @ F)
        if not values[0] > 0.0:
            raise DataError(f"minus the Hessian is not positive definite: its smallest eigenvalue is {values[0]:.3g}")
        stretch = np.sqrt(values)
        root = (vectors * stretch) @ vectors.T
        matrix = linalg.solve_triangular(F, (F @ root).T, trans="T", lower=True).T  # F root F^-1
        return cls(np.asarray(start), np.asarray(end), np.ascontiguousarray(matrix), F, stretch)

    def __call__(self, draws: FloatArray) -> FloatArray:
        """Return moved draws, shape (..., D)."""
        return np.asarray(self.end + (draws - self.start) @ self.matrix.T)

    @property
    def inverse(self) -> "Transport":
        """The way back."""
        matrix = np.asarray(linalg.inv(self.matrix))
        return Transport(self.end, self.start, matrix, matrix @ self.root, 1.0 / self.stretch)

    def from_moved(self, first: "Transport") -> "Transport":
        """Return the same map for draws that `first`, from the same posterior, has moved already."""
        matrix = self.matrix @ np.asarray(linalg.inv(first.matrix))
        white = linalg.solve_triangular(self.root, matrix @ self.root, lower=True)
        return Transport(first.end, self(first.start), matrix, self.root, linalg.svdvals(white))


UNDAMPED = 1e-16  # of the largest curvature so far, which may fall by ten orders of magnitude on the way to the mode


@dataclass(frozen=True, eq=False)
class Mode:
    """Mode of a log density and the normal approximation around it.

    Parameters
    ----------
    beta : array, shape (D,)
        The mode. `find_map` of a model `(1 | g)` returns D coefficients and, last, log sigma_g: D + 1 entries.
    covariance : array, shape (D, D)
        Inverse of minus the Hessian there (Laplace approximation).
    terms : Derivatives
        Log density (not normalised), gradient and minus the Hessian there.
    decrement : float
        Newton decrement: distance left to the mode in posterior standard deviations.
    n_steps : int
        Evaluations of the density.
    names : tuple of str
        Names of the entries of `beta`, such as ("Intercept", "age", "log sigma_county"), from `find_map` and
        `find_mle`.
    """

    beta: FloatArray
    covariance: FloatArray
    terms: Derivatives
    decrement: float
    n_steps: int
    names: tuple[str, ...] = ()

    @property
    def factor(self) -> FloatArray:
        """Lower triangular L with L L' the covariance, shape (D, D)."""
        return np.asarray(linalg.cholesky(self.covariance, lower=True), dtype=np.float64)

    @property
    def sd(self) -> FloatArray:
        """Standard deviations of the Laplace approximation, shape (D,)."""
        return np.asarray(np.sqrt(np.diagonal(self.covariance)))


class NoModeError(RuntimeError):
    """The steps allowed did not reach the mode; `reached` is where they ended, None if it is flat there."""

    def __init__(self, message: str, reached: Mode | None) -> None:
        super().__init__(message)
        self.reached = reached


def find_mode(
    terms: Callable[[FloatArray], Derivatives],
    start: FloatArray,
    *,
    first: Derivatives | None = None,
    tolerance: float = 1e-8,
    max_steps: int = 500,
) -> Mode:
    """Climb to the mode of a log density until the Newton decrement is below `tolerance`; else raise `NoModeError`.

    A step solves (H + mu S) step = gradient: mu is 0 while Newton's own steps succeed, and follows the ratio of actual
    to predicted gain where they do not (Levenberg-Marquardt). S is the largest diagonal of H so far, so that steps stay
    short where the curvature has died away. `first` is ``terms(start)`` where the caller has it.
    """
    beta = np.asarray(start, dtype=np.float64)
    here = terms(beta) if first is None else first
    scale = np.abs(np.diagonal(here.precision))
    if not np.isfinite(here.value * scale).all():
        raise NoModeError("the likelihood overflows where the search for its mode starts: are offsets too large?", None)
    mu, growth, decrement = 0.0, 2.0, math.inf
    n_steps = 1
    while n_steps < max_steps:
        # below the rounding error of the value no step can be seen to climb
        blind = 1e-14 * max(1.0, abs(here.value))
        factor, left = cholesky_and_decrement(here)
        if factor is not None:
            decrement = left
            if decrement < tolerance or 0.5 * decrement**2 < blind:
                return _mode(beta, factor, here, decrement, n_steps)
        factor = factor if mu == 0.0 else _factor(here.precision + np.diag(mu * scale))
        if factor is None:
            mu = max(10.0 * mu, 1e-6)
            continue
        step = linalg.cho_solve(factor, here.gradient)
        predicted = float(here.gradient @ step - 0.5 * step @ here.precision @ step)
        there = terms(beta + step)
        n_steps += 1
        # a gain that rounding hides counts as predicted: damping by its noise would never end
        gain = 1.0 if predicted < blind else (there.value - here.value) / predicted
        if gain > 1e-4:
            beta, here = beta + step, there
            scale = np.maximum(scale, np.abs(np.diagonal(here.precision)))
            mu *= max(0.1, 1.0 - (2.0 * min(gain, 1.0) - 1.0) ** 3)
            mu, growth = (0.0 if mu < UNDAMPED else mu), 2.0
        else:
            mu, growth = max(growth * mu, 1e-3 if mu == 0.0 else 0.0), 2.0 * growth
    factor, decrement = cholesky_and_decrement(here)
    raise NoModeError(
        f"no mode found in {max_steps} Newton steps (decrement {decrement:.2g} sd): standardise the features, "
        "or use a prior with lighter tails",
        None if factor is None else _mode(beta, factor, here, decrement, n_steps),
    )


def _mode(beta: FloatArray, factor: tuple[FloatArray, bool], here: Derivatives, decrement: float, n_steps: int) -> Mode:
    covariance = linalg.cho_solve(factor, np.eye(len(beta)))
    return Mode(beta, 0.5 * (covariance + covariance.T), here, decrement, n_steps)


def cholesky_and_decrement(terms: Derivatives) -> tuple[tuple[FloatArray, bool] | None, float]:
    """Return the Cholesky factor of the precision and the Newton decrement; None and inf if not positive definite."""
    factor = _factor(terms.precision)
    if factor is None:
        return None, math.inf
    return factor, math.sqrt(max(float(terms.gradient @ linalg.cho_solve(factor, terms.gradient)), 0.0))


def _factor(matrix: FloatArray) -> tuple[FloatArray, bool] | None:
    """Return the Cholesky factor of `matrix`; None if it is not positive definite."""
    try:
        return linalg.cho_factor(matrix, lower=True)[0], True
    except linalg.LinAlgError:
        return None


_STRETCH = 512  # rows of a product that stays in the cache


class RowScores(NamedTuple):
    """Scores of rows, shape (n,): g, h, reach (`with_remainders`), and w l''' abs(xL)^2 / 2, pull per unit of xL."""

    g: FloatArray
    h: FloatArray
    reach: FloatArray
    third: FloatArray


@dataclass(frozen=True, eq=False)
class LaplaceApproximation:
    """The normal approximation N(theta, LL') of a posterior: theta, shape (D,), and its factor L, shape (D, D)."""

    family: Family
    theta: FloatArray
    factor: FloatArray

    def predictors(self, block: WeightedData) -> tuple[FloatArray, FloatArray]:
        """Return predictors at theta, and abs(xL)^2, shape (n,) each."""
        if len(self.theta) >= WIDE:
            eta, squares = block.with_offset(block.X @ self.theta), _squared_lengths(block.X, self.factor)
        else:
            eta, squares = predictors(TileRows.of(block), read_only(self.theta), np.ascontiguousarray(self.factor))
        return eta, squares

    def terms(self, block: WeightedData) -> Derivatives:
        """Return the log-likelihood of rows, and its derivatives at theta."""
        return likelihood_terms(self.theta, block, self.family)

    def row_scores(self, block: WeightedData) -> RowScores:
        """Return the scores by which rows are drawn."""
        return self.row_scores_at(block, *self.predictors(block))

    def row_scores_at(self, block: WeightedData, eta: FloatArray, squares: FloatArray) -> RowScores:
        """Return the same, given the rows' predictors and squared lengths."""
        return RowScores(*score_rows(eta, block.y, squares, block.weights, self.family))

    def pulls(self, block: WeightedData) -> FloatArray:
        r"""Return each row's part of the mean's distance from the mode, in posterior sds, shape (D, n).

        To second order E[theta] - mode = L sum_n w_n l'''_n |x_n L|^2 (x_n L) / 2 (Tierney and Kadane 1986).
        """
        return np.asarray(self.row_scores(block).third * (csr_if_sparse(block.X) @ self.factor).T)


def _squared_lengths(X: FloatArray, factor: FloatArray) -> FloatArray:
    """Return abs(xL)^2 of rows, shape (n,), by BLAS: half the work for a lower triangular L, less for rows of zeros."""
    triangular, L = not np.triu(factor, 1).any(), np.asfortranarray(factor)
    out = np.empty(len(X))
    for start in range(0, len(X), _STRETCH):
        rows = X[start : start + _STRETCH]
        few = csr_if_sparse(rows)
        by_blas = triangular and not issparse(few)
        white = dtrmm(1.0, L, rows.T, lower=1, trans_a=1).T if by_blas else few @ factor
        out[start : start + _STRETCH] = np.vecdot(white, white)
    return out


MOVED = "to the mode and curvature of all rows"  # attribute "moved" of draws that were


class StaysError(Exception):
    """Draws stay where they are; the message says why."""


def shortfall_of(rows: WeightedData, point: FloatArray, full: Derivatives, family: Family) -> Shortfall:
    """Return what rows miss at a point of the full data's log-likelihood, whose derivatives there are `full`."""
    left = full - likelihood_terms(point, rows, family)
    return Shortfall(point, left.gradient, 0.5 * (left.precision + left.precision.T))


def missed_terms(missed: Shortfall, beta: FloatArray) -> Derivatives:
    """Return the quadratic of a shortfall at coefficients, with its derivatives."""
    return Derivatives(float(missed.value(beta)), missed.at(beta).score, missed.precision)


def left_over(
    core: Coreset, family: Family, prior: Prior, draws: FloatArray, transport: Transport
) -> tuple[float, float]:
    """Return sds, in nats, of the log ratio to the full data's posterior of draws, shape (S, D): as drawn, and moved.

    They are those of log importance weights, if the quadratic Q were all that the coreset misses. Of normal posteriors
    nothing is left. Much is left where draws lie so far out that mode and curvature say little of them.
    """
    missed, moved = core.shortfall, transport(draws)
    assert missed is not None
    at_moved, at_draws = (log_likelihoods(each, core, family) + prior.log_density(each) for each in (moved, draws))
    return float(missed.value(draws).std()), float((at_moved + missed.value(moved) - at_draws).std())


def to_full(core: WeightedData, family: Family, prior: Prior) -> Transport:
    """Return the map of draws of a coreset's posterior, or raise `StaysError`."""
    known = core.shortfall if isinstance(core, Coreset) else None
    if known is None:
        raise StaysError(_unknown(core))
    if isinstance(core, Coreset) and core.family != family.name:
        raise StaysError("the coreset was built for another family")
    if not (prior.closed_form and prior.smooth):
        raise StaysError("the prior has no curvature in closed form")
    target = posterior(core, family, prior)

    def terms(beta: FloatArray) -> Derivatives:
        return target.terms(beta) + missed_terms(known, beta)

    try:
        own = find_mode(target.terms, known.point, max_steps=100)
        full = find_mode(terms, known.point, max_steps=100)
        return Transport.between(own.beta, own.terms.precision, full.beta, full.terms.precision)
    except (NoModeError, DataError):
        raise StaysError("the curvature of all rows is not positive definite near the mode") from None


def _unknown(core: WeightedData) -> str:
    if isinstance(core, Coreset) and core.lossless:
        return "the coreset has all rows"
    if core.pseudo.any():
        return "pseudo-rows meet score and curvature on average over the posterior, and not at the mode"
    return "the coreset does not know the score and curvature of all rows"


EQUAL_SHARE = 0.1  # of the probabilities, for rows that move only far out


SAMPLE_ROWS = 20_000  # beyond that a pass over all rows is dearer only where there are many


SAMPLE_ENTRIES = 4_000_000  # of the sample, 32 MB


LEAST_ROWS = 2000  # of the sample, 200 of them by equal shares: enough to tell its own standard error


WIDE_ROWS = 5000  # of the sample, however wide: 20 MB at 500 columns


_CACHE = 1 << 17  # entries of a tile of rows: 1 MB


def sample_rows(reach: float, error: float, n_features: int) -> int:
    """Return how many rows a sample needs for half of a standard error, if their reaches add up to `reach`.

    The remainder of a row is about its reach times xi^3, xi standard normal, so that m rows have the standard error
    sqrt(15 / m) times the sum of all reaches: 15 is the variance of xi^3. Where rows do not behave so, the standard
    error of the sample itself decides. The result is at least `LEAST_ROWS`, and at most `SAMPLE_ROWS`, or `WIDE_ROWS`
    where rows are wide.
    """
    return int(min(largest_sample(n_features), max(LEAST_ROWS, 15.0 * (2.0 * reach / error) ** 2)))


def largest_sample(n_features: int) -> int:
    """Return the most rows that a sample of rows with so many columns has."""
    return max(WIDE_ROWS, min(SAMPLE_ROWS, SAMPLE_ENTRIES // n_features))


class Estimate(NamedTuple):
    """Values at draws, shape (S,), up to a constant, and the standard error of their differences."""

    values: FloatArray
    error: float


@dataclass(frozen=True, eq=False)
class Expansion:
    """The log-likelihood of many rows to second order at a point, and a sample of them for what is left.

    `part` is of all rows at `at`; the sample has weights w / pi, with pi = `inclusion`.
    """

    family: Family
    at: FloatArray
    part: Derivatives
    rows: WeightedData
    inclusion: FloatArray

    def at_draws(self, draws: FloatArray, most: float = math.inf) -> Estimate:
        """Return the log-likelihood of all rows at draws, shape (S, D), and its standard error, inf if above `most`.

        The error is the RMS standard error, over draws, of the centred log-likelihood; it bounds the RMS error, over
        samples, of the mean of any unit-variance function of the draws.
        """
        moves = draws - self.at
        part = self.part
        values = part.value + moves @ part.gradient - 0.5 * ((moves @ part.precision) * moves).sum(axis=1)
        columns = np.ascontiguousarray(moves.T)

        def predictors(rows: WeightedData) -> tuple[FloatArray, FloatArray]:
            return rows.with_offset(rows.X @ self.at), rows.X @ columns

        return with_remainders(values, self.rows, self.inclusion, self.family, predictors, most=most)


def with_remainders(
    values: FloatArray,
    sample: WeightedData,
    inclusion: FloatArray,
    family: Family,
    predictors: Callable[[WeightedData], tuple[FloatArray, FloatArray]],
    *,
    most: float = math.inf,
) -> Estimate:
    """Return values to second order at draws, shape (S,), and what rows are beyond, from a sample of weights w / pi.

    ``predictors(rows)`` gives the rows' predictors at the point, shape (n,), and how draws move them, shape (n, S). As
    soon as the standard error is above `most` the rest of the sample is left out, and the error is infinite.
    """
    variance, step = 0.0, max(1, _CACHE // len(values))
    for start in range(0, len(sample), step):
        cut = slice(start, start + step)
        rows = sample.take(cut)
        eta, rest = predictors(rows)
        remainders_near(eta, rows.y, family, rest)
        w = rows.weights
        values = values + w @ rest
        variance += float((w**2 * (1.0 - inclusion[cut])) @ moments_over_draws(rest)[1])
        if variance > most**2:
            return Estimate(values, math.inf)
    return Estimate(values, float(np.sqrt(variance)))
