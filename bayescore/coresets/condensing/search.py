"""Which rows to keep beside pseudo-rows: sizes are tried in turn, up to one whose error to expect is small enough.

A size costs draws of its posterior, and a pass over all rows where a sample of them does not tell. Both are spared
where they would tell what is known: a posterior that is far off by the sample already needs no pass, and where that is
so without kept rows, only the largest size is tried beside it.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from bayescore.coresets.calibration.paired import Errors
from bayescore.coresets.calibration.pilot import LaplaceApproximation
from bayescore.coresets.calibration.predicted_error import try_out
from bayescore.coresets.calibration.remainder import Expansion
from bayescore.coresets.condensing.averages import GaussianDensity
from bayescore.coresets.condensing.condensation import MOVED, SHORTER, WHOLE, Condensation, Unmoved, converged, gap
from bayescore.data.dataset import Dataset
from bayescore.models.priors import Prior
from bayescore.types import FloatArray, WeightedData

MAX_MOVES = 4  # passes that average anew
FAR = 0.4  # sds between mode and mean, or of sds relatively, beyond which a sample of rows may miss what matters
LOST = 1.0  # sds: an error beyond which draws of the coreset do not cover the posterior
SHAPE = 5.0 / 3.0  # how much errors of sds and correlations count beside those of means: 3% and 0.03 where that is 0.05


class Condensate(NamedTuple):
    """Rows of a size, the errors to expect, and the normal density nearest their posterior if it was found."""

    rows: WeightedData
    size: int
    errors: Errors
    near: LaplaceApproximation | None = None

    @property
    def error(self) -> float:
        """The largest error, as it is compared with a tolerance."""
        return largest(self.errors)


def largest(errors: Errors) -> float:
    """Return the largest of three errors, as it is compared with a tolerance of means."""
    return max(errors.mean, SHAPE * errors.sd, SHAPE * errors.correlation)


@dataclass(frozen=True, eq=False)
class Search:
    """What trials of several sizes share."""

    dataset: Dataset
    prior: Prior
    tolerance: float
    seed: int
    shares: tuple[float, ...] = WHOLE  # of steps to the density of rows

    def over(self, found: Condensation, kept: list[int]) -> tuple[list[Condensate], int]:
        """Return the best of each size that was tried, up to one within the tolerance, and the number of moves.

        A move averages all rows' terms anew. Sizes are tried again where that gave nothing within the tolerance and
        a density was not found by whole steps.
        """
        tried, moves = self._over(found, kept)
        if min(one.error for one in tried) > self.tolerance and any(one.near is None for one in tried):
            more, again = replace(self, shares=SHORTER)._over(found, kept)
            moves += again
            sizes = sorted({one.size for one in tried + more})
            tried = [
                min((one for one in tried + more if one.size == size), key=lambda one: one.error) for size in sizes
            ]
        return tried, moves

    def _over(self, found: Condensation, kept: list[int]) -> tuple[list[Condensate], int]:
        expansion, moves, tried = found.expansion(), 0, list[Condensate]()
        for n_kept in kept:
            if tried and tried[0].error > LOST and n_kept < kept[-1]:
                continue
            own = [self._tried(found, n_kept, expansion)]
            for _ in range(MAX_MOVES if n_kept == kept[-1] else 1):
                near = own[-1].near
                if own[-1].error <= self.tolerance or moves == MAX_MOVES or near is None:
                    break
                if gap(found.density.at, near) <= MOVED:
                    break
                found, moves = found.moved(self.dataset, GaussianDensity(near)), moves + 1
                own.append(self._tried(found, n_kept, expansion))
            tried.append(min(own, key=lambda one: one.error))
            if tried[-1].error <= self.tolerance:
                break
            if self.shares == SHORTER and len(tried) > 1 and tried[-1].near is None and tried[0].error <= LOST:
                break  # the rows kept have led away, and more would
        return tried, moves

    def _tried(self, found: Condensation, n_kept: int, expansion: Expansion) -> Condensate:
        rows = found.rows(n_kept)
        near = converged(rows, found.density.at, self.prior, self.shares)
        trial = try_out(Unmoved(expansion.family, self.prior, expansion, near or found.density.at), rows, self.seed)
        errors = trial.errors(rows)
        doubtful = near is None or _far(trial.full.draws, found.shares.laplace) or trial.error > self.tolerance
        if doubtful and largest(errors) <= LOST + 3.0 * trial.error:
            errors = trial.over_all_rows(self.dataset, draw_seed=self.seed, size=1).errors(rows)
        return Condensate(rows, n_kept + 2 * self.dataset.n_features, errors, near)


def _far(draws: FloatArray, at: LaplaceApproximation) -> bool:
    """Return whether draws, shape (S, D), are about another place than the mode, or wider than the Hessian there says.

    Draws tell, not `converged`: a normal density may settle beside the mode of a posterior that has a long tail.
    """
    sd = np.sqrt((at.factor**2).sum(axis=1))
    moved, wider = np.abs(draws.mean(axis=0) - at.theta) / sd, np.abs(draws.std(axis=0) / sd - 1.0)
    return bool(max(moved.max(), wider.max()) > FAR)
