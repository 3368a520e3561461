r"""The log-likelihood of rows and its derivatives by coefficients and effects of groups, at one point.

With b the coefficients, u the effects of all factors, and a row's predictor x . b + z . u + o,

.. math:: L(b + \delta, u + \epsilon) \approx L + g'\delta + h'\epsilon
          - \tfrac12 \delta' F \delta - \epsilon' C \delta - \tfrac12 \epsilon' K \epsilon

K has entries only for effects that occur in one row: it is sparse, one block for each level and each pair of levels.
Terms of disjoint rows add up, so the same function serves rows in memory and a pass.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from bayescore.models.families import Family
from bayescore.models.posterior import Derivatives, likelihood_terms
from bayescore.models.predictor import Predictor
from bayescore.models.row_kernels import derivatives_of
from bayescore.types import FloatArray, WeightedData


@dataclass(frozen=True, eq=False)
class JointTerms:
    """Value, g and F of the coefficients, h of the effects, shape (E,), C, shape (E, p), and K, shape (E, E)."""

    coefficients: Derivatives
    slope: FloatArray
    cross: FloatArray
    precision: sparse.csr_array

    def __add__(self, other: "JointTerms") -> "JointTerms":
        return JointTerms(
            self.coefficients + other.coefficients,
            self.slope + other.slope,
            self.cross + other.cross,
            self.precision + other.precision,
        )

    def at(self, beta: FloatArray, effects: FloatArray) -> FloatArray:
        """Return the log-likelihood to second order at moves, shapes (S, p) and (S, E), from the point: (S,)."""
        own = self.coefficients
        of_beta = beta @ own.gradient - 0.5 * ((beta @ own.precision) * beta).sum(axis=1)
        pull = effects @ self.cross * beta
        bend = (self.precision @ effects.T).T * effects
        return np.asarray(own.value + of_beta + effects @ self.slope - pull.sum(axis=1) - 0.5 * bend.sum(axis=1))


def joint_terms(point: Predictor, rows: WeightedData, family: Family) -> JointTerms:
    """Return the terms of rows at the first draw of `point`."""
    here, Z = point.take(slice(0, 1)), point.columns(rows)
    beta, effects = here.beta[0], here.effects(rows)[:, 0]
    offset = effects if rows.offset is None else rows.offset + effects
    given = WeightedData(rows.X, rows.y, rows.weights, rows.index, offset=offset)
    _, score, curvature, _ = derivatives_of(given.with_offset(rows.X @ beta), rows.y, family)
    pull = Z.T @ (rows.weights * score)
    return JointTerms(likelihood_terms(beta, given, family), pull, *bends(rows.X, Z, rows.weights * curvature))


def bends(X: FloatArray, Z: sparse.csr_array, c: FloatArray) -> tuple[FloatArray, sparse.csr_array]:
    """Return Z'CX, shape (E, p), and Z'CZ, shape (E, E), C the diagonal matrix of rows' curvatures c, shape (n,)."""
    scaled = sparse.csr_array((Z.data * np.repeat(c, np.diff(Z.indptr)), Z.indices, Z.indptr), shape=Z.shape)
    return scaled.T @ X, sparse.csr_array(scaled.T @ Z)


def largest_gap(one: JointTerms, other: JointTerms) -> float:
    """Return the largest difference of scores and curvatures, each by the roots of its own diagonal of F and K.

    A score of 1 in these units moves a parameter by its sd, all others known, under the rows alone.
    """
    own, its = one.coefficients, other.coefficients
    root = _roots(np.diagonal(own.precision)), _roots(one.precision.diagonal())
    entries = (one.precision - other.precision).tocoo()
    i, j = entries.coords
    parts = [
        (own.gradient - its.gradient) / root[0],
        (one.slope - other.slope) / root[1],
        (own.precision - its.precision) / np.outer(root[0], root[0]),
        (one.cross - other.cross) / np.outer(root[1], root[0]),
        entries.data / (root[1][i] * root[1][j]),
    ]
    return max(float(np.abs(part).max(initial=0.0)) for part in parts)


def _roots(diagonal: FloatArray) -> FloatArray:
    """Return roots of curvatures; of a parameter that no row knows, that of the least of the others."""
    size = np.abs(diagonal)
    known = size[size > 0.0]
    return np.sqrt(np.where(size > 0.0, size, known.min() if known.size else 1.0))
