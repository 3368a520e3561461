"""Mode of a log density by damped Newton steps, and the Laplace approximation there.

With a proper prior the mode is finite even where the data are separable and the maximum likelihood estimate
does not exist; without a prior, `find_mle` says so. The method only sees a function beta -> `Terms`, so a step may as
well be a pass over a file.
"""

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg

from bayescore.data.matching import check_flat, feature_names, own_family
from bayescore.models.families import check_family
from bayescore.models.posterior import Terms, likelihood_terms, posterior
from bayescore.models.priors import Prior, prior_of
from bayescore.types import FloatArray, WeightedData
from bayescore.validation import DataError

MLE_TOLERANCE = 1e-6  # standard errors
UNDAMPED = 1e-16  # of the largest curvature met, which may die away by ten orders of magnitude on the way to the mode


@dataclass(frozen=True, eq=False)
class Mode:
    """Mode of a log density and the normal approximation around it.

    Parameters
    ----------
    beta : array, shape (D,)
        The mode (MAP estimate).
    covariance : array, shape (D, D)
        Inverse of minus the Hessian there (Laplace approximation).
    terms : Terms
        Log density (not normalised), gradient and minus the Hessian there.
    decrement : float
        Newton decrement: distance left to the mode in posterior standard deviations.
    n_steps : int
        Evaluations of the density.
    """

    beta: FloatArray
    covariance: FloatArray
    terms: Terms
    decrement: float
    n_steps: int

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
    terms: Callable[[FloatArray], Terms],
    start: FloatArray,
    *,
    first: Terms | None = None,
    tolerance: float = 1e-8,
    max_steps: int = 500,
) -> Mode:
    """Climb to the mode of a log density.

    A step solves (H + mu S) step = gradient: mu is 0 while Newton's own steps succeed, and follows the ratio of actual
    to predicted gain where they do not (Levenberg-Marquardt); S is the largest diagonal of H met so far, so that
    directions whose curvature has died away far out do not run off.

    Parameters
    ----------
    terms : callable
        beta -> `Terms`.
    start : array, shape (D,)
        Where to begin.
    first : Terms, optional
        ``terms(start)`` where it is known already.
    tolerance : float
        Newton decrement to stop at.
    max_steps : int
        Evaluations of `terms` allowed.

    Raises
    ------
    NoModeError
        If the mode is not reached in `max_steps` evaluations.
    """
    beta = np.asarray(start, dtype=np.float64)
    here = terms(beta) if first is None else first
    scale = np.abs(np.diagonal(here.precision))
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


def _mode(beta: FloatArray, factor: tuple[FloatArray, bool], here: Terms, decrement: float, n_steps: int) -> Mode:
    covariance = linalg.cho_solve(factor, np.eye(len(beta)))
    return Mode(beta, 0.5 * (covariance + covariance.T), here, decrement, n_steps)


def cholesky_and_decrement(terms: Terms) -> tuple[tuple[FloatArray, bool] | None, float]:
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


def find_map(data: WeightedData, family: str | None = None, prior: Prior | Mapping[str, Prior] | None = None) -> Mode:
    """Return the MAP estimate of a weighted data set and the Laplace approximation of its posterior.

    Parameters
    ----------
    data : WeightedData
        A coreset or full data.
    family : str, optional
        Name of a registered likelihood, such as "logistic" or "probit"; by default the coreset's own.
    prior : prior or dict of str to prior, default Normal(0, 4)
        Any prior with a density in closed form, or priors by name, as in `sample`.

    Returns
    -------
    Mode

    Raises
    ------
    DataError
        If the rows have groups, whose effects would be left out.

    Notes
    -----
    The kink of the `Laplace` prior is rounded off, see `models.priors.laplace.LAPLACE_ROUNDING`. Where log p is not
    concave there may be several modes; this is the one that Newton's method reaches from 0.

    References
    ----------
    Moré (1978), The Levenberg-Marquardt algorithm: implementation and theory; Nielsen (1999), Damping parameter in
    Marquardt's method.

    Examples
    --------
    >>> import numpy as np, bayescore as bc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> y = X[:, 0] + rng.logistic(size=5000) > 0
    >>> full = bc.all_rows(X, y, progressbar=False)
    >>> mode = bc.find_map(full, prior=bc.priors.Normal(0, 2.5))
    >>> mode.beta.round(2), mode.sd.round(2)
    (array([ 1.02, -0.01]), array([0.04, 0.03]))
    """
    family = own_family(data, family)
    check_flat(data, "find_map")
    target = posterior(data, family, prior_of(prior, feature_names(data)), "the MAP estimate")
    return find_mode(target.terms, np.zeros(target.n_features))


def find_mle(data: WeightedData, family: str | None = None) -> Mode:
    r"""Return the maximum likelihood estimate of a weighted data set and its asymptotic covariance.

    .. math:: \hat\beta = \arg\max_\beta \sum_n w_n \log p(z_n \cdot \beta + y_n o_n)

    It exists if and only if no direction has z_n . direction >= 0 in all rows and > 0 in one. Where such a direction
    does exist the log-likelihood rises along it for ever; a warning then says so, and the coefficients returned are
    those at which the rise is lost in rounding: finite, but no estimate. This judges by the last Newton step;
    `separability` decides by a proof, and where rows overlap by angles below 1e-9 the two may differ. All this is so
    where log p is concave, as the logistic and the probit one are; under another likelihood what is found is a local
    maximum, and rows may be separated without a warning.

    Parameters
    ----------
    data : WeightedData
        A coreset or full data.
    family : str, optional
        Name of a registered likelihood, such as "logistic" or "probit"; by default the coreset's own.

    Returns
    -------
    Mode
        Where columns depend on each other many coefficients fit equally well: `beta` is the shortest of them once each
        column of sqrt(w) x has largest entry 1, and `covariance`, then singular, is that of what the data do tell.

    Raises
    ------
    DataError
        If all entries of X are 0, or the rows have groups, whose effects would be left out.
    NoModeError
        If the mode is not reached, as where a few rows all but fail to overlap.

    Warns
    -----
    UserWarning
        If the labels are separated: how, and how many rows move on.

    References
    ----------
    Albert and Anderson (1984), On the existence of maximum likelihood estimates in logistic regression models.

    Examples
    --------
    >>> import numpy as np, bayescore as bc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> y = X[:, 0] + rng.logistic(size=5000) > 0
    >>> full = bc.all_rows(X, y, progressbar=False)
    >>> bc.find_mle(full).beta.round(2)
    array([ 1.02, -0.01])
    """
    chosen = check_family(own_family(data, family))
    check_flat(data, "find_mle")
    basis = _span(data.X * np.sqrt(data.weights)[:, None])
    rows = np.ascontiguousarray(data.X) @ basis
    spanned = replace(data, X=rows)
    failure: NoModeError | None = None
    try:
        mode = find_mode(
            lambda beta: likelihood_terms(beta, spanned, chosen), np.zeros(rows.shape[1]), tolerance=MLE_TOLERANCE
        )
    except NoModeError as error:  # a long way to infinity, perhaps
        if error.reached is None:
            raise
        failure, mode = error, error.reached
    eta, rise = (data.y * (rows @ by) for by in (mode.beta, mode.covariance @ mode.terms.gradient))
    # near a maximum the next Newton step is nothing; towards infinity it adds 1 to the least eta that grows (logistic),
    # or 1 / eta (probit), without end. Of a row far out eta has a large sd and rises by some of that: by 6e-4 of itself
    # at most where labels overlap, by 0.01 or more where they do not
    growing = (rise > 0.05) & (rise > 3e-3 * np.abs(eta))
    if not growing[rise.argmax()] or rise.min() <= -1e-6 * rise.max():
        if failure is not None and not mode.decrement < 1e-3:
            raise failure
    else:
        how = "completely" if (eta > 0.0).all() else "quasi-completely"
        warnings.warn(
            f"the labels are {how} separated, the maximum likelihood estimate does not exist: of {len(eta)} rows "
            f"{int(growing.sum())} go ever farther to the side of their label, and the log-likelihood, now "
            f"{mode.terms.value:.3g}, rises for ever. The coefficients returned, with eta from {eta.min():.3g} to "
            f"{eta.max():.3g}, are merely where that is lost in rounding. Use find_map, which has a prior",
            UserWarning,
            stacklevel=2,
        )
    beta = basis @ mode.beta
    covariance = basis @ mode.covariance @ basis.T
    return replace(mode, beta=beta, covariance=covariance, terms=likelihood_terms(beta, data, chosen))


def _span(rows: FloatArray) -> FloatArray:
    """Return B, shape (D, r), r the rank, such that the columns of `rows` B are orthonormal."""
    scale = np.abs(rows).max(axis=0)
    if not scale.any():
        raise DataError("all entries of X are 0: the likelihood does not depend on the coefficients; check the columns")
    scale[scale == 0.0] = 1.0
    _, values, directions = np.linalg.svd(np.linalg.qr(rows / scale, mode="r"))
    rank = int((values > 1e-12 * values[0]).sum())
    return np.asarray(directions[:rank].T / values[:rank] / scale[:, None])
