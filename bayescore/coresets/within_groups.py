r"""What rows say of beta within their groups, as pseudo-rows without group: one for each direction.

With d = x - (weighted mean row of the group), H = sum E[c] d d' and its eigenvectors q_k, mu_k after the scale L of the
posterior: directions v_k = L^-T q_k sqrt(mu_k), dual u_k = L q_k / sqrt(mu_k). Pseudo-row k has the row
v_k / sqrt(D_k), the curvature D_k, the third derivative of the rows along u_k and the score that is asked of it:
together the whole curvature H. D_k, its trials in effect, are those that have the rows' fourth derivative too where
third derivatives leave room for that.
"""

from dataclasses import dataclass
from functools import partial, reduce
from operator import add

import numpy as np
from scipy import linalg

from bayescore.coresets.pseudo_rows import pseudo_rows
from bayescore.coresets.ties import oriented
from bayescore.data.opened import Opened
from bayescore.models.group_terms import add_within
from bayescore.models.marginal import MarginalPoint, Nodes, local_codes
from bayescore.models.quadrature import NODES
from bayescore.types import NO_GROUP, NO_ROW, FloatArray, Likelihood, WeightedData, stack
from bayescore.validation import DataError

_NOTHING = 1e-9  # curvature of a direction, relative to the posterior's, in which rows do not differ within groups
_SKEW = 0.81  # the largest tau^2 D: a probability of 0.95
_MOST_ROOM = 12  # doublings of the trials until they can have the score


@dataclass(frozen=True, eq=False)
class Within:
    """Sums over rows of merged groups, and of none: score, shape (p,), information, and along each direction."""

    score: FloatArray
    information: FloatArray
    third: FloatArray
    fourth: FloatArray

    def __add__(self, other: "Within") -> "Within":
        return Within(
            self.score + other.score,
            self.information + other.information,
            self.third + other.third,
            self.fourth + other.fourth,
        )


def _of_block(
    beta: FloatArray,
    nodes: Nodes,
    link: Likelihood,
    middle: FloatArray,
    merged: FloatArray,
    directions: FloatArray,
    _: int,
    block: WeightedData,
) -> Within:
    found, places = local_codes(block, len(nodes.center) - 1)
    own, (p, r) = nodes.take(found), directions.shape
    sums = Within(np.zeros(p), np.zeros((p, p)), np.zeros(r), np.zeros(r))
    X, w = np.ascontiguousarray(block.X), np.ascontiguousarray(block.weights)
    add_within(
        X, block.y, w, block.shift, places, beta, link, own.center, own.scale, own.share, NODES,
        np.ascontiguousarray(middle[found]), merged[found], directions,
        sums.score, sums.information, sums.third, sums.fourth,
    )  # fmt: skip
    return sums


def _pass(opened: Opened, point: MarginalPoint, link: Likelihood, merged: FloatArray, directions: FloatArray) -> Within:
    work = partial(_of_block, point.beta, point.nodes, link, point.sums.middle, merged, directions)
    found = reduce(add, opened.map(work, "within groups", canonical=True))
    half = np.tril(found.information)
    return Within(found.score, half + np.tril(half, -1).T, found.third, found.fourth)


@dataclass(frozen=True, eq=False)
class Directions:
    """Directions v and dual u as columns, shape (p, r), and third and fourth derivatives of the rows along u."""

    v: FloatArray
    u: FloatArray
    score: FloatArray
    third: FloatArray
    fourth: FloatArray

    def rows(self, beta: FloatArray, score: FloatArray, link: Likelihood) -> WeightedData:
        """Return pseudo-rows with this score, shape (p,), rows of weight 0 left out; they have offsets and no group.

        Raises
        ------
        DataError
            If a direction's score is more than any pseudo-row can have.
        """
        r = self.v.shape[1]
        along = self.u.T @ score
        trials = np.minimum(
            0.5 / np.maximum(self.fourth + 1.5 * self.third**2, 1e-12), _SKEW / np.maximum(self.third**2, 1e-12)
        )
        trials = np.clip(trials, 4.0, 1e9)
        nothing, one = np.zeros((r, 1)), np.ones((r, 1))
        for _ in range(_MOST_ROOM):
            root = np.sqrt(trials)
            found = pseudo_rows(np.stack([along * root, trials, self.third * trials * root], 1), nothing, one, link)
            fits = np.isfinite(found.eta)
            if fits.all():
                break
            trials = np.where(fits, trials, 2.0 * trials)
        else:
            raise DataError(
                f"method='multilevel' finds no pseudo-row for {np.count_nonzero(~fits)} of {r} directions within "
                "groups, as where a column all but separates the labels: give a narrower prior=, drop the column, or "
                "sample full_data(...)"
            )
        X = (self.v / root).T
        offset = found.eta - X @ beta
        y = np.repeat(np.array([1, -1], dtype=np.int8), r)
        w = np.concatenate([found.successes, found.failures])
        rows = WeightedData(
            np.vstack([X, X]),
            y,
            w,
            np.full(2 * r, NO_ROW),
            offset=np.tile(offset, 2),
            group=np.full((2 * r, 1), NO_GROUP),
        )
        pairs = np.arange(2 * r).reshape(2, r).T.ravel()
        return rows.take(pairs[w[pairs] > 0.0])


def directions_of(
    opened: Opened, point: MarginalPoint, link: Likelihood, merged: FloatArray, factor: FloatArray
) -> Directions:
    """Return what rows of merged groups, and of none, say within groups; two passes.

    `merged`, shape (G + 1,), is 1 for groups of one pseudo-row and for rows of none, else 0; `factor` is L.
    """
    p = len(point.beta)
    first = _pass(opened, point, link, merged, np.empty((p, 0)))
    mu, Q = np.linalg.eigh(factor.T @ first.information @ factor)
    kept = mu > _NOTHING * max(1.0, float(mu.max(initial=0.0)))
    mu, Q = mu[kept], oriented(Q[:, kept])
    v = linalg.solve_triangular(factor, Q * np.sqrt(mu), trans="T", lower=True)
    u = factor @ Q / np.sqrt(mu)
    second = _pass(opened, point, link, merged, np.ascontiguousarray(u))
    return Directions(v, u, first.score, second.third, second.fourth)


def rows_of_groups(opened: Opened, kept: np.ndarray, what: str) -> WeightedData | None:
    """Return the rows of the groups, or cells, `kept`, shape (G + 1,), in order; one pass, shown as `what`.

    None if there are none.
    """
    if not kept.any():
        return None

    def of_block(_: int, block: WeightedData) -> WeightedData:
        assert block.group is not None
        return block.take(kept[block.group[:, 0]])

    parts = [part for part in opened.map(of_block, what, here=True) if len(part)]
    return stack(parts) if parts else None
