r"""What a family is: the distribution of a row's response given its linear predictor, as two sides.

A row with the linear predictor eta = x . beta + offset, the side y in {-1, +1} and the weight w adds w l(eta, y) to the
log-likelihood, with l(., +1) and l(., -1) two functions of eta alone. The sides are the two labels of a row; or a count
and its exposure, which are two rows, weighed by the one and the other. Nothing right of eta knows rows or groups;
nothing left of it knows a family.

When to use: to add a likelihood, see `bayescore.families.register`.

The families that there are, by name, and the door through which each of them is passed.

What other packages call families: names that mean one of those here, and what to give for those that are not here.

The names are those of brms, bambi, rstanarm, statsmodels, scikit-learn and R's packages, read in lower case and without
marks between words. A link in parentheses, as in brms' ``bernoulli("probit")``, is read where the family has it.
"""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numba import types

from bayescore.compiled import MATRIX, VECTOR
from bayescore.data.passes import TILE
from bayescore.data.responses import ABOVE, LABELS, POSITIVE, TIMED, response_of
from bayescore.numerics.elementary import bounded_exp
from bayescore.types import FloatArray
from bayescore.validation import DataError, check_choice, check_positive

_ALIASES = {
    "logistic": ("bernoulli", "binomial", "logit"),
    "normal": ("gaussian", "lm", "ols"),
    "negative_binomial": ("negbinomial", "negativebinomial", "negbin", "nbinom", "nb"),
    "student_t": ("student", "studentt", "t"),
    "truncated_poisson": ("ztpoisson", "zerotruncated_poisson", "truncpoiss"),
}


ALIASES = {alias: kind for kind, each in _ALIASES.items() for alias in each}
"""Families by the names that other packages have for them."""


_LINKS = {
    "logistic": {"logit": "logistic", "probit": "probit", "cloglog": "cloglog", "loglog": "loglog"},
    "normal": {"identity": "normal"},
    "student_t": {"identity": "student_t"},
    **{kind: {"log": kind} for kind in ("poisson", "truncated_poisson", "negative_binomial", "gamma")},
}


_LINKED = re.compile(r"(\w+)\(\s*(?:link\s*=\s*)?['\"]?([a-z]\w*)['\"]?\s*\)")


_ROWS = "with cluster= a column that numbers the rows"


_INSTEAD = {
    f"family='student_t' fits the middle of such numbers, whose outliers do not lead it, and 'normal' {_ROWS} their "
    "mean, whose spread holds for other noise": ("robust", "laplace", "asymmetriclaplace", "skewnormal"),
    "fractions are successes of trials, k | trials(n) ~ ..., where the denominator is known; else fit their log odds, "
    "log(y / (1 - y)) ~ ..., by family='normal'": ("beta", "kumaraswamy"),
    "fit the successes of trials by family='logistic' with a random intercept (1 | row), or with cluster=, of a column "
    "that numbers the rows": ("betabinomial",),
    "fit whether a count is above 0 by family='logistic', and those that are by family='truncated_poisson'": (
        *("hurdle", "hurdlepoisson", "hurdlenegativebinomial", "hurdlenegbinomial"),
    ),
    "family='negative_binomial' takes many zeros; where zeros come about in a way of their own, fit whether a count is "
    "above 0 by family='logistic', and those that are by family='truncated_poisson'": (
        *("zeroinfl", "zeroinflatedpoisson", "zeroinflatednegativebinomial", "zeroinflatednegbinomial", "zip", "zinb"),
    ),
    "fit whether a number is above 0 by family='logistic', and those that are by family='gamma', or their logarithm, "
    "log(y) ~ ..., by family='normal'": ("hurdlelognormal", "hurdlegamma", "tweedie"),
    "fit the logarithm, log(y) ~ ..., by family='normal'": ("lognormal",),
    "family='weibull(1)' is that of times to an event, Surv(time, event) ~ ..., and 'gamma(1)' of positive numbers": (
        *("exponential", "expon"),
    ),
    "give family='weibull' for times to an event, or 'cloglog' with a row for each period": ("cox", "coxph", "phreg"),
    "it is family='negative_binomial(1)'": ("geometric",),
    "positive numbers take family='gamma', or log(y) ~ ... by family='normal'": (
        *("inversegaussian", "invgauss", "wald", "shiftedlognormal"),
    ),
    "ordered categories take family='sratio' in bayescore.fit": (
        *("ordinal", "ologit", "oprobit", "polr", "clm", "acat", "cratio", "stoppingratio", "orderedlogistic"),
        *("orderedmodel", "proportionalodds"),
    ),
    "of several classes without order fit each but one by family='logistic', of the rows of that class and of the one "
    "left out": ("categorical", "multinomial", "softmax", "mnlogit", "dirichletmultinomial"),
    f"family='poisson' {_ROWS} has the spread that the data have, and 'negative_binomial' a variance of its own": (
        *("quasipoisson",),
    ),
    f"family='logistic' {_ROWS} has the spread that the data have": ("quasibinomial",),
}


INSTEAD = {name: remedy for remedy, names in _INSTEAD.items() for name in names}
"""What to give for families that are not here, by names in lower case without marks."""


def resolve_link(name: str) -> str:
    """Return the name of the family for a name with its link, such as "bernoulli('probit')"; other names unchanged."""
    match = _LINKED.fullmatch(name.strip().lower())
    if match is None:
        return name
    return _LINKS.get(ALIASES.get(match[1], match[1]), {}).get(match[2], name)


def suggest_family(name: object) -> str:
    """Return what to give in place of the name of another package's family; empty if the name is unknown."""
    kind = str(name).partition("(")[0]
    return INSTEAD.get(re.sub(r"[\W_]", "", kind.lower()), "")


class Family(ABC):
    r"""A family: the two sides of a row's log-likelihood as functions of eta.

    .. math:: \ell_+(\eta) = \log P(y = +1), \qquad \ell_-(\eta) = \log P(y = -1)

    of a response with two labels. Of a count y with exposure E, log P(y) = y l+(eta) + E l-(eta) + a constant; of a
    positive number y it is the log density, with E = 1. Of a time t, and y = 1 or 0 for an event or none, it is
    y l+(eta - log t) + l-(eta - log t) - y log t.

    A subclass is a frozen dataclass without fields of its own, in a file of its own, whose one instance is given to
    `bayescore.families.register`. Sampling, modes, coresets and diagnostics of a registered family need nothing
    else. `Symmetric` is the base of those with l-(eta) = l+(-eta), `Sized` that of those with a number given, `size`,
    and `Varying` that of those whose number `fit` may have as a parameter.

    NumPy methods take eta and side, -1 or +1, of shapes that broadcast. Compiled functions are module-level ones,
    decorated with `bayescore.compiled.jit`; they agree with the methods, and take side as floats of the shape of eta.
    All derivatives are with respect to eta. Kernels call compiled functions by address, on contiguous floats.

    Attributes
    ----------
    name : str
        Name of the family.
    rows : compiled function (eta, side, log_p) -> None
        Writes log p, shape (n,), and replaces eta by the score.
    derivatives : compiled function (eta, side, out, scratch) -> None
        Writes log p, score, curvature and third derivative at eta, shape (TILE,), to the rows of `out`, shape
        (4, TILE); scratch has shape (3, TILE) (`data.passes`).
    higher : compiled function (eta, side, terms, out) -> None
        Writes the fourth and fifth derivative to the rows of `out`, shape (2, TILE), given what `derivatives` wrote to
        `terms`; for the series below, so not needed where `near` is 0.
    counts : bool
        Whether responses are counts with a log link, not labels; then "label" below is the side, "log p" its l, and
        `log_constant` the constant.
    amounts : bool
        Whether responses are positive numbers with a log link; `counts` is true, too, and there are no exposures.
    times : bool
        Whether these are times to an event, which may be censored; `amounts` is true, too, -log(time) is an offset, and
        l- minus the cumulative hazard.
    least : int
        The least count, 0 or 1. With 1 the events of a row are those beyond the first, y - 1 in the place of y above;
        then the mean of y is not exp(eta), and `mean_derivatives` and `link` are the family's own.
    linear : int
        The side whose l is a multiple of eta, but for a constant, where the other's is one of -exp(r eta), for a number
        r, or is so near `center`; pseudo-rows are then known in closed form. 0 where there is none.
    exponential : bool
        Whether l+ = eta and l- = -exp(eta). Only then a row's exposure is a weight of its side; the exposure of other
        counts is 1, and log(exposure) an offset.
    numbers : bool
        Whether responses are numbers y with noise about eta. A row has -y as its offset, and l is the log density of
        the noise -eta whatever its side; then "probability" below is a density.
    quadratic : bool
        Whether the noise is normal, of a given sd: l = -eta^2 / (2 sd^2) - log(sd sqrt(2 pi)); `numbers` is true, too.
    unit : float
        How far eta moves for log p to change by about 1; 1, but the sd of normal noise, or the scale of other noise.
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
    higher: "ClassVar[staticmethod[..., None]]"
    counts: ClassVar[bool] = False
    amounts: ClassVar[bool] = False
    times: ClassVar[bool] = False
    least: ClassVar[int] = 0
    linear: ClassVar[int] = 0
    exponential: ClassVar[bool] = False
    numbers: ClassVar[bool] = False
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
        """What responses are: "labels", "counts", "counts above 0", "positive numbers", "times" or "numbers"."""
        sides = TIMED if self.times else POSITIVE if self.amounts else "counts" if self.counts else LABELS
        sides = ABOVE if self.least else sides
        return "numbers" if self.numbers else sides

    @property
    def unit(self) -> float:
        """See above."""
        return 1.0

    @property
    def complete(self) -> bool:
        """Whether nothing is missing, as the number of `Gaussian()` or `NegativeBinomial()`, which is a parameter."""
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

    def mean(self, eta: FloatArray) -> FloatArray:
        """P(y = +1), which a family of labels gives; else the mean of a number, eta, or of a count, exp(eta)."""
        return np.array(eta, dtype=np.float64) if self.numbers else bounded_exp(eta)

    @abstractmethod
    def log_p_graph(self, eta: Any, side: Any) -> Any:
        """`log_p` as a PyTensor expression with finite value and gradient; PyTensor is imported here, not above."""

    def log_constant(self, events: FloatArray, exposure: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return what log P(y) of counts has beside both sides, without parameters, shape (n,)."""
        return np.zeros(np.shape(events))

    def mean_derivatives(self, eta: FloatArray) -> FloatArray:
        """Return the mean of counts and its first three derivatives, shape (4, ...)."""
        return np.stack([self.mean(eta)] * 4)

    def link(self, mean: FloatArray) -> FloatArray:
        """Return eta of counts, given their mean."""
        with np.errstate(divide="ignore"):  # of a rate of 0
            return np.log(mean)

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
    """A family with a number, `size`, which its compiled functions take as their last argument.

    A subclass has a `kind`, such as "negative_binomial"; `name` has the number too: "negative_binomial(2.5)". `number`
    is its name in messages, and `unknown` says what to do if it is not known. One that has a second number has `names`
    of both, and an `example` of them. A kind with a `parameter` may lack
    its number, which is then a parameter of that name: where it is `found`, a build finds about where it is, and else
    `fit` is made at some numbers.

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

    size: float = None  # type: ignore[assignment]  # of those that lack it
    name: str = field(init=False, repr=False, compare=False)
    kind: ClassVar[str]
    number: ClassVar[str] = "size"
    names: ClassVar[tuple[str, ...]] = ()
    example: ClassVar[str] = "2.5"
    parameter: ClassVar[str] = ""
    found: ClassVar[bool] = False
    unknown: ClassVar[str] = "loo_compare says which predicts best"

    def __post_init__(self) -> None:
        if self.parameter and self.lacks_size:
            object.__setattr__(self, "name", self.kind)
            return
        if isinstance(self.size, str | bool):
            raise TypeError(f"{self.number}={self.size!r} must be a number")
        size = check_positive(self.size, self.number)
        object.__setattr__(self, "size", size)
        object.__setattr__(self, "name", f"{self.kind}({repr(size).removesuffix('.0')})")

    @property
    def complete(self) -> bool:
        """Whether the number is known."""
        return self.size is not None

    @property
    def lacks_size(self) -> bool:
        """Whether `size` is missing."""
        return self.size is None

    def given(self) -> tuple[float, ...]:
        """Return the size."""
        return (self.size,)

    @classmethod
    def wanted(cls) -> str:
        """Return what the numbers are called."""
        return " and ".join(cls.names) or cls.number

    @classmethod
    def read_numbers(cls, text: str) -> list[float]:
        """Return the numbers of a text such as "2.5", or "size=2.5"; raise `ValueError` for others."""
        names, parts = cls.names or (cls.number,), text.split(",")
        if len(parts) > len(names):
            raise ValueError(f"{len(parts)} numbers are given")
        return [float(part.strip().removeprefix(f"{name}=")) for name, part in zip(names, parts, strict=False)]

    def at(self, size: Any) -> Self:
        """Return the formulas at draws of the number, in a shape for that of eta, or at a tensor; no kernels."""
        family = copy(self)
        object.__setattr__(family, "size", size)
        return family


SIZE_PRIOR_SD = 2.0
"""Of the normal prior, about 0, of the log of a number that is a parameter."""


LARGEST_SIZE = 1e7
"""A larger one changes the distribution of responses no more, for all data that there are."""


@dataclass(frozen=True)
class Varying(Sized):
    """A family whose number, where it is missing, is a parameter: `fit` is made at some numbers (`fitting.size`).

    `parameter` is its name, `meaning` what it does, and `beyond` what a message adds on a number that is too large. The
    prior of its logarithm is N(0, 2^2).

    Parameters
    ----------
    size : float, optional
        The number, above 0 and below 1e7.

    Raises
    ------
    ValueError, TypeError
        If `size` is given and is not such a number.

    Examples
    --------
    >>> import bayescore as bc
    >>> family = bc.families.Gamma()
    >>> isinstance(family, bc.families.Varying), family.parameter, family.complete
    (True, 'shape', False)
    """

    meaning: ClassVar[str]
    beyond: ClassVar[str] = ""
    unknown = "fit(family='{kind}') has it as a parameter; its coreset has one near the middle"
    number_prior: ClassVar[str] = f"LogNormal(mu=0, sigma={SIZE_PRIOR_SD:g})"

    @staticmethod
    def prior_slope(log_number: float) -> float:
        """Return the slope of the log prior density of the log of the number."""
        return -log_number / SIZE_PRIOR_SD**2

    @staticmethod
    def draw_prior(n: int, rng: np.random.Generator) -> FloatArray:
        """Return n draws of the number's prior."""
        return np.asarray(np.exp(SIZE_PRIOR_SD * rng.standard_normal(n)))

    def asked(self, numbers: Iterable[str]) -> str:  # noqa: ARG002
        """Return the name of the family whose `numbers` are parameters."""
        return self.kind

    @property
    def heading(self) -> str:
        """What a table calls the rows of its numbers."""
        return f"{self.parameter.capitalize()} ({self.meaning})"

    @property
    def missing(self) -> str:
        """What the number is called that is a parameter where it is missing."""
        return self.parameter

    def completed(self, value: float) -> Self:
        """Return the family with the number that is missing."""
        return type(self)(value)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.lacks_size and self.size >= LARGEST_SIZE:
            raise ValueError(f"{self.number}={self.size:g} must be below {LARGEST_SIZE:g}{self.beyond}")

    @abstractmethod
    def size_slopes(self, eta: FloatArray, events: FloatArray, weights: FloatArray) -> FloatArray:
        """Return the slope in the log of the number, of the log-likelihood of n responses, shape (S,).

        Predictors have the shape (n, S), responses and weights (n,).
        """

    @abstractmethod
    def most_likely(self, events: FloatArray, expected: FloatArray) -> float | None:
        """Return the number that is most likely at given means, shape (n,); None if there is no largest likelihood."""


FAMILIES: dict[str, Family] = {}


SIZED: dict[str, type[Sized]] = {}  # kinds of families with a size


COMPILED = {  # what kernels call, each of a tile of rows
    "rows": types.none(VECTOR, VECTOR, VECTOR),
    "derivatives": types.none(VECTOR, VECTOR, MATRIX, MATRIX),
    "higher": types.none(VECTOR, VECTOR, MATRIX, MATRIX),
}


_NEAR = np.array([-3.0, -0.5, 0.0, 0.5, 3.0])  # where derivatives are compared with differences


_STEP = 1e-4  # of differences, whose error is about its square


_COUNTS = np.arange(20_000.0)  # whose probabilities add up to 1 where the mean is not above 2


_LOG_AMOUNTS = np.arange(-600.0, 8.0, 0.01)  # between whose exponentials the density of a mean below 2 has its mass


_LOG_STEP = math.log(_LOG_AMOUNTS[1] - _LOG_AMOUNTS[0])


_PARTS = ("log_p", "score", "curvature", "third")  # each the derivative of the one before, but for the curvature's sign


def register(family: Family) -> Family:
    """Make a family known by its name, in this process, and return it.

    Parameters
    ----------
    family : Family
        One with the contract of `bayescore.families.Family`.

    Returns
    -------
    Family
        The same.

    Raises
    ------
    TypeError
        If it is no `Family`, lacks compiled functions, or two of its class are not equal.
    ValueError
        If probabilities do not add up to 1, the mean of counts is not where their score is 0, or the density of numbers
        does not integrate to 1. If derivatives are not those of `log_p`, or not finite as far as the family reaches,
        compiled functions are not the formulas, or another family has its name.

    Notes
    -----
    Other processes, such as workers of Dask, must import the module that registers it. It is enough to register one
    of a kind of families with a size.

    Examples
    --------
    >>> import bayescore as bc
    >>> bc.families.register(bc.families.Probit()).name  # again: that changes nothing
    'probit'
    """
    if not isinstance(family, Family):
        raise TypeError(
            f"family={family!r} is no Family; derive its class from bayescore.families.Family, or from "
            "Symmetric beside it"
        )
    name = family.name
    if isinstance(family, Sized) and not family.complete:
        raise ValueError(missing_number_message(family, name))
    asked = [part for part in COMPILED if part != "higher" or family.near > 0.0]
    missing = [part for part in asked if not hasattr(getattr(family, part, None), "py_func")]
    if missing:
        raise TypeError(f"family {name!r} lacks the compiled {', '.join(missing)}; see bayescore.families.Family")
    if type(family)(*family.given()) != family:
        raise TypeError(
            f"family {name!r} is not the same as another {type(family).__name__}(), and would be unknown to "
            "other processes; make its class a frozen dataclass without fields, but for the size of a Sized one"
        )
    earlier = find_family(name)
    if earlier not in (None, family):
        raise ValueError(f"family {name!r} is registered already, as {earlier!r}; choose another name")
    check = {TIMED: _check_times, LABELS: _check_probabilities, "numbers": _check_density}
    check.get(family.response, _check_counts_and_amounts)(family)
    for side in (1, -1):
        _check_side(family, side)
        _check_compiled(family, side)
    if isinstance(family, Sized):
        SIZED[family.kind] = type(family)
    else:
        FAMILIES[name] = family
    return family


def _check_equal(
    family: Family,
    what: str,
    value: FloatArray,
    other: str,
    wanted: FloatArray | float,
    *,
    tolerance: float = 1e-9,
    at: FloatArray = _NEAR,
) -> None:
    """Raise unless `value`, that of `what` at some eta, is `wanted`, that of `other`; NaN never is."""
    wanted = np.broadcast_to(wanted, value.shape)
    gap = np.abs(value - wanted) - tolerance * (1.0 + np.abs(wanted))
    if not gap.max() < 0.0:
        worst = int(gap.argmax())
        raise ValueError(
            f"family {family.name!r}: {what} is {value[worst]:g} at eta = {at[worst]:.2g}, and {other} is "
            f"{wanted[worst]:g}, a difference of {abs(value[worst] - wanted[worst]):.2g}; mend one of them"
        )


def _check_probabilities(family: Family) -> None:
    """Raise unless exp(l+) is the mean and exp(l-) the rest."""
    mean = family.mean(_NEAR)
    for side, other, p in ((1, "mean(eta)", mean), (-1, "1 - mean(eta)", 1.0 - mean)):
        _check_equal(family, f"exp(log_p(eta, {side}))", np.exp(family.log_p(_NEAR, side)), other, p)


def _check_density(family: Family) -> None:
    """Raise unless l is the log density of noise on both sides, of normal noise that of sd `unit`, and the mean eta."""
    _check_equal(family, "mean(eta)", family.mean(_NEAR), "eta", _NEAR)
    if family.quadratic:
        _check_equal(family, "variance(eta)", family.variance(_NEAR), "the square of its unit", family.unit**2)
    normal = -0.5 * ((_NEAR / family.unit) ** 2 + math.log(2.0 * math.pi)) - math.log(family.unit)
    steps = np.arange(-40.0, 40.0, 0.01)
    eta = family.unit * np.sinh(steps)
    for side in (1, -1):
        if family.quadratic:
            log_p = family.log_p(_NEAR, side)
            _check_equal(family, f"log_p(eta, {side})", log_p, "that of normal noise of its unit", normal)
            continue
        whole = float(np.sum(np.exp(family.log_p(eta, side)) * np.cosh(steps)) * 0.01 * family.unit)
        if not abs(whole - 1.0) < 1e-6:
            raise ValueError(
                f"family {family.name!r}: the density of noise, exp(log_p(eta, {side})), has the integral {whole:g}, "
                "not 1; mend log_p"
            )


def _check_counts_and_amounts(family: Family) -> None:
    """Raise unless the link is log, a response of the mean has the score 0, and probabilities add up to 1."""
    mean = family.mean(_NEAR)
    pull = (mean - family.least) * family.score(_NEAR, 1)
    other = "-score(eta, -1), so that a count of the mean has the score 0,"
    _check_equal(family, "mean(eta) score(eta, 1)", pull, other, -family.score(_NEAR, -1))
    _check_equal(family, "link(mean(eta))", family.link(mean), "eta", _NEAR)
    at = _NEAR[:-1, None]
    y, log_step = _COUNTS, np.zeros(1)
    if family.amounts:
        y, log_step = np.exp(_LOG_AMOUNTS), _LOG_AMOUNTS + _LOG_STEP
    log_p = y * family.log_p(at, 1) + family.log_p(at, -1) + family.log_constant(y, np.ones_like(y)) + log_step
    _check_moments(family, y + family.least, log_p)


def _check_times(family: Family) -> None:
    """Raise unless the event's side is the log of the slope of the cumulative hazard, and the moments are right."""
    other = "the slope of the cumulative hazard, score(eta, -1),"
    _check_equal(family, "exp(log_p(eta, 1))", np.exp(family.log_p(_NEAR, 1)), other, family.score(_NEAR, -1))
    e = _NEAR[:-1, None] - _LOG_AMOUNTS
    _check_moments(family, np.exp(_LOG_AMOUNTS), family.log_p(e, 1) + family.log_p(e, -1) + _LOG_STEP)


def _check_moments(family: Family, y: FloatArray, log_p: FloatArray) -> None:
    """Raise unless probabilities of responses y at some eta add up to 1 and have the family's moments."""
    at, p = _NEAR[:-1], np.exp(np.minimum(log_p, 1.0))  # where it is wrong it may overflow
    what = f"the sum of the probabilities of all {family.response}, by log_constant,"
    _check_equal(family, what, p.sum(axis=1), "that of a distribution", 1.0, at=at)
    move = y - family.mean(at)[:, None]
    second, fourth = ((p * move**power).sum(axis=1) for power in (2, 4))
    moments = {"mean": p @ y, "variance": second, "excess_kurtosis": fourth / second**2 - 3.0}
    for part, wanted in moments.items():
        value = getattr(family, part)(at)
        _check_equal(family, f"{part}(eta)", value, "that of its probabilities", wanted, tolerance=1e-6, at=at)


def _check_compiled(family: Family, side: int) -> None:
    """Raise unless the compiled functions give what the formulas of one side do."""
    eta, sides = np.linspace(_NEAR[0], _NEAR[-1], TILE), np.full(TILE, float(side))
    wanted = [getattr(family, part)(eta, side) for part in _PARTS]
    derivatives, log_p, score = np.empty((4, TILE)), np.empty(TILE), eta.copy()
    family.derivatives(eta.copy(), sides, derivatives, np.empty((3, TILE)), *family.given())
    family.rows(score, sides, log_p, *family.given())
    names = [*(f"derivatives' {part}" for part in _PARTS), "rows' log_p", "rows' score"]
    for name, value, formula in zip(names, [*derivatives, log_p, score], [*wanted, *wanted[:2]], strict=True):
        what = f"the compiled {name} of side {side}"
        _check_equal(family, what, value, "the formula", formula, tolerance=1e-7, at=eta)


def _check_side(family: Family, side: int) -> None:
    """Raise unless the functions of one side belong together and are finite."""

    def values(part: str, eta: FloatArray) -> FloatArray:
        evaluated: FloatArray = getattr(family, part)(eta, side)
        return -evaluated if part == "curvature" else evaluated

    called = {part: f"{'minus ' * (part == 'curvature')}{part}(eta, {side})" for part in _PARTS}
    for before, part in pairwise(_PARTS):
        slope = (values(before, _NEAR + _STEP) - values(before, _NEAR - _STEP)) / (2.0 * _STEP)
        other = f"the slope of {called[before]}"
        _check_equal(family, called[part], values(part, _NEAR), other, slope, tolerance=1e-6)
    for part in _PARTS:
        if not np.isfinite(values(part, np.array([-family.reach, family.reach]))).all():
            raise ValueError(
                f"family {family.name!r}: {part}(eta, {side}) is not finite at eta = +-{family.reach:g}; mend its tails"
            )


ORDERED = ("sratio", "cumulative")
"""How names of families of ordered categories begin, which `fit` alone takes."""


def find_family(name: object) -> Family | None:
    """Return the family of that name, such as "logistic" or "negative_binomial(2.5)"; None if there is none.

    Names of other packages are read too, and names in capitals.

    Raises `ValueError` if a size is missing, no number or out of range.
    """
    if not isinstance(name, str):
        return None
    name = resolve_link(name)
    kind, bracket, rest = name.strip().partition("(")
    kind = kind.strip()
    if kind not in FAMILIES and kind not in SIZED:
        kind = ALIASES.get(kind.lower(), kind.lower())
    if (sized := SIZED.get(kind)) is None:
        return FAMILIES.get(kind + bracket + rest)
    if not rest.strip(") "):
        if sized.parameter and "(" not in name:
            return sized()
        raise ValueError(missing_number_message(sized, name))
    try:
        numbers = sized.read_numbers(rest.removesuffix(")") if rest.endswith(")") else "")
    except ValueError:
        raise ValueError(
            f"family={name!r} must be written as '{sized.kind}({sized.example})', with its {sized.wanted()} as "
            f"{'numbers' if sized.names else 'a number'}"
        ) from None
    return sized(*numbers)


def known_names() -> tuple[str, ...]:
    """Return what users may write for a family."""
    alone = [kind for kind, sized in SIZED.items() if sized.parameter]
    return (*FAMILIES, *alone, *(f"{kind}({sized.number})" for kind, sized in SIZED.items()))


def missing_number_message(sized: Sized | type[Sized], name: str) -> str:
    """Return the message on a family that was given without its number."""
    it = "them" if sized.names else "it"
    return (
        f"family={name!r} lacks its {sized.wanted()}: give {it}, as in '{sized.kind}({sized.example})'; "
        + sized.unknown.format(kind=sized.kind)
    )


def check_exposure(family: Family, exposure: object) -> Family:
    """Return the family; raise if exposures are given to one of counts whose sides they do not weigh."""
    if exposure is not None and family.counts and not (family.exponential or family.times):
        other = "" if family.amounts else ", or family='poisson'"
        raise DataError(
            f"exposure is given, and {family.name!r} has none, as its variance is not in proportion to it: give "
            f"log(exposure) as offset{other}"
        )
    return family


def check_family(family: "str | Family", *, rows: object = None, seek: bool = False) -> Family:
    """Return the registered family of that name, or `family` itself if it is registered.

    Raises `DataError` if `rows` are a coreset of labels and the family takes counts, and so on; `ValueError` if it
    lacks its number, unless the caller will `seek` it.
    """
    if isinstance(family, str) and family.lower().startswith(ORDERED):
        raise DataError(f"family={family!r} is of ordered categories, which bayescore.fit takes and nothing else does")
    if isinstance(family, Family):
        if find_family(family.name) != family:
            raise TypeError(f"family={family!r} is not registered; call bayescore.families.register first")
        resolved = family
    elif (by_name := find_family(family)) is not None:
        resolved = by_name
    elif remedy := suggest_family(family):
        raise ValueError(f"family={family!r} is not here: {remedy}")
    else:
        resolved = FAMILIES[check_choice(family, "family", known_names())]
    if isinstance(resolved, Sized) and not (resolved.complete or seek):
        raise ValueError(missing_number_message(resolved, resolved.name))
    classes = getattr(rows, "classes", None)
    if classes is not None and resolved.response != (has := response_of(classes)):
        raise DataError(
            f"family={resolved.name!r} takes {resolved.response}, and the coreset was built of {has}; give the "
            f"family that it was built for, or build it with family={resolved.name!r}"
        )
    return resolved
