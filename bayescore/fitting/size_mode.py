r"""About where the number of a family is, before any fit at it: the mode of coefficients and theta, its logarithm.

Newton's method in theta, along the mode of coefficients given theta. With P the precision of coefficients there, and t
the slope of their score in theta, that mode moves by P^-1 t, and the log density along it bends by

.. math:: - \frac{d^2 \ell}{d\theta^2} - t' P^{-1} t + \frac{1}{s^2},

s the sd of theta's prior: one over the variance of theta in the normal approximation. Slopes of coefficients are
differences, and rows may be a sample.
"""

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from bayescore.families.family import LARGEST_SIZE, SIZE_PRIOR_SD, Varying
from bayescore.models.laplace import find_mode
from bayescore.models.posterior import likelihood_terms, posterior
from bayescore.models.predictor import Predictor
from bayescore.priors import Prior
from bayescore.types import FloatArray, WeightedData, stack

FARTHEST = math.log(LARGEST_SIZE) - 0.1  # from 0, of theta
STEP = 0.05  # of theta, for a second difference

_TURNS = 12
_NEAR = 1e-3  # sds from the mode of coefficients
_STRAIGHT = 0.02  # steps of theta after which Newton's method has arrived


class SizeMode(NamedTuple):
    """The mode: theta, coefficients, and the sd of theta."""

    log_size: float
    beta: FloatArray
    sd: float


def size_mode(
    rows: WeightedData, events: FloatArray, kind: type[Varying], prior: Prior, start: SizeMode | None = None
) -> SizeMode:
    """Return about the mode given rows of counts, or other numbers, and their events; raise if there is none."""
    sides = stack([rows, replace(rows, y=np.ones(len(rows), dtype=np.int8), weights=events)])
    y = events / rows.weights
    theta, beta, sd = start or _beginning(rows, sides, y, kind, prior)
    for _ in range(_TURNS):
        below, here, above = (kind(math.exp(theta + move)) for move in (-STEP, 0.0, STEP))
        mode = find_mode(posterior(sides, here, prior).terms, beta, tolerance=_NEAR)
        eta = Predictor(mode.beta[None]).eta(rows)
        slopes = [float(family.size_slopes(eta, y, rows.weights)[0]) for family in (below, here, above)]
        low, high = (likelihood_terms(mode.beta, sides, family).gradient for family in (below, above))
        tilt = (high - low) / (2.0 * STEP)
        along = mode.covariance @ tilt
        bend = (slopes[0] - slopes[2]) / (2.0 * STEP) - float(tilt @ along)
        sd = 1.0 / math.sqrt(max(bend, 0.0) + SIZE_PRIOR_SD**-2)
        move = float(np.clip((slopes[1] + here.prior_slope(theta)) * sd**2, -1.0, 1.0))
        theta, beta = float(np.clip(theta + move, -FARTHEST, FARTHEST)), mode.beta + move * along
        if abs(move) <= max(sd, _STRAIGHT):
            break
    return SizeMode(theta, beta, sd)


def _beginning(rows: WeightedData, sides: WeightedData, y: FloatArray, kind: type[Varying], prior: Prior) -> SizeMode:
    """Return the mode of coefficients given the size 1, and the size that is most likely at their means."""
    family = kind(1.0)
    beta = find_mode(posterior(sides, family, prior).terms, np.zeros(rows.n_features), tolerance=_NEAR).beta
    size = family.most_likely(y, np.exp(Predictor(beta[None]).eta(rows)[:, 0]))
    top = LARGEST_SIZE if kind.amounts else 10.0 * max(float(y.mean()), 1.0)
    at = math.log(top if size is None else min(size, top))  # of counts like Poisson's no more is known
    return SizeMode(float(np.clip(at, -FARTHEST, FARTHEST)), beta, SIZE_PRIOR_SD)
