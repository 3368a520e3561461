r"""What calibrated rows miss once the mode has moved, estimated from the rows themselves.

Rows calibrated at a point a meet the totals x there (score, curvature, ...) of all rows that they stand for. At another
point theta their score is off by what the totals at a do not tell of it. With e_n the residuals of the rows' weighted
scores y_n at theta, regressed on their shares x_n in the totals, its covariance is about

.. math:: E = \frac{m}{m - q} \sum_n e_n e_n', \qquad e_n = y_n - \hat B x_n,

the variance of the generalised regression estimator of survey sampling, m rows and q totals (Deville and Sarndal 1992,
section 3). A node below has half as many rows behind each of its own, and a quarter of the variance; there are two, and
so on down: all levels that were calibrated at a have together twice that.

The mode that the rows give is then off by about H^-1 times an error of the score with covariance E.
"""

import numpy as np
from scipy import linalg

from bayescore.coresets.calibrated import shares_and_totals
from bayescore.coresets.pilot import Sums, Whitened
from bayescore.models.likelihoods import Logistic, Probit
from bayescore.models.posterior import Terms, likelihood_terms, prior_part
from bayescore.models.priors import Prior
from bayescore.types import FloatArray, WeightedData


def whitened(
    rows: WeightedData, theta: FloatArray, likelihood: Logistic | Probit, prior: Prior
) -> tuple[Whitened, Terms]:
    """Return the scale in which the posterior of `rows` is round at theta, and the terms of their log-likelihood."""
    part = likelihood_terms(theta, rows.Z, rows.weights, likelihood)
    covariance = linalg.inv((part + prior_part(theta, prior)).precision)
    factor = linalg.cholesky(0.5 * (covariance + covariance.T), lower=True)
    return Whitened(likelihood, theta, factor), part


def score_covariance(
    rows: WeightedData, anchor: FloatArray, theta: FloatArray, likelihood: Logistic | Probit, prior: Prior
) -> FloatArray:
    """Return the covariance, shape (D, D), of the error at theta of the score of rows that were calibrated at `anchor`.

    NaN where there are too few rows to tell.
    """
    white, part = whitened(rows, anchor, likelihood, prior)
    nothing = Sums(white, 1.0, 1.0, 1.0, 1.0, np.zeros(rows.n_features))
    shares, _ = shares_and_totals(rows, nothing, part, np.random.default_rng(0))
    q, m = shares.shape
    if m <= q:
        return np.full((rows.n_features, rows.n_features), np.nan)
    Z = rows.Z
    scores = (rows.weights * likelihood.score(Z @ theta))[:, None] * Z
    scale = np.maximum(np.abs(shares).max(axis=1), np.finfo(float).tiny)
    x = (shares / scale[:, None]).T
    residuals = scores - x @ linalg.lstsq(x, scores)[0]
    return np.asarray(2.0 * m / (m - q) * residuals.T @ residuals)


def mode_error(covariance: FloatArray, precision: FloatArray) -> float:
    """Return two standard errors of the worst coordinate of the mode, in posterior sds."""
    inverse = linalg.inv(precision)
    variance = np.diagonal(inverse @ covariance @ inverse) / np.diagonal(inverse)
    return 2.0 * float(np.sqrt(np.maximum(variance, 0.0).max()))
