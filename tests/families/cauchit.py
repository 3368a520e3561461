"""A symmetric family that bayescore does not have, whole in one file: what adding one takes.

The cauchit link has p(eta) = 1/2 + atan(eta) / pi. With r = -2 eta / (1 + eta^2), the slope of the log of its density,
s = 1 / (pi (1 + eta^2) p), c = s (s - r) and l''' = -c (r - s) + s (r' + c). Its log p is not concave: c < 0 far left.
"""

import math
from dataclasses import dataclass

import numpy as np

from bayescore.compiled import jit
from bayescore.data.passes import TILE
from bayescore.families import Symmetric


@jit
def value(eta):
    """Return log p(eta)."""
    if eta > 0.0:
        return math.log1p(-math.atan2(1.0, eta) / math.pi)
    return math.log(math.atan2(1.0, -eta) / math.pi)


@jit
def slopes(eta):
    """Return s, c and l''' at eta."""
    square = 1.0 + eta * eta
    s = 1.0 / (square * math.atan2(1.0, -eta))
    r = -2.0 * eta / square
    c = s * (s - r)
    return s, c, c * (s - r) + s * (c - 2.0 * (1.0 - eta * eta) / (square * square))


@jit
def cauchit_rows(eta, side, log_p):
    for n in range(eta.size):
        log_p[n] = value(side[n] * eta[n])
        eta[n] = side[n] * slopes(side[n] * eta[n])[0]


@jit
def cauchit_derivatives(eta, side, out, scratch):
    for lane in range(TILE):
        out[0, lane] = value(side[lane] * eta[lane])
        s, c, third = slopes(side[lane] * eta[lane])
        out[1, lane], out[2, lane], out[3, lane] = side[lane] * s, c, side[lane] * third


@dataclass(frozen=True)
class Cauchit(Symmetric):
    name = "cauchit"
    rows = staticmethod(cauchit_rows)
    derivatives = staticmethod(cauchit_derivatives)

    def upper(self, eta):
        left, right = np.minimum(eta, 0.0), np.maximum(eta, 0.0)
        log_left = np.log(np.arctan2(1.0, -left) / np.pi)
        return np.where(np.asarray(eta) > 0.0, np.log1p(-np.arctan2(1.0, right) / np.pi), log_left)

    def upper_score(self, eta):
        return 1.0 / ((1.0 + np.square(eta)) * np.arctan2(1.0, -np.asarray(eta)))

    def upper_curvature(self, eta):
        s = self.upper_score(eta)
        return s * (s + 2.0 * eta / (1.0 + np.square(eta)))

    def upper_third(self, eta):
        square, s, c = 1.0 + np.square(eta), self.upper_score(eta), self.upper_curvature(eta)
        return c * (s + 2.0 * eta / square) + s * (c - 2.0 * (1.0 - np.square(eta)) / square**2)

    def mean(self, eta):
        return np.arctan2(1.0, -np.asarray(eta)) / np.pi

    def upper_graph(self, eta):
        import pytensor.tensor as pt

        left, right = pt.minimum(eta, 0.0), pt.maximum(eta, 0.0)
        log_left = pt.log(pt.arctan2(1.0, -left) / np.pi)
        return pt.switch(eta > 0.0, pt.log1p(-pt.arctan2(1.0, right) / np.pi), log_left)
