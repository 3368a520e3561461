"""Quantiles under importance weights, and tails of draws too long for moments.

The tail of S draws has n = min(S / 5, 3 sqrt(S)) of them, and k-hat an sd of about (1 + k) / sqrt(n): 0.11 for 4,000
draws (Vehtari et al. 2024). A coordinate has no sd where k-hat is above 0.5, if its prior is known to have moments. If
the prior is unknown, or Student's t with at most two degrees of freedom (Cauchy), the error of k-hat is allowed for,
one-sided 10%; two sds of it where in addition the labels are separated, so that the posterior's tail is the prior's.
"""

import math

import numpy as np
from numpy.typing import NDArray

from bayescore.chains import ordered_columns, quantiles
from bayescore.diagnostics.psis import psislw
from bayescore.limits import MAX_TAIL_K
from bayescore.models.priors import Prior
from bayescore.types import FloatArray

# (q99.5 - median) / (q90 - median) below which no tail is Pareto's with k-hat 0.5: 2.0 if normal, 5.3 if t2
_LONG = 2.5
_SEPARATED, _UNKNOWN = 2.0, 1.28  # sds of k-hat: 2% and 10% of those at the limit are not seen


class WeightedColumns:
    """The columns of x, shape (S, D), in order, for quantiles under weights w, shape (S,), and without weights."""

    def __init__(self, x: FloatArray, w: FloatArray) -> None:
        self._x = np.ascontiguousarray(x.T)
        order = np.argsort(self._x, axis=1)
        self._values = np.take_along_axis(self._x, order, axis=1)
        self._weights = w, np.full(len(w), 1.0 / len(w))
        self._places = [np.cumsum(each[order], axis=1) - 0.5 * each[order] for each in self._weights]

    def change(self, prob: float) -> tuple[FloatArray, FloatArray]:
        """Return what the weights change in a quantile of each column, shape (D,), and the numerical error of that."""
        half = 0.5 * min(prob, 1.0 - prob)
        found, influence = [], []
        for each, places in zip(self._weights, self._places, strict=True):
            at, low, high = (self._quantile(places, p) for p in (prob, prob - half, prob + half))
            found.append(at)  # a draw's influence: its share below, over the density there
            influence.append(each * (prob - (self._x <= at[:, None])) * ((high - low) / (2.0 * half))[:, None])
        gap = influence[0] - influence[1]
        return found[0] - found[1], np.sqrt(np.vecdot(gap, gap))

    def _quantile(self, places: FloatArray, prob: float) -> FloatArray:
        """Return the values at `prob` between places in order, shape (D, S); the outermost ones beyond them."""
        rows, last = np.arange(len(places)), places.shape[1] - 1
        after = np.count_nonzero(places < prob, axis=1)
        low, high = np.maximum(after - 1, 0), np.minimum(after, last)
        start, end = places[rows, low], places[rows, high]
        share = np.where(low < high, (prob - start) / np.where(low < high, end - start, 1.0), 0.0)
        return np.asarray(self._values[rows, low] + share * (self._values[rows, high] - self._values[rows, low]))


def tail_k(draws: FloatArray) -> FloatArray:
    """Return the larger Pareto k-hat of both tails of each column of draws, shape (S, D); -inf if both are short.

    Reference: Vehtari, Simpson, Gelman, Yao and Gabry (2024), JMLR 25.
    """
    ordered = ordered_columns(draws)
    middle = quantiles(ordered, 0.5)
    found = np.full(draws.shape[1], -np.inf)
    for side in (1.0, -1.0):
        far, near = (side * (quantiles(ordered, 0.5 + side * (prob - 0.5)) - middle) for prob in (0.995, 0.9))
        for d in np.flatnonzero(far > _LONG * near):
            distance = np.maximum(side * (draws[:, d] - middle[d]), 1e-300)
            found[d] = max(found[d], float(psislw(np.log(distance))[1]))
    return found


def without_moments(k: FloatArray, n_draws: int, prior: Prior | None, *, separated: bool) -> NDArray[np.bool_]:
    """Return which coordinates have no sd, by `tail_k` of their draws; `prior` is None where it is not known."""
    long = prior is not None and not prior.finite_variance
    if prior is not None and not long:
        return k > MAX_TAIL_K
    sd = (1.0 + MAX_TAIL_K) / math.sqrt(min(n_draws / 5.0, 3.0 * math.sqrt(n_draws)))
    return k > MAX_TAIL_K - (_SEPARATED if separated and long else _UNKNOWN) * sd
