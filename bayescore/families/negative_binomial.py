r"""The negative binomial likelihood of counts, log link: mean t = exp(eta), variance t + t^2 / r, r the size.

.. math:: \log P(y) = y \, \ell_+(\eta) + \ell_-(\eta) + \log\Gamma(y + r) - \log\Gamma(r) - \log y!

The two sides are those of a logistic row at x = eta - log r, that of failures weighed by r,

.. math:: \ell_+ = -\log(1 + e^{-x}), \qquad \ell_- = -r \log(1 + e^x).

A count is a Poisson one whose rate varies by a gamma distribution with mean 1 and variance 1 / r: counts of rows that
share their columns differ by more than chance. Without bound of r it is the Poisson distribution. Coefficients are log
ratios of means. A row's exposure E is log(E) as its offset: no weight of a side would be one.

Pseudo-rows average over eta alone, so that a coreset is of a given r. Where r is a parameter, `fitting.size` makes fits
at some r; the posterior between these needs the slope of all rows' log-likelihood in log r,

.. math:: \frac{d \log P(y)}{d \log r} = r \Bigl[\psi(y + r) - \psi(r) - \log(1 + t / r) + \frac{t - y}{r + t}\Bigr].

Hilbe (2011), Negative Binomial Regression, 2nd edition.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from bayescore.compiled import jit, jit_inner
from bayescore.data.passes import TILE
from bayescore.families.family import LARGEST_SIZE, Varying
from bayescore.families.logistic import Logistic, logistic_derivatives, logistic_higher, logistic_rows, logistic_upper
from bayescore.families.poisson import LARGEST
from bayescore.numerics.elementary import REACH
from bayescore.types import FloatArray

_SMALLEST_LOG_SIZE = -14.0  # of a size that is sought; rows of counts as rare as that have no two events
_POISSON = 1e3  # sizes over the largest mean from which all variances are Poisson's but for a thousandth
_LOGISTIC = Logistic()


@jit_inner
def negative_binomial_rows(eta: FloatArray, side: FloatArray, log_p: FloatArray, size: float) -> None:
    """Write l of each row's side, and replace eta by the score."""
    eta -= math.log(size)
    logistic_rows(eta, side, log_p)
    for n in range(eta.size):
        factor = size if side[n] < 0.0 else 1.0
        log_p[n] *= factor
        eta[n] *= factor


@jit_inner
def negative_binomial_derivatives(
    eta: FloatArray, side: FloatArray, out: FloatArray, scratch: FloatArray, size: float
) -> None:
    """Write l, s, c and l''' at eta, shape (TILE,), to the rows of `out`; scratch has 3 rows."""
    x, shift = scratch[2], math.log(size)
    for lane in range(TILE):
        x[lane] = eta[lane] - shift
    logistic_derivatives(x, side, out, scratch)
    for k in range(4):
        for lane in range(TILE):
            out[k, lane] *= size if side[lane] < 0.0 else 1.0


@jit_inner
def negative_binomial_higher(
    eta: FloatArray, side: FloatArray, terms: FloatArray, out: FloatArray, size: float
) -> None:
    """Write the fourth and fifth derivative of l to the rows of `out`; `terms` has those before."""
    own = np.empty((4, TILE))
    for k in range(2, 4):
        for lane in range(TILE):
            own[k, lane] = terms[k, lane] / (size if side[lane] < 0.0 else 1.0)
    logistic_higher(eta, side, own, out)
    for k in range(2):
        for lane in range(TILE):
            out[k, lane] *= size if side[lane] < 0.0 else 1.0


@jit
def add_size_slopes(eta: FloatArray, events: FloatArray, weights: FloatArray, size: float, total: FloatArray) -> None:
    """Add to `total`, shape (S,), the slopes in log r of both sides of rows, weighed, at predictors of shape (n, S)."""
    shift, n_draws = math.log(size), eta.shape[1]
    share, log_p = np.empty(n_draws), np.empty(n_draws)
    for n in range(eta.shape[0]):
        y, r = weights[n] * events[n], weights[n] * size
        for s in range(n_draws):
            share[s] = shift - eta[n, s]
        logistic_upper(share, log_p)  # now t / (r + t), and log(r / (r + t))
        for s in range(n_draws):
            total[s] += r * (log_p[s] + share[s]) - y * (1.0 - share[s])


@dataclass(frozen=True)
class NegativeBinomial(Varying):
    r"""Negative binomial counts with a log link: E(y | x) = t = exp(x . beta), Var(y | x) = t + t^2 / size.

    .. math:: P(y) = \frac{\Gamma(y + r)}{\Gamma(r)\, y!} \Bigl(\frac{r}{r + t}\Bigr)^r \Bigl(\frac{t}{r + t}\Bigr)^y

    Parameters
    ----------
    size : float, optional
        The size r, also called shape, theta or 1 / alpha: the smaller it is, the more counts spread. Without it `fit`
        has it as a parameter, `size`, with the prior log r ~ N(0, 2^2); a coreset by hand needs it.

    Raises
    ------
    ValueError, TypeError
        If `size` is not a number above 0 and below 1e7, beyond which counts are Poisson's.

    Examples
    --------
    >>> import numpy as np, bayescore as bc
    >>> family = bc.families.NegativeBinomial(2.5)
    >>> family.mean(np.array([0.0, 1.0])).round(2), family.variance(np.array([0.0, 1.0])).round(2)
    (array([1.  , 2.72]), array([1.4 , 5.67]))
    >>> bc.build_coreset(np.ones((6, 1)), [0, 1, 0, 7, 2, 0], family=family, progressbar=False).family
    'negative_binomial(2.5)'
    """

    kind = "negative_binomial"
    parameter = "size"
    meaning = "variance = mean + mean^2 / size"
    beyond = ": such counts are Poisson's; give family='poisson'"
    rows = staticmethod(negative_binomial_rows)
    derivatives = staticmethod(negative_binomial_derivatives)
    higher = staticmethod(negative_binomial_higher)
    counts = True
    reach = REACH
    scale = "log mean"
    ratio = "rate ratio"

    @property
    def near(self) -> float:  # type: ignore[override]
        """Moves up to which the series holds: the sixth derivative is at most r / 4, or 1 / 4."""
        return float(_LOGISTIC.near * max(1.0, self.size) ** (-1.0 / 6.0))

    @property
    def center(self) -> Any:  # type: ignore[override]
        """The logarithm of r."""
        return math.log(self.size) if isinstance(self.size, float) else np.log(self.size)

    def log_p(self, eta: FloatArray, side: Any) -> FloatArray:
        """Return log(t / (r + t)) of the count's side, r log(r / (r + t)) of the other."""
        return self._of_logistic("log_p", eta, side)

    def score(self, eta: FloatArray, side: Any) -> FloatArray:
        """Return r / (r + t) of the count's side, -r t / (r + t) of the other."""
        return self._of_logistic("score", eta, side)

    def curvature(self, eta: FloatArray, side: Any) -> FloatArray:
        """Return r t / (r + t)^2 of the count's side, r times that of the other."""
        return self._of_logistic("curvature", eta, side)

    def third(self, eta: FloatArray, side: Any) -> FloatArray:
        """Return r t (t - r) / (r + t)^3 of the count's side, r times that of the other."""
        return self._of_logistic("third", eta, side)

    def _of_logistic(self, part: str, eta: FloatArray, side: Any) -> FloatArray:
        x = np.asarray(eta, dtype=np.float64) - self.center
        return np.asarray(getattr(_LOGISTIC, part)(x, side) * np.where(np.asarray(side) < 0, self.size, 1.0))

    def variance(self, eta: FloatArray) -> FloatArray:
        """Return t + t^2 / r."""
        t = self.mean(eta)
        return t + t * (t / self.size)

    def excess_kurtosis(self, eta: FloatArray) -> FloatArray:
        """Return 6 / r + 1 / variance."""
        return 6.0 / self.size + 1.0 / self.variance(eta)

    def log_constant(self, events: FloatArray, exposure: FloatArray) -> FloatArray:
        """Return log Gamma(y + r) - log Gamma(r) - log y!, with r times the exposure in the place of r.

        An exposure other than 1 is that of a sum of counts that share eta.
        """
        size = self.size * np.asarray(exposure)
        return np.asarray(special.gammaln(events + size) - special.gammaln(size) - special.gammaln(events + 1.0))

    def size_slopes(self, eta: FloatArray, events: FloatArray, weights: FloatArray) -> FloatArray:
        """Return the slope in log r of the log-likelihood of n counts at predictors of shape (n, S), shape (S,)."""
        counts, places = np.unique(events, return_inverse=True)
        rises = special.digamma(counts + self.size) - special.digamma(self.size)
        total = np.full(eta.shape[1], self.size * float(np.bincount(places, weights) @ rises))
        add_size_slopes(eta, events, weights, self.size, total)
        return total

    def most_likely(self, events: FloatArray, expected: FloatArray) -> float | None:
        """Return the size that is most likely at given means; None where Poisson's limit is."""
        return most_likely_size(events, expected)

    def draw(self, eta: FloatArray, rng: np.random.Generator, exposure: Any = 1.0) -> FloatArray:
        """Return counts drawn at eta; with an exposure, sums of so many counts."""
        rate = self.mean(eta) * (rng.standard_gamma(self.size * np.broadcast_to(exposure, np.shape(eta))) / self.size)
        return np.asarray(rng.poisson(np.minimum(rate, LARGEST)), dtype=np.float64)

    def log_p_graph(self, eta: Any, side: Any) -> Any:
        """Return `log_p` as a PyTensor expression."""
        import pytensor.tensor as pt

        x = eta - self.center
        return pt.switch(pt.lt(side, 0.0), -self.size * pt.softplus(x), -pt.softplus(-x))


def most_likely_size(events: FloatArray, expected: FloatArray) -> float | None:
    """Return the size of the negative binomial that is most likely at given means; None where Poisson's limit is.

    The likelihood may have more than one maximum, so that the logarithms of sizes are gone through in steps of 1 before
    the largest is refined.
    """
    from scipy import optimize

    top = float(expected.max())
    if not (math.isfinite(top) and _POISSON * top > math.exp(_SMALLEST_LOG_SIZE)):
        return None
    counts, times = np.unique(events, return_counts=True)

    def loss(log_size: float) -> float:
        size = math.exp(log_size)
        rises = special.gammaln(counts + size) - special.gammaln(size) - counts * log_size
        return float(((events + size) * np.log1p(expected / size)).sum() - times @ rises)

    grid = np.arange(_SMALLEST_LOG_SIZE, math.log(min(_POISSON * top, LARGEST_SIZE)))
    best = int(np.argmin([loss(each) for each in grid]))
    if best == len(grid) - 1:
        return None
    around = grid[max(best - 1, 0)], grid[best + 1]
    return math.exp(optimize.minimize_scalar(loss, bounds=around, method="bounded", options={"xatol": 1e-6}).x)
