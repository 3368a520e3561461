r"""The sds of smooth terms at their posterior mode, by Laplace's method, and the mode of the coefficients there.

With b the coefficients of a term's bends at the mode given sigma, V their covariance and K their number, the slope of
the log density of log sigma, coefficients integrated out, is about

.. math:: |b|^2 / \sigma^2 - \mathrm{edf} + p'(\log\sigma), \qquad \mathrm{edf} = K - \mathrm{tr}(V) / \sigma^2,

whose zero without the prior is the fixed point of Fellner and Schall; minus its own slope is about 2 edf.

Reference: Schall (1991), Estimation in generalized linear models with random effects, Biometrika 78; Wood and Fasiolo
(2017), A generalized Fellner-Schall method for smoothing parameter optimization, Biometrics 73.
"""

from collections.abc import Callable

import numpy as np

from bayescore.models.laplace import Mode, find_mode
from bayescore.models.posterior import Derivatives, prior_part
from bayescore.priors.groups import log_sigma_terms
from bayescore.priors.smooths import NU, Smooths
from bayescore.types import FloatArray

_FIRST = 0.2  # of the scale of its prior
_LEAST_EDF = 0.25  # by which steps are divided
_MOST = 1.0  # change of log sigma in a step
_NEAR = 0.02
_STEPS = 50


def smooth_mode(likelihood: Callable[[FloatArray], Derivatives], prior: Smooths) -> tuple[FloatArray, Mode]:
    """Return the sd of each term's bends, shape (J,), and the mode of the coefficients given these."""
    log_sds, beta = np.log([_FIRST * each.scale for each in prior.bends]), np.zeros(prior.n_features)
    for _ in range(_STEPS):
        given = prior.given(np.exp(log_sds))

        def terms(at: FloatArray) -> Derivatives:
            return likelihood(at) + prior_part(at, given)  # noqa: B023 - of this step

        mode = find_mode(terms, beta, tolerance=_NEAR)
        beta, steps = mode.beta, np.zeros(len(log_sds))
        for j, each in enumerate(prior.bends):
            at, variance = list(each.places), float(np.exp(2.0 * log_sds[j]))
            spread = float((np.diagonal(mode.covariance)[at] / np.square(each.scales)).sum())
            edf = len(at) - spread / variance
            _, slope, bend = log_sigma_terms(log_sds[j], NU, each.scale)
            slope += float(each.squares(beta)) / variance - edf
            steps[j] = np.clip(slope / (2.0 * max(edf, _LEAST_EDF) + bend), -_MOST, _MOST)
        if np.abs(steps).max() < _NEAR:
            break
        log_sds += steps
    return np.exp(log_sds), mode
