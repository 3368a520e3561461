r"""Expected log pointwise predictive density of the full data, from the coreset's draws and the certificate's pass.

Row n stands for w_n copies. Leaving one copy out turns the draws' weights into W_s / p_n(theta_s), so that the full
data's

.. math:: \mathrm{elpd} = \sum_n w_n e_n, \qquad
          e_n = \log \sum_s v_{ns} p_n(\theta_s), \quad v_{ns} \propto W_s / p_n(\theta_s),

W_s = exp(r_s) the importance weights from the coreset's to the full data's posterior (see `certificate`), v smoothed
by PSIS; rows whose k-hat is bad are integrated by moment matching where they are few (`moved_loo`). With integer
weights this is leave-one-out cross-validation of the data with each row written out w_n times.
(`az.loo` on a coreset's own rows is no estimate of it: they are no random sample, and their weights no part of p_n.)

PSIS on every row would cost as much again as the pass. Instead (Magnusson et al. 2020) all rows get the first
two cumulants of -log sum_s W_s / p_n(theta_s), a uniform sample of m rows gets e_n, and the difference estimator

.. math:: \sum_n w_n c_n + \frac{N}{m} \sum_{j\ \mathrm{sampled}} w_j (e_j - c_j), \qquad
          c_n = \mathrm E_W \ell_n - \tfrac12 \mathrm{var}\, \ell_n

is unbiased for sum_n w_n e_n whatever c is. The weights W are known only after the pass, but the first cumulants add
up to sum_s W_s L(theta_s), which they weight then; the variances stay those of the coreset's draws, or of a normal
approximation to them where not all rows are evaluated at all draws (`row_sums`). The two rows of a count (`Responses`)
add up to its first cumulant only: a larger sample tells the second.

Where k-hat stays bad in more than 1 row of 100 there is no number: e_n of such a row is too large, by nobody knows how
much (15 rows under N(0, 100): an elpd of -17.0 was told to be -7.5 ± 0.2).

One row left out: its predictive density e_n by importance sampling from draws of the posterior with the row.

.. math:: e_n = \log \sum_s v_s\, p_n(\theta_s), \qquad v_s \propto W_s / p_n(\theta_s),

v smoothed by PSIS. Where a row alone holds the posterior in place, no draws are left where it would be without the
row, k-hat is large, and e_n comes out too large. Then the draws are moved (Paananen et al. 2021): along the one
direction that the row acts on, C z_n with C the draws' covariance, until eta = z_n . theta has the weighted mean and
sd that moved draws tell, over and over. With T the map found and q the density that the draws come from, moved and
unmoved draws together are draws of the mixture of q and q(T^-1 .) / det T, so that

.. math:: v_s \propto W_s \frac{q(\theta_s) / p_n(\theta_s)}
                               {\tfrac12 q(\theta_s) + \tfrac12 q(T^{-1} \theta_s) / \det T}

for both, whose k-hat judges e_n as before. The weights W_s, from the coreset's to the full data's posterior, stay with
their draws: exact where T shifts and log W is linear.

Whole responses and their log density: rows of labels, or counts, which are two rows each.

The two rows of a count y weigh y and its exposure E. Its log probability

.. math:: \log P(y) = y \, \ell_+(\eta) + E \, \ell_-(\eta) + c(y, E)

has both, and the constant `Family.log_constant`, for which elpds are to be compared with those of other programs.

References
----------
Magnusson, Vehtari, Jonasson and Andersen (2020), Leave-one-out cross-validation for Bayesian model comparison in large
data, AISTATS. Vehtari, Gelman and Gabry (2017), Practical Bayesian model evaluation, Statistics and Computing 27.

Vehtari, Gelman and Gabry (2017), Statistics and Computing 27. Paananen, Piironen, Bürkner and Vehtari (2021),
Implicitly adaptive importance sampling, Statistics and Computing 31, 16.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np

from bayescore.data.dataset import Dataset
from bayescore.data.responses import events_of
from bayescore.families import Family
from bayescore.limits import EQUAL_WEIGHTS_SD, FINITE_K, MAX_BAD_K_SHARE, MAX_K, NEARLY_EQUAL_WEIGHTS_SD
from bayescore.models.posterior import log_likelihood_tiles, moments_over_draws
from bayescore.models.predictor import Predictor
from bayescore.models.row_kernels import derivatives_of
from bayescore.numerics.chains import ess
from bayescore.numerics.psis import psislw
from bayescore.numerics.sampling import Draw, hash_uniforms_of, merge, uniform_rows
from bayescore.types import NO_GROUP, FloatArray, IntArray, WeightedData, stack
from bayescore.validation import DataError


@dataclass(frozen=True, eq=False)
class Responses:
    """Rows that are responses; of counts their weights are exposures, and `events` the counts, shape (n,)."""

    rows: WeightedData
    events: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def weights(self) -> FloatArray:
        """How often each stands in the data, shape (n,)."""
        return self.rows.weights if self.events is None else np.ones(len(self.rows))

    def take(self, which: slice) -> "Responses":
        """Return some of them."""
        return Responses(self.rows.take(which), None if self.events is None else self.events[which])

    def log_p(self, eta: FloatArray, family: Family) -> FloatArray:
        """Return the log density of each at its linear predictor, shape (n, ...)."""
        if self.events is None:
            return family.log_p(eta, self.rows.y.reshape(-1, *np.ones(eta.ndim - 1, dtype=np.int64)))
        y, exposure, constant = self._counts(family, eta.ndim)
        return y * family.log_p(eta, 1) + exposure * family.log_p(eta, -1) + constant

    def tiles(self, draws: FloatArray | Predictor, family: Family) -> Iterator[tuple[slice, FloatArray]]:
        """Yield some of them at a time and their log density at draws, as `log_likelihood_tiles` has it."""
        below = log_likelihood_tiles(draws, self.rows, family)
        if self.events is None:
            yield from below
            return
        at_draws = draws.at_draws(family) if isinstance(draws, Predictor) else family
        y, exposure, constant = self._counts(at_draws, 2)
        above = log_likelihood_tiles(draws, replace(self.rows, y=-self.rows.y), family)
        for (part, down), (_, up) in zip(below, above, strict=True):
            yield part, y[part] * up + exposure[part] * down + constant[part]

    def _counts(self, family: Family, ndim: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        assert self.events is not None
        y, exposure = self.events, self.rows.weights
        shape = -1, *np.ones(ndim - 1, dtype=np.int64)
        y, exposure = y.reshape(shape), exposure.reshape(shape)
        constant = family.log_constant(y, exposure) + _log_jacobian(family, self.rows, self.events).reshape(shape)
        return y, exposure, constant


def _log_jacobian(family: Family, rows: WeightedData, events: FloatArray) -> FloatArray:
    """Return -d log(time): densities of times less those of their logarithms, shape (n,); 0 for other responses."""
    return events * rows.offset if family.times and rows.offset is not None else np.zeros(len(events))


@dataclass(frozen=True, eq=False)
class SampledCounts:
    """A sample of the counts of data, the number of all, and the sums of their constants by the first factor's groups.

    The last sum, shape (G + 1,), is of counts in no group; without groups it is of all.
    """

    responses: Responses
    n_rows: int
    constants: FloatArray

    @property
    def constant(self) -> float:
        """The sum of all constants."""
        return float(self.constants.sum())

    def constant_at(self, draws: FloatArray | Predictor, family: Family) -> tuple[FloatArray | float, float]:
        """Return the sum of all constants at draws, which vary where the family's number does, and its standard error.

        What it differs by from that of the family's own number is estimated by the sample.
        """
        if not isinstance(draws, Predictor) or draws.size is None:
            return self.constant, 0.0
        assert self.responses.events is not None
        counts = np.stack([self.responses.rows.weights, self.responses.events])
        (exposure, y), places = np.unique(counts, axis=1, return_inverse=True)
        moved = draws.at_draws(family).log_constant(y[:, None], exposure[:, None])
        moved -= family.log_constant(y, exposure)[:, None]
        times, n, scale = np.bincount(places), len(places), self.n_rows / len(places)
        error = n * scale * (scale - 1.0) * float(np.cov(moved.mean(axis=1), fweights=times)) if scale > 1.0 else 0.0
        return self.constant + scale * (times @ moved), math.sqrt(error)

    def some(self, size: int) -> "SampledCounts":
        """Return a sample of at most `size` of the sample."""
        chosen = np.sort(np.random.default_rng(size).permutation(len(self.responses))[:size])
        rows, events = self.responses.rows.take(chosen), self.responses.events
        assert events is not None
        return replace(self, responses=Responses(rows, events[chosen]))


class _ElpdBlock(NamedTuple):
    """Of a block: sampled sides, the number of exposures, groups and sums of their constants, the sides at both ends.

    Its last row may be the events of a count whose exposure is the first row of the next block.
    """

    drawn: WeightedData
    n: int
    groups: IntArray
    constants: FloatArray
    first: WeightedData
    last: WeightedData


def sampled_counts(dataset: Dataset, family: Family, size: int, seed: int) -> SampledCounts:
    """Return about `size` counts, chosen by a hash of their places, which keeps their sides together; one pass.

    Raises `DataError` where rows have one side alone, as a coreset's have, or there are none.
    """
    share = min(1.0, 2.0 * size / max(dataset.source.n_rows, 1))  # of sides, two of most rows
    parts = list(dataset.map(partial(_sampled_block, share, seed, family), "drawing rows", canonical=True))
    rows, events = events_of(stack([part.drawn for part in parts]))
    if not len(rows):
        raise DataError("data has no rows of counts; give at least one")
    groups = dataset.design.groups
    constants = np.zeros((len(groups[0]) if groups else 0) + 1)
    for part in parts:
        constants[part.groups] += part.constants
    for part, after in pairwise(parts):
        if part.last.y[0] > 0:
            y, exposure = part.last.weights, after.first.weights
            more = family.log_constant(y, exposure) - family.log_constant(np.zeros(1), exposure)
            more += _log_jacobian(family, part.last, y)
            constants[_first_groups(part.last)] += more
    return SampledCounts(Responses(rows, events), sum(part.n for part in parts), constants)


def _first_groups(rows: WeightedData) -> IntArray:
    """Return codes of the first factor, shape (n,), -1 without one."""
    return np.full(len(rows), NO_GROUP) if rows.group is None else rows.group[:, 0]


def _sampled_block(share: float, seed: int, family: Family, _start: int, block: WeightedData) -> _ElpdBlock:
    rows, events = events_of(block.take(slice(0, len(block) - int(block.y[-1] > 0))))
    groups, places = np.unique(_first_groups(rows), return_inverse=True)
    constants = np.zeros(len(groups))
    np.add.at(constants, places, family.log_constant(events, rows.weights) + _log_jacobian(family, rows, events))
    ends = block.take(slice(0, 1)), block.take(slice(len(block) - 1, None))
    return _ElpdBlock(block.take(hash_uniforms_of(block.index, seed) < share), len(rows), groups, constants, *ends)


def whole_counts(blocks: Iterator[WeightedData]) -> Iterator[WeightedData]:
    """Yield blocks that never part the sides of a count."""
    held: WeightedData | None = None
    for block in blocks:
        rows = block if held is None else stack([held, block])
        whole = len(rows) - int(rows.y[-1] > 0)
        held = rows.take(slice(whole, None)) if whole < len(rows) else None
        if whole:
            yield rows.take(slice(0, whole))
    if held is not None:
        yield held


Density = Callable[[FloatArray], FloatArray]
"""Log density of the posterior that draws come from, up to a constant: draws of shape (S, D) to shape (S,)."""


_ROUNDS = 20  # of moment matching: k-hat below its limit, or no better, ends them sooner


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Rows left out, each alone: e_n and k-hat of its weights, shape (n,).

    `influence`, shape (n, S), is what each draw adds to e_n: v_s (p_n(theta_s) - e^e_n) / e^e_n, 0 in sum.
    """

    value: FloatArray
    k: FloatArray
    influence: FloatArray


def psis_loo(log_p: FloatArray, log_ratio: FloatArray) -> LeftOut:
    """Leave out rows with log p of shape (n, S), the draws as they are; `log_ratio`, shape (S,), is log W."""
    log_weights = log_ratio - log_p
    log_weights -= _log_sums(log_weights)[:, None]
    k, spread = np.zeros(len(log_p)), log_weights.std(axis=1)
    # nearly equal weights of the full posterior have a tail of third order, whose shape speaks against no row
    least = NEARLY_EQUAL_WEIGHTS_SD if log_ratio.std() > EQUAL_WEIGHTS_SD else EQUAL_WEIGHTS_SD
    varied = spread > least  # the others have no tail to fit
    if varied.any():
        log_weights[varied], k[varied] = psislw(log_weights[varied])
    return _left_out(log_weights, log_p, k)


def moved_loo(row: Responses, draws: FloatArray, log_ratio: FloatArray, family: Family, density: Density) -> LeftOut:
    """Leave out one row with draws, shape (S, D), moved to where they would be without it."""
    eta, log_density = row.rows.with_offset((draws @ row.rows.X[0])[None])[0], density(draws)

    def log_p_at(eta: FloatArray) -> FloatArray:
        return np.asarray(row.log_p(eta[None], family)[0])

    mean, sd = float(eta.mean()), float(eta.std())
    direction = (draws.T @ (eta - mean)) / (len(eta) * sd**2)
    log_weights, k = psislw(log_ratio - log_p_at(eta))
    best, least, at = (mean, sd), float(k), eta
    for _ in range(_ROUNDS):
        w = np.exp(log_weights)
        center = float(w @ at)
        to = center, math.sqrt(float(w @ (at - center) ** 2))
        at = to[0] + to[1] / sd * (eta - mean)
        log_weights, k = psislw(log_ratio + density(draws + np.outer(at - eta, direction)) - log_density - log_p_at(at))
        if not k < least:
            break
        best, least = to, float(k)
        if k < FINITE_K:
            break
    slope = best[1] / sd
    shifted = best[0] + slope * (eta - mean)
    back = mean + (eta - best[0]) / slope
    moved, unmoved = (density(draws + np.outer(x - eta, direction)) for x in (shifted, back))
    # densities of unmoved and of moved draws: their own, and of the two that they may come from
    log_q = np.stack([log_density, moved])
    either = np.logaddexp(log_q, np.stack([unmoved, log_density]) - math.log(slope))
    log_p = np.stack([log_p_at(eta), log_p_at(shifted)])
    smoothed, k = psislw((log_ratio + log_q - either - log_p).ravel())
    both = _left_out(smoothed[None], log_p.reshape(1, -1), np.array([k]))
    return LeftOut(both.value, both.k, both.influence.reshape(1, 2, -1).sum(axis=1))


def _left_out(log_weights: FloatArray, log_p: FloatArray, k: FloatArray) -> LeftOut:
    both = log_weights + log_p
    value = _log_sums(both)
    both -= value[:, None]
    return LeftOut(value, k, np.exp(both, out=both) - np.exp(log_weights))


def _log_sums(values: FloatArray) -> FloatArray:
    """Return the logarithm of the sum of exponentials of each row, shape (n,)."""
    top = values.max(axis=1, keepdims=True)
    return np.asarray(np.log(np.exp(values - top).sum(axis=1)) + top[:, 0])


ROWS = 1000  # sampled for exact PSIS-LOO


MOVED_ROWS = 20  # that moment matching is tried for: each costs some twenty log-likelihoods of the coreset a draw


_SEED = 2020  # of the rows' hash: the same data give the same rows


class Approximation(Protocol):
    """A density near the posterior, as a pass asks for it: `LaplaceApproximation`, or one of effects of groups too."""

    @property
    def family(self) -> Family:
        """The rows' family."""

    @property
    def theta(self) -> FloatArray:
        """Coefficients of its middle, shape (D,)."""

    def predictors(self, block: WeightedData) -> tuple[FloatArray, FloatArray]:
        """Return rows' predictors in the middle and their variances, shape (n,) each."""

    def terms(self, block: WeightedData) -> Any:
        """Return the log-likelihood of rows and its derivatives in the middle; those of disjoint rows add up."""


@dataclass(frozen=True, eq=False)
class PassSums:
    """What the pass keeps of some rows: L(theta_s), shape (S,), and a few of them, those with the smallest hashes.

    `variance` is sum_n w_n var l_n, over equally weighted draws, `square` sum_n w_n (mean l_n - var l_n / 2)^2. With
    `laplace` these are moments over that approximation, and `error` is the standard error of L's differences.
    """

    log_likelihood: FloatArray
    variance: float
    square: float
    weight: float
    sample: Draw
    laplace: Approximation | None = None
    error: float = 0.0
    counts: SampledCounts | None = None

    def of_counts(
        self, sampled: SampledCounts, moments: FloatArray, constant: tuple[FloatArray | float, float]
    ) -> "PassSums":
        """Return the sums of counts, whose second moments are no sums over sides; a sample tells them.

        `moments`, shape (2, m), are `count_moments` of it. Some of its counts are those left out.
        """
        (mean, var), (value, unsure) = moments, constant
        n, scale = sampled.n_rows, sampled.n_rows / len(mean)
        sampling = 0.0 if scale == 1.0 else 0.25 * n * (scale - 1.0) * float(var.var(ddof=1))
        return PassSums(
            self.log_likelihood + value,
            scale * float(var.sum()),
            scale * float(((mean - 0.5 * var) ** 2).sum()),
            float(n),
            self.sample,
            error=math.sqrt(self.error**2 + sampling + unsure**2),
            counts=sampled.some(ROWS),
        )

    @property
    def left_out(self) -> tuple[Responses, int]:
        """The sampled responses, and the number of all."""
        if self.counts is None:
            return Responses(self.sample.rows), self.sample.total
        return self.counts.responses, self.counts.n_rows

    def moments(self, log_p: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the moments of the sampled rows that the sums have, given their log p at the draws, shape (n, S)."""
        if self.laplace is None:
            return moments_over_draws(log_p)
        rows = self.sample.rows
        eta, squares = self.laplace.predictors(rows)
        return expected_moments(derivatives_of(eta, rows.y, self.laplace.family), squares)


class Cumulants(NamedTuple):
    """Of a block's rows: sum w l_s, shape (S,), sum w var l, and c_n = mean l_n - var l_n / 2, shape (n,)."""

    log_likelihood: FloatArray
    variance: float
    first: FloatArray


def cumulants(draws: FloatArray | Predictor, block: WeightedData, family: Family) -> Cumulants:
    """Return the cumulants of rows over equally weighted draws, as `log_likelihood_tiles` has them."""
    total, variance, first = np.zeros(len(draws)), 0.0, np.empty(len(block))
    for rows, log_p in log_likelihood_tiles(draws, block, family):
        w = block.weights[rows]
        total += w @ log_p
        mean, var = moments_over_draws(log_p)
        variance += float(w @ var)
        first[rows] = mean - 0.5 * var
    return Cumulants(total, variance, first)


def expected_moments(derivatives: FloatArray, squares: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and variance of rows' log p to second order, shape (n,) each, over a normal density.

    It gives the predictors the variances `squares`; `derivatives`, shape (4, n), are those at its mean.
    """
    log_p, score, curvature, _ = derivatives
    spread = curvature * squares
    return log_p - 0.5 * spread, score**2 * squares + 0.5 * spread**2


def count_moments(draws: FloatArray | Predictor, sampled: SampledCounts, family: Family) -> FloatArray:
    """Return mean and variance over the draws of each sampled count's log density, shape (2, m)."""
    tiles = sampled.responses.tiles(draws, family)
    return np.concatenate([np.stack(moments_over_draws(log_p)) for _, log_p in tiles], axis=1)


def rows_left_out(start: int, block: WeightedData, late: float = math.inf) -> Draw:
    """Return the rows of a block that are left out, its first row at position `start` of the data.

    Those from `late` on, the horizon of other blocks, are not needed.
    """
    return uniform_rows(start, block, ROWS, _SEED, late)


def left_out_of(parts: Sequence[Draw]) -> Draw:
    """Return which of the rows of some blocks are left out of all of them."""
    return merge(parts, ROWS)


def pass_sums(draws: FloatArray | Predictor, start: int, block: WeightedData, family: Family) -> PassSums:
    """Return the sums of a block, its first row at position `start` of the data; draws as `cumulants` takes them."""
    total, variance, first = cumulants(draws, block, family)
    square = float(block.weights @ first**2)
    return PassSums(total, variance, square, float(block.weights.sum()), rows_left_out(start, block))


@dataclass(frozen=True, eq=False)
class RowsLeftOut:
    """Sampled rows left out, shape (m,) each: e_n, c_n, e_n less its cumulants under the weights, and k-hat.

    `noise` is the Monte Carlo variance of the sum of w_n e_n over all rows, and `moved` counts the rows integrated by
    moment matching.
    """

    value: FloatArray
    first: FloatArray
    rest: FloatArray
    k: FloatArray
    noise: float
    moved: int


def leave_rows_out(
    sums: PassSums,
    log_ratio: FloatArray,
    weights: FloatArray,
    draws: FloatArray | Predictor,
    family: Family,
    *,
    n_chains: int,
    density: Density | None = None,
) -> RowsLeftOut:
    """Leave out each of the sampled rows; arguments are those of `elpd_loo`."""
    rows, n_rows = sums.left_out
    log_p = np.concatenate([tile for _, tile in rows.tiles(draws, family)])
    left = psis_loo(log_p, log_ratio)
    moved = 0
    if density is not None and isinstance(draws, np.ndarray) and np.count_nonzero(left.k > MAX_K) <= MOVED_ROWS:
        worst = [n for n in np.argsort(-left.k, kind="stable")[:MOVED_ROWS] if left.k[n] > FINITE_K]
        for n in worst:
            one = moved_loo(rows.take(slice(n, n + 1)), draws, log_ratio, family, density)
            if one.k[0] <= FINITE_K:
                left.value[n], left.k[n], left.influence[n] = one.value[0], one.k[0], one.influence[0]
                moved += 1
    mean, var = sums.moments(log_p)
    centre = log_p @ weights
    scale = n_rows / len(rows)
    change = scale * (rows.weights @ (left.influence - weights * (log_p - centre[:, None])))
    noise = draws_variance(sums.log_likelihood.reshape(n_chains, -1, 1), weights, change) + sums.error**2
    return RowsLeftOut(left.value, mean - 0.5 * var, left.value - centre + 0.5 * var, left.k, noise, moved)


def elpd_loo(
    sums: PassSums,
    log_ratio: FloatArray,
    weights: FloatArray,
    draws: FloatArray | Predictor,
    family: Family,
    *,
    n_chains: int = 1,
    density: Density | None = None,
    counts: SampledCounts | None = None,
) -> dict[str, Any]:
    """Return the fields of `CertificateData` on it; without figures where k-hat is bad in more than a few rows.

    `log_ratio` and `weights`, shape (S,), are r_s and the smoothed importance weights, which sum to 1. With `density`,
    the log density of the posterior that draws of beta, shape (S, D), come from, bad rows are integrated by moment
    matching. Of counts a sample, `counts`, tells what the pass does not.
    """
    if counts is not None:
        sums = sums.of_counts(counts, count_moments(draws, counts, family), counts.constant_at(draws, family))
    rows, n_rows = sums.left_out
    left = leave_rows_out(sums, log_ratio, weights, draws, family, n_chains=n_chains, density=density)
    n_bad, scale = int(np.count_nonzero(left.k > MAX_K)), n_rows / len(rows)
    about = {"elpd_loo_rows": len(rows), "elpd_loo_bad_k": n_bad, "elpd_loo_moved": left.moved}
    if n_bad > MAX_BAD_K_SHARE * len(rows):
        return about
    difference = rows.weights * left.rest
    elpd = float(weights @ sums.log_likelihood - 0.5 * sums.variance + scale * difference.sum())
    square = sums.square + scale * float(rows.weights @ (left.value**2 - left.first**2))
    sampling = 0.0 if scale == 1.0 else n_rows * (scale - 1.0) * float(difference.var(ddof=1))
    unknown = scale * float((difference[left.k > FINITE_K] ** 2).sum())  # their own standard error is not known
    se = math.sqrt(max(square - elpd**2 / sums.weight, 0.0))
    mcse = math.sqrt(sampling + unknown + left.noise)
    # draws are off, and sums over them too: a log probability is negative
    if (elpd >= 0.0 and not (family.numbers or family.amounts)) or mcse > se:
        return about
    return {**about, "elpd_loo": elpd, "elpd_loo_se": se, "elpd_loo_mcse": mcse}


def draws_variance(log_likelihood: FloatArray, weights: FloatArray, change: FloatArray) -> float:
    """Return the Monte Carlo variance of an elpd: what a draw more or less would change.

    The first cumulant's part is that of all rows, from their log-likelihoods, shape (chain, draw, 1); what the sampled
    rows' own influences differ by is `change`, shape (S,).
    """
    flat = log_likelihood.ravel()
    influence = weights * (flat - weights @ flat) + change
    size = float(ess(log_likelihood, "mean")[0])
    efficiency = min(size / len(weights), 1.0) if size > 0.0 else 1.0  # NaN where chains are too short to tell
    return float(influence @ influence) / efficiency
