"""Importance weights that turn draws of a coreset's posterior into those of the full data's.

References
----------
Vehtari, Simpson, Gelman, Yao and Gabry (2024), Pareto smoothed importance sampling, JMLR 25.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from bayescore.diagnostics.psis import psislw
from bayescore.limits import EQUAL_WEIGHTS_SD, MAX_K, MIN_ESS_SHARE, NEARLY_EQUAL_WEIGHTS_SD
from bayescore.types import FloatArray

_MOST = 0.5  # share of draws left effective from which k-hat of few draws is looked at again, with all of them


@dataclass(frozen=True, eq=False)
class FullWeights:
    """Log importance weights of draws, the largest 0, and the smoothed weights, which sum to 1, shape (S,) each.

    k-hat is 0 where they are as good as equal.
    """

    log_ratio: FloatArray
    weights: FloatArray
    pareto_k: float

    @property
    def ess(self) -> float:
        """Effective sample size of the weights."""
        return float(1.0 / (self.weights**2).sum())

    @property
    def spread(self) -> float:
        """Standard deviation of the log ratio."""
        return float(self.log_ratio.std())

    @property
    def max_k(self) -> float:
        """Limit of k-hat for so many draws (Vehtari et al. 2024)."""
        return min(MAX_K, 1.0 - 1.0 / math.log10(len(self.weights)))

    @property
    def good(self) -> bool:
        """Whether they can be trusted."""
        return self.pareto_k < self.max_k and self.ess >= MIN_ESS_SHARE * len(self.weights)

    @property
    def unsure(self) -> bool:
        """Whether k-hat alone speaks against them, whose own error is large for few draws."""
        return not self.good and self.ess >= _MOST * len(self.weights)


def full_weights(log_ratio: FloatArray) -> FullWeights:
    """Return the weights of draws whose log ratio of the full data's density to their own, shape (S,), is known."""
    ratio = log_ratio - log_ratio.max()
    if ratio.std() <= EQUAL_WEIGHTS_SD:  # equal but for rounding: there is no tail to fit
        return FullWeights(ratio, softmax(ratio), 0.0)
    with np.errstate(over="ignore"):  # of weights as bad as can be
        smoothed, k = psislw(ratio)
    weights = np.exp(np.asarray(smoothed, dtype=np.float64))
    return FullWeights(ratio, weights / weights.sum(), float(k) if ratio.std() > NEARLY_EQUAL_WEIGHTS_SD else 0.0)
