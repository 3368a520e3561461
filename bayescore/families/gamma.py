r"""The gamma likelihood of positive numbers, log link: mean t = exp(eta), variance t^2 / a, a the shape.

.. math:: \log p(y) = y \, \ell_+(\eta) + \ell_-(\eta) + a \log a - \log\Gamma(a) + (a - 1) \log y, \qquad
          \ell_+ = -a e^{-\eta}, \qquad \ell_- = -a \eta

The two sides are those of a Poisson row at -eta, times a: y is the exposure of one event. So a row of data is two rows,
rows that share their columns are one with the sum of their y, and pseudo-rows have the closed form of Poisson counts.

The ratio of the sd to the mean is 1 / sqrt(a) whatever the mean: costs, durations, amounts of rain. Of a = 1 numbers
are exponential. Coefficients are log ratios of means; a sets their sds, as 1 / sqrt(a), and next to nothing of their
means. Where it is a parameter, `fitting.size` makes fits at some a, and the posterior between these needs the slope

.. math:: \frac{d \log p(y)}{d \log a} = a \Bigl[\log a - \psi(a) + z - (e^z - 1)\Bigr], \qquad z = \log y - \eta.

McCullagh and Nelder (1989), Generalized Linear Models, chapter 8.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from bayescore.compiled import jit_inner
from bayescore.data.passes import TILE
from bayescore.families.family import LARGEST_SIZE, Varying
from bayescore.numerics.elementary import REACH, bounded_exp, exp_up_to
from bayescore.types import FloatArray

_LEAST = np.finfo(float).tiny  # that is drawn: of a small shape gamma variables round to 0
_STEPS = 60  # of Newton's method


@jit_inner
def gamma_rows(eta: FloatArray, side: FloatArray, log_p: FloatArray, size: float) -> None:
    """Write l of each row's side, and replace eta by the score."""
    for n in range(eta.size):
        rise, left = size * exp_up_to(-eta[n]), side[n] < 0.0
        log_p[n] = -size * eta[n] if left else -rise
        eta[n] = -size if left else rise


@jit_inner
def gamma_derivatives(
    eta: FloatArray,
    side: FloatArray,
    out: FloatArray,
    scratch: FloatArray,  # noqa: ARG001
    size: float,
) -> None:
    """Write l, s, c and l''' at eta, shape (TILE,), to the rows of `out`."""
    for lane in range(TILE):
        left = size if side[lane] < 0.0 else 0.0  # choices are sums, as of Poisson rows
        rise = (size - left) * exp_up_to(-eta[lane])
        out[0, lane], out[1, lane] = -left * eta[lane] - rise, rise - left
        out[2, lane], out[3, lane] = rise, rise


@dataclass(frozen=True)
class Gamma(Varying):
    r"""Positive numbers with a log link: E(y | x) = t = exp(x . beta), sd(y | x) = t / sqrt(shape).

    .. math:: p(y) = \frac{1}{\Gamma(a)} \Bigl(\frac{a}{t}\Bigr)^a y^{a - 1} e^{-a y / t}

    Parameters
    ----------
    size : float, optional
        The shape a: 1 is an exponential distribution, and the larger it is, the less numbers vary about their means.
        Without it `fit` has it as a parameter, `shape`, with the prior log a ~ N(0, 2^2); a coreset by hand needs it.

    Raises
    ------
    ValueError, TypeError
        If the shape is not a number above 0 and below 1e7.

    Examples
    --------
    >>> import numpy as np, bayescore as bc
    >>> family = bc.families.Gamma(4.0)
    >>> family.mean(np.array([0.0, 1.0])).round(2), family.variance(np.array([0.0, 1.0])).round(2)
    (array([1.  , 2.72]), array([0.25, 1.85]))
    >>> bc.build_coreset(np.ones((4, 1)), [0.2, 1.7, 3.1, 0.4], family=family, progressbar=False).family
    'gamma(4)'
    """

    kind = "gamma"
    number = parameter = "shape"
    meaning = "standard deviation = mean / sqrt(shape)"
    beyond = ": such numbers hardly vary about their means; fit their logarithms by family='normal'"
    rows = staticmethod(gamma_rows)
    derivatives = staticmethod(gamma_derivatives)
    counts = True
    amounts = True
    linear = -1
    reach = REACH
    scale = "log mean"
    ratio = "mean ratio"

    def log_p(self, eta: FloatArray, side: Any) -> FloatArray:
        """Return -a exp(-eta) of the number's side, -a eta of the other."""
        eta = np.asarray(eta, dtype=np.float64)
        return np.asarray(self.size * np.where(np.asarray(side) < 0, -eta, -bounded_exp(-eta)))

    def score(self, eta: FloatArray, side: Any) -> FloatArray:
        """Return a exp(-eta) of the number's side, -a of the other."""
        return np.asarray(self.size * np.where(np.asarray(side) < 0, -1.0, bounded_exp(-np.asarray(eta))))

    def curvature(self, eta: FloatArray, side: Any) -> FloatArray:
        """Return a exp(-eta) of the number's side, 0 of the other."""
        return np.asarray(self.size * np.where(np.asarray(side) < 0, 0.0, bounded_exp(-np.asarray(eta))))

    def third(self, eta: FloatArray, side: Any) -> FloatArray:
        """Return a exp(-eta) of the number's side, 0 of the other."""
        return self.curvature(eta, side)

    def variance(self, eta: FloatArray) -> FloatArray:
        """Return t^2 / a."""
        return np.asarray(self.mean(eta) ** 2 / self.size)

    def excess_kurtosis(self, eta: FloatArray) -> FloatArray:
        """Return 6 / a."""
        return 6.0 / self.size + 0.0 * np.asarray(eta)

    def log_constant(self, events: FloatArray, exposure: FloatArray) -> FloatArray:
        """Return a log a - log Gamma(a) + (a - 1) log y, with a times the exposure in the place of a, but in log a.

        An exposure other than 1 is that of a sum of numbers that share eta. Of y = 0, half of a row, log y is left out.
        """
        size = self.size * np.asarray(exposure)
        log_y = np.log(np.where(np.asarray(events) > 0.0, events, 1.0))
        return np.asarray(size * np.log(self.size) - special.gammaln(size) + (size - 1.0) * log_y)

    def size_slopes(self, eta: FloatArray, events: FloatArray, weights: FloatArray) -> FloatArray:
        """Return the slope in log a of the log-likelihood of n numbers at predictors of shape (n, S), shape (S,)."""
        z = np.log(events)[:, None] - eta
        rise = math.log(self.size) - float(special.digamma(self.size))
        return np.asarray(self.size * (weights @ (z - np.expm1(z)) + rise * weights.sum()))

    def most_likely(self, events: FloatArray, expected: FloatArray) -> float | None:
        """Return the shape that is most likely at given means; None where numbers do not vary about them."""
        z = np.log(events) - np.log(expected)
        gap = float(np.mean(np.expm1(z) - z))  # log a - psi(a), which is about 1 / 2a where a is large
        if not 0.5 / LARGEST_SIZE < gap < math.inf:
            return None
        theta = -math.log(gap)
        for _ in range(_STEPS):  # log of a convex function of theta: Newton's steps on it are safe
            a = math.exp(theta)
            value, slope = theta - float(special.digamma(a)), 1.0 - a * float(special.polygamma(1, a))
            step = math.log(value / gap) * value / slope
            theta -= step
            if abs(step) < 1e-8:
                break
        return math.exp(theta)

    def draw(self, eta: FloatArray, rng: np.random.Generator, exposure: Any = 1.0) -> FloatArray:
        """Return numbers drawn at eta; with an exposure, sums of so many numbers."""
        shape = self.size * np.broadcast_to(exposure, np.shape(eta))
        return np.asarray(np.maximum(self.mean(eta) * (rng.standard_gamma(shape) / self.size), _LEAST))

    def log_p_graph(self, eta: Any, side: Any) -> Any:
        """Return `log_p` as a PyTensor expression."""
        import pytensor.tensor as pt

        return self.size * pt.switch(pt.lt(side, 0.0), -eta, -pt.exp(pt.minimum(-eta, REACH + 1.0)))
