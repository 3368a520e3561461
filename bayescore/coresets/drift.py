r"""The error of calibrated rows once the mode has moved, estimated from the rows themselves.

Rows calibrated at a point a meet the totals x there (score, curvature, ...) of all rows that they stand for. At another
point theta their score is off by what the totals at a do not determine. With e_n the residuals of the rows' weighted
scores y_n at theta, regressed on their shares x_n in the totals, the covariance of that error is about

.. math:: E = \sum_n \frac{e_n e_n'}{(1 - h_n) (1 - \bar h)}, \qquad e_n = y_n - \hat B x_n,

much as the jackknife's variance of the generalised regression estimator of survey sampling (Deville and Sarndal 1992,
section 3; MacKinnon and White 1985, HC3). Rows are regressed in units of their size, and h_n are their leverages there.
A second factor 1 - h_n is replaced by its mean, as in generalised cross-validation: rows that alone hold up some total,
h_n near 1, would make it useless. Identical rows count as one: they say nothing about what others would.

Children of a node that were calibrated at the same point have weights half as large, and each a fourth of its variance.
What came from earlier points is carried, and grows as the node's own rows say that it would have.

The mode that the rows give is then off by about H^-1 times an error of the score with covariance E.

What pseudo-rows miss once the mode has moved: a share of how far their own score has moved beyond second order.

Pseudo-rows S of rows B meet their score and curvature, averaged about a point a, so that at another point theta their
score is off by what is left of third order and above. The rows are gone by then. So when they are condensed,
d = grad L_S - grad L_B is found at draws of N(a, C), as far off as the mode of more such rows may come to lie. So is
the remainder rho(theta) = grad L_S(theta) - grad L_S(a) + H_S (theta - a) of the pseudo-rows themselves. Later on

.. math:: E(\theta) = \frac{\mathrm E\, d d'}{\mathrm E\, \|L' \rho\|^2}\, \|L' \rho(\theta)\|^2, \qquad LL' = C,

is taken for the covariance of the error at theta: as large a share of a remainder as it was then. Pseudo-rows miss what
they miss of all leaves alike, so that errors of nodes add up, and not their squares (`merge_reduce`).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from bayescore.coresets.calibration import Totals
from bayescore.families import Family
from bayescore.models.laplace import LaplaceApproximation, Mode, find_mode, upper_factor_of_inverse
from bayescore.models.modes import search_start
from bayescore.models.posterior import Derivatives, likelihood_terms, posterior, prior_part, score
from bayescore.priors import Prior
from bayescore.types import FloatArray, IntArray, WeightedData

_RANK = 1e-10  # of singular values, below which totals are sums of others: marginal curvatures are where the forms are


_ALONE = 1e-6  # least 1 - h: a row that alone has a share in some total fits it, and rounding must not count


@dataclass(frozen=True, eq=False)
class CarriedError:
    """Covariance, shape (D, D), of the error at `at` of the score of rows calibrated at `anchor`, shapes (D,)."""

    anchor: FloatArray
    at: FloatArray
    covariance: FloatArray


def scale_at(
    rows: WeightedData, theta: FloatArray, family: Family, prior: Prior
) -> tuple[LaplaceApproximation, Derivatives]:
    """Return the scale in which the posterior of `rows` is round at theta, and the terms of their log-likelihood."""
    part = likelihood_terms(theta, rows, family)
    return LaplaceApproximation(
        family, theta, upper_factor_of_inverse((part + prior_part(theta, prior)).precision)
    ), part


def mode_of(rows: WeightedData, family: Family, prior: Prior) -> Mode:
    """Return the mode of the posterior of rows, to 0.01 sd: where rows meet totals that are kept as they are."""
    target = posterior(rows, family, prior)
    return find_mode(target.terms, search_start(rows, target.family), tolerance=0.01)


def score_covariance(
    rows: WeightedData, anchor: FloatArray, theta: FloatArray, family: Family, prior: Prior
) -> FloatArray:
    """Return the covariance, shape (D, D), of the error at theta of the score of rows calibrated at `anchor`.

    NaN where there are too few rows to tell.
    """
    D = rows.n_features
    laplace, part = scale_at(rows, anchor, family, prior)
    shares = Totals.at(laplace, part, len(rows)).shares(rows)
    scores = (rows.weights * family.score(rows.with_offset(rows.X @ theta), rows.y))[:, None] * rows.X
    offset = [] if rows.offset is None else [rows.y * rows.offset]
    columns = np.column_stack([rows.Z, *offset, *([] if family.symmetric else [rows.y])])
    _, group = np.unique(columns, axis=0, return_inverse=True)
    m = int(group.max()) + 1
    others = len(shares.stacked()) - len(shares.forms)
    used = min(len(shares.forms), m // 2 - others)  # as many of the forms as leave half of the rows to tell
    if used < 0:
        return np.full((D, D), np.nan)
    x = shares._replace(forms=shares.forms[:used]).stacked().T
    if m < len(rows):
        x, scores = _summed(x, group.ravel(), m), _summed(scores, group.ravel(), m)
    x = x / np.maximum(np.abs(x).max(axis=0), np.finfo(float).tiny)
    size = np.maximum(np.sqrt((x * x).mean(axis=1)), np.finfo(float).tiny)[:, None]
    basis = linalg.orth(x / size, rcond=_RANK)
    leverage = (basis * basis).sum(axis=1)
    residuals = scores - size * (basis @ (basis.T @ (scores / size)))
    left = np.maximum(1.0 - leverage, _ALONE) * (1.0 - leverage.mean())
    return np.asarray((residuals / left[:, None]).T @ residuals)


def score_error_of_rows(
    rows: WeightedData, family: Family, prior: Prior
) -> Callable[[FloatArray, FloatArray], FloatArray]:
    """Return `score_covariance` of rows, as a function of where they were calibrated and of the other point."""
    return lambda anchor, theta: score_covariance(rows, anchor, theta, family, prior)


def _summed(values: FloatArray, group: IntArray, n_groups: int) -> FloatArray:
    """Return the sums of rows over groups, shape (n_groups, ...)."""
    total = np.zeros((n_groups, values.shape[1]))
    np.add.at(total, group, values)
    return total


def errors_at(
    theta: FloatArray,
    anchor: FloatArray,
    share: float,
    carried: Iterable[CarriedError],
    *,
    missed: Callable[[FloatArray, FloatArray], FloatArray],
    scale: FloatArray,
) -> tuple[CarriedError, ...]:
    """Return the errors of a node's score at theta: of its own calibration, `share` times, and of earlier ones.

    Its rows were calibrated at `anchor`, and miss `missed` elsewhere; `carried` is what it has of earlier points, and
    `scale`, shape (D, D), that in which the posterior of its rows is round at theta.
    """

    def size(at: FloatArray, point: FloatArray) -> float:
        return float(np.trace(scale.T @ missed(at, point) @ scale))

    errors = []
    if share > 0.0 and not np.array_equal(anchor, theta):
        errors.append(CarriedError(anchor, theta, share * missed(anchor, theta)))
    for part in carried:
        if np.array_equal(part.at, theta):
            errors.append(part)
            continue
        growth = size(part.anchor, theta) / max(size(part.anchor, part.at), 1e-300)
        errors.append(CarriedError(part.anchor, theta, part.covariance * min(max(growth, 1.0), 1e4)))
    return tuple(errors)


def add_by_anchor(parts: Iterable[CarriedError]) -> tuple[CarriedError, ...]:
    """Add up errors at one point that have an anchor in common."""
    by_anchor: dict[bytes, CarriedError] = {}
    for part in parts:
        key = part.anchor.tobytes()
        before = by_anchor.get(key)
        total = part.covariance if before is None else before.covariance + part.covariance
        by_anchor[key] = CarriedError(part.anchor, part.at, total)
    return tuple(by_anchor.values())


def mode_error(parts: Iterable[CarriedError], precision: FloatArray) -> float:
    """Return two standard errors of the worst coordinate of the mode, in posterior sds; 0 without errors."""
    factor = upper_factor_of_inverse(precision)
    inverse = factor @ factor.T
    total = sum((part.covariance for part in parts), np.zeros_like(precision))
    variance = np.diagonal(inverse @ total @ inverse) / np.diagonal(inverse)
    return 2.0 * float(np.sqrt(np.maximum(variance, 0.0).max()))


PROBES = 32  # draws: standard errors are known to 12%


def _remainders(rows: WeightedData, at: FloatArray, points: FloatArray, family: Family) -> FloatArray:
    """Return what the score at points, shape (S, D), is beyond first order about `at`."""
    terms = likelihood_terms(at, rows, family)
    return score(points, rows, family) - terms.gradient + (points - at) @ terms.precision


def remainder_loss(
    pseudo: WeightedData, rows: WeightedData, at: FloatArray, factor: FloatArray, family: Family
) -> tuple[FloatArray, float]:
    """Return the error of the score of pseudo-rows, (D, D), per unit of their whitened remainder's square.

    And the root mean square of the whitened score that they miss about `at`. `factor` is L of N(at, LL'), shape (D, D).
    """
    draws = at + np.random.default_rng(0).standard_normal((PROBES, len(at))) @ factor.T
    missed = score(draws, pseudo, family) - score(draws, rows, family)
    remainder = _remainders(pseudo, at, draws, family) @ factor
    size = max(float((remainder**2).sum()), float(np.finfo(float).tiny))
    return missed.T @ missed / size, float(np.sqrt(((missed @ factor) ** 2).mean()))


def score_error_of_pseudo_rows(
    rows: WeightedData, family: Family, prior: Prior, lost: FloatArray | None
) -> Callable[[FloatArray, FloatArray], FloatArray]:
    """Return the covariance of the error at the second point of rows condensed at the first.

    Of rows that lost nothing themselves, and carry what others did, only its size relative to other points counts.
    """

    def missed(at: FloatArray, point: FloatArray) -> FloatArray:
        laplace, part = scale_at(rows, at, family, prior)
        size = float(((_remainders(rows, at, point[None], family) @ laplace.factor) ** 2).sum())
        return size * (part.precision if lost is None else lost)

    return missed
