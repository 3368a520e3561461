r"""The sds of smooth terms at their posterior mode, by Laplace's method, and the mode of the coefficients there.

With b the coefficients of a term's bends at the mode given sigma, V their covariance and K their number, the slope of
the log density of log sigma, coefficients integrated out, is about

.. math:: |b|^2 / \sigma^2 - \mathrm{edf} + p'(\log\sigma), \qquad \mathrm{edf} = K - \mathrm{tr}(V) / \sigma^2,

whose zero without the prior is the fixed point of Fellner and Schall; minus its own slope is about 2 edf.

Reference: Schall (1991), Estimation in generalized linear models with random effects, Biometrika 78; Wood and Fasiolo
(2017), A generalized Fellner-Schall method for smoothing parameter optimization, Biometrics 73.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bayescore.models.laplace import Mode, find_mode
from bayescore.models.posterior import Derivatives, prior_part
from bayescore.priors.groups import log_sigma_terms
from bayescore.priors.smooths import Smooths
from bayescore.types import FloatArray

_FIRST = 0.2  # of the scale of its prior
_LEAST_EDF = 0.25  # by which steps are divided
_MOST = 1.0  # change of log sigma in a step
_NEAR = 0.02
_STEPS = 50


class SmoothMode(NamedTuple):
    """The sd of each term's bends at the mode of its logarithm, the sd of that, shape (J,) each, and the mode there."""

    sigmas: FloatArray
    log_sigma_sds: FloatArray
    coefficients: Mode


def smooth_mode(likelihood: Callable[[FloatArray], Derivatives], prior: Smooths) -> SmoothMode:
    """Return the mode of each log sigma, coefficients integrated out, and that of the coefficients there."""
    log_sigmas, beta = np.log([_FIRST * each.scale for each in prior.bends]), np.zeros(prior.n_features)
    slopes, bends = np.empty_like(log_sigmas), np.empty_like(log_sigmas)
    for _ in range(_STEPS):
        given = prior.given(np.exp(log_sigmas))

        def terms(at: FloatArray) -> Derivatives:
            return likelihood(at) + prior_part(at, given)  # noqa: B023 - of this step

        mode = find_mode(terms, beta, tolerance=_NEAR)
        beta = mode.beta
        for j, each in enumerate(prior.bends):
            at, variance = list(each.places), float(np.exp(2.0 * log_sigmas[j]))
            spread = float((np.diagonal(mode.covariance)[at] / np.square(each.scales)).sum())
            edf = len(at) - spread / variance
            _, slope, bend = log_sigma_terms(log_sigmas[j], each.nu, each.scale)
            slopes[j] = float(each.squares(beta)) / variance - edf + slope
            bends[j] = 2.0 * max(edf, _LEAST_EDF) + bend
        steps = np.clip(slopes / bends, -_MOST, _MOST)
        if np.abs(steps).max() < _NEAR:
            break
        log_sigmas += steps
    return SmoothMode(np.exp(log_sigmas), 1.0 / np.sqrt(bends), mode)
