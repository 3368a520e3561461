"""What methods that predict their own error share: options, checks, and the choice among the sizes that they tried.

Such a method finds the mode under a prior, predicts the errors of posterior means, sds and correlations for some sizes
(`predicted_error`), and takes the smallest size whose error is within a tolerance.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar

from bayescore.coresets.calibration.paired import Errors
from bayescore.coresets.method import BuildInfo, Method
from bayescore.coresets.sampling.by_column import draw_by_column
from bayescore.data.dataset import Dataset
from bayescore.models.priors import Normal, Prior, prior_of
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
    errors = [{f"{name}_error": own for name, own in one.errors._asdict().items()} for one in ordered]
    return [{"size": one.size, **own} for one, own in zip(ordered, errors, strict=True)]


def check_one_mode(prior: Prior | Mapping[str, Prior] | None, matched: str) -> None:
    """Raise unless a mode can be found under `prior`; `matched` says what is done with the likelihood."""
    known = prior_of(prior, list(prior) if isinstance(prior, Mapping) else ())
    if not (known.closed_form and known.unimodal):
        raise ValueError(
            f"prior={prior} has more than one mode or no density in closed form; leave prior out: only the likelihood "
            f"is {matched}, and the coreset serves other priors"
        )


def check_tolerance(tolerance: float | None) -> float:
    """Return the tolerance given, or the default."""
    return TOLERANCE if tolerance is None else check_positive(tolerance, "tolerance", below=1.0)


def mode_prior(prior: Prior | Mapping[str, Prior] | None) -> Prior:
    """Return the prior under which the mode is found; raise if columns of priors by name are not named yet."""
    if isinstance(prior, Mapping):
        raise ValueError(f"prior={prior} goes by names, and rows of a stream have none yet; give one prior")
    return WEAK if prior is None else prior


@dataclass(frozen=True)
class PredictingMethod(Method):
    """A method that predicts its own error: its options, and the mode that it begins with."""

    prior: Prior | Mapping[str, Prior] | None = None
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
