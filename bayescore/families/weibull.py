r"""The Weibull likelihood of times to an event, some censored, log link: mean t = exp(eta), hazards as time^(k - 1).

A time T is t E^(1 / k) / Gamma(1 + 1 / k), E a standard exponential number and k the shape. A time at risk y that ends
with the event, d = 1, or without, has

.. math:: \log p(y, d) = d \, \ell_+(\eta - \log y) + \ell_-(\eta - \log y) - d \log y, \qquad
          \ell_+ = \log k + z, \qquad \ell_- = -e^z, \qquad z = k (s_k - e), \qquad s_k = \log\Gamma(1 + 1 / k).

-log y is the row's offset, so that rows are the same whatever k. Where z is above 20, and the density below
exp(-4e8), e^z goes on as a parabola: a search for a mode may begin there, and Newton's steps down e^z are of 1 in z.

At z the two sides are those of a Poisson count d with
the mean e^z, the cumulative hazard; so a row of data is two rows, and pseudo-rows have the closed form of counts.

Coefficients are log ratios of times, those of R's survreg and of accelerated failure times; -k beta are log hazard
ratios, as hazards are proportional, too. With k = 1 times are exponential. k sets the coefficients' sds, and next to
nothing of their means. Where it is a parameter, `fitting.size` makes fits at some k, and the posterior between these
needs the slope

.. math:: \frac{d \log p(y, d)}{d \log k} = d (1 + z') - z' e^z, \qquad z' = z - \psi(1 + 1 / k).

Kalbfleisch and Prentice (2002), The Statistical Analysis of Failure Time Data, 2nd edition, chapters 2 and 3.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize, special

from bayescore.compiled import jit_inner
from bayescore.data.passes import TILE
from bayescore.families.family import LARGEST_SIZE, Varying
from bayescore.numerics.elementary import REACH, bounded_exp, exp_up_to
from bayescore.types import FloatArray

_LEAST = np.finfo(float).tiny  # that is drawn
_FAR = 20.0  # of z: beyond it the cumulative hazard is a parabola
_SOUGHT = -12.0, math.log(LARGEST_SIZE)  # logs of shapes


@jit_inner
def weibull_rows(eta: FloatArray, side: FloatArray, log_p: FloatArray, size: float) -> None:
    """Write l of each row's side, and replace eta by the score."""
    log_size, shift = math.log(size), math.lgamma(1.0 + 1.0 / size)
    for n in range(eta.size):
        z, left = size * (shift - eta[n]), side[n] < 0.0
        hazard, over = exp_up_to(min(z, _FAR)), max(z - _FAR, 0.0)
        log_p[n] = -hazard * (1.0 + over + 0.5 * over * over) if left else log_size + z
        eta[n] = size * hazard * (1.0 + over) if left else -size


@jit_inner
def weibull_derivatives(
    eta: FloatArray,
    side: FloatArray,
    out: FloatArray,
    scratch: FloatArray,  # noqa: ARG001
    size: float,
) -> None:
    """Write l, s, c and l''' at eta, shape (TILE,), to the rows of `out`."""
    log_size, shift = math.log(size), math.lgamma(1.0 + 1.0 / size)
    for lane in range(TILE):
        left = 1.0 if side[lane] < 0.0 else 0.0  # choices are sums, as of Poisson rows
        z = size * (shift - eta[lane])
        bend, over = left * exp_up_to(min(z, _FAR)), max(z - _FAR, 0.0)
        hazard, rise = bend * (1.0 + over + 0.5 * over * over), bend * (1.0 + over)
        out[0, lane], out[1, lane] = (1.0 - left) * (log_size + z) - hazard, size * (rise - (1.0 - left))
        out[2, lane] = size * size * bend
        out[3, lane] = size * size * size * (bend if over == 0.0 else 0.0)


@dataclass(frozen=True)
class Weibull(Varying):
    r"""Times to an event, some censored, with a log link: E(T | x) = t = exp(x . beta), hazards as time^(shape - 1).

    .. math:: P(T > y) = \exp\bigl(-(\Gamma(1 + 1 / k) \, y / t)^k\bigr)

    Parameters
    ----------
    size : float, optional
        The shape k: hazards fall over time where it is below 1, and rise where it is above. Without it `fit` has it as
        a parameter, `shape`, with the prior log k ~ N(0, 2^2); a coreset by hand needs it.

    Raises
    ------
    ValueError, TypeError
        If the shape is not a number above 0 and below 1e7.

    Notes
    -----
    Coefficients are log ratios of times; times -shape they are log hazard ratios.

    Examples
    --------
    >>> import numpy as np, bayescore as bc
    >>> family = bc.families.Weibull(2.0)
    >>> family.mean(np.array([0.0, 1.0])).round(2)
    array([1.  , 2.72])
    >>> weeks, relapse = [6.0, 7.5, 11.0, 3.0], [1, 0, 1, 1]
    >>> known = {"exposure": weeks, "family": family, "progressbar": False}
    >>> bc.build_coreset(np.ones((4, 1)), relapse, **known).family
    'weibull(2)'
    """

    kind = "weibull"
    number = parameter = "shape"
    meaning = "hazard ~ time^(shape - 1)"
    beyond = ": such times hardly vary; fit their logarithms by family='normal'"
    rows = staticmethod(weibull_rows)
    derivatives = staticmethod(weibull_derivatives)
    counts = True
    amounts = True
    times = True
    linear = 1
    reach = REACH
    scale = "log mean time"
    ratio = "time ratio"

    def log_p(self, eta: FloatArray, side: Any) -> FloatArray:
        """Return log k + z of the event's side, minus the cumulative hazard of the other."""
        z = self._z(eta)
        return np.asarray(np.where(np.asarray(side) < 0, -_hazard(z, 0), np.log(self.size) + z))

    def score(self, eta: FloatArray, side: Any) -> FloatArray:
        """Return -k of the event's side, k times the cumulative hazard of the other."""
        return np.asarray(self.size * np.where(np.asarray(side) < 0, _hazard(self._z(eta), 1), -1.0))

    def curvature(self, eta: FloatArray, side: Any) -> FloatArray:
        """Return 0 of the event's side, k^2 times the cumulative hazard of the other."""
        return np.asarray(self.size**2 * np.where(np.asarray(side) < 0, _hazard(self._z(eta), 2), 0.0))

    def third(self, eta: FloatArray, side: Any) -> FloatArray:
        """Return 0 of the event's side, k^3 times the cumulative hazard of the other."""
        return np.asarray(self.size**3 * np.where(np.asarray(side) < 0, _hazard(self._z(eta), 3), 0.0))

    def _z(self, eta: FloatArray) -> FloatArray:
        return np.asarray(self.size * (special.gammaln(1.0 + 1.0 / self.size) - np.asarray(eta, dtype=np.float64)))

    def _moment(self, power: float) -> FloatArray:
        """Return that of times whose mean is 1."""
        one = special.gammaln(1.0 + 1.0 / self.size)
        return np.asarray(np.exp(special.gammaln(1.0 + power / self.size) - power * one))

    def variance(self, eta: FloatArray) -> FloatArray:
        """Return t^2 (Gamma(1 + 2 / k) / Gamma(1 + 1 / k)^2 - 1)."""
        return np.asarray(self.mean(eta) ** 2 * (self._moment(2.0) - 1.0))

    def excess_kurtosis(self, eta: FloatArray) -> FloatArray:
        """Return that of times."""
        two, three, four = map(self._moment, (2.0, 3.0, 4.0))
        return np.asarray((four - 4.0 * three + 6.0 * two - 3.0) / (two - 1.0) ** 2 - 3.0 + 0.0 * np.asarray(eta))

    def size_slopes(self, eta: FloatArray, events: FloatArray, weights: FloatArray) -> FloatArray:
        """Return the slope in log k of the log-likelihood of n times at predictors of shape (n, S), shape (S,).

        Predictors have the offset -log(time).
        """
        z = self._z(eta)
        move = z - float(special.digamma(1.0 + 1.0 / self.size))
        return np.asarray((weights * events) @ (1.0 + move) - weights @ (move * _hazard(z, 1)))

    def most_likely(self, events: FloatArray, expected: FloatArray) -> float | None:
        """Return the shape that is most likely with the intercept unknown; None if times do not determine it.

        `expected` is exp(eta), in which -log(time) is. At the most likely intercept and k the mean of log u = -eta over
        those that have the event is that of all, weighted by u^k, minus 1 / k.
        """
        log_u = -np.log(expected)
        if events.sum() < 2.0 or not np.ptp(log_u[events > 0.0]) > 1.0 / LARGEST_SIZE:
            return None
        mean = float(np.average(log_u, weights=events))

        def excess(log_k: float) -> float:
            k = math.exp(log_k)
            return float(special.softmax(k * log_u) @ log_u) - 1.0 / k - mean

        if excess(_SOUGHT[0]) >= 0.0 or excess(_SOUGHT[1]) <= 0.0:
            return None
        return math.exp(optimize.brentq(excess, *_SOUGHT))

    def draw(self, eta: FloatArray, rng: np.random.Generator, exposure: Any = 1.0) -> FloatArray:  # noqa: ARG002
        """Return times drawn at eta, in which no time is; none is censored."""
        noise = np.log(rng.standard_exponential(np.shape(eta))) / self.size - special.gammaln(1.0 + 1.0 / self.size)
        return np.asarray(np.maximum(bounded_exp(eta + noise), _LEAST))

    def log_p_graph(self, eta: Any, side: Any) -> Any:
        """Return `log_p` as a PyTensor expression."""
        import pytensor.tensor as pt

        size = pt.as_tensor(np.float64(self.size) if isinstance(self.size, float) else self.size)  # not of 32 bits
        z = size * (pt.gammaln(1.0 + 1.0 / size) - eta)
        over = pt.maximum(z - _FAR, 0.0)
        hazard = pt.exp(z - over) * (1.0 + over + 0.5 * over**2)
        return pt.switch(pt.lt(side, 0.0), -hazard, pt.log(size) + z)


def _hazard(z: FloatArray, order: int) -> FloatArray:
    """Return the cumulative hazard at z, or its derivative of some order; the third is 0 beyond `_FAR`."""
    over = np.maximum(z - _FAR, 0.0)
    rise = (1.0 + over + 0.5 * over**2, 1.0 + over, 1.0, over == 0.0)[order]
    return np.asarray(np.exp(z - over) * rise)
