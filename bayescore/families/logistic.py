r"""The logistic likelihood, p(eta) = 1 / (1 + exp(-eta)).

With s the score, log p = -log(1 + exp(-eta)), s = 1 / (1 + exp(eta)), c = s (1 - s) and l''' = c (1 - 2 s).
The canonical link of binary labels: coefficients are log odds.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from bayescore.compiled import jit, jit_inner
from bayescore.data.passes import TILE
from bayescore.families.family import Symmetric
from bayescore.numerics.elementary import ATANH, exp_minus
from bayescore.types import FloatArray


@jit_inner
def logistic_upper(eta: FloatArray, log_p: FloatArray) -> None:
    """Write l+ of each row, and replace eta by its score; vectorised.

    With t = exp(-abs(eta)): log(1 + t) = 2 atanh(s), s = t / (2 + t) <= 1/3, by its series to 1e-16. Two loops are
    faster than one, whose constants the registers do not hold.
    """
    for n in range(eta.size):
        log_p[n] = exp_minus(abs(eta[n]))
    for n in range(eta.size):
        t = log_p[n]
        s = t / (2.0 + t)
        square = s * s
        total = ATANH[0]
        for j in range(1, 17):
            total = total * square + ATANH[j]
        log_p[n] = min(eta[n], 0.0) - 2.0 * s * total
        eta[n] = (t if eta[n] > 0.0 else 1.0) / (1.0 + t)


@jit_inner
def logistic_rows(eta: FloatArray, side: FloatArray, log_p: FloatArray) -> None:
    """Write log p of each row, and replace eta by the score."""
    for n in range(eta.size):
        eta[n] *= side[n]
    logistic_upper(eta, log_p)
    for n in range(eta.size):
        eta[n] *= side[n]


@jit
def logistic_means(eta: FloatArray, out: FloatArray) -> None:
    """Write 1 / (1 + exp(-eta)) of each row, to 4e-16; below `REACH` that of -`REACH`."""
    for n in range(eta.size):
        t = exp_minus(abs(eta[n]))
        out[n] = (1.0 if eta[n] > 0.0 else t) / (1.0 + t)


@jit_inner
def logistic_derivatives(eta: FloatArray, side: FloatArray, out: FloatArray, scratch: FloatArray) -> None:  # noqa: ARG001
    """Write log p, s, c and l''' at eta, shape (TILE,), to the rows of `out`.

    They start from the score at abs(eta), at most 1/2, so that 1 - s keeps its relative accuracy where s is near 1.
    """
    log_p, score, curvature, third = out[0], out[1], out[2], out[3]
    for lane in range(TILE):
        score[lane] = abs(eta[lane])
    logistic_upper(score, log_p)
    for lane in range(TILE):
        small, own = score[lane], side[lane] * eta[lane]
        left = 1.0 if own < 0.0 else 0.0  # choices are sums: some compile to masked stores, which are slow
        log_p[lane] += min(own, 0.0)
        score[lane] = side[lane] * (left * (1.0 - small) + (1.0 - left) * small)
        curvature[lane] = small * (1.0 - small)
        third[lane] = side[lane] * (curvature[lane] * ((1.0 - 2.0 * left) * (1.0 - 2.0 * small)))


@jit_inner
def logistic_higher(eta: FloatArray, side: FloatArray, terms: FloatArray, out: FloatArray) -> None:  # noqa: ARG001
    """Write the fourth and fifth derivative of log p to the rows of `out`; `terms` has those before."""
    for lane in range(TILE):
        c, third = terms[2, lane], terms[3, lane]
        out[0, lane] = c * (6.0 * c - 1.0)
        out[1, lane] = third * (1.0 - 12.0 * c)


@dataclass(frozen=True)
class Logistic(Symmetric):
    """Logistic link: P(y | x) = 1 / (1 + exp(-y x . beta)).

    Examples
    --------
    >>> import numpy as np, bayescore as bc
    >>> family = bc.families.Logistic()
    >>> family.mean(np.zeros(1)), family.log_p(np.zeros(1), -1).round(2)
    (array([0.5]), array([-0.69]))
    """

    name = "logistic"
    rows = staticmethod(logistic_rows)
    derivatives = staticmethod(logistic_derivatives)
    higher = staticmethod(logistic_higher)
    near = 0.08  # the sixth derivative is at most 1/4
    scale = "log odds"
    ratio = "odds ratio"
    latent_variance = math.pi**2 / 3.0

    def upper(self, eta: FloatArray) -> FloatArray:
        """Return -log(1 + exp(-eta))."""
        return -np.logaddexp(0.0, -eta)

    def upper_score(self, eta: FloatArray) -> FloatArray:
        """Return sigmoid(-eta)."""
        return np.asarray(special.expit(-eta))

    def upper_curvature(self, eta: FloatArray) -> FloatArray:
        """Return sigmoid(eta) sigmoid(-eta)."""
        return np.asarray(special.expit(-eta) * special.expit(eta))

    def upper_third(self, eta: FloatArray) -> FloatArray:
        """Return the third derivative c (1 - 2 s) of log p."""
        return np.asarray(self.upper_curvature(eta) * np.tanh(0.5 * eta))

    def mean(self, eta: FloatArray) -> FloatArray:
        """Return P(y = +1)."""
        eta = np.asarray(eta, dtype=np.float64)
        out = np.empty(eta.shape)
        logistic_means(np.ravel(eta), out.reshape(-1))
        return out

    def upper_graph(self, eta: Any) -> Any:
        """Return l+ as a PyTensor expression."""
        import pytensor.tensor as pt

        return -pt.softplus(-eta)
