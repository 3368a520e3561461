"""A prior that bayescore does not have, whole in one file: the logistic distribution, and what adding one takes."""

from dataclasses import dataclass

import numpy as np

from bayescore.compiled import jit
from bayescore.priors import Independent


@jit
def logistic_terms(x, parameters):
    scale = parameters[1]
    r = (x - parameters[0]) / scale
    slope = np.tanh(0.5 * r)
    value = -np.abs(r) - 2.0 * np.log1p(np.exp(-np.abs(r))) - np.log(scale)
    return value, -slope / scale, 0.5 * (1.0 - slope * slope) / (scale * scale)


@dataclass(frozen=True)
class LogisticPrior(Independent):
    mu: float = 0.0
    s: float = 1.0

    positive = ("s",)
    in_units = ("mu", "s")
    each = staticmethod(logistic_terms)
    pymc = "Logistic"
