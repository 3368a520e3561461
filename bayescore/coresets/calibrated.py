"""Calibrated coresets: drawn by score and curvature, then weighted so that full-data totals are met exactly.

1. theta-hat, the MAP of the full data (`pilot.full_mode`); L L' = C, the inverse Hessian there.
2. M rows are drawn, each at most once, with probability proportional to g^2 / sum g^2 + g / sum g + h / sum h +
   0.1 w / W, where g = w s |zL| is the whitened score and h = w c |zL|^2 the curvature leverage.
3. `calibration.fit_weights`, called by `Calibration.fit`, changes w / pi as little as it can to meet
   the totals of `calibration.Totals` at theta-hat.
4. Errors are predicted (`predicted_error`) from draws that are moved to the full data's posterior and weighed. Where
   the shape is off by more than the tolerance, rows are drawn anew, with equal shares for step 2 and for the sd of
   w log p over the draws, and meet the log-likelihood at the draws as well. The better fit is kept.

Passes: one that checks the rows and draws a pilot, one at the pilot's mode, as a rule one at the full data's, and one
or more where a sample of rows does not tell the error. docs/explanation/calibration.md says what is matched and what is
not.

What methods that predict their own error share: options, checks, and the choice among the sizes that they tried.

Such a method finds the mode under a prior, predicts the errors of posterior means, sds and correlations for some sizes
(`predicted_error`), and takes the smallest size whose error is within a tolerance.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np

from bayescore.compiled import one_blas_thread
from bayescore.coresets.calibration import Calibration, Fitted, rows_for_hessian
from bayescore.coresets.drift import mode_of, scale_at, score_error_of_rows
from bayescore.coresets.method import BuildInfo, BuildResult, Method, ReduceRequest, ReduceResult, ScoreError
from bayescore.coresets.pilot import MAX_PILOTS, PilotPass, Shares, full_mode, survey
from bayescore.data.dataset import Dataset
from bayescore.data.sources import as_source
from bayescore.families import Family
from bayescore.models.laplace import sample_rows, shortfall_of
from bayescore.models.posterior import Derivatives
from bayescore.numerics.moments import Errors
from bayescore.numerics.sampling import Chosen, draw_by_column
from bayescore.priors import Normal, Prior
from bayescore.priors.by_name import prior_of
from bayescore.priors.groups import PriorOfDesign
from bayescore.types import FloatArray, WeightedData
from bayescore.validation import check_positive

TOLERANCE = 0.05  # error to aim at, of means in posterior sds and of sds relatively


WEAK = Normal(0.0, 4.0)  # prior under which modes are found, unless one is given


class Candidate(Protocol):
    """Rows of a size that was tried, with the errors to expect and the largest of them, weighted."""

    @property
    def size(self) -> int:
        """Rows."""

    @property
    def errors(self) -> Errors:
        """Errors of means, sds and correlations."""

    @property
    def error(self) -> float:
        """The error that is compared with a tolerance."""


C = TypeVar("C", bound=Candidate)


@dataclass(frozen=True)
class PredictedInfo(BuildInfo):
    """The prior, and the largest errors to expect: of means in posterior sds, of sds relatively, of correlations."""

    prior: str
    mean_error: float
    sd_error: float
    correlation_error: float

    @property
    def errors(self) -> Errors:
        """The three errors."""
        return Errors(self.mean_error, self.sd_error, self.correlation_error)


def smallest_within(tried: Iterable[C], tolerance: float) -> C:
    """Return the smallest candidate whose error is within the tolerance, else the one of the smallest error."""
    return min(tried, key=lambda one: (max(one.error, tolerance), one.size))


def size_curve(tried: Iterable[Candidate]) -> list[dict[str, Any]]:
    """Return the sizes that were tried and their errors, as ``core.params["size_curve"]`` has them."""
    ordered = sorted(tried, key=lambda one: one.size)
    errors = [{f"{name}_error": value for name, value in one.errors._asdict().items()} for one in ordered]
    return [{"size": one.size, **figures} for one, figures in zip(ordered, errors, strict=True)]


def check_one_mode(prior: Prior | Mapping[str, Prior] | PriorOfDesign | None, matched: str) -> None:
    """Raise unless a mode can be found under `prior`; `matched` says what is done with the likelihood."""
    if callable(prior):
        return
    resolved = prior_of(prior, list(prior) if isinstance(prior, Mapping) else ())
    if not (resolved.closed_form and resolved.unimodal):
        raise ValueError(
            f"prior={prior} has more than one mode or no density in closed form; leave prior out: only the likelihood "
            f"is {matched}, and the coreset serves other priors"
        )


def check_tolerance(tolerance: float | None) -> float:
    """Return the tolerance given, or the default."""
    return TOLERANCE if tolerance is None else check_positive(tolerance, "tolerance", below=1.0)


def mode_prior(prior: Prior | Mapping[str, Prior] | PriorOfDesign | None) -> Prior:
    """Return the prior under which the mode is found; raise if columns of priors by name are not named yet."""
    if callable(prior) or isinstance(prior, Mapping):
        raise ValueError(f"prior={prior} goes by names, and rows of a stream have none yet; give one prior")
    return WEAK if prior is None else prior


@dataclass(frozen=True)
class PredictingMethod(Method):
    """A method that predicts its own error: its options, and the mode that it begins with."""

    prior: Prior | Mapping[str, Prior] | PriorOfDesign | None = None
    tolerance: float | None = None

    size_options: ClassVar[tuple[str, ...]] = ("tolerance",)
    keeps_curvature: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_one_mode(self.prior, self.name)
        check_tolerance(self.tolerance)

    def mode_prior(self) -> Prior:
        """Return the prior under which the mode is found."""
        return mode_prior(self.prior)

    def first_look(self, dataset: Dataset, seed: int) -> None:
        """Draw the pilot, too."""
        draw_by_column(dataset, seed)


LARGEST = 4  # times the size begun with


@dataclass(frozen=True)
class CalibratedInfo(PredictedInfo):
    """Errors to expect; what weights miss; rows in for certain and dropped; fits of rows drawn anew; sizes tried."""

    residual_mean: float  # of the score
    residual_curvature: float  # of the marginal curvatures
    certain: int
    dropped: int
    rounds: int
    size_curve: list[dict[str, float]]


@dataclass(frozen=True)
class Calibrated(PredictingMethod):
    """Draws rows, and fits their weights to the full data's mode and curvature: the most accurate of real rows.

    Parameters
    ----------
    prior : prior or dict of str to prior, default that of `fit`
        Prior under which the mode is sought, or priors by the names of coefficients or terms, as `sample` takes them;
        only the likelihood is calibrated, so that the coreset serves other priors of like strength too.
    tolerance : float, default 0.05
        Error to aim at with ``size="auto"``, of means in posterior sds and of sds relatively; of correlations
        1.5 times that.

    Raises
    ------
    TypeError, ValueError
        If an option is of the wrong kind or out of its range.

    Notes
    -----
    With ``size="auto"`` the size is the smallest of those tried, from max(50, 5 D) to 80 D (200 D where 50 D have the
    whole Hessian), whose predicted error is within `tolerance`; ``core.params["size_curve"]`` has them and their
    errors. The mode and the marginal sds are matched; correlations too where the rows are enough for the whole Hessian:
    up to D = 21 at 20 D.

    Examples
    --------
    >>> import bayescore as bc
    >>> X, y = bc.datasets.probit(5000, [1.0, 0.0], random_state=0)
    >>> core = bc.build_coreset(X, y, method=bc.methods.Calibrated(tolerance=0.02), random_state=1, progressbar=False)
    >>> core.method, bool(core.params["mean_error"] < 0.02)
    ('calibrated', True)
    """

    name: ClassVar[str] = "calibrated"

    def build(self, dataset: Dataset, size: int | None, seed: int, family: Family) -> BuildResult[CalibratedInfo]:
        """Draw and calibrate; caution where the errors to expect are far above the tolerance."""
        tolerance = check_tolerance(self.tolerance)
        with one_blas_thread():
            curve, at = self._fits(dataset, size, seed, family, tolerance=tolerance)
            best = smallest_within(curve, tolerance) if size is None else curve[0]
            missed = shortfall_of(best.rows, *at, family)
        info = CalibratedInfo(
            repr(self.mode_prior()),
            *best.errors,
            residual_mean=best.residual_mean,
            residual_curvature=best.residual_curvature,
            certain=best.certain,
            dropped=best.size - len(best.rows),
            rounds=best.rounds,
            size_curve=size_curve(curve),
        )
        return BuildResult(best.rows, info, self, _caution(best, curve, size, tolerance), missed)

    def _fits(
        self, dataset: Dataset, size: int | None, seed: int, family: Family, *, tolerance: float
    ) -> tuple[list[Fitted], tuple[FloatArray, Derivatives]]:
        """Return fits of the sizes tried, that of the size asked for first; rows of fitted weight 0 are left out.

        Beside them stand the full data's mode and the derivatives of its log-likelihood there.
        """
        prior = self.mode_prior()
        prior.parts(dataset.n_features)  # shapes
        seeds = np.random.default_rng(seed).integers(2**62, size=MAX_PILOTS + 3).tolist()
        D, n_rows, fits = dataset.n_features, dataset.scan.n_rows, rows_for_hessian(dataset.n_features)
        # 20 rows a column, up to 50 where the whole Hessian then fits
        start = min(n_rows, max(100, 20 * D, fits if fits <= 50 * D else 0) if size is None else size)
        largest_size = min(n_rows, LARGEST * start)

        def look(shares: Shares) -> PilotPass:
            n_sample = sample_rows(shares.reach, tolerance, D)
            return survey(dataset, shares, start, n_sample, (seeds[-2], seeds[-3]))

        shares, look_at_mode = full_mode(dataset, family, prior, seeds[:MAX_PILOTS], look)
        calibration = Calibration(dataset, prior, shares, look_at_mode, seeds[-1], seeds[-2], start, largest_size)
        if start == n_rows:  # all rows, with their own weights
            curve = [replace(calibration.fit(start), errors=Errors(0.0, 0.0, 0.0))]
        else:
            search = calibration.search if size is None else calibration.fit_asked_size
            curve = search(start, tolerance)
        return curve, (shares.laplace.theta, look_at_mode.part)

    def reduce(self, rows: WeightedData, request: ReduceRequest) -> ReduceResult:
        """Return fewer rows that match the totals of `rows` at the anchor, or at their own mode."""
        dataset, family = Dataset(as_source(rows)), request.family
        prior = self.mode_prior()
        theta = mode_of(rows, family, prior).beta if request.anchor is None else request.anchor
        laplace, part = scale_at(rows, theta, family, prior)
        every = Chosen(rows, np.ones(len(rows)), len(rows))
        shares = Shares.estimated(laplace, every, dataset.scan.weight_total)
        draw_seed = int(np.random.default_rng(request.seed).integers(2**62))
        surveyed = survey(dataset, shares, request.size, 0, (draw_seed, 0), part=part)
        calibration = Calibration(dataset, prior, shares, surveyed, 0, draw_seed, request.size, request.size)
        fitted = calibration.fit(request.size, sds=False)  # what nodes meet must add up
        missed = shortfall_of(fitted.rows, theta, part, family)
        return ReduceResult(fitted.rows, fitted.residual_mean, anchor=theta, shortfall=missed)

    def score_error(self, rows: WeightedData, family: Family, lost: FloatArray | None) -> ScoreError:
        """Return what calibrated rows miss, estimated from themselves (`drift`)."""
        return score_error_of_rows(rows, family, self.mode_prior())


def _caution(best: Fitted, curve: list[Fitted], size: int | None, tolerance: float) -> str | None:
    """Return a warning if the error to expect is more than twice the tolerance, with the size that would do."""
    if best.error <= 2.0 * tolerance:
        return None
    enough = [fit.size for fit in curve if fit.error <= tolerance]
    remedy = (
        f"size={min(enough)} would do"
        if enough
        else "size='auto' looks for one that does"
        if size is not None
        else f"no size up to {max(fit.size for fit in curve)} comes within tolerance={tolerance:g}; see what "
        "certify says"
    )
    errors = (
        f"expect errors of up to {best.errors.mean:.2g} sd in means and {100.0 * best.errors.sd:.2g}% in sds"
        if best.error < 1.0
        else "their posterior does not cover that of the full data"
    )
    return f"no weights on these {best.size} rows meet the full data: {errors}; {remedy}"
