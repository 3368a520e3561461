r"""What a fit keeps of its rows, so that later updates can do without them: sums, and a sample of up to 20,000 rows.

At the posterior's mean t the log-likelihood of all rows is known to second order, and a sample of the rows, which has
row n with probability pi_n, tells what is left (`models.laplace`),

.. math:: L(\theta) \approx L(t) + g'd - \tfrac12 d'Fd + \sum_{n \in S} \frac{w_n}{\pi_n} R_n(\theta),
          \qquad d = \theta - t,

R_n the remainder of the row's log-likelihood beyond second order. The sum is unbiased wherever the posterior moves to,
and the sample tells its standard error there, so that neither is guessed from how far the posterior has moved. Rows are
drawn as for a posterior `PREDICTOR_WIDENING` times as wide as that of the rows so far. Data of no more rows are kept
whole.

Without groups that is itself a coreset, with what its score and curvature miss (`data.coreset.Shortfall`): the sample
with the weights w / pi, and the quadratic above less that of the sample. Draws of an update are weighed by it and by
the new rows. With groups, whose effects belong to d, draws are weighed by the earlier coreset and the new rows. What
the coreset misses of the earlier rows,

.. math:: m(\theta) = L(\theta) - \tilde L(\theta),

is then found at draws. Means are off by about cov(theta, m): that is the derivative of a posterior mean where m is
added to the log density in small shares (Giordano, Broderick and Jordan 2018, JMLR 19).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add
from typing import Any, Self

import numpy as np
from scipy import sparse

from bayescore.data.coreset import Coreset, Shortfall
from bayescore.data.dataset import Dataset
from bayescore.diagnostics.elpd import Approximation
from bayescore.diagnostics.row_sums import DrawnApproximation, RowSumsPlan, gather, second_order
from bayescore.families import Family
from bayescore.families.family import check_family
from bayescore.files import Arrays
from bayescore.models.groups.rows import JointTerms
from bayescore.models.laplace import Estimate, LaplaceApproximation, largest_sample, with_remainders
from bayescore.models.posterior import Derivatives, likelihood_terms, log_likelihoods
from bayescore.models.predictor import Factor, Predictor
from bayescore.numerics.chains import evenly_spaced
from bayescore.types import FloatArray, WeightedData, stack

PREDICTOR_WIDENING = 2.0
"""How many times as wide the density is that rows are drawn for: later posteriors lie a few sds off."""

MIN_KEPT_ROWS = 500
"""Rows kept of an update, at least; it keeps as large a share of the most as its rows have of all."""

_DRAWS = 1000  # at which is found what a coreset with groups misses: its covariances are known to 3% of its sd
_COLUMNS = ("X", "y", "weights", "index", "offset", "group")  # of rows, the last two where they have any


@dataclass(frozen=True, eq=False)
class _WidenedApproximation:
    """An approximation whose rows' predictors vary `PREDICTOR_WIDENING` times as much."""

    near: Approximation

    @property
    def family(self) -> Family:
        """The rows' family."""
        return self.near.family

    @property
    def theta(self) -> FloatArray:
        """Coefficients of its middle."""
        return self.near.theta

    def predictors(self, block: WeightedData) -> tuple[FloatArray, FloatArray]:
        """Return rows' predictors in the middle and their variances."""
        eta, squares = self.near.predictors(block)
        return eta, PREDICTOR_WIDENING**2 * squares

    def terms(self, block: WeightedData) -> Any:
        """Return the log-likelihood of rows and its derivatives in the middle."""
        return self.near.terms(block)


@dataclass(frozen=True, eq=False)
class EarlierRows:
    """Log-likelihood of rows to second order at a point, and a sample of them, whose weights are w / pi.

    `point` has one draw: coefficients, shape (1, p), and effects by factor, (1, G, q). `inclusion`, shape (n,), is pi.
    """

    point: Predictor
    terms: JointTerms
    rows: WeightedData
    inclusion: FloatArray
    n_total: int

    @classmethod
    def of(cls, dataset: Dataset, core: Coreset, draws: Predictor, share: float = 1.0) -> Self:
        """Look at all rows near draws of their posterior; one pass. `share` is that of the largest sample to keep.

        `core`, their coreset, scales probabilities.
        """
        family, p = check_family(core.family), draws.beta.shape[1]
        near: Approximation = DrawnApproximation.of(family, draws) if draws.factors else _normal(family, draws.beta)
        plan = RowSumsPlan.near(_WidenedApproximation(near), core)
        plan = replace(plan, size=max(math.ceil(share * largest_sample(p)), MIN_KEPT_ROWS))
        gathered, n_rows = gather(dataset, plan, _count, partial(reduce, add), "keeping a sample")
        sample, terms = gathered.sample(), gathered.terms
        if isinstance(terms, Derivatives):
            terms = JointTerms(terms, np.empty(0), np.empty((0, p)), sparse.csr_array((0, 0)))
        middle = draws.means()
        return cls(Predictor(middle.beta, middle.factors), terms, sample.expanded(), sample.inclusion, n_rows)

    def at(self, draws: Predictor, family: Family) -> Estimate:
        """Return the log-likelihood of the rows at draws, which may have more groups, and its standard error."""
        middle = Predictor(self.point.beta, self.point.factors, draws.design)
        values, predictors = second_order(self.terms, middle, draws)
        return with_remainders(values, self.rows, self.inclusion, family, predictors)

    def to_arrays(self, name: str) -> Arrays:
        """Return the rows as arrays whose names begin with `name`."""
        terms, bend = self.terms.coefficients, sparse.coo_array(self.terms.precision)
        arrays: Arrays = {
            "beta": self.point.beta,
            "gradient": terms.gradient,
            "curvature": terms.precision,
            "value": np.array(terms.value),
            "slope": self.terms.slope,
            "cross": self.terms.cross,
            "bend": bend.data,
            "places": np.stack(bend.coords),
            "inclusion": self.inclusion,
            "n_total": np.array(self.n_total),
        }
        columns = {column: getattr(self.rows, column) for column in _COLUMNS}
        arrays |= {column: values for column, values in columns.items() if values is not None}
        arrays |= {f"effects{k}": np.asarray(each.effects) for k, each in enumerate(self.point.factors)}
        return {f"{name}_{key}": array for key, array in arrays.items()}

    @classmethod
    def from_arrays(cls, name: str, arrays: Arrays, core: Coreset) -> Self:
        """Return the rows of `to_arrays`, of a fit with this coreset."""
        parts = {key.removeprefix(f"{name}_"): array for key, array in arrays.items() if key.startswith(f"{name}_")}
        factors = [Factor(grouping, parts[f"effects{k}"]) for k, grouping in enumerate(core.groups)]
        E = len(parts["slope"])
        bend = sparse.csr_array((parts["bend"], tuple(parts["places"])), shape=(E, E))
        terms = Derivatives(float(parts["value"]), parts["gradient"], parts["curvature"])
        rows = WeightedData(**{column: parts[column] for column in _COLUMNS if column in parts})
        joint = JointTerms(terms, parts["slope"], parts["cross"], bend)
        return cls(Predictor(parts["beta"], factors), joint, rows, parts["inclusion"], int(parts["n_total"]))


def _count(_: int, block: WeightedData) -> int:
    return len(block)


def _normal(family: Family, beta: FloatArray) -> LaplaceApproximation:
    """Return the normal approximation with mean and covariance of draws, shape (S, D)."""
    values, axes = np.linalg.eigh(np.atleast_2d(np.cov(beta.T)))
    return LaplaceApproximation(family, beta.mean(axis=0), axes * np.sqrt(np.maximum(values, 0.0)))


def coreset_of_kept_rows(kept: Sequence[EarlierRows], core: Coreset) -> Coreset:
    """Return the kept samples of rows without groups as one coreset of all of them, with its shortfall.

    `core` is another of these rows, whose design and family it has.
    """
    family, missed = check_family(core.family), list[Shortfall]()
    for part in kept:
        point, full = part.point.beta[0], part.terms.coefficients
        sample = likelihood_terms(point, part.rows, family)
        rest = full.precision - sample.precision
        missed.append(Shortfall(point, full.gradient - sample.gradient, 0.5 * (rest + rest.T)))
    rows = stack([part.rows for part in kept])
    total = sum(missed[1:], missed[0])
    return replace(
        core,
        **{name: getattr(rows, name) for name in ("X", "y", "weights", "index", "offset")},
        method="sample",
        shortfall=total,
    )


def standard_error(kept: Sequence[EarlierRows], draws: Predictor, family: Family) -> float:
    """Return the standard error of the samples' log-likelihoods at draws, in nats.

    Means of the posterior are off by up to as many sds.
    """
    some = draws.take(evenly_spaced(len(draws), _DRAWS))
    return math.hypot(*(part.at(some, family).error for part in kept))


@dataclass(frozen=True)
class MissedRows:
    """What a coreset misses of earlier rows: errors of means, in sds, and of sds, and the samples' standard error.

    `spread` is the sd over draws of the log-likelihood that is missed, in nats: where it is large, errors are not told.
    """

    mean: float
    sd: float
    error: float
    spread: float


def missed_by(core: Coreset, kept: Sequence[EarlierRows], draws: Predictor, parameters: FloatArray) -> MissedRows:
    """Return what a coreset of the kept rows misses at draws, where `parameters` are, shape (chain, draw, K)."""
    family, at = check_family(core.family), evenly_spaced(len(draws), _DRAWS)
    some, log_p = draws.take(at), np.zeros(len(at))
    errors = []
    for part in kept:
        estimate = part.at(some, family)
        log_p += estimate.values
        errors.append(estimate.error)
    missed = log_p - log_likelihoods(some, core, family)
    missed -= missed.mean()
    effects = np.concatenate([factor.effects[some.at].reshape(len(at), -1) for factor in some.factors], axis=1)
    z = np.concatenate([parameters.reshape(len(draws), -1)[at], effects], axis=1)
    z -= z.mean(axis=0)
    sd = z.std(axis=0)
    z /= np.where(sd > 0.0, sd, 1.0)
    of_mean, of_sd = (float(np.abs(missed @ each).max()) / len(at) for each in (z, 0.5 * (z * z - 1.0)))
    return MissedRows(of_mean, of_sd, math.hypot(*errors), float(missed.std()))


def kept_to_arrays(kept: Sequence[EarlierRows]) -> Arrays:
    """Return kept rows as arrays."""
    return {name: array for k, rows in enumerate(kept) for name, array in rows.to_arrays(f"rows{k}").items()}


def kept_from_arrays(arrays: Arrays, core: Coreset) -> tuple[EarlierRows, ...]:
    """Return the kept rows of `kept_to_arrays`, of a fit with this coreset."""
    n = sum(name.endswith("_n_total") for name in arrays)
    return tuple(EarlierRows.from_arrays(f"rows{k}", arrays, core) for k in range(n))
