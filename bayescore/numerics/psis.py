r"""Pareto smoothed importance sampling: weights whose tail a generalised Pareto distribution smooths, and its k-hat.

The M = min(S / 5, 3 sqrt(S)) largest of S weights are replaced by quantiles of the distribution fitted to them, and are
cut at the largest raw one. The fit is the posterior mean of Zhang and Stephens (2009), k-hat drawn to 1/2 by a prior of
10 draws. The formulas are those of ArviZ 0.23, to rounding, for many rows of weights at a time.

Importance weights that turn draws of a coreset's posterior into those of the full data's.

Quantiles under importance weights, and tails of draws too long for moments.

The tail of S draws has n = min(S / 5, 3 sqrt(S)) of them, and k-hat an sd of about (1 + k) / sqrt(n): 0.11 for 4,000
draws (Vehtari et al. 2024). A coordinate has no sd where k-hat is above 0.5, if its prior is known to have moments. If
the prior is unknown, or Student's t with at most two degrees of freedom (Cauchy), the error of k-hat is allowed for,
one-sided 10%; two sds of it where in addition the labels are separated, so that the posterior's tail is the prior's.

References
----------
Vehtari, Simpson, Gelman, Yao and Gabry (2024), Pareto smoothed importance sampling, JMLR 25. Zhang and Stephens (2009),
A new and efficient estimation method for the generalized Pareto distribution, Technometrics 51, 316-325.

Vehtari, Simpson, Gelman, Yao and Gabry (2024), Pareto smoothed importance sampling, JMLR 25.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from bayescore.limits import EQUAL_WEIGHTS_SD, MAX_K, MIN_ESS_SHARE, NEARLY_EQUAL_WEIGHTS_SD
from bayescore.numerics.chains import ordered_columns, quantiles
from bayescore.types import FloatArray, IntArray

_LEAST_TAIL = 5  # draws that a tail is fitted to


_LOG_TINY = math.log(np.finfo(float).tiny)  # of weights whose exponential is no normal number


_EPS = float(np.finfo(float).eps)


_ENTRIES = 1 << 18  # of an array of tails and places at a time: 2 MB


def psislw(log_weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return Pareto smoothed log weights, shape (..., S), that sum to one, and k-hat of each row, shape (...).

    Where no tail can be fitted weights are only normalised, and k-hat is infinite.
    """
    log_weights = np.asarray(log_weights, dtype=np.float64)
    S = log_weights.shape[-1]
    rows = log_weights.reshape(-1, S)
    rows = rows - rows.max(axis=1, keepdims=True)
    place = S - 1 - min(math.ceil(min(S / 5.0, 3.0 * math.sqrt(S))), S - 1)
    places = np.argpartition(rows, place, axis=1)
    cutoff = np.maximum(np.take_along_axis(rows, places[:, [place]], axis=1), _LOG_TINY)
    places = np.sort(places[:, place + 1 :], axis=1)  # so that the first of equal weights comes first
    order = np.argsort(np.take_along_axis(rows, places, axis=1), axis=1, kind="stable")
    places = np.take_along_axis(places, order, axis=1)
    sizes = np.count_nonzero(np.take_along_axis(rows, places, axis=1) > cutoff, axis=1)
    k = np.full(len(rows), np.inf)
    for size in np.unique(sizes[sizes >= _LEAST_TAIL]):
        same = np.flatnonzero(sizes == size)
        step = max(1, _ENTRIES // (_n_points(size) * size))
        for start in range(0, len(same), step):
            _smooth_tails(rows, same[start : start + step], places[:, -size:], cutoff, k)
    rows -= np.log(np.exp(rows).sum(axis=1, keepdims=True))
    return rows.reshape(log_weights.shape), k.reshape(log_weights.shape[:-1])


def _smooth_tails(rows: FloatArray, which: IntArray, places: IntArray, cutoffs: FloatArray, k: FloatArray) -> None:
    """Smooth tails of one size n of some rows of log weights, the largest 0, whose places are (N, n); write k-hat."""
    at, base, n = (which[:, None], places[which]), np.exp(cutoffs[which]), places.shape[1]
    shape, scale = _fit_pareto(np.exp(rows[at]) - base)
    fitted = np.isfinite(shape) & (scale > 0.0)
    which, shape, scale = which[fitted], shape[fitted, None], scale[fitted, None]
    k[which] = shape[:, 0]
    share = -np.log1p(-(np.arange(n) + 0.5) / n)
    straight = np.abs(shape) < _EPS
    beyond = np.where(straight, share, np.expm1(shape * share) / np.where(straight, 1.0, shape))
    rows[which[:, None], places[which]] = np.minimum(np.log(scale * beyond + base[fitted]), 0.0)


def _n_points(size: int) -> int:
    """Return the number of points of the quadrature of Zhang and Stephens."""
    return 30 + int(math.sqrt(size))


def _fit_pareto(tails: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Fit generalised Pareto distributions to sorted tails, shape (R, n): shapes and scales, not finite if none."""
    n = tails.shape[1]
    m = _n_points(n)

    def mean_log(b: FloatArray) -> FloatArray:
        return np.asarray(np.log1p(-b[:, :, None] * tails[:, None, :]).mean(axis=2))

    with np.errstate(all="ignore"):
        quarter, largest = tails[:, [int(n / 4.0 + 0.5) - 1]], tails[:, [-1]]
        b = (1.0 - np.sqrt(m / (np.arange(m) + 0.5))) / (3.0 * quarter) + 1.0 / largest
        mean = mean_log(b)
        level = n * (np.log(-b / mean) - mean - 1.0)
        weight = np.exp(level - np.fmax.reduce(level, axis=1, keepdims=True))
        weight /= weight.sum(axis=1, keepdims=True)
        weight = np.where(weight >= 10.0 * _EPS, weight, 0.0)
        at = (weight * b).sum(axis=1, keepdims=True) / weight.sum(axis=1, keepdims=True)
        mean = mean_log(at)
        return ((n * mean + 5.0) / (n + 10.0))[:, 0], (-mean / at)[:, 0]


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


# (q99.5 - median) / (q90 - median) below which no tail is Pareto's with k-hat 0.5: 2.0 if normal, 5.3 if t2
_LONG = 2.5


_NO_ROUNDING = 1e-9  # of a draw's place: a draw at the quantile itself is below it, on any processor


class WeightedColumns:
    """The columns of x, shape (S, D), in order, for quantiles under weights w, shape (S,), and without weights."""

    def __init__(self, x: FloatArray, w: FloatArray) -> None:
        columns = np.ascontiguousarray(x.T)
        order = np.argsort(columns, axis=1)
        self._values = np.take_along_axis(columns, order, axis=1)
        self._weights = [each[order] for each in (w, np.full(len(w), 1.0 / len(w)))]
        self._places = [np.cumsum(each, axis=1) - 0.5 * each for each in self._weights]

    def quantile(self, prob: float) -> FloatArray:
        """Return a quantile of each column under the weights, shape (D,)."""
        return self._quantile(self._places[0], prob)

    def change(self, prob: float) -> tuple[FloatArray, FloatArray]:
        """Return what the weights change in a quantile of each column, shape (D,), and the numerical error of that."""
        half = 0.5 * min(prob, 1.0 - prob)
        ends, influence = [], []
        for each, places in zip(self._weights, self._places, strict=True):
            at, low, high = (self._quantile(places, p) for p in (prob, prob - half, prob + half))
            ends.append(at)  # a draw's influence: its share below, over the density there
            below = places <= prob + _NO_ROUNDING
            influence.append(each * (prob - below) * ((high - low) / (2.0 * half))[:, None])
        gap = influence[0] - influence[1]
        return ends[0] - ends[1], np.sqrt(np.vecdot(gap, gap))

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

    Of several chains, shape (chain, draw, D), it is the smallest that is left where one of them is left out: a tail
    that a single chain has is where that chain stayed.

    Reference: Vehtari, Simpson, Gelman, Yao and Gabry (2024), JMLR 25.
    """
    if draws.ndim == 3:
        k = tail_k(draws.reshape(-1, draws.shape[2]))
        long = np.flatnonzero(k > -np.inf)
        if long.size and len(draws) > 1:
            others = [np.delete(draws[:, :, long], c, axis=0) for c in range(len(draws))]
            k[long] = np.min([k[long], *(tail_k(each.reshape(-1, len(long))) for each in others)], axis=0)
        return k
    ordered = ordered_columns(draws)
    middle = quantiles(ordered, 0.5)
    k = np.full(draws.shape[1], -np.inf)
    for side in (1.0, -1.0):
        far, near = (side * (quantiles(ordered, 0.5 + side * (prob - 0.5)) - middle) for prob in (0.995, 0.9))
        for d in np.flatnonzero(far > _LONG * near):
            distance = np.maximum(side * (draws[:, d] - middle[d]), 1e-300)
            k[d] = max(k[d], float(psislw(np.log(distance))[1]))
    return k
