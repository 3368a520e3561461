r"""What a family is: the distribution of a row's response given its linear predictor, as two concave sides.

A row with the linear predictor eta = x . beta + offset, the side y in {-1, +1} and the weight w adds w l(eta, y) to the
log-likelihood, with l(., +1) and l(., -1) two functions of eta alone. The sides are the two labels of a row; or a count
and its exposure, which are two rows, weighed by the one and the other. Nothing right of eta knows rows or groups;
nothing left of it knows a family.

When to use: to add a likelihood, see `bayescore.families.register`.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from bayescore.compiled import jit
from bayescore.types import FloatArray
from bayescore.validation import check_positive


@jit
def _no_higher(eta: FloatArray, side: FloatArray, terms: FloatArray, out: FloatArray) -> None:  # noqa: ARG001
    out[:] = 0.0


class Family(ABC):
    r"""A family: the two sides of a row's log-likelihood as functions of eta.

    .. math:: \ell_+(\eta) = \log P(y = +1), \qquad \ell_-(\eta) = \log P(y = -1)

    of a response with two labels. Of a count y with exposure E, log P(y) = y l+(eta) + E l-(eta) + a constant.

    A subclass is a frozen dataclass without fields of its own, in a file of its own, whose one instance is given to
    `bayescore.families.register`. Sampling, modes, coresets and diagnostics of a registered family need nothing
    else. `Symmetric` is the base of those with l-(eta) = l+(-eta), `Sized` that of those with a number given, `size`.

    NumPy methods take eta and side, -1 or +1, of shapes that broadcast. Compiled functions are module-level ones,
    decorated with `bayescore.compiled.jit`; they agree with the methods, and take side as floats of the shape of eta.
    All derivatives are with respect to eta.

    Attributes
    ----------
    name : str
        Name of the family.
    rows : compiled function (eta, side, log_p) -> None
        Writes log p, shape (n,), and replaces eta by the score.
    derivatives : compiled function (eta, side, out, scratch) -> None
        Writes log p, score, curvature and third derivative at eta, shape (TILE,), to the rows of `out`, shape
        (4, TILE); scratch has shape (3, TILE) (`data.passes.tiles`).
    higher : compiled function (eta, side, terms, out) -> None
        Writes the fourth and fifth derivative to the rows of `out`, shape (2, TILE), given what `derivatives` wrote to
        `terms`; for the series below, so not needed where `near` is 0.
    counts : bool
        Whether responses are counts with a log link, not labels; then "label" below is the side, "log p" its l, and
        `log_constant` the constant.
    exponential : bool
        Whether l+ = eta and l- = -exp(eta), for which pseudo-rows are known in closed form. Only then a row's exposure
        is a weight of its side; the exposure of other counts is 1, and log(exposure) an offset.
    quadratic : bool
        Whether responses are numbers y with normal noise of a given sd. A row has -y as its offset, and l = -eta^2 /
        (2 sd^2) - log(sd sqrt(2 pi)) whatever its side; then "probability" below is a density.
    unit : float
        How far eta moves for log p to change by about 1; 1, but the sd of normal noise.
    symmetric : bool
        Whether l-(eta) = l+(-eta), so that a stream may learn at its end which label is +1.
    center : float
        Eta about which both sides bend; pseudo-rows have theirs near it.
    near : float
        Moves of eta up to which the series of degree 5 is within 2e-10 of log p: (720 2e-10 / m)^(1/6), with m a bound
        of the sixth derivative. With 0, the default, log p over draws is evaluated anew at each, in three times the
        time.
    reach : float
        All functions are finite for abs(eta) up to this, 1e4 unless a family overflows by its nature before.
    scale : str
        What units eta is in, for tables and pictures.
    ratio : str, optional
        What the exponential of a coefficient is, such as an odds ratio.
    latent_variance : float, optional
        Variance of the noise of a latent response whose sign is the label, or of the response itself if it is a number,
        for intraclass correlations.

    Examples
    --------
    >>> import numpy as np, bayescore as bc
    >>> isinstance(bc.families.Probit(), bc.families.Family)
    True
    >>> bc.families.Probit().score(np.zeros(1), np.array([-1])).round(2)
    array([-0.8])
    """

    name: str
    rows: "ClassVar[staticmethod[..., None]]"
    derivatives: "ClassVar[staticmethod[..., None]]"
    higher: "ClassVar[staticmethod[..., None]]" = staticmethod(_no_higher)
    counts: ClassVar[bool] = False
    exponential: ClassVar[bool] = False
    quadratic: ClassVar[bool] = False
    symmetric: ClassVar[bool] = False
    center: float = 0.0
    near: float = 0.0
    reach: ClassVar[float] = 1e4
    scale: ClassVar[str] = "linear predictor"
    ratio: ClassVar[str | None] = None
    latent_variance: float | None = None

    @property
    def response(self) -> str:
        """What responses are: "labels", "counts" or "numbers"."""
        return "numbers" if self.quadratic else "counts" if self.counts else "labels"

    @property
    def unit(self) -> float:
        """See above."""
        return 1.0

    @property
    def complete(self) -> bool:
        """Whether nothing is missing; a build finds the sd of `Normal()` and puts it in."""
        return True

    @abstractmethod
    def log_p(self, eta: FloatArray, side: Any) -> FloatArray:
        """Log probability of the label `side`."""

    @abstractmethod
    def score(self, eta: FloatArray, side: Any) -> FloatArray:
        """First derivative of `log_p`."""

    @abstractmethod
    def curvature(self, eta: FloatArray, side: Any) -> FloatArray:
        """Minus the second derivative of `log_p`; negative only where log p is not concave."""

    @abstractmethod
    def third(self, eta: FloatArray, side: Any) -> FloatArray:
        """Third derivative of `log_p`."""

    @abstractmethod
    def mean(self, eta: FloatArray) -> FloatArray:
        """P(y = +1), or the mean of the count of an exposure of 1, exp(eta), or of a number, eta."""

    @abstractmethod
    def log_p_graph(self, eta: Any, side: Any) -> Any:
        """`log_p` as a PyTensor expression with finite value and gradient; PyTensor is imported here, not above."""

    def log_constant(self, events: FloatArray, exposure: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return what log P(y) of counts has beside both sides, without parameters, shape (n,)."""
        return np.zeros(np.shape(events))

    def variance(self, eta: FloatArray) -> FloatArray:
        """Variance of the label as 0 or 1, or of the count of an exposure of 1."""
        p = self.mean(eta)
        return np.asarray(p * (1.0 - p))

    def excess_kurtosis(self, eta: FloatArray) -> FloatArray:
        """Fourth moment over the squared variance, less 3; of the same response as `variance`."""
        return 1.0 / self.variance(eta) - 6.0

    def given(self) -> tuple[float, ...]:
        """Return the numbers that compiled functions take after their other arguments: none, but of `Sized`."""
        return ()

    def draw(self, eta: FloatArray, rng: np.random.Generator, exposure: Any = 1.0) -> FloatArray:  # noqa: ARG002
        """Return labels, 0.0 or 1.0, or counts of exposures, drawn at eta.

        An exposure that is no exponential family's is the weight of rows that share eta: their counts are added up.
        """
        p = self.mean(eta)
        return np.asarray((rng.random(p.shape) < p).astype(np.float64))


class Symmetric(Family):
    """A family with l-(eta) = l+(-eta): a subclass gives l+ and its derivatives, those of l- follow.

    Examples
    --------
    >>> import numpy as np, bayescore as bc
    >>> family, eta = bc.families.Logistic(), np.array([2.0])
    >>> bool(family.log_p(eta, -1) == family.upper(-eta))
    True
    """

    symmetric = True

    @abstractmethod
    def upper(self, eta: FloatArray) -> FloatArray:
        """l+, the log probability of the label +1."""

    @abstractmethod
    def upper_score(self, eta: FloatArray) -> FloatArray:
        """First derivative of l+."""

    @abstractmethod
    def upper_curvature(self, eta: FloatArray) -> FloatArray:
        """Minus the second derivative of l+."""

    @abstractmethod
    def upper_third(self, eta: FloatArray) -> FloatArray:
        """Third derivative of l+."""

    @abstractmethod
    def upper_graph(self, eta: Any) -> Any:
        """Return l+ as a PyTensor expression, see `log_p_graph`."""

    def log_p(self, eta: FloatArray, side: Any) -> FloatArray:
        """Return the log probability of the label `side`."""
        return self.upper(side * np.asarray(eta, dtype=np.float64))

    def score(self, eta: FloatArray, side: Any) -> FloatArray:
        """Return the first derivative of `log_p`."""
        return np.asarray(side * self.upper_score(side * np.asarray(eta, dtype=np.float64)))

    def curvature(self, eta: FloatArray, side: Any) -> FloatArray:
        """Return minus the second derivative of `log_p`."""
        return self.upper_curvature(side * np.asarray(eta, dtype=np.float64))

    def third(self, eta: FloatArray, side: Any) -> FloatArray:
        """Return the third derivative of `log_p`."""
        return np.asarray(side * self.upper_third(side * np.asarray(eta, dtype=np.float64)))

    def log_p_graph(self, eta: Any, side: Any) -> Any:
        """Return `log_p` as a PyTensor expression."""
        return self.upper_graph(side * eta)


@dataclass(frozen=True)
class Sized(Family):
    """A family with a number given, `size`, which its compiled functions take as their last argument.

    A subclass has a `kind`, such as "negative_binomial"; `name` has the number too: "negative_binomial(2.5)". Kernels
    are compiled once for a kind, whatever the size. `number` is what messages call it, `unknown` tells what to do where
    it is not known, and `found` whether rows tell it, so that an instance may lack it.

    Parameters
    ----------
    size : float
        The number, above 0.

    Raises
    ------
    ValueError, TypeError
        If `size` is not a finite number above 0.

    Examples
    --------
    >>> import bayescore as bc
    >>> family = bc.families.NegativeBinomial(2.5)
    >>> family.name, family.given()
    ('negative_binomial(2.5)', (2.5,))
    """

    size: float
    name: str = field(init=False, repr=False, compare=False)
    kind: ClassVar[str]
    number: ClassVar[str] = "size"
    found: ClassVar[bool] = False
    unknown: ClassVar[str] = "loo_compare says which predicts best"

    def __post_init__(self) -> None:
        if isinstance(self.size, str | bool):
            raise TypeError(f"{self.number}={self.size!r} must be a number")
        size = check_positive(self.size, self.number)
        object.__setattr__(self, "size", size)
        object.__setattr__(self, "name", f"{self.kind}({repr(size).removesuffix('.0')})")

    def given(self) -> tuple[float, ...]:
        """Return the size."""
        return (self.size,)
