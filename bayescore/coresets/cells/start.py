"""`Start`: where rows of a stream, or of a posterior so far, have their centre, and how far later rows move it.

Earlier rows stand by pseudo-rows that were made about an earlier centre. Where coefficients, effects or the sds of
effects move far from it, in sds of the posterior then, pseudo-rows no longer tell what the rows say.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from bayescore.coresets.calibration.drift import mode_of
from bayescore.coresets.cells.occupied import Cells, key_of
from bayescore.coresets.cells.settle import LEAST_SD
from bayescore.coresets.cells.sums import Density
from bayescore.coresets.sampling.by_column import sample_by_column
from bayescore.data.dataset import Dataset
from bayescore.models.families import Family
from bayescore.models.newton import NoModeError
from bayescore.models.priors import Prior
from bayescore.types import FloatArray, IntArray

SEED = 0  # of the sample that the search begins with: a centre is a fact of the data
_REACH = 4.0  # sds about a condensing; the narrowest set the limits that are kept
_BEYOND = 0.001  # probability that the furthest move is beyond its limit


class Move(NamedTuple):
    """A move in sds, its limit, and its place among the coefficients and the log sds of effects, None for an effect."""

    sds: float
    limit: float
    place: int | None


@dataclass(frozen=True, eq=False)
class Start:
    """The centre of the rows so far, where the search for that of more rows begins, and where it was before.

    The centre has the coefficients `beta`, shape (p,), the covariance of effects S, `prior`, and the means of effects,
    shape (C, Q), of cells with codes, shape (C, F). Pseudo-rows are not nearly normal far from where they were made:
    `common`, shape (2, 2, p + Q), of beta and the log sds of effects, and `effects`, shape (2, 2, C, Q), hold mean and
    sd of the two condensings that set the lower and the upper limit of later means. The sd is infinite where there
    was none, and for effects of cells that kept their rows.
    """

    beta: FloatArray
    prior: FloatArray
    codes: IntArray
    mean: FloatArray
    common: FloatArray
    effects: FloatArray

    @classmethod
    def of(cls, at: Density, cells: Cells, merged: NDArray[np.bool_], before: "Start | None" = None) -> "Start":
        """Return the start at a density, about which the cells `merged`, shape (C,), and those `before` are condensed.

        The log sd of effects has the information of a cell 2 r^2, r the share of the prior's variance that its rows
        take away.
        """
        V, S = np.diagonal(at.variance[:-1], axis1=1, axis2=2), np.diagonal(at.prior)
        told = 2.0 * (np.clip(1.0 - V / S, 0.0, 1.0) ** 2).sum(axis=0)
        own = cls.near(at.beta, cells.codes, at.mean[:-1], at.prior)
        common, effects = own.common, own.effects
        if before is not None:
            common = before.common
            places, there = before.places(cells)
            effects[:, :, places] = before.effects[:, :, there]
        sd = np.append(at.sds, 1.0 / np.sqrt(np.maximum(told, np.finfo(float).tiny)))
        spread = np.where(merged[:, None], np.sqrt(V + (at.pull[:-1] ** 2).sum(axis=2)), np.inf)
        return replace(own, common=_ends(common, own.shared, sd), effects=_ends(effects, own.mean, spread))

    @classmethod
    def near(cls, beta: FloatArray, codes: IntArray, mean: FloatArray, prior: FloatArray | None = None) -> "Start":
        """Return the start at means of coefficients and effects, as those of draws."""
        if prior is None:
            prior = (mean.T @ mean + LEAST_SD**2 * np.eye(mean.shape[1])) / len(mean)
        return cls(beta, prior, codes, mean, _no_limits(len(beta) + len(prior)), _no_limits(*mean.shape))

    def check(self, n_columns: int, n_factors: int) -> None:
        """Raise `ValueError` if the arrays do not fit each other, the columns or the factors."""
        C, Q = len(self.codes), len(self.prior)
        shapes = (n_columns,), (Q, Q), (C, n_factors), (C, Q), (2, 2, n_columns + Q), (2, 2, C, Q)
        if tuple(own.shape for own in vars(self).values()) != shapes:
            raise ValueError

    @property
    def shared(self) -> FloatArray:
        """The coefficients and the log sds of effects, shape (p + Q,)."""
        return np.append(self.beta, 0.5 * np.log(np.diagonal(self.prior)))

    def moved(self, later: "Start", cells: Cells) -> Move:
        """Return the move since some condensing, of what all cells share or of an effect, furthest for its limit."""
        places, there = self.places(cells)
        effects = self.effects[:, :, there]
        known = np.isfinite(effects[0, 1])
        common, own = _beyond(self.common, later.shared), _beyond(effects, later.mean[places])[known]
        moves = [Move(float(common.max()), _limit(len(common)), int(common.argmax()))]
        if len(own):
            moves.append(Move(float(own.max()), _limit(len(own)), None))
        return max(moves, key=lambda one: one.sds / one.limit)

    def places(self, cells: Cells) -> tuple[IntArray, NDArray[np.bool_]]:
        """Return places in `cells` of cells that are there, and which these are, shape (C,)."""
        own = key_of(self.codes, cells.sizes)
        places = np.minimum(np.searchsorted(cells.keys, own), len(cells) - 1)
        there = cells.keys[places] == own
        return places[there], there

    def density(self, cells: Cells, columns: IntArray) -> Density:
        """Return the density to begin at; effects of cells that were not there are 0."""
        at = Density.start(self.beta, self.prior, len(cells), columns)
        places, there = self.places(cells)
        at.mean[places] = self.mean[there]
        return at


def flat_mode(dataset: Dataset, family: Family, prior: Prior) -> FloatArray:
    """Return where the coefficients begin, shape (p,): the mode of a sample of rows without effects, or 0."""
    try:
        return mode_of(sample_by_column(dataset, SEED).expanded(), family, prior).beta
    except NoModeError:
        return np.zeros(dataset.n_features)


def _no_limits(*shape: int) -> FloatArray:
    """Return means and sds that limit nothing, shape (2, 2, ...)."""
    found = np.zeros((2, 2, *shape))
    found[:, 1] = np.inf
    return found


def _ends(known: FloatArray, mean: FloatArray, sd: FloatArray) -> FloatArray:
    """Return means and sds, shape (2, 2, ...), that set the lower and upper limit, of those known and another."""
    (low, high), now = known, np.stack([mean, sd])
    return np.stack(
        [
            np.where(mean - _REACH * sd > low[0] - _REACH * low[1], now, low),
            np.where(mean + _REACH * sd < high[0] + _REACH * high[1], now, high),
        ]
    )


def _beyond(known: FloatArray, mean: FloatArray) -> FloatArray:
    """Return by how many sds means are beyond those that set the limits."""
    low, high = known
    return np.asarray(np.maximum((low[0] - mean) / low[1], (mean - high[0]) / high[1]))


def _limit(size: int) -> float:
    """Return the limit in sds that the furthest of so many normal variables passes with a probability of `_BEYOND`."""
    return float(stats.norm.isf(0.5 * _BEYOND / size))
