"""Condensed coresets: binomial pseudo-rows with offsets, one for each column, that meet the whole Hessian.

1. theta-hat, the MAP of the full data (`pilot.full_mode`); L L' = C, the inverse Hessian there.
2. The pass there sums the score and the whole curvature of all rows, averaged over N(theta-hat, C)
   (`condensing.averages`), and finds the rows of the largest reach, w (|l'''| |zL|^3 / 6 + c |zL|^4 / 24).
3. Rows of the largest reach are kept, none at first. All others become one pseudo-row for each direction of a root of
   their curvature (`condensing.directions`): a binomial with real numbers of successes and failures and an offset,
   that meets the averages, the third derivative and where possible the fourth (`condensing.pseudo_rows`).
4. Errors are predicted as those of calibrated coresets are. Where they are too large, terms are averaged anew over the
   normal density nearest the coreset's posterior, and up to 5 D rows are kept (`condensing.search`).

When to use it: tens of columns and more, where rows do not repeat. On separated rows `calibrated` needs fewer. Sources
and limits of pseudo-rows: docs/explanation/pseudo_rows.md.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bayescore.coresets.calibration.drift import mode_of
from bayescore.coresets.calibration.paired import Errors
from bayescore.coresets.calibration.pilot import MAX_PILOTS, LaplaceApproximation, Shares, full_mode
from bayescore.coresets.calibration.remainder import sample_rows
from bayescore.coresets.calibration.search import (
    TOLERANCE,
    PredictedInfo,
    PredictingMethod,
    check_tolerance,
    size_curve,
    smallest_within,
)
from bayescore.coresets.condensing.condensation import Condensation
from bayescore.coresets.condensing.drift import lost_by, missed_by
from bayescore.coresets.condensing.search import Condensate, Search
from bayescore.coresets.method import BuildResult, ReduceRequest, ReduceResult, ScoreError
from bayescore.coresets.sampling.fixed_size import Chosen
from bayescore.data.dataset import Dataset
from bayescore.data.passes.threads import one_blas_thread
from bayescore.data.sources import as_source
from bayescore.models.families import Family
from bayescore.models.gaussian import factor_of_inverse
from bayescore.models.posterior import likelihood_terms, prior_part
from bayescore.types import FloatArray, WeightedData
from bayescore.validation import DataError

KEPT = (0, 1, 3, 5)  # times D rows to keep, tried in turn: where that is not enough, calibrated coresets do with less


@dataclass(frozen=True)
class CondensedInfo(PredictedInfo):
    """Errors to expect; pseudo-rows, and rows kept; passes that averaged anew; sizes tried."""

    pseudo_rows: int
    kept: int
    moves: int
    size_curve: list[dict[str, float]]


@dataclass(frozen=True)
class Condensed(PredictingMethod):
    """Condenses rows into a binomial pseudo-row for each column, that meet the whole Hessian: the fewest rows.

    Parameters
    ----------
    prior : prior, default Normal(0, 4)
        Prior under which the mode is sought; only the likelihood is condensed, so that the coreset serves other priors
        of like strength too.
    tolerance : float, default 0.05
        Error to aim at with ``size="auto"``, of means in posterior sds; of sds, relatively, and of correlations 0.6
        times that.

    Raises
    ------
    TypeError, ValueError
        If an option is of the wrong kind or out of its range.

    Notes
    -----
    A pseudo-row counts as two rows, its successes and its failures, so that `size` is at least 2 D; what is above that
    are rows kept as they are. With ``size="auto"`` 2 D to 7 D rows are tried, and the first taken whose predicted error
    is within `tolerance`; a warning says if no size is. Pseudo-rows have ``index`` -1 and an offset.

    Means, sds and correlations of the posterior are met, not its mode: `find_map` of the coreset is off by about as
    much as mean and mode of the posterior are apart.

    Examples
    --------
    >>> import bayescore as bc
    >>> X, y = bc.datasets.probit(5000, [1.0, 0.0], random_state=0)
    >>> core = bc.build_coreset(X, y, method=bc.methods.Condensed(), random_state=1, progressbar=False)
    >>> core.method, core.index.min()
    ('condensed', np.int64(-1))
    """

    name: ClassVar[str] = "condensed"

    def build(self, dataset: Dataset, size: int | None, seed: int, family: Family) -> BuildResult[CondensedInfo]:
        """Condense the rows; caution where the errors to expect are above the tolerance."""
        if dataset.design.groups:
            raise DataError(
                "method='condensed' knows nothing of groups, and its pseudo-rows stand for rows of all: use "
                "method='multilevel' for (1 | g), or 'aggregate' where all columns are discrete"
            )
        D, n_rows = dataset.n_features, dataset.scan.n_rows
        if "offset" in dataset.design.names:
            raise DataError("a feature is named 'offset', as a column of the coreset's file; rename the feature")
        if size is not None and size < n_rows:
            self.check_size(size, D)
        tolerance = check_tolerance(self.tolerance)
        with one_blas_thread():
            tried, moves = self._tried(dataset, size, seed, family, tolerance=tolerance)
        best = smallest_within(tried, tolerance)
        pseudo = best.rows.pseudo
        info = CondensedInfo(
            repr(self.mode_prior()),
            *best.errors,
            pseudo_rows=len(np.unique(best.rows.X[pseudo], axis=0)),
            kept=int((~pseudo).sum()),
            moves=moves,
            size_curve=size_curve(tried),
        )
        return BuildResult(best.rows, info, self, None if best.error <= tolerance else _caution(info, tolerance))

    def check_size(self, size: int, n_features: int) -> None:
        """Raise `ValueError` if there are less than two rows for each column."""
        if size < 2 * n_features:
            raise ValueError(
                f"size={size} is less than two rows, successes and failures, for each of {n_features} columns; give at "
                f"least {2 * n_features}, or method='calibrated'"
            )

    def _tried(
        self, dataset: Dataset, size: int | None, seed: int, family: Family, *, tolerance: float
    ) -> tuple[list[Condensate], int]:
        """Return what was tried, and how often terms were averaged anew."""
        prior, D, n_rows = self.mode_prior(), dataset.n_features, dataset.scan.n_rows
        prior.parts(D)  # shapes
        if n_rows <= (2 * D if size is None else size):
            return [Condensate(dataset.load(), n_rows, Errors(0.0, 0.0, 0.0))], 0  # all rows
        seeds = np.random.default_rng(seed).integers(2**62, size=MAX_PILOTS + 2).tolist()
        kept = [times * D for times in KEPT if (2 + times) * D < n_rows] if size is None else [size - 2 * D]

        def look(shares: Shares) -> Condensation:
            return Condensation.of(dataset, shares, sample_rows(shares.reach, tolerance, D), kept[-1], seeds[-1])

        _, found = full_mode(dataset, family, prior, seeds[:MAX_PILOTS], look)
        return Search(dataset, prior, tolerance, seeds[-2]).over(found, kept)

    def reduce(self, rows: WeightedData, request: ReduceRequest) -> ReduceResult:
        """Return pseudo-rows, and rows kept beside them, that meet averaged totals of `rows` about the anchor.

        Averages are over the posterior of all rows seen so far, because later data may move the mode that far.
        """
        dataset, family, prior = Dataset(as_source(rows)), request.family, self.mode_prior()
        theta = mode_of(rows, family, prior).beta if request.anchor is None else request.anchor
        part = likelihood_terms(theta, rows, family)
        factor = factor_of_inverse((part + prior_part(theta, prior)).precision)
        at = LaplaceApproximation(family, theta, math.sqrt(request.share) * factor)
        shares = Shares.estimated(at, Chosen(rows, np.ones(len(rows)), len(rows)), dataset.scan.weight_total)
        n_kept, n_sample = request.size - 2 * rows.n_features, sample_rows(shares.reach, TOLERANCE, rows.n_features)
        found = Condensation.of(dataset, shares, n_sample, n_kept, request.seed, part=part).rows(n_kept)
        lost, missed = lost_by(found, rows, at.theta, at.factor, family)
        return ReduceResult(found, missed, anchor=theta, lost=lost)

    def score_error(self, rows: WeightedData, family: Family, lost: FloatArray | None) -> ScoreError:
        """Return as large a share of the rows' own remainder as they were seen to miss (`condensing.drift`)."""
        return missed_by(rows, family, self.mode_prior(), lost)


def _caution(info: CondensedInfo, tolerance: float) -> str:
    """Return a warning that the error to expect is more than the tolerance."""
    errors = (
        f"expect errors of up to {info.mean_error:.2g} sd in means, {100.0 * info.sd_error:.2g}% in sds and "
        f"{info.correlation_error:.2g} in correlations"
        if info.mean_error < 1.0
        else "their posterior does not cover that of the full data"
    )
    return (
        f"{info.pseudo_rows} pseudo-rows and {info.kept} rows beside them do not come within "
        f"tolerance={tolerance:g}: {errors}; the posterior is too far from normal to be condensed so far: "
        "method='calibrated' keeps real rows"
    )
