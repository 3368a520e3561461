r"""What pseudo-rows miss once the mode has moved: a share of how far their own score has moved beyond second order.

Pseudo-rows S of rows B meet their score and curvature, averaged about a point a, so that at another point theta their
score is off by what is left of third order and above. The rows are gone by then. So when they are condensed,
d = grad L_S - grad L_B is found at draws of N(a, C), as far off as the mode of more such rows may come to lie. So is
the remainder rho(theta) = grad L_S(theta) - grad L_S(a) + H_S (theta - a) of the pseudo-rows themselves. Later on

.. math:: E(\theta) = \frac{\mathrm E\, d d'}{\mathrm E\, \|L' \rho\|^2}\, \|L' \rho(\theta)\|^2, \qquad LL' = C,

is taken for the covariance of the error at theta: as large a share of a remainder as it was then. Pseudo-rows miss what
they miss of all leaves alike, so that errors of nodes add up, and not their squares (`trees.tree`).
"""

from collections.abc import Callable

import numpy as np

from bayescore.coresets.calibration.drift import scale_at
from bayescore.models.families import Family
from bayescore.models.posterior import likelihood_terms
from bayescore.models.prior_ratio import score
from bayescore.models.priors import Prior
from bayescore.types import FloatArray, WeightedData

PROBES = 32  # draws: standard errors are known to 12%


def _remainders(rows: WeightedData, at: FloatArray, points: FloatArray, family: Family) -> FloatArray:
    """Return what the score at points, shape (S, D), is beyond first order about `at`."""
    here = likelihood_terms(at, rows, family)
    return score(points, rows, family) - here.gradient + (points - at) @ here.precision


def lost_by(
    pseudo: WeightedData, rows: WeightedData, at: FloatArray, factor: FloatArray, family: Family
) -> tuple[FloatArray, float]:
    """Return what pseudo-rows in place of `rows` lose for each unit of their whitened remainder's square, (D, D).

    And the root mean square of the whitened score that they miss about `at`. `factor` is L of N(at, LL'), shape (D, D).
    """
    draws = at + np.random.default_rng(0).standard_normal((PROBES, len(at))) @ factor.T
    missed = score(draws, pseudo, family) - score(draws, rows, family)
    remainder = _remainders(pseudo, at, draws, family) @ factor
    size = max(float((remainder**2).sum()), float(np.finfo(float).tiny))
    return missed.T @ missed / size, float(np.sqrt(((missed @ factor) ** 2).mean()))


def missed_by(
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
