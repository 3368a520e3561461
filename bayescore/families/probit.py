r"""The probit likelihood, p(eta) = Phi(eta), the standard normal distribution function.

The score is s = phi(eta) / Phi(eta), minus the second derivative of log p is c = s (s + eta), the third
c (2 s + eta) - s. Phi(eta) is the probability that a latent N(eta, 1) is positive, which Gibbs sampling uses.
Nothing forms Phi or 1 - Phi on its own: in the left tail phi / Phi = sqrt(2 / pi) / erfcx(-eta / sqrt(2)).
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from bayescore.compiled import jit, jit_inner
from bayescore.data.passes import TILE
from bayescore.families.family import Symmetric
from bayescore.numerics.elementary import ATANH, exp_minus
from bayescore.types import FloatArray

_ROWS = 1024  # taken at a time: their scratch stays in the cache
_LOG2 = math.log(2.0)
_SQRT2 = np.sqrt(2.0)  # a NumPy constant: pt.sqrt(2.0) would be a float32
_SQRT_2PI = math.sqrt(2.0 * math.pi)
_HALF_OCTAVE = 0x95F6200000000  # 1.0 less sqrt(1/2), both read as integers; rounded

# below this the difference s + eta cancels; the series of c in 1/eta^2 has relative error < 1e-12 there
PROBIT_TAIL = -200.0

# Phi(-x) exp(x^2 / 2) / t as a polynomial of degree 20 in u = 2 t - 1, t = 5 / (5 + x), for all x >= 0: its Chebyshev
# series, computed with 60 digits, cut (relative error 9e-16) and rewritten in powers of u; three powers to a line.
_TAIL = np.array(
    [
        [9.910260041502261e-10, 4.742201499568934e-10, -1.1431400798773756e-08],
        [-5.973650280642188e-09, 8.394135902952392e-08, 6.471542988396613e-08],
        [-5.514807821171256e-07, -7.944255950769179e-07, 3.334942057572293e-06],
        [9.951790245059091e-06, -1.1874695374551138e-05, -0.0001089795938532396],
        [-0.0001595739760406926, 0.0005986753159936601, 0.004159013371958206],
        [0.01382372774495829, 0.033004073233313946, 0.06270663133409482],
        [0.09906112319401422, 0.13307650057801357, 0.1538386099500125],
    ]
)


@jit_inner
def probit_tile(
    eta: FloatArray, log_p: FloatArray, scratch: tuple[FloatArray, FloatArray, NDArray[np.int64], FloatArray]
) -> None:
    """Write l+ of rows, few enough that their scratch stays in the cache, and replace eta by its score.

    With x = abs(eta) and h = Phi(-x) exp(x^2 / 2) by its polynomial, p = h for eta < 0 and 1 - h exp(-x^2 / 2) else:
    log Phi = log p - min(eta, 0)^2 / 2, score = (1 for eta < 0 and exp(-x^2 / 2) else) / (sqrt(2 pi) p).
    Choices between the two sides are sums, as compilers turn some conditions into masked stores, which are slow.
    """
    root, scale, bits, octave = scratch
    for n in range(eta.size):  # root: exp(-x^2 / 4), whose square underflows no sooner than Phi(-x)
        x = min(abs(eta[n]), 40.0)
        high = (x + 6442450944.0) - 6442450944.0  # x in steps of 2^-20: its square is exact
        low = 0.25 * (x - high) * (x + high)
        root[n] = 0.25 * high * high
        log_p[n] = 1.0 - low * (1.0 - 0.5 * low)
    for n in range(eta.size):
        root[n] = exp_minus(root[n])
    for n in range(eta.size):  # log_p: h; scale: p
        t = 5.0 / (5.0 + abs(eta[n]))
        u = 2.0 * t - 1.0
        cube = u * u * u
        a, b, c = _TAIL[0, 0], _TAIL[0, 1], _TAIL[0, 2]
        for j in range(1, 7):  # three sums side by side: a single one would wait for itself
            a = a * cube + _TAIL[j, 0]
            b = b * cube + _TAIL[j, 1]
            c = c * cube + _TAIL[j, 2]
        root[n] *= log_p[n]
        log_p[n] = t * ((a * u + b) * u + c)
        scale[n] = log_p[n] if eta[n] < 0.0 else 1.0 - root[n] * log_p[n] * root[n]
    for n in range(eta.size):  # p = 2^octave m, sqrt(1/2) <= m < sqrt(2); scale keeps 2^-octave
        exponent = (bits[n] + _HALF_OCTAVE) >> 52
        octave[n] = exponent - 1023
        bits[n] = (2046 - exponent) << 52
    for n in range(eta.size):  # log m = 2 atanh(s); m - 1 is formed from the tail, which 1 - tail would round
        left = 1.0 if eta[n] < 0.0 else 0.0
        right = 1.0 - left
        below = min(eta[n], 0.0)
        tail = right * (root[n] * log_p[n] * root[n])
        whole = left * log_p[n] + right
        m_minus_1 = (whole * scale[n] - 1.0) - tail * scale[n]
        s = m_minus_1 / (2.0 + m_minus_1)
        square = s * s
        total = ATANH[7]
        for j in range(8, 17):
            total = total * square + ATANH[j]
        log_p[n] = 2.0 * s * total + octave[n] * _LOG2 - 0.5 * below * below
        eta[n] = (left + right * root[n] * root[n]) / (_SQRT_2PI * (whole - tail))


@jit
def probit_upper(eta: FloatArray, log_p: FloatArray) -> None:
    """Write l+ of each row, and replace eta by its score; vectorised, relative errors 2e-15."""
    width = min(eta.size, _ROWS)
    root, scale, octave = np.empty(width), np.empty(width), np.empty(width)
    bits = scale.view(np.int64)
    for start in range(0, eta.size, _ROWS):
        stop = min(start + _ROWS, eta.size)
        probit_tile(eta[start:stop], log_p[start:stop], (root[: stop - start], scale, bits, octave))


@jit_inner
def probit_rows(eta: FloatArray, side: FloatArray, log_p: FloatArray) -> None:
    """Write log p of each row, and replace eta by the score."""
    for n in range(eta.size):
        eta[n] *= side[n]
    probit_upper(eta, log_p)
    for n in range(eta.size):
        eta[n] *= side[n]


@jit_inner
def probit_derivatives(eta: FloatArray, side: FloatArray, out: FloatArray, scratch: FloatArray) -> None:
    """Write log p, s, c and l''' at eta, shape (TILE,), to the rows of `out`; scratch has 3 rows."""
    log_p, score, curvature, third = out[0], out[1], out[2], out[3]
    for lane in range(TILE):
        score[lane] = side[lane] * eta[lane]
    probit_tile(score, log_p, (scratch[0], scratch[1], scratch[1].view(np.int64), scratch[2]))
    for lane in range(TILE):
        x, s = side[lane] * eta[lane], score[lane]
        far = min(x, PROBIT_TAIL) ** -2
        tail = 1.0 - far * (1.0 - 6.0 * far * (1.0 - 50.0 / 6.0 * far))
        left = 1.0 if x < PROBIT_TAIL else 0.0
        curvature[lane] = left * tail + (1.0 - left) * (s * (s + x))
        third[lane] = side[lane] * ((1.0 - left) * (curvature[lane] * (2.0 * s + x) - s))
        score[lane] = side[lane] * s


@jit_inner
def probit_higher(eta: FloatArray, side: FloatArray, terms: FloatArray, out: FloatArray) -> None:
    """Write the fourth and fifth derivative of log p to the rows of `out`; `terms` has those before."""
    for lane in range(TILE):
        s, c, third = terms[1, lane], terms[2, lane], terms[3, lane]
        m = 2.0 * s + eta[lane]
        fourth = 2.0 * c * (1.0 - c) - third * m
        right = 0.0 if side[lane] * eta[lane] < PROBIT_TAIL else 1.0
        out[0, lane] = right * fourth
        out[1, lane] = right * (-3.0 * third * (1.0 - 2.0 * c) - fourth * m)


@dataclass(frozen=True)
class Probit(Symmetric):
    """Probit link: P(y | x) = Phi(y x . beta), Phi the normal distribution function.

    Examples
    --------
    >>> import numpy as np, bayescore as bc
    >>> family = bc.families.Probit()
    >>> family.mean(np.zeros(1)), family.log_p(np.zeros(1), -1).round(2)
    (array([0.5]), array([-0.69]))
    """

    name = "probit"
    rows = staticmethod(probit_rows)
    derivatives = staticmethod(probit_derivatives)
    higher = staticmethod(probit_higher)
    near = 0.08  # the sixth derivative is below 1/2
    scale = "probit"
    latent_variance = 1.0

    def upper(self, eta: FloatArray) -> FloatArray:
        """Return log Phi(eta)."""
        return np.asarray(special.log_ndtr(eta))

    def upper_score(self, eta: FloatArray) -> FloatArray:
        """Return the inverse Mills ratio phi(eta) / Phi(eta)."""
        eta = np.asarray(eta, dtype=np.float64)
        left = np.sqrt(2.0 / np.pi) / special.erfcx(-np.minimum(eta, 0.0) / np.sqrt(2.0))
        right = np.exp(-0.5 * np.maximum(eta, 0.0) ** 2) / np.sqrt(2.0 * np.pi) / special.ndtr(np.maximum(eta, 0.0))
        return np.asarray(np.where(eta < 0.0, left, right))

    def upper_curvature(self, eta: FloatArray) -> FloatArray:
        """Return s (s + eta), between 0 and 1."""
        eta = np.asarray(eta, dtype=np.float64)
        score = self.upper_score(eta)
        inverse_square = 1.0 / np.minimum(eta, PROBIT_TAIL) ** 2
        tail = 1.0 - inverse_square * (1.0 - 6.0 * inverse_square * (1.0 - 50.0 / 6.0 * inverse_square))
        return np.asarray(np.where(eta < PROBIT_TAIL, tail, score * (score + eta)))

    def upper_third(self, eta: FloatArray) -> FloatArray:
        """Return the third derivative c (2 s + eta) - s of log p, to 1e-12 in absolute terms."""
        eta = np.asarray(eta, dtype=np.float64)
        score = self.upper_score(eta)
        # far out it is 2 / |eta|^3, below the rounding error of the difference
        return np.asarray(np.where(eta < PROBIT_TAIL, 0.0, self.upper_curvature(eta) * (2.0 * score + eta) - score))

    def mean(self, eta: FloatArray) -> FloatArray:
        """Return P(y = +1)."""
        return np.asarray(special.ndtr(eta))

    def upper_graph(self, eta: Any) -> Any:
        """Return l+ as a PyTensor expression."""
        import pytensor.tensor as pt

        # both branches are evaluated: each gets arguments on which it is finite
        left, right = pt.minimum(eta, -1.0), pt.maximum(eta, -1.0)
        tail = pt.log(0.5 * pt.erfcx(-left / _SQRT2)) - 0.5 * left**2
        return pt.switch(eta < -1.0, tail, pt.log1p(-0.5 * pt.erfc(right / _SQRT2)))
