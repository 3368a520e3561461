r"""The linear predictor of rows at draws of a model's parameters.

.. math:: \eta_n = x_n \cdot \beta + o_n + \sum_f z_{nf} \cdot u_{f, g_f(n)}, \qquad u_{fg} \sim N(0, S_f)

x is a row of the design matrix, o its offset, u the effects of its group by each factor f, z the columns whose
coefficients vary by that factor (1 for an intercept). A flat model has no factor, `(1 | g)` one with z = 1.
Where the family's number is a parameter, the sd of normal noise or the size of counts, draws have that, too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bayescore.data.design import Design, Grouping, terms_text
from bayescore.families import Family
from bayescore.families.family import Sized
from bayescore.numerics.elementary import normal_steps
from bayescore.types import NO_GROUP, FloatArray, IntArray, WeightedData
from bayescore.validation import DataError

_MOST_COPIED = 1 << 26  # numbers: half a gigabyte

_STEP = 0.8  # of eta and of sds, between nodes of a new group's effect: averages to 3e-6 at any sigma


def parameters(grouping: Grouping) -> dict[str, tuple[int, ...]]:
    """Return names and shapes of a factor's effects, sds and correlations, these by rows of the upper half."""
    name, levels, q, n_pairs = grouping.name, len(grouping), len(grouping.effects), len(grouping.pairs[0])
    if q == 1:
        return {f"u_{name}": (levels,), f"sigma_{name}": ()}
    shapes: dict[str, tuple[int, ...]] = {f"u_{name}": (levels, q), f"sigma_{name}": (q,)}
    return {**shapes, f"rho_{name}": (n_pairs,)} if n_pairs else shapes


def correlations(grouping: Grouping, draws: Mapping[str, Any]) -> FloatArray:
    """Return the correlations of a factor's effects, shape (S, q, q), given draws of its `parameters`."""
    q, name, (i, j) = len(grouping.effects), grouping.name, grouping.pairs
    matrices = np.tile(np.eye(q), (np.size(draws[f"sigma_{name}"]) // q, 1, 1))
    if i.size:
        rho = np.asarray(draws[f"rho_{name}"], dtype=np.float64).reshape(len(matrices), -1)
        matrices[:, i, j] = matrices[:, j, i] = rho
    return matrices


def multipliers(X: FloatArray, design: Design, grouping: Grouping) -> FloatArray:
    """Return z, what a factor's effects are multiplied by in rows of the design matrix, shape (n, q).

    In pseudo-rows the intercept's column need not be 1; it multiplies the intercept's effect too.
    """
    columns = []
    for effect in grouping.effects:
        made = design.columns_of(grouping, effect)
        if len(made) == 1 and set(made.values()) == {1.0}:
            columns.append(X[:, next(iter(made))])
        else:
            columns.append(X[:, list(made)] @ np.array(list(made.values())) if made else np.ones(len(X)))
    return np.stack(columns, axis=1)


@dataclass(frozen=True, eq=False)
class Factor:
    """Draws of the effects of a grouping factor; a `Predictor` may use some of them."""

    grouping: Grouping
    effects: Any  # (R, G, q), an array or `EffectDraws`
    covariance: FloatArray | None = None  # (R, q, q), for groups that are not known

    @classmethod
    def of(cls, grouping: Grouping, draws: Mapping[str, Any]) -> "Factor":
        """Return the factor given the draws of its `parameters`, shape (R, ...) each."""
        q, name = len(grouping.effects), grouping.name
        sd = draws[f"sigma_{name}"].reshape(-1, q)
        effects = draws[f"u_{name}"]
        if isinstance(effects, np.ndarray):
            effects = effects.reshape(len(sd), len(grouping), q)
        return cls(grouping, effects, sd[:, :, None] * correlations(grouping, draws) * sd[:, None])

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return int(self.effects.shape[1])

    def mean(self, at: IntArray | slice) -> FloatArray:
        """Return the mean of each effect over some draws, shape (G, q); over all where draws are not kept."""
        if not isinstance(self.effects, np.ndarray):
            return np.asarray(self.effects.mean[:, None])
        return np.asarray(self.effects[at].mean(axis=0))

    def moments(self) -> FloatArray:
        """Return mean and sd of each effect over the draws, shape (2, G, q); of some draws where they are not kept."""
        if not isinstance(self.effects, np.ndarray):
            summary = self.effects.summary()
            return np.stack([summary.mean, summary.sd])[:, :, None]
        return np.stack([self.effects.mean(axis=0), self.effects.std(axis=0, ddof=1)])


@dataclass(frozen=True, eq=False)
class Predictor:
    """The linear predictor at S draws; `at` saves copies of the effects of many groups."""

    beta: FloatArray  # (S, D)
    factors: Sequence[Factor] = ()  # in the order of the columns of rows' groups
    design: Design | None = None  # the columns of rows; only factors need it
    at: IntArray | None = None  # the factors' draws that go with those of `beta`, (S,); by default all
    size: FloatArray | None = None  # the family's number, (S,), where it is a parameter: sd of noise, or size

    def __len__(self) -> int:
        return len(self.beta)

    def take(self, which: IntArray | slice) -> "Predictor":
        """Return the predictor at some of the draws."""
        at = np.arange(len(self)) if self.at is None else self.at
        size = None if self.size is None else self.size[which]
        return replace(self, beta=self.beta[which], at=at[which], size=size)

    def at_draws(self, family: Family) -> Family:
        """Return a family for NumPy alone, whose formulas take eta of shape (..., S): with the draws' numbers."""
        return family if self.size is None or not isinstance(family, Sized) else family.at(self.size)

    def gathered(self) -> "Predictor":
        """Return the predictor with a copy of its draws alone; those of an effect stand side by side in memory."""
        at = slice(None) if self.at is None else self.at
        copies = [
            replace(
                factor,
                effects=np.moveaxis(np.ascontiguousarray(np.moveaxis(factor.effects[at], 0, -1)), -1, 0),
                covariance=None if factor.covariance is None else factor.covariance[at],
            )
            for factor in self.factors
        ]
        return replace(self, factors=copies, at=None)

    def for_rows(self, n: int) -> "Predictor":
        """Return the predictor for n rows: `gathered` where a copy of effects that are kept is small beside the work.

        To look a row's effect up in the draws of all levels takes 10 to 20 times as long.
        """
        sizes = [(factor.n_groups, len(factor.grouping.effects)) for factor in self.factors]
        kept = bool(sizes) and all(isinstance(factor.effects, np.ndarray) for factor in self.factors)
        worth = kept and n >= max(G for G, _ in sizes) and len(self) * sum(G * q for G, q in sizes) <= _MOST_COPIED
        return self.gathered() if worth else self

    def means(self) -> "Predictor":
        """Return the predictor at the one point of mean coefficients and effects."""
        at = slice(None) if self.at is None else self.at
        factors = [Factor(factor.grouping, factor.mean(at)[None]) for factor in self.factors]
        return Predictor(self.beta.mean(axis=0)[None], factors, self.design)

    def eta(self, rows: WeightedData) -> FloatArray:
        """Return eta of rows, shape (n, S); the effect of a group that is not known, `NO_GROUP`, is 0."""
        eta: FloatArray = rows.X @ self.beta.T
        if rows.offset is not None:
            eta += rows.offset[:, None]
        return eta + self.effects(rows) if self.factors else eta

    def effects(self, rows: WeightedData) -> FloatArray:
        """Return the part of eta that rows' known groups have, shape (n, S)."""
        part = np.zeros((len(rows), len(self)))
        for factor, codes, z in self._of(rows):
            known: Any = codes != NO_GROUP
            known = slice(None) if known.all() else known
            if self.at is None and isinstance(factor.effects, np.ndarray):
                effects = np.moveaxis(factor.effects, 0, -1)[codes[known]]
            else:
                at = np.arange(len(self)) if self.at is None else self.at
                effects = np.moveaxis(factor.effects[at[:, None], codes[known]], 0, -1)
            part[known] += np.einsum("nqs,nq->ns", effects, z[known])
        return part

    def columns(self, rows: WeightedData) -> sparse.csr_array:
        """Return what rows multiply all effects by, shape (n, E): factor by factor, a level's beside each other."""
        parts = [sparse.csr_array((len(rows), 0))]
        for factor, codes, z in self._of(rows):
            G, q = factor.n_groups, len(factor.grouping.effects)
            known = np.flatnonzero(codes != NO_GROUP)
            entries = np.repeat(known, q), (codes[known, None] * q + np.arange(q)).ravel()
            parts.append(sparse.csr_array((z[known].ravel(), entries), shape=(len(rows), G * q)))
        return sparse.csr_array(sparse.hstack(parts, format="csr"))

    def variance(self, rows: WeightedData) -> FloatArray:
        """Return the variance of the part of eta that rows' unknown groups have, shape (n, S)."""
        variance = np.zeros((len(rows), len(self)))
        for factor, codes, z in self._of(rows):
            new = codes == NO_GROUP
            if new.any():
                assert factor.covariance is not None
                covariance = factor.covariance if self.at is None else factor.covariance[self.at]
                variance[new] += np.einsum("nq,sqr,nr->ns", z[new], covariance, z[new])
        return variance

    def average(self, rows: WeightedData, family: Family, *, cumulative: bool = False) -> FloatArray:
        r"""Return \int f(eta + b) N(b; 0, v) db of rows, shape (n, S), v the `variance` of unknown groups' effects.

        f is the family's mean, or the `cumulative` hazard of times. By quadrature at each draw: at b = 0 probabilities
        would be too far from one half.
        """
        eta = self.eta(rows)
        if family.numbers:  # f is the identity
            return eta
        function = (lambda eta: -family.log_p(eta, -1)) if cumulative else family.mean
        if not self.unknown(rows).any():
            return function(eta)
        variance = self.variance(rows)
        new = variance.any(axis=1)
        means = np.empty_like(eta)
        means[~new] = function(eta[~new])
        if new.any():
            sd = np.sqrt(variance[new])
            nodes, log_weights = normal_steps(_STEP / max(float(sd.max()), 1.0))
            means[new] = sum(
                w * function(eta[new] + sd * node) for w, node in zip(np.exp(log_weights), nodes, strict=True)
            )
        return means

    def sampled(self, rows: WeightedData, which: IntArray, seed: int) -> FloatArray:
        """Return eta of rows, shape (n, S), with a draw of each unknown group's effects from N(0, S_f).

        `which`, shape (n, F), numbers the unknown groups: rows of one number have the same effects.
        """
        eta = self.eta(rows)
        for f, (factor, codes, z) in enumerate(self._of(rows)):
            new = np.flatnonzero(codes == NO_GROUP)
            if not new.size:
                continue
            assert factor.covariance is not None
            root = np.linalg.cholesky(factor.covariance if self.at is None else factor.covariance[self.at])
            for each in np.unique(which[new, f]):
                members = new[which[new, f] == each]
                normals = np.random.default_rng([seed, f, int(each)]).standard_normal(root.shape[:2])
                eta[members] += z[members] @ np.einsum("sqr,sr->qs", root, normals)
        return eta

    def unknown(self, rows: WeightedData) -> NDArray[np.bool_]:
        """Return whether each row has a group that is not known, shape (n,)."""
        new = np.zeros(len(rows), dtype=bool)
        for _, codes, _ in self._of(rows):
            new |= codes == NO_GROUP
        return new

    def _of(self, rows: WeightedData) -> list[tuple[Factor, IntArray, FloatArray]]:
        """Return each factor with the codes of rows' groups, and what effects are multiplied by."""
        if not self.factors:
            return []
        assert self.design is not None
        if rows.group is None:
            terms = terms_text([factor.grouping for factor in self.factors])
            raise DataError(f"rows have no groups, and the draws have effects of {terms}; give the group of each row")
        return [
            (factor, codes, multipliers(rows.X, self.design, factor.grouping))
            for factor, codes in zip(self.factors, rows.group.T, strict=True)
        ]
