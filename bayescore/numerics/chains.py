r"""Effective sample sizes, R-hat and Monte Carlo errors of quantiles, of many coordinates at once.

With rho_t the autocorrelation of lag t over split chains, of S draws in all,

.. math:: \mathrm{ESS} = S \Big/ \Big(-1 + 2 \sum_{t \le T} \rho_t + \rho_{T + 1}\Big)

where pairs of rho are positive till T and do not rise (Geyer 1992). Lags are summed one by one till there, which takes
few of them where chains mix. The formulas are ArviZ's.

Monte Carlo errors and effective sample sizes of each coordinate of draws, shape (chain, draw, D).

Reference: Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Bayesian Analysis 16, 667-718.

References
----------
Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Bayesian Analysis 16, 667-718. Geyer (1992), Practical Markov
chain Monte Carlo, Statistical Science 7, 473-483.
"""

import math

import numpy as np
from scipy.special import betaincinv, ndtri

from bayescore.limits import MIN_DRAWS
from bayescore.types import FloatArray, IntArray

TAIL = (0.05, 0.95)  # quantiles of the tail's effective sample size


_ONE_SD = (0.1586553, 0.8413447)  # probabilities of a normal within an sd


_CONSTANT = 1e-15  # range of a coordinate that stands still


_AT_ONCE = 1 << 20  # draws whose autocovariances are taken at a time: 8 MB


_ROW_ENTRIES = 1 << 17  # draws of rows that are sorted at a time: 1 MB


def evenly_spaced(n: int, size: int) -> IntArray:
    """Return at most `size` of the places 0, ..., n - 1, evenly spaced, the first and the last among them.

    >>> evenly_spaced(10, 4), evenly_spaced(3, 4)
    (array([0, 3, 6, 9]), array([0, 1, 2]))
    """
    return np.linspace(0, n - 1, min(n, size)).round().astype(np.int64)


def ess(draws: FloatArray, method: str) -> FloatArray:
    """Return the effective sample size of each coordinate, shape (D,), of draws of shape (chain, draw, D).

    `method` is "mean", "bulk" (of ranks) or "tail" (the smaller one of the quantiles `TAIL`). NaN where draws are, and
    where chains have fewer than `MIN_DRAWS`.
    """
    if draws.shape[1] < MIN_DRAWS:
        return np.full(draws.shape[2], np.nan)
    if method == "tail":
        ordered, columns = ordered_columns(draws), np.ascontiguousarray(np.moveaxis(draws, 2, 0))
        return np.minimum(*(_ess_of_quantile(columns, ordered, prob) for prob in TAIL))
    columns, _ = standardised_columns(draws)
    return _ess_of_columns(_normal_scores(_split(columns)) if method == "bulk" else _split(columns))


def bulk_and_rhats(draws: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the bulk's `ess` and the rank-normalised split R-hats, of the same ranks; NaN where one stands still."""
    halves = _split(standardised_columns(draws)[0])
    scores = _normal_scores(halves)
    bulk, tail = _rhat(scores), _rhat(_normal_scores(np.abs(halves - np.median(halves, axis=(1, 2), keepdims=True))))
    return _ess_of_columns(scores), np.where(tail > bulk, tail, bulk)


def ordered_columns(draws: FloatArray) -> FloatArray:
    """Return the draws of each coordinate in ascending order, shape (D, S), of draws of shape (..., D)."""
    return np.sort(np.ascontiguousarray(draws.reshape(-1, draws.shape[-1]).T), axis=1)


def quantiles(ordered: FloatArray, prob: float) -> FloatArray:
    """Return a quantile of each row of draws in order, as `np.quantile` has it, shape (D,); NaN where draws are."""
    place = (ordered.shape[1] - 1) * prob
    low = min(int(place), ordered.shape[1] - 2) if ordered.shape[1] > 1 else 0
    near, far = ordered[:, low], ordered[:, min(low + 1, ordered.shape[1] - 1)]
    return np.where(np.isnan(ordered[:, -1]), np.nan, near + (place - low) * (far - near))


def quantile_errors(draws: FloatArray, prob: float, ordered: FloatArray | None = None) -> FloatArray:
    """Return the Monte Carlo standard error of each coordinate's quantile `prob`, shape (D,).

    `ordered` are the `ordered_columns` of the draws, where they are known.
    """
    if ordered is None:
        ordered = ordered_columns(draws)
    columns, n = np.ascontiguousarray(np.moveaxis(draws, 2, 0)), ordered.shape[1]
    size = _ess_of_quantile(columns, ordered, prob)
    low, high = (n * betaincinv(size * prob + 1.0, size * (1.0 - prob) + 1.0, each) - 1.0 for each in _ONE_SD)
    places = np.floor(np.fmax(low, 0.0)), np.ceil(np.fmin(high, n - 1.0))
    near, far = (ordered[np.arange(len(ordered)), place.astype(np.int64)] for place in places)
    return np.asarray(0.5 * (far - near))


def standardised_columns(draws: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return standardised draws, shape (D, chain, draw), and their sds, shape (D,).

    So a coordinate far out keeps its digits. One that stands still is 0.
    """
    centred = draws - draws.mean(axis=(0, 1))
    sd = np.sqrt((centred * centred).sum(axis=(0, 1)) / max(draws[..., 0].size - 1, 1))
    centred /= np.where(sd > 0.0, sd, 1.0)
    return np.ascontiguousarray(np.moveaxis(centred, 2, 0)), sd


def _split(columns: FloatArray) -> FloatArray:
    """Return halves of chains as chains, shape (D, 2 chains, half)."""
    D, m, n = columns.shape
    if n % 2:
        columns = np.delete(columns, n // 2, axis=2)
    return columns.reshape(D, 2 * m, n // 2)


def _ess_of_quantile(columns: FloatArray, ordered: FloatArray, prob: float) -> FloatArray:
    """Return the effective sample size of each quantile: that of the share of draws up to it, shape (D,)."""
    place = math.floor((ordered.shape[1] - 1) * prob + 1e-9)  # the last draw up to it, not one by rounding
    below = (columns <= ordered[:, place, None, None]).astype(np.float64)
    return np.where(np.isnan(ordered[:, -1]), np.nan, _ess_of_columns(_split(below)))


def _normal_scores(halves: FloatArray) -> FloatArray:
    """Return the normal quantiles of ranks among all draws of each coordinate; equal draws share the mean rank."""
    flat = halves.reshape(len(halves), -1)
    n = flat.shape[1]
    scores = ndtri((0.5 * np.arange(2 * n - 1) + 0.625) / (n + 0.25))  # of ranks 1, 1.5, ..., n (Blom 1958)
    order, out = np.argsort(flat, axis=1), np.empty_like(flat)
    ordered = np.take_along_axis(flat, order, axis=1)
    new, places = ordered[:, 1:] != ordered[:, :-1], np.arange(n)
    first, last = np.tile(places, (2, len(flat), 1))  # of those that are equal, in order
    first[:, 1:] *= new
    last[:, :-1][~new] = n - 1
    first, last = np.maximum.accumulate(first, axis=1), np.minimum.accumulate(last[:, ::-1], axis=1)[:, ::-1]
    np.put_along_axis(out, order, scores[first + last], axis=1)
    out[np.isnan(ordered[:, -1])] = np.nan
    return out.reshape(halves.shape)


def _rhat(halves: FloatArray) -> FloatArray:
    n = halves.shape[2]
    with np.errstate(invalid="ignore"):  # a coordinate that stands still
        ratio = n * halves.mean(axis=2).var(axis=1, ddof=1) / halves.var(axis=2, ddof=1).mean(axis=1)
    return np.asarray(np.sqrt((ratio + n - 1.0) / n))


def _ess_of_columns(halves: FloatArray) -> FloatArray:
    """Return the effective sample size of each coordinate, shape (D,), of chains, shape (D, m, n)."""
    _, m, n = halves.shape
    high = halves.max(axis=(1, 2))
    out = np.where(np.isnan(high), np.nan, float(m * n))
    moving = np.flatnonzero(high - halves.min(axis=(1, 2)) >= _CONSTANT)
    step = max(1, _AT_ONCE // (m * n))
    for start in range(0, len(moving), step):
        part = moving[start : start + step]
        out[part] = _ess_of_varying(halves[part])
    return out


def _ess_of_varying(halves: FloatArray) -> FloatArray:
    """Return the effective sample sizes of coordinates that are not constant, by Geyer's monotone sequence."""
    D, m, n = halves.shape
    means = halves.mean(axis=2, keepdims=True)
    chains = halves - means

    def covariances(which: IntArray, lag: int) -> tuple[FloatArray, FloatArray]:
        """Return the autocovariances at a lag and the next, means over chains, of some coordinates."""
        some = chains if len(which) == D else chains[which]
        at, after = (np.vecdot(some[:, :, : n - t], some[:, :, t:]).sum(axis=1) / (m * n) for t in (lag, lag + 1))
        return at, after

    going = np.arange(D)
    within, first = covariances(going, 0)
    spread = within + (means[..., 0].var(axis=1) * m / (m - 1.0) if m > 1 else 0.0)
    within = within * (n / (n - 1.0))
    rho, t = np.zeros((D, n)), 1
    even, odd = np.ones(D), 1.0 - (within - first) / spread
    rho[:, 0], rho[:, 1] = even, odd
    last = np.full(D, -1)
    while t < n - 3 and (going := going[even[going] + odd[going] > 0.0]).size:  # Geyer's initial positive sequence
        even[going], odd[going] = (1.0 - (within[going] - at) / spread[going] for at in covariances(going, t + 1))
        kept = going[even[going] + odd[going] >= 0.0]
        rho[kept, t + 1], rho[kept, t + 2] = even[kept], odd[kept]
        last[going] = t
        t += 2
    left = np.flatnonzero(even > 0.0)
    rho[left, last[left] + 1] = even[left]
    for t in range(1, int(last.max()) - 1, 2):  # and his monotone one
        before = rho[:, t - 1] + rho[:, t]
        rises = (t < last - 1) & (rho[:, t + 1] + rho[:, t + 2] > before)
        rho[rises, t + 1] = rho[rises, t + 2] = 0.5 * before[rises]
    counted = np.arange(last.max() + 1) <= last[:, None]
    tau = -1.0 + 2.0 * (rho[:, : counted.shape[1]] * counted).sum(axis=1) + rho[np.arange(D), last + 1]
    return np.asarray(m * n / np.fmax(tau, 1.0 / math.log10(m * n)))


def ess_and_mcse(draws: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return each coordinate's effective sample size and Monte Carlo standard error, sd / sqrt(ESS), of its mean."""
    columns, sd = standardised_columns(draws)
    size = _ess_of_columns(_split(columns)) if draws.shape[1] >= MIN_DRAWS else np.full(len(sd), np.nan)
    return size, sd / np.sqrt(size)


def mcse_mean(draws: FloatArray) -> FloatArray:
    """Return the Monte Carlo standard error of each coordinate's mean, shape (D,)."""
    return ess_and_mcse(draws)[1]


def split_single_chain(draws: FloatArray) -> FloatArray:
    """Return the two halves of a single chain as chains; several chains as they are."""
    half = draws.shape[1] // 2
    return draws if len(draws) > 1 else np.concatenate([draws[:, :half], draws[:, -half:]])


def rhat(draws: FloatArray) -> FloatArray:
    """Return the rank-normalised split R-hat of each coordinate, shape (D,): NaN for a constant one.

    The two halves of a single chain are compared.
    """
    draws = split_single_chain(draws)
    return bulk_and_rhats(draws)[1] if draws.shape[1] >= MIN_DRAWS else np.full(draws.shape[2], np.nan)


def bulk_and_rhat(draws: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return ``ess(draws, "bulk")`` and ``rhat(draws)``, both of the same ranks where there are several chains."""
    if len(draws) > 1 and draws.shape[1] >= MIN_DRAWS:
        return bulk_and_rhats(draws)
    return ess(draws, "bulk"), rhat(draws)


def row_quantiles(draws: FloatArray, probs: FloatArray) -> FloatArray:
    """Return quantiles of each row of draws, shape (len(probs), n), as `np.quantile` has them to rounding.

    NumPy sorts rows that the cache holds in a third of the time in which `np.quantile` partitions them.
    """
    out, step = np.empty((len(probs), len(draws))), max(1, _ROW_ENTRIES // draws.shape[1])
    for start in range(0, len(draws), step):
        ordered = np.sort(draws[start : start + step], axis=1)
        out[:, start : start + step] = [quantiles(ordered, prob) for prob in probs]
    return out
