r"""The Poisson likelihood of counts above 0, log link: y ~ Poisson(t) given y > 0, t = exp(eta).

.. math:: \log P(y) = (y - 1) \, \ell_+(\eta) + \ell_-(\eta) - \log y!, \qquad
          \ell_+ = \eta, \qquad \ell_- = -\log\frac{e^t - 1}{t}.

The first event of each row is taken for granted, so that l- is at most 0, and a row of y = 1 has no event beyond. With
u = t / (e^t - 1) and v = 1 - u the mean of y is

.. math:: m = t + u, \qquad m' = m v, \qquad m'' = m f, \quad f = 2 v^2 - v + (1 - v) t,

and -l- has the derivatives m - 1, m', m'': both sides are concave. Where t is large, l- is -t, but for eta: pseudo-rows
use that, as theirs have predictors near 12 at the mode. Coefficients are log ratios of t, the mean that counts would
have with their zeros.

A hurdle model is this family for counts above 0, and one of labels for whether a count is above 0.

Mullahy (1986), Specification and testing of some modified count data models, Journal of Econometrics 33.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from bayescore.compiled import jit_inner
from bayescore.data.passes import TILE
from bayescore.families.family import Family
from bayescore.families.poisson import LARGEST
from bayescore.numerics.elementary import REACH, bounded_exp, exp_minus, exp_up_to
from bayescore.types import FloatArray

_SMALL, _FAR = 5e-2, 40.0  # t below which v is a series, and from which u is 0
_LARGEST = math.exp(-_SMALL)  # exp(-t) beyond that


@jit_inner
def _v(t: float, e: float) -> float:
    """Return 1 - t / (exp(t) - 1), given exp(-t); both ways are computed, so that loops vectorise."""
    small, below = min(t, _SMALL), min(e, _LARGEST)
    series = small * (0.5 - small * (1.0 / 12.0 - small * small * (1.0 / 720.0 - small * small / 30240.0)))
    return series if t < _SMALL else 1.0 - min(t, REACH) * below / (1.0 - below)


@jit_inner
def _log_ratio(t: float, eta: float, e: float) -> float:
    """Return log((exp(t) - 1) / t), given exp(-t)."""
    if t < _SMALL:
        return t * (0.5 + t * (1.0 / 24.0 - t * t * (1.0 / 2880.0 - t * t / 181440.0)))
    return t - eta + (math.log1p(-e) if t < _FAR else 0.0)


@jit_inner
def truncated_poisson_rows(eta: FloatArray, side: FloatArray, log_p: FloatArray) -> None:
    """Write l of each row's side, and replace eta by the score."""
    kept = np.empty((2, eta.size))
    for n in range(eta.size):
        left = 1.0 if side[n] < 0.0 else 0.0  # choices are sums, as of Poisson rows
        t = exp_up_to(eta[n])
        e = exp_minus(t)
        log_p[n], kept[0, n], kept[1, n] = eta[n], t, e
        eta[n] = left * (_v(t, e) - t) + (1.0 - left)
    for n in range(eta.size):
        if side[n] < 0.0:
            log_p[n] = -_log_ratio(kept[0, n], log_p[n], kept[1, n])


@jit_inner
def truncated_poisson_derivatives(eta: FloatArray, side: FloatArray, out: FloatArray, scratch: FloatArray) -> None:
    """Write l, s, c and l''' at eta, shape (TILE,), to the rows of `out`; scratch has 3 rows."""
    rates, others = scratch[0], scratch[1]
    for lane in range(TILE):
        left = 1.0 if side[lane] < 0.0 else 0.0  # choices are sums, as of Poisson rows
        t = exp_up_to(eta[lane])
        e = exp_minus(t)
        v = _v(t, e)
        m = t + 1.0 - v
        out[1, lane], out[2, lane] = left * (v - t) + (1.0 - left), left * m * v
        out[3, lane] = -left * m * (2.0 * v * v - v + (1.0 - v) * t)
        rates[lane], others[lane] = t, e
    for lane in range(TILE):
        out[0, lane] = -_log_ratio(rates[lane], eta[lane], others[lane]) if side[lane] < 0.0 else eta[lane]


@dataclass(frozen=True)
class TruncatedPoisson(Family):
    """Poisson counts above 0 with a log link: E(y | x) = t / (1 - exp(-t)) with t = exp(x . beta).

    Examples
    --------
    >>> import numpy as np, bayescore as bc
    >>> bc.families.TruncatedPoisson().mean(np.array([-5.0, 0.0, 1.0])).round(2)
    array([1.  , 1.58, 2.91])
    """

    name = "truncated_poisson"
    rows = staticmethod(truncated_poisson_rows)
    derivatives = staticmethod(truncated_poisson_derivatives)
    counts = True
    least = 1
    linear = 1
    center = 12.0
    reach = REACH
    scale = "log rate"
    ratio = "rate ratio"

    def log_p(self, eta: FloatArray, side: Any) -> FloatArray:
        """Return eta of the count's side, -log((exp(t) - 1) / t) of the other."""
        t, small, near = self._rates(eta)
        series = small * (0.5 + small * (1.0 / 24.0 - small**2 * (1.0 / 2880.0 - small**2 / 181440.0)))
        below = np.where(t < _SMALL, series, np.where(t > _FAR, t - eta, np.log(np.expm1(near) / near)))
        return np.where(np.asarray(side) < 0, -below, eta)

    def score(self, eta: FloatArray, side: Any) -> FloatArray:
        """Return 1 of the count's side, 1 less the mean of the other."""
        t, v = self._parts(eta)
        return np.where(np.asarray(side) < 0, v - t, 1.0)

    def curvature(self, eta: FloatArray, side: Any) -> FloatArray:
        """Return 0 of the count's side, the variance of the other."""
        return np.where(np.asarray(side) < 0, self.variance(eta), 0.0)

    def third(self, eta: FloatArray, side: Any) -> FloatArray:
        """Return 0 of the count's side, minus the third cumulant of the other."""
        return np.where(np.asarray(side) < 0, -self.mean_derivatives(eta)[2], 0.0)

    def mean_derivatives(self, eta: FloatArray) -> FloatArray:
        """Return the mean and its first three derivatives, shape (4, ...), which are the first four cumulants."""
        t, v = self._parts(eta)
        m, f, rise = t + 1.0 - v, 2.0 * v * v - v + (1.0 - v) * t, (1.0 - v) * (t - v)
        return np.stack([m, m * v, m * f, m * (v * f + (4.0 * v - 1.0 - t) * rise + (1.0 - v) * t)])

    def _rates(self, eta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return t, and t where it is small, and where it is neither small nor large."""
        t = bounded_exp(eta)
        return t, np.minimum(t, _SMALL), np.clip(t, _SMALL, _FAR)

    def _parts(self, eta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return t and v."""
        t, small, near = self._rates(eta)
        series = small * (0.5 - small * (1.0 / 12.0 - small**2 * (1.0 / 720.0 - small**2 / 30240.0)))
        return t, np.where(t > _FAR, 1.0, np.where(t < _SMALL, series, 1.0 - near / np.expm1(near)))

    def mean(self, eta: FloatArray) -> FloatArray:
        """Return t / (1 - exp(-t))."""
        return np.asarray(self.mean_derivatives(eta)[0])

    def link(self, mean: FloatArray) -> FloatArray:
        """Return eta at a mean, minus infinity at 1."""
        m = np.maximum(mean, 1.0)
        with np.errstate(divide="ignore"):
            below = special.lambertw(-m * np.exp(-m), 0).real  # NaN at m = 1
            return np.asarray(np.log(np.fmax(m + below, 0.0)))

    def variance(self, eta: FloatArray) -> FloatArray:
        """Return the variance of a count."""
        return np.asarray(self.mean_derivatives(eta)[1])

    def excess_kurtosis(self, eta: FloatArray) -> FloatArray:
        """Return the fourth cumulant over the squared variance."""
        _, variance, _, fourth = self.mean_derivatives(eta)
        return np.asarray(fourth / variance**2)

    def log_constant(self, events: FloatArray, exposure: FloatArray) -> FloatArray:
        """Return -log y!, given the events beyond the first."""
        return np.asarray(-special.gammaln(events + exposure + 1.0))

    def draw(self, eta: FloatArray, rng: np.random.Generator, exposure: Any = 1.0) -> FloatArray:
        """Return counts drawn at eta; with an exposure, sums of so many counts.

        Of a process of rate 1 until t that has an event the first comes at -log(1 - U (1 - exp(-t))), and later ones in
        the time that is left, which is drawn as normal where it is a sum.
        """
        t = np.minimum(bounded_exp(eta), LARGEST)
        left = np.maximum(t + np.log1p(rng.random(t.shape) * np.expm1(-t)), 0.0)
        if not np.all(single := np.asarray(exposure) == 1.0):
            m, variance, _, _ = self.mean_derivatives(np.log(t))
            sd = np.sqrt(exposure * np.maximum(variance - (m - 1.0), 0.0))
            total = exposure * (m - 1.0) + sd * rng.standard_normal(np.shape(m))
            left = np.where(single, left, np.clip(total, 0.0, exposure * t))
        return np.asarray(exposure + rng.poisson(np.minimum(left, LARGEST)), dtype=np.float64)

    def log_p_graph(self, eta: Any, side: Any) -> Any:
        """Return `log_p` as a PyTensor expression."""
        import pytensor.tensor as pt

        t = pt.exp(pt.minimum(eta, REACH + 1.0))
        small, more = pt.minimum(t, _SMALL), pt.maximum(t, _SMALL)
        series = small * (0.5 + small * (1.0 / 24.0 - small**2 * (1.0 / 2880.0 - small**2 / 181440.0)))
        whole = more + pt.log(-pt.expm1(-more)) - pt.maximum(eta, math.log(_SMALL))
        return pt.switch(pt.lt(side, 0.0), -pt.switch(pt.lt(t, _SMALL), series, whole), eta)
