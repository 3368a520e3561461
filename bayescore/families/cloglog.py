r"""The complementary log-log likelihood, p(eta) = 1 - exp(-t) with t = exp(eta), and its mirror image, the log-log.

The response says whether an event came within an interval over which its hazard adds up to t: rows are persons and
periods, coefficients log hazard ratios, whatever the length of the periods (Prentice and Gloeckler 1978). Also for rare
events, where the logit is the same, and for counts known only as "none" or "some"; an offset is then the log of the
exposure. The two sides differ: l- = -t is all curvature and has no tail, l+ is as flat as eta far left,

.. math:: s_+ = t / (e^t - 1), \quad d = s_+ + t - 1, \quad c_+ = s_+ d, \quad l_+''' = s_+ (d (d + s_+) - t),

and -s = c = -l''' = t of the other side. The log-log likelihood has p(eta) = exp(-exp(-eta)): the labels change places,
and eta its sign.

Prentice and Gloeckler (1978), Regression analysis of grouped survival data with application to breast cancer data,
Biometrics 34.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bayescore.compiled import jit_inner
from bayescore.data.passes import TILE
from bayescore.families.family import Family
from bayescore.numerics.elementary import REACH, bounded_exp, exp_up_to
from bayescore.types import FloatArray

_SMALL = 0.5  # t: below it d is its series, whose next term is 1e-15 of it
_NOTHING = -37.0  # eta: below it t / 2 is rounding beside eta
# d = t / 2 + sum_k B_2k t^2k / (2k)!, k = 6, ..., 1
_SERIES = np.array([-691.0 / 1307674368000.0, 1.0 / 47900160.0, -1.0 / 1209600.0, 1.0 / 30240.0, -1.0 / 720.0, 1 / 12])


@jit_inner
def _upper(eta: float, t: float) -> tuple[float, float, float]:
    """Return l+, its score s and d = s + t - 1, given t = exp(eta)."""
    if t < _SMALL:
        square = t * t
        d = _SERIES[0]
        for j in range(1, 6):
            d = d * square + _SERIES[j]
        d = d * square + 0.5 * t
        log_p = eta - 0.5 * t if eta < _NOTHING else math.log(-math.expm1(-t))
        return log_p, 1.0 - t + d, d
    t = min(t, REACH)
    left = math.exp(-t)
    s = t * left / (1.0 - left)
    return math.log1p(-left), s, s + t - 1.0


@jit_inner
def cloglog_rows(eta: FloatArray, side: FloatArray, log_p: FloatArray) -> None:
    """Write log p of each row, and replace eta by the score."""
    for n in range(eta.size):
        log_p[n] = exp_up_to(eta[n])
    for n in range(eta.size):
        t = log_p[n]
        if side[n] < 0.0:
            log_p[n] = eta[n] = -t
        else:
            log_p[n], eta[n], _ = _upper(eta[n], t)


@jit_inner
def cloglog_derivatives(eta: FloatArray, side: FloatArray, out: FloatArray, scratch: FloatArray) -> None:
    """Write log p, s, c and l''' at eta, shape (TILE,), to the rows of `out`; scratch has 3 rows."""
    t = scratch[0]
    for lane in range(TILE):
        t[lane] = exp_up_to(eta[lane])
    for lane in range(TILE):
        if side[lane] < 0.0:
            out[0, lane], out[1, lane], out[2, lane], out[3, lane] = -t[lane], -t[lane], t[lane], -t[lane]
        else:
            own = min(t[lane], REACH)
            out[0, lane], s, d = _upper(eta[lane], own)
            out[1, lane], out[2, lane], out[3, lane] = s, s * d, s * (d * (d + s) - own)


@jit_inner
def loglog_rows(eta: FloatArray, side: FloatArray, log_p: FloatArray) -> None:
    """Write log p of each row, and replace eta by the score."""
    for n in range(eta.size):
        log_p[n] = exp_up_to(-eta[n])
    for n in range(eta.size):
        t = log_p[n]
        if side[n] > 0.0:
            log_p[n], eta[n] = -t, t
        else:
            log_p[n], s, _ = _upper(-eta[n], t)
            eta[n] = -s


@jit_inner
def loglog_derivatives(eta: FloatArray, side: FloatArray, out: FloatArray, scratch: FloatArray) -> None:
    """Write log p, s, c and l''' at eta, shape (TILE,), to the rows of `out`; scratch has 3 rows."""
    t = scratch[0]
    for lane in range(TILE):
        t[lane] = exp_up_to(-eta[lane])
    for lane in range(TILE):
        if side[lane] > 0.0:
            out[0, lane], out[1, lane], out[2, lane], out[3, lane] = -t[lane], t[lane], t[lane], t[lane]
        else:
            own = min(t[lane], REACH)
            out[0, lane], s, d = _upper(-eta[lane], own)
            out[1, lane], out[2, lane], out[3, lane] = -s, s * d, -s * (d * (d + s) - own)


@dataclass(frozen=True)
class Cloglog(Family):
    """Complementary log-log link: P(y = +1 | x) = 1 - exp(-exp(x . beta)).

    Examples
    --------
    >>> import numpy as np, bayescore as bc
    >>> bc.families.Cloglog().mean(np.array([-3.0, 0.0])).round(3)
    array([0.049, 0.632])
    """

    name = "cloglog"
    rows = staticmethod(cloglog_rows)
    derivatives = staticmethod(cloglog_derivatives)
    reach = REACH
    scale = "log hazard"
    ratio: ClassVar[str | None] = "hazard ratio"
    latent_variance = math.pi**2 / 6.0

    def log_p(self, eta: FloatArray, side: Any) -> FloatArray:
        """Return log(1 - exp(-t)) of +1, -t of -1."""
        eta, t = np.asarray(eta, dtype=np.float64), bounded_exp(eta)
        near = np.log(-np.expm1(-np.where(eta < _NOTHING, 1.0, np.minimum(t, 1.0))))
        upper = np.where(eta < _NOTHING, eta - 0.5 * t, np.where(t < 1.0, near, np.log1p(-np.exp(-np.maximum(t, 1.0)))))
        return np.where(np.asarray(side) < 0, -t, upper)

    def score(self, eta: FloatArray, side: Any) -> FloatArray:
        """Return s of +1, -t of -1."""
        t = bounded_exp(eta)
        return np.where(np.asarray(side) < 0, -t, _score_and_rest(t)[0])

    def curvature(self, eta: FloatArray, side: Any) -> FloatArray:
        """Return s d of +1, t of -1."""
        t = bounded_exp(eta)
        s, d = _score_and_rest(t)
        return np.where(np.asarray(side) < 0, t, s * d)

    def third(self, eta: FloatArray, side: Any) -> FloatArray:
        """Return s (d (d + s) - t) of +1, -t of -1."""
        t = bounded_exp(eta)
        s, d = _score_and_rest(t)
        return np.where(np.asarray(side) < 0, -t, s * (d * (d + s) - np.minimum(t, REACH)))

    def mean(self, eta: FloatArray) -> FloatArray:
        """Return P(y = +1)."""
        return np.asarray(-np.expm1(-bounded_exp(eta)))

    def log_p_graph(self, eta: Any, side: Any) -> Any:
        """Return `log_p` as a PyTensor expression."""
        import pytensor.tensor as pt

        # all branches are evaluated: each gets arguments on which it is finite
        near = pt.exp(pt.clip(eta, _NOTHING, 0.0))
        far = pt.log1p(-pt.exp(-pt.exp(pt.clip(eta, 0.0, math.log(REACH)))))
        upper = pt.switch(eta < 0.0, pt.log(-pt.expm1(-near)), far)
        t = pt.exp(pt.minimum(eta, REACH + 1.0))
        return pt.switch(pt.lt(side, 0.0), -t, pt.switch(eta < _NOTHING, eta - 0.5 * t, upper))


@dataclass(frozen=True)
class Loglog(Cloglog):
    """Log-log link: P(y = +1 | x) = exp(-exp(-x . beta)), the mirror image of `Cloglog`.

    Examples
    --------
    >>> import numpy as np, bayescore as bc
    >>> bc.families.Loglog().mean(np.array([-1.0, 0.0, 3.0])).round(3)
    array([0.066, 0.368, 0.951])
    """

    name = "loglog"
    rows = staticmethod(loglog_rows)
    derivatives = staticmethod(loglog_derivatives)
    scale = "log-log"
    ratio = None

    def log_p(self, eta: FloatArray, side: Any) -> FloatArray:
        """Return -t of +1, log(1 - exp(-t)) of -1, with t = exp(-eta)."""
        return super().log_p(-np.asarray(eta), -np.asarray(side))

    def score(self, eta: FloatArray, side: Any) -> FloatArray:
        """Return t of +1, -s of -1."""
        return -super().score(-np.asarray(eta), -np.asarray(side))

    def curvature(self, eta: FloatArray, side: Any) -> FloatArray:
        """Return t of +1, s d of -1."""
        return super().curvature(-np.asarray(eta), -np.asarray(side))

    def third(self, eta: FloatArray, side: Any) -> FloatArray:
        """Return t of +1, -s (d (d + s) - t) of -1."""
        return -super().third(-np.asarray(eta), -np.asarray(side))

    def mean(self, eta: FloatArray) -> FloatArray:
        """Return P(y = +1)."""
        return np.exp(-bounded_exp(-np.asarray(eta)))

    def log_p_graph(self, eta: Any, side: Any) -> Any:
        """Return `log_p` as a PyTensor expression."""
        return super().log_p_graph(-eta, -side)


def _score_and_rest(t: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return s and d of +1, with t as in `_upper`."""
    small, large = np.minimum(t, _SMALL), np.clip(t, _SMALL, REACH)
    series = 0.5 * small + small**2 * np.polyval(_SERIES, small**2)
    left = np.exp(-large)
    s = large * left / (1.0 - left)
    near = t < _SMALL
    return np.where(near, 1.0 - small + series, s), np.where(near, series, s + large - 1.0)
