r"""The weighted posterior density and its derivatives, for modes, Laplace approximations and samplers.

.. math:: \log\pi(\beta) = \sum_n w_n \ell(x_n \cdot \beta + o_n, y_n) + \log\pi_0(\beta)

with the family's log probability l of a row's side y_n, and the row's offset o_n. The likelihood is additive over
blocks, so that `likelihood_terms` serves a coreset in memory and a pass over a large source.

The compiled log posterior density: weighted log-likelihood and prior, value and gradient in one pass.

The samplers call it some 1e5 times a second, so it allocates little and never raises. The formulas are those of the
likelihood and of the prior, which are arguments (`compiled`).

The compiled log posterior density of rows whose columns mostly have one value: 0/1 columns, standardised or not.

A column is its most frequent value and what the other rows differ from it by. So a gradient reads those rows alone.
The density is that of `log_density` but for rounding.

The log ratio and the gradient of the prior at moved draws, in closed form or from a user's own model.

For a `pm.Model` with parameters h beside beta, the conditional prior of beta is the model's log density less the
coreset's weighted log-likelihood L~,

.. math:: \log\pi(\beta' | h) - \log\pi(\beta | h)
          = [\log p(\beta', h) - \tilde L(\beta')] - [\log p(\beta, h) - \tilde L(\beta)],

at each draw's own h. PyMC itself is not imported: the model brings its compiled functions. `at` are the positions of
draws among all draws.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import issparse

from bayescore.compiled import at_address, jit, jit_inner_sums, jit_sums, one_blas_thread
from bayescore.data.dataset import Dataset
from bayescore.data.passes import TileRows, add_gram, csr_if_sparse
from bayescore.families import Family
from bayescore.families.family import check_family
from bayescore.models.predictor import Predictor
from bayescore.models.row_kernels import add_terms, derivatives_of, log_p_and_score, log_p_near
from bayescore.numerics.chains import evenly_spaced
from bayescore.priors import Prior
from bayescore.priors.groups import LKJ_ETA, GroupPrior, log_sigma_terms
from bayescore.priors.prior import Part, check_density
from bayescore.types import NO_OFFSET, FloatArray, IntArray, WeightedData, read_only
from bayescore.validation import DataError


class DensityArguments(NamedTuple):
    """What `log_density` takes after the coefficients and the gradient."""

    columns: Any  # of X, shape (D, n), or `SparseColumns`
    side: FloatArray
    weights: FloatArray
    offset: FloatArray  # may be empty
    family: Family
    prior: tuple[Part, ...]


@jit
def prior_terms(beta: FloatArray, prior: tuple[Part, ...], gradient: FloatArray) -> float:
    """Return the log prior density and write its gradient, shape (D,)."""
    total = 0.0
    for part in prior:
        total += part[0].terms(beta, part[1], part[2], gradient)
    return total


@jit_inner_sums
def add_predictors(beta: FloatArray, columns: FloatArray, offset: FloatArray, eta: FloatArray) -> None:
    """Add x . beta + offset to eta, shape (n,); columns of X have shape (D, n), and `offset` may be empty."""
    for d in range(beta.size):
        for n in range(eta.size):
            eta[n] += columns[d, n] * beta[d]
    for n in range(offset.size):
        eta[n] += offset[n]


@jit_inner_sums
def add_scores(columns: FloatArray, scores: FloatArray, gradient: FloatArray) -> None:
    """Add the sum of score times row to the gradient, shape (D,)."""
    for d in range(columns.shape[0]):
        part = 0.0
        for n in range(scores.size):
            part += columns[d, n] * scores[n]
        gradient[d] += part


@jit_sums
def log_density(beta: FloatArray, gradient: FloatArray, arguments: DensityArguments) -> float:
    """Return the log posterior density and write its gradient, shape (D,).

    sum_n w_n l(x_n . beta + offset_n, side_n) + log prior(beta); X is transposed, so that loops over rows vectorise.
    """
    side, weights = arguments.side, arguments.weights
    total = prior_terms(beta, arguments.prior, gradient)
    both = np.empty((2, weights.size))
    eta, log_p = both[0], both[1]
    for n in range(weights.size):
        eta[n] = 0.0
    add_predictors(beta, arguments.columns, arguments.offset, eta)
    arguments.family.rows(eta, side, log_p)
    for n in range(weights.size):
        total += weights[n] * log_p[n]
        eta[n] *= weights[n]
    add_scores(arguments.columns, eta, gradient)
    return total


_CACHE = 1 << 17  # entries of a tile of rows: 1 MB


WIDE = 96  # columns from which BLAS is faster than the compiled tiles


WIDE_ROWS = 1024  # of a product: 4 MB at 500 columns


@dataclass(frozen=True, eq=False)
class Derivatives:
    """Value, gradient (D,) and minus the Hessian (D, D) of a log density; those of disjoint rows add up."""

    value: float
    gradient: FloatArray
    precision: FloatArray

    def __add__(self, other: "Derivatives") -> "Derivatives":
        return Derivatives(self.value + other.value, self.gradient + other.gradient, self.precision + other.precision)

    def __sub__(self, other: "Derivatives") -> "Derivatives":
        return Derivatives(self.value - other.value, self.gradient - other.gradient, self.precision - other.precision)


def no_terms(n_features: int) -> Derivatives:
    """Return the terms of no rows."""
    return Derivatives(0.0, np.zeros(n_features), np.zeros((n_features, n_features)))


def likelihood_terms(beta: FloatArray, data: WeightedData, family: Family) -> Derivatives:
    """Return the weighted log-likelihood of rows, and its derivatives at `beta`, shape (D,)."""
    gradient, precision = np.zeros(len(beta)), np.zeros((len(beta), len(beta)))
    if len(beta) >= WIDE:
        return _wide_terms(np.asarray(beta), data, family)
    value = add_terms(TileRows.of(data), read_only(np.asarray(beta)), family, gradient, precision)
    return Derivatives(value, gradient, np.tril(precision) + np.tril(precision, -1).T)


def _wide_terms(beta: FloatArray, data: WeightedData, family: Family) -> Derivatives:
    """Return `likelihood_terms` by BLAS on one thread, some rows at a time that stay in the cache.

    Where most entries of rows are 0 the Hessian is a sum over the others.
    """
    value, gradient, precision = 0.0, np.zeros(len(beta)), np.zeros((len(beta), len(beta)))
    with one_blas_thread():
        for start in range(0, len(data), WIDE_ROWS):
            part = data.take(slice(start, start + WIDE_ROWS))
            rows, w = part.X, part.weights
            log_p, score, curvature, _ = derivatives_of(part.with_offset(rows @ beta), part.y, family)
            value += float(w @ log_p)
            gradient += (w * score) @ rows
            few = csr_if_sparse(rows)
            if issparse(few):
                add_gram(few, w * curvature, precision)
                continue
            precision += weighted_gram(rows, w * curvature)
    return Derivatives(value, gradient, precision)


def weighted_gram(X: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the sum of w x x' over rows, shape (D, D), some at a time that stay in the cache; w may be negative."""
    gram, scratch = np.zeros((X.shape[1], X.shape[1])), np.empty((min(len(X), WIDE_ROWS), X.shape[1]))
    for start in range(0, len(X), WIDE_ROWS):
        part, w = X[start : start + WIDE_ROWS], weights[start : start + WIDE_ROWS]
        scaled = np.multiply(part, np.sqrt(np.abs(w))[:, None], out=scratch[: len(part)])
        gram += scaled.T @ scaled
        if (negative := w < 0.0).any():
            gram -= 2.0 * scaled[negative].T @ scaled[negative]
    return gram


def full_terms(beta: FloatArray, dataset: Dataset, family: Family, prior: Derivatives) -> Derivatives:
    """Return the log posterior of all rows and its derivatives, given the log prior's at `beta`; one pass."""

    def of_block(_: int, block: WeightedData) -> Derivatives:
        return likelihood_terms(beta, block, family)

    return reduce(add, dataset.map(of_block, "Newton pass", canonical=True), prior)


def log_likelihood_tiles(
    draws: FloatArray | Predictor, data: WeightedData, family: Family
) -> Iterator[tuple[slice, FloatArray]]:
    """Yield some rows of `data` at a time and their unweighted log p at each draw, shape (rows, S), to 2e-10.

    Draws are those of beta, shape (S, D), or of all parameters of the linear predictor.
    """
    predictor = draws if isinstance(draws, Predictor) else Predictor(draws)
    center = predictor.beta.mean(axis=0)
    moves = (predictor.beta - center).T
    step = max(1, _CACHE // len(draws))
    for start in range(0, len(data), step):
        rows = slice(start, start + step)
        part = data.take(rows)
        log_p, eta = csr_if_sparse(part.X) @ moves, part.with_offset(part.X @ center)
        if predictor.factors:
            effects = predictor.effects(part)
            middle = effects.mean(axis=1)
            eta += middle
            log_p += effects - middle[:, None]
        if predictor.size is None:
            log_p_near(eta, part.y, family, log_p)
        else:
            log_p = predictor.at_draws(family).log_p(log_p + eta[:, None], part.y[:, None])
        yield rows, log_p


def values_and_scores(
    moves: FloatArray, eta: FloatArray, X: FloatArray | sparse.csr_array, rows: WeightedData, family: Family
) -> tuple[FloatArray, FloatArray]:
    """Return the weighted log-likelihood of rows at moves, shape (S, D), and its gradients, shapes (S,) and (S, D).

    A move b takes predictors from `eta`, shape (n,), to eta + X b. X may be sparse, and of other columns.
    """
    values, gradients = np.zeros(len(moves)), np.zeros(moves.shape)
    side = rows.y.astype(np.float64)
    for start in range(0, len(rows), WIDE_ROWS):
        cut = slice(start, start + WIDE_ROWS)
        part, w = X[cut], rows.weights[cut]
        at = np.ascontiguousarray((part @ moves.T).T) if issparse(part) else moves @ part.T
        at += eta[cut]
        log_p = np.empty_like(at)
        log_p_and_score(at, side[cut], family, log_p)
        values += log_p @ w
        at *= w
        gradients += at @ part
    return values, gradients


def moments_over_draws(log_p: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and variance over the draws of each row of a tile of shape (n, S), shape (n,) each."""
    n_draws = log_p.shape[1]
    mean = log_p @ np.full(n_draws, 1.0 / n_draws)  # BLAS: twice as fast as mean and einsum
    return mean, np.maximum(np.vecdot(log_p, log_p) / n_draws - mean**2, 0.0)


def log_likelihoods(draws: FloatArray | Predictor, data: WeightedData, family: Family) -> FloatArray:
    """Return the weighted log-likelihood of `data` at each draw, shape (S,); draws as `log_likelihood_tiles` takes."""
    total = np.zeros(len(draws))
    for rows, log_p in log_likelihood_tiles(draws, data, family):
        total += data.weights[rows] @ log_p
    return total


def log_joint_density(
    predictor: Predictor, rows: WeightedData, family: Family, priors: tuple[Prior, GroupPrior | None, GroupPrior | None]
) -> FloatArray:
    """Return the log density of beta, effects, log sds and correlations at draws, shape (S,), up to a constant.

    `priors` are those of beta, of sds of effects, and of the sd of the noise where it is a parameter.
    """
    prior, group_prior, sd_prior = priors
    total = log_likelihoods(predictor, rows, family) + prior.log_density(predictor.beta)
    if predictor.size is not None and sd_prior is not None:
        total += [log_sigma_terms(each, *sd_prior.table)[0] for each in np.log(predictor.size)]
    for factor in predictor.factors:
        assert factor.covariance is not None
        assert group_prior is not None
        at = slice(None) if predictor.at is None else predictor.at
        u, S = factor.effects[at], factor.covariance[at]
        L, log_sd = np.linalg.cholesky(S), 0.5 * np.log(np.einsum("sqq->sq", S))
        log_det = 2.0 * np.log(np.einsum("sqq->sq", L)).sum(axis=1)
        total += [sum(log_sigma_terms(each, *group_prior.table)[0] for each in draw) for draw in log_sd]
        total += (LKJ_ETA - 1.0) * (log_det - 2.0 * log_sd.sum(axis=1)) - 0.5 * u.shape[1] * log_det
        total -= 0.5 * (np.linalg.solve(L, u.transpose(0, 2, 1)) ** 2).sum(axis=(1, 2))
    return np.asarray(total)


@dataclass(frozen=True, eq=False)
class TargetDensity:
    """The posterior density of one weighted data set: what modes and samplers see."""

    rows: WeightedData
    family: Family
    prior: Prior

    @property
    def n_features(self) -> int:
        """Number of coefficients."""
        return self.rows.n_features

    def terms(self, beta: FloatArray) -> Derivatives:
        """Return log density, gradient and minus the Hessian at `beta`."""
        return likelihood_terms(beta, self.rows, self.family) + prior_part(beta, self.prior)

    def arguments(self) -> DensityArguments:
        """Return what the compiled `log_density` takes after the coefficients and the gradient, in memory."""
        arguments = DensityArguments(
            np.array(self.rows.X.T, order="C"),  # a copy, as a view of one column is read-only: another type to numba
            self.rows.y.astype(np.float64),
            self.rows.weights,
            NO_OFFSET if self.rows.offset is None else self.rows.offset,
            self.family,
            self.prior.parts(self.n_features),
        )
        return at_address(arguments)

    def log_density(self, beta: FloatArray) -> tuple[float, FloatArray]:
        """Return the log density and its gradient by the compiled kernel."""
        gradient = np.empty(self.n_features)
        value = log_density(np.asarray(beta, dtype=np.float64), gradient, self.arguments())
        return value, gradient


def prior_part(beta: FloatArray, prior: Prior) -> Derivatives:
    """Return the log prior density at `beta` and its derivatives, kinks rounded off."""
    smoothed = prior.smoothed()
    return Derivatives(float(smoothed.log_density(beta)), smoothed.gradient(beta), smoothed.precision(beta))


def width_precision(likelihood_precision: FloatArray, beta: FloatArray, prior: Prior) -> FloatArray:
    """Return minus the Hessian at the mode `beta`, shape (D, D), with a kinked prior's variance for its curvature."""
    prior_precision = prior_part(beta, prior).precision
    for part, places, table in prior.parts(len(beta)):
        if part.kinked:
            prior_precision[places, places] = 0.5 / table[1] ** 2
    return likelihood_precision + prior_precision


def posterior(data: WeightedData, family: str | Family, prior: Prior, purpose: str = "this") -> TargetDensity:
    """Return the posterior density of `data`; the prior must have a density in closed form."""
    check_density(prior, purpose).parts(data.n_features)
    X, weights = np.ascontiguousarray(data.X), np.ascontiguousarray(data.weights)
    rows = WeightedData(X, data.y, weights, data.index, offset=data.offset, group=data.group)
    return TargetDensity(rows, check_family(family), prior)


MAX_FILL = 0.08  # share of entries that differ from the usual one of their column, up to which whole columns are slower


class SparseColumns(NamedTuple):
    """Columns of X: the usual value of each, (D,), and its other rows and their differences to it, column by column."""

    usual: FloatArray
    ends: NDArray[np.int64]  # (D + 1,)
    rows: NDArray[np.int32]
    values: FloatArray


def sparse_columns(X: FloatArray) -> SparseColumns | None:
    """Return the columns of rows, shape (n, D), by what differs from the usual; None where that is too much."""
    most = int(MAX_FILL * X.size)
    usual, rows, values, count = np.empty(X.shape[1]), [], [], 0
    for d, column in enumerate(X.T):
        distinct, times = np.unique(column, return_counts=True)
        usual[d] = distinct[times.argmax()]
        unusual = np.flatnonzero(column != usual[d])
        count += len(unusual)
        if count > most:
            return None
        rows.append(unusual.astype(np.int32))
        values.append(column[unusual] - usual[d])
    ends = np.concatenate([[0], np.cumsum([len(unusual) for unusual in rows])]).astype(np.int64)
    return SparseColumns(usual, ends, np.concatenate(rows), np.concatenate(values))


@jit_sums
def sparse_log_density(beta: FloatArray, gradient: FloatArray, arguments: DensityArguments) -> float:
    """Return what `log_density` does, of `SparseColumns`."""
    columns, weights, offset = arguments.columns, arguments.weights, arguments.offset
    total, level = prior_terms(beta, arguments.prior, gradient), 0.0
    for d in range(beta.size):
        level += columns.usual[d] * beta[d]
    eta, log_p = np.full(weights.size, level), np.empty(weights.size)
    for d in range(beta.size):
        for k in range(columns.ends[d], columns.ends[d + 1]):
            eta[columns.rows[k]] += columns.values[k] * beta[d]
    for n in range(offset.size):
        eta[n] += offset[n]
    arguments.family.rows(eta, arguments.side, log_p)
    whole = 0.0
    for n in range(weights.size):
        total += weights[n] * log_p[n]
        eta[n] *= weights[n]
        whole += eta[n]
    for d in range(beta.size):
        part = columns.usual[d] * whole
        for k in range(columns.ends[d], columns.ends[d + 1]):
            part += columns.values[k] * eta[columns.rows[k]]
        gradient[d] += part
    return total


_TINY = 1e-300


_CHECKED_DRAWS = 7  # draws at which a potential is compared with the coreset's log-likelihood


@dataclass(frozen=True)
class ClosedForm:
    """A prior whose density has a closed form."""

    density: Prior

    @property
    def prior(self) -> Prior | None:
        """The prior if it is smooth."""
        return self.density if self.density.smooth else None

    def log_ratio(self, at: IntArray, draws: FloatArray, moved: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return log prior of `moved` minus that of `draws`, shape (S, D) each: shape (S,)."""
        return self.log_density(moved) - self.log_density(draws)

    def log_density(self, draws: FloatArray) -> FloatArray:
        """Return the log prior density at draws of shape (S, D)."""
        return self.density.log_density(draws)

    def gradient(self, at: IntArray, draws: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return the gradient of the log prior."""
        return self.density.gradient(draws)


@dataclass(frozen=True, eq=False)
class OfModel:
    """The conditional prior of `beta` in a user's own `pm.Model`, which has `weighted_potential` of the coreset."""

    model: Any
    draws: Mapping[str, FloatArray]  # of its variables, (S, ...), chains below each other
    data: WeightedData  # the coreset
    family: Family
    prior: None = None

    @property
    def moves(self) -> bool:
        """Whether beta is a variable of its own, as it is, rather than a function of others."""
        free = [rv for rv in self.model.free_RVs if rv.name == "beta"]
        return bool(free) and self.model.rvs_to_transforms[free[0]] is None

    @cached_property
    def points(self) -> list[dict[str, FloatArray]]:
        """The draws as the model's compiled functions take them, transformed where the model transforms."""
        model = self.model
        missing = [rv.name for rv in model.free_RVs if rv.name not in self.draws]
        if missing:
            raise DataError(f"idata has no draws of {', '.join(missing)}, which model= has; give the model's own draws")
        inside = []
        for rv in model.free_RVs:
            transform = model.rvs_to_transforms[rv]
            inside.append(rv if transform is None else transform.forward(rv, *rv.owner.inputs))
        change = model.compile_fn(inside, inputs=model.free_RVs, point_fn=False, on_unused_input="ignore")
        names = [model.rvs_to_values[rv].name for rv in model.free_RVs]
        columns = [self.draws[rv.name] for rv in model.free_RVs]
        return [dict(zip(names, change(*each), strict=True)) for each in zip(*columns, strict=True)]

    @cached_property
    def _log_density(self) -> Any:
        return self.model.compile_logp()

    def log_densities(self, at: IntArray) -> FloatArray:
        """Return the model's log density at draws, shape (S,), in the coordinates that its samplers move."""
        return np.array([float(self._log_density(self.points[i])) for i in at])

    def log_ratio(self, at: IntArray, draws: FloatArray, moved: FloatArray) -> FloatArray:
        """Return log prior of `moved` minus that of `draws`, given the draws' other parameters."""
        each = [self.points[i] for i in at]
        after = [self._log_density({**point, "beta": beta}) for point, beta in zip(each, moved, strict=True)]
        before = [self._log_density({**point, "beta": beta}) for point, beta in zip(each, draws, strict=True)]
        log_p = log_likelihoods(moved, self.data, self.family) - log_likelihoods(draws, self.data, self.family)
        return np.asarray(np.array(after, dtype=np.float64) - np.array(before, dtype=np.float64) - log_p)

    def gradient(self, at: IntArray, draws: FloatArray) -> FloatArray:
        """Return the gradient of the log prior with respect to beta."""
        beta = next(rv for rv in self.model.free_RVs if rv.name == "beta")
        slope = self.model.compile_dlogp(vars=[beta])
        total = [slope({**self.points[i], "beta": point}) for i, point in zip(at, draws, strict=True)]
        return np.array(total, dtype=np.float64) - score(draws, self.data, self.family)

    def joint(self, at: IntArray) -> tuple[FloatArray, FloatArray, list[str], slice]:
        """Return all unbounded parameters of some draws, their gradients, names, and the place of beta.

        The place is empty where beta is no variable of its own.
        """
        slope, order = self.model.compile_dlogp(), [value.name for value in self.model.value_vars]
        points = [self.points[i] for i in at]
        values = np.array([np.concatenate([np.ravel(point[name]) for name in order]) for point in points])
        names = [f"{name}[{i}]" if np.size(points[0][name]) > 1 else name for name in order
                 for i in range(np.size(points[0][name]))]  # fmt: skip
        first = names.index("beta[0]") if "beta[0]" in names else names.index("beta") if "beta" in names else 0
        place = slice(first, first + self.data.n_features if self.moves else first)
        return values, np.array([slope(point) for point in points]), names, place

    def check(self) -> None:
        """Raise `DataError` unless one of the model's potentials is the coreset's weighted log-likelihood."""
        model = self.model
        at = evenly_spaced(len(self.points), _CHECKED_DRAWS)
        potentials = model.compile_fn(
            model.replace_rvs_by_values(model.potentials), inputs=model.value_vars, on_unused_input="ignore"
        )
        values = np.array([[float(np.sum(part)) for part in potentials(self.points[i])] for i in at])
        log_p = log_likelihoods(self.draws["beta"][at], self.data, self.family)
        if values.size:
            gap = np.ptp(values - log_p[:, None], axis=0)
            if (gap <= 1e-6 * max(1.0, float(np.abs(log_p).max()))).any():
                return
        raise DataError(
            "no potential of model= is the coreset's weighted log-likelihood at the draws; give the model that has "
            "weighted_potential(..., core, beta) of this coreset, and its own draws"
        )


PriorRatio = ClosedForm | OfModel


def mean_curvature(draws: FloatArray, gradients: FloatArray) -> FloatArray:
    """Return minus the slope of a log density's gradients over draws, shape (S, D) each, of each coordinate: (D,).

    It is the precision of the normal density that has such gradients; 0 for a constant coordinate.
    """
    moves = draws - draws.mean(axis=0)
    return np.asarray(-(moves * gradients).sum(axis=0) / np.maximum((moves**2).sum(axis=0), _TINY))


def score(draws: FloatArray, data: WeightedData, family: Family) -> FloatArray:
    """Return the gradient of the weighted log-likelihood at draws, both of shape (S, D)."""
    eta, X = data.with_offset(np.zeros(len(data))), csr_if_sparse(data.X)
    steps = range(0, len(draws), _CACHE // WIDE_ROWS)
    parts = [values_and_scores(draws[s : s + steps.step], eta, X, data, family)[1] for s in steps]
    return np.concatenate(parts)


def stand_in(
    draws: FloatArray, gradients: FloatArray, center: FloatArray, score: FloatArray
) -> Callable[[FloatArray], Derivatives]:
    """Return a normal log prior of independent coefficients: its slope that of the gradients over the draws.

    At `center` it balances the coreset's `score`, which makes that the coreset's mode.
    """
    precision = np.maximum(mean_curvature(draws, gradients), 0.0)

    def terms(beta: FloatArray) -> Derivatives:
        step = beta - center
        gradient = -score - precision * step
        return Derivatives(float(-score @ step - 0.5 * precision @ step**2), gradient, np.diag(precision))

    return terms
