"""What methods have in common that match a posterior at its mode and are tried out (`calibration.predicted_error`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

from bayescore.coresets.calibration.fits import CORRELATION
from bayescore.coresets.method import Method
from bayescore.models.priors import Normal, Prior, prior_of
from bayescore.validation import check_positive

TOLERANCE = 0.05  # error to aim at, of means in posterior sds and of sds relatively
WEAK = Normal(0.0, 4.0)  # prior under which modes are sought


class SizePoint(NamedTuple):
    """A size that was tried, and the errors to expect."""

    size: int
    mean_error: float
    sd_error: float
    correlation_error: float

    @property
    def error(self) -> float:
        """The largest, as it is compared with a tolerance."""
        return max(self.mean_error, self.sd_error, CORRELATION * self.correlation_error)


def check_one_mode(prior: Any, matched: str) -> None:
    """Raise unless a mode can be sought under `prior`; `matched` says what is done with the likelihood."""
    known = prior_of(prior, list(prior) if isinstance(prior, Mapping) else ())
    if not (known.closed_form and known.unimodal):
        raise ValueError(
            f"prior={prior} has more than one mode or no density in closed form; leave prior out: only the likelihood "
            f"is {matched}, and the coreset serves other priors"
        )


@dataclass(frozen=True)
class TriedOut(Method):
    """A method with a prior under which the mode is sought, and a tolerance that says the size."""

    prior: Prior | Mapping[str, Prior] | None = None
    tolerance: float | None = None

    size_options: ClassVar[tuple[str, ...]] = ("tolerance",)

    def __post_init__(self) -> None:
        check_one_mode(self.prior, "calibrated")
        if self.tolerance is not None:
            object.__setattr__(self, "tolerance", check_positive(self.tolerance, "tolerance", below=1.0))

    @property
    def mode_prior(self) -> Prior:
        """The prior given, or a weak one.

        Raises
        ------
        ValueError
            If it is given by names, and `named` has not told which columns have them.
        """
        if isinstance(self.prior, Mapping):
            raise ValueError(f"prior={self.prior} goes by names, and rows of a stream have none yet; give one prior")
        return WEAK if self.prior is None else self.prior

    @property
    def allowed(self) -> float:
        """The tolerance given, or the default."""
        return TOLERANCE if self.tolerance is None else self.tolerance

    def named(self, names: Sequence[str]) -> Self:
        """Return the method with the prior of columns of these names."""
        return replace(self, prior=prior_of(self.prior, names)) if isinstance(self.prior, Mapping) else self
