r"""Rows of several group terms, sorted by the factor of most levels, and the curvature of beta and all effects.

Minus the Hessian of (effects of the first factor, the rest) is [[D, B'], [B, E]]. D is block diagonal, a block for each
level, and B is sparse, an entry for each pair of levels that rows have: no matrix of all parameters is made.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import linalg, sparse

from bayescore.data.coreset import Coreset
from bayescore.data.design import Grouping
from bayescore.models.joint_terms import bends
from bayescore.models.predictor import Factor, Predictor, multipliers
from bayescore.types import FloatArray, IntArray
from bayescore.validation import DataError

MAX_REST = 10_000
"""Coefficients and effects of all factors but the first: their matrix takes 800 MB."""


@dataclass(frozen=True, eq=False)
class JointRows:
    """Rows, and for each factor its column in their groups, codes (the number of levels for no group) and z, (n, q)."""

    rows: Coreset
    factors: tuple[Grouping, ...]  # that of most effects first
    places: tuple[int, ...]
    codes: tuple[IntArray, ...]
    z: tuple[FloatArray, ...]

    @classmethod
    def of(cls, core: Coreset) -> "JointRows":
        """Return the rows of a coreset."""
        assert core.group is not None
        effects = [len(own) * len(own.effects) for own in core.groups]
        order = sorted(range(len(effects)), key=lambda place: -effects[place])
        if (rest := core.n_features + sum(effects) - max(effects)) > MAX_REST:
            raise DataError(
                f"core has {rest:,} coefficients and effects beside those of {core.groups[order[0]].name!r}, and "
                f"sampler='joint' takes {MAX_REST:,}: leave out a group term, or merge levels"
            )
        # a stable sort: the same rows in the same order on every machine
        rows = core.take(np.argsort(core.group[:, order[0]], kind="stable"))
        factors = tuple(core.groups[place] for place in order)
        assert rows.group is not None
        own = [(rows.group[:, place], len(factor)) for place, factor in zip(order, factors, strict=True)]
        codes = tuple(np.where(code < 0, n, code) for code, n in own)
        z = tuple(multipliers(rows.X, core.design, factor) for factor in factors)
        return cls(rows, factors, tuple(order), codes, z)

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """Levels and effects of each factor."""
        return [(len(own), len(own.effects)) for own in self.factors]

    @cached_property
    def columns(self) -> sparse.csr_array:
        """What rows multiply all effects by, shape (n, E), factor by factor."""
        core, at = self.rows, np.cumsum([0, *(len(own) * len(own.effects) for own in self.rows.groups)])
        factors = [Factor(own, np.empty((0, len(own), len(own.effects)))) for own in core.groups]
        Z = Predictor(np.empty((0, core.n_features)), factors, core.design).columns(core)
        return sparse.csr_array(Z[:, np.concatenate([np.arange(at[place], at[place + 1]) for place in self.places])])

    def eta(self, beta: FloatArray, effects: Sequence[FloatArray]) -> FloatArray:
        """Return the linear predictor, shape (n,), given the effects of each factor, (G, q)."""
        of_effects = self.columns @ np.concatenate([u.ravel() for u in effects])
        return np.asarray(self.rows.with_offset(self.rows.X @ beta) + of_effects)

    def pulls(self, score: FloatArray) -> list[FloatArray]:
        """Return the sum of score times z by level of each factor, shape (G, q)."""
        parts = np.split(self.columns.T @ score, np.cumsum([G * q for G, q in self.shapes])[:-1])
        return [own.reshape(shape) for own, shape in zip(parts, self.shapes, strict=True)]

    def curvature(self, c: FloatArray, X: FloatArray | None = None) -> "Curvature":
        """Return minus the Hessian of the log-likelihood, given rows' curvatures, (n,), in other columns X if given."""
        X = self.rows.X if X is None else X
        of_beta, K = bends(X, self.columns, c)
        ends = np.cumsum([0, *(G * q for G, q in self.shapes)])
        parts = [slice(*own) for own in pairwise(ends)]
        blocks = [blocks_of(K[part, part], q) for part, (_, q) in zip(parts, self.shapes, strict=True)]
        first = ends[1]
        cross = sparse.hstack([sparse.csr_array(of_beta[:first]), K[:first, first:]], format="csr")
        rest = np.block([[(X * c[:, None]).T @ X, of_beta[first:].T], [of_beta[first:], K[first:, first:].toarray()]])
        return Curvature(blocks[0], cross, rest, blocks[1:])


def blocks_of(K: sparse.csr_array, q: int) -> FloatArray:
    """Return the blocks on the diagonal of a matrix, shape (G, q, q)."""
    G = K.shape[0] // q
    found = np.empty((G, q, q))
    for i in range(q):
        for j in range(q):
            found[:, i, j] = K.diagonal(j - i)[min(i, j) :: q][:G]
    return found


def _diagonal(blocks: Sequence[Any], lead: int = 0) -> Any:
    """Return a block diagonal matrix, `lead` ones before the blocks of each factor, shape (G, q, q) each."""
    parts: list[Any] = [sparse.eye_array(lead)] if lead else []
    for each in blocks:
        G, q = each.shape[:2]
        parts.append(sparse.bsr_array((each, np.arange(G), np.arange(G + 1)), shape=(G * q, G * q)))
    return sparse.csr_array(sparse.block_diag(parts, format="csr"))


@dataclass(frozen=True, eq=False)
class Curvature:
    """D, shape (G, q, q), B', sparse of shape (G q, m), and E, (m, m); the blocks of E of each factor, (G, q, q)."""

    first: FloatArray
    cross: sparse.csr_array
    rest: FloatArray
    blocks: list[FloatArray]

    def moved(self, A: Sequence[FloatArray]) -> "Curvature":
        """Return the curvature in v, given du / dv of each factor's levels, shape (G, q, q)."""
        p = len(self.rest) - sum(own.shape[0] * own.shape[1] for own in self.blocks)
        first, turn = A[0], _diagonal(A[1:], p)
        cross = sparse.csr_array(_diagonal(A[:1]).T @ self.cross @ turn)
        rest = turn.T @ (turn.T @ self.rest.T).T
        blocks = [a.transpose(0, 2, 1) @ own @ a for a, own in zip(A[1:], self.blocks, strict=True)]
        return Curvature(first.transpose(0, 2, 1) @ self.first @ first, cross, np.asarray(rest), blocks)

    def solver(self, of_beta: FloatArray, of_effects: Sequence[FloatArray]) -> "Solver":
        """Return the factor of the precision, given the prior's: of beta and of each level's effects."""
        p, D = len(of_beta), self.first + of_effects[0]
        rest = self.rest.copy()
        rest[:p, :p] += of_beta
        at = p
        for own in of_effects[1:]:
            G, q = own.shape[:2]
            places = at + np.arange(G * q).reshape(G, q)
            rest[places[:, :, None], places[:, None, :]] += own
            at += G * q
        W = sparse.csr_array(_diagonal([np.linalg.inv(D)]) @ self.cross)
        schur = rest - (self.cross.T @ W).toarray()
        try:
            factor = np.linalg.cholesky(0.5 * (schur + schur.T))
        except np.linalg.LinAlgError as error:
            raise DataError(
                "the rows do not carry all group terms: coefficients and effects have no finite mode together; leave "
                "out a group term, or give coefficients a narrower prior"
            ) from error
        return Solver(D, W, factor)


@dataclass(frozen=True, eq=False)
class Solver:
    """D, W = D^-1 B', sparse, and the Cholesky factor of the Schur complement E - B D^-1 B'."""

    D: FloatArray
    W: sparse.csr_array
    factor: FloatArray

    def solve(self, first: FloatArray, rest: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the Newton step of the first factor's effects, shape (G, q), and of the rest, given gradients."""
        move = linalg.cho_solve((self.factor, True), rest - self.W.T @ first.ravel())
        own = np.linalg.solve(self.D, first[:, :, None])[:, :, 0]
        return own - (self.W @ move).reshape(first.shape), move

    def variances(self, shapes: Sequence[tuple[int, int]]) -> list[FloatArray]:
        """Return the covariance of each level's effects, shape (G, q, q), factor by factor."""
        inverse = linalg.cho_solve((self.factor, True), np.eye(len(self.factor)))
        G, q = shapes[0]
        found = np.asarray(np.linalg.inv(self.D), dtype=np.float64)
        step = max(1, (1 << 23) // len(inverse)) // q + 1
        for start in range(0, G, step):
            part = self.W[start * q : min(start + step, G) * q]
            wide = part @ inverse
            for i in range(q):
                for j in range(q):
                    found[start : start + step, i, j] += np.asarray(part[i::q].multiply(wide[j::q]).sum(axis=1)).ravel()
        parts: list[FloatArray] = [found]
        at = len(inverse) - sum(H * r for H, r in shapes[1:])
        for H, r in shapes[1:]:
            places = at + np.arange(H * r).reshape(H, r)
            parts.append(inverse[places[:, :, None], places[:, None, :]])
            at += H * r
        return parts
