r"""The likelihood of numbers with Student t noise, for regression that outliers do not lead: y = eta + sigma t_nu.

.. math:: \log p(y) = \log\Gamma\bigl(\tfrac{\nu + 1}{2}\bigr) - \log\Gamma\bigl(\tfrac{\nu}{2}\bigr)
          - \tfrac12 \log(\nu \pi \sigma^2) - \tfrac{\nu + 1}{2} \log(1 + v),
          \qquad v = \frac{(y - \eta)^2}{\nu \sigma^2}

A row has -y as its offset, as those of `normal` have, so that its linear predictor is minus the residual, and both
sides are one. Score and curvature, with k = 1 / (nu sigma^2):

.. math:: s = -\frac{(\nu + 1) k \eta}{1 + v}, \qquad c = (\nu + 1) k \frac{1 - v}{(1 + v)^2}

l is not concave: of a residual above sigma sqrt(nu) the curvature is negative, and the farther out a number is, the
less it says. So the posterior may have several modes where numbers fall into clusters far apart: see
`models.modes.search_start`.

nu and sigma are parameters unless they are given. `fitting.student_t` makes fits at some of them, and the posterior
between these needs the slopes

.. math:: \frac{dl}{d\log\sigma} = \frac{(\nu + 1) v}{1 + v} - 1, \qquad
          \frac{dl}{d\log\nu} = \frac{\nu}{2} \Bigl[\psi\bigl(\tfrac{\nu + 1}{2}\bigr) - \psi\bigl(\tfrac{\nu}{2}\bigr)
          - \log(1 + v)\Bigr] + \frac12 \Bigl[\frac{(\nu + 1) v}{1 + v} - 1\Bigr].

Lange, Little and Taylor (1989), Robust statistical modeling using the t distribution, JASA 84.
"""

import math
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy import special

from bayescore.compiled import jit_inner
from bayescore.data.passes import TILE
from bayescore.families.family import Varying
from bayescore.limits import MAX_NUMBER
from bayescore.types import FloatArray
from bayescore.validation import check_positive


@jit_inner
def _log_norm(nu: float, sigma: float) -> float:
    return math.lgamma(0.5 * nu + 0.5) - math.lgamma(0.5 * nu) - 0.5 * math.log(nu * math.pi) - math.log(sigma)


@jit_inner
def student_rows(eta: FloatArray, side: FloatArray, log_p: FloatArray, size: float, scale: float) -> None:  # noqa: ARG001
    """Write l of each row, and replace eta by the score."""
    k, constant = 1.0 / (size * scale * scale), _log_norm(size, scale)
    for n in range(eta.size):
        v = k * eta[n] * eta[n]
        log_p[n] = constant - 0.5 * (size + 1.0) * math.log1p(v)
        eta[n] *= -(size + 1.0) * k / (1.0 + v)


@jit_inner
def student_derivatives(
    eta: FloatArray,
    side: FloatArray,  # noqa: ARG001
    out: FloatArray,
    scratch: FloatArray,  # noqa: ARG001
    size: float,
    scale: float,
) -> None:
    """Write l, s, c and l''' at eta, shape (TILE,), to the rows of `out`."""
    k, constant = 1.0 / (size * scale * scale), _log_norm(size, scale)
    for lane in range(TILE):
        v = k * eta[lane] * eta[lane]
        share = 1.0 / (1.0 + v)
        bend = (size + 1.0) * k * share
        out[0, lane], out[1, lane] = constant - 0.5 * (size + 1.0) * math.log1p(v), -bend * eta[lane]
        out[2, lane] = bend * share * (1.0 - v)
        out[3, lane] = 2.0 * bend * share * share * k * eta[lane] * (3.0 - v)


@dataclass(frozen=True)
class StudentT(Varying):
    r"""Numbers with Student t noise: y = x . beta + sigma t, t of nu degrees of freedom.

    Parameters
    ----------
    size : float, optional
        The degrees of freedom nu: 1 is Cauchy noise, and above some 30 noise is as good as normal. Without it `fit` has
        it as a parameter, `nu`, with the prior Gamma(2, 0.1), as brms and bambi have.
    sigma : float, optional
        The scale of the noise, in units of y, which is not its sd: that is sigma sqrt(nu / (nu - 2)). Without it `fit`
        has it as a parameter, with the prior HalfStudentT(3, 2.5 sd(y)). A coreset by hand needs both.

    Raises
    ------
    ValueError, TypeError
        If nu is not a number above 0 and below 1e7, or sigma not one above 1e-24 and below 1e24; if sigma is given
        without nu.

    Examples
    --------
    >>> import numpy as np, bayescore as bc
    >>> family = bc.families.StudentT(4.0, 1.5)
    >>> family.name, family.variance(np.zeros(1))
    ('student_t(4, 1.5)', array([4.5]))
    >>> score = family.score(np.array([1.5, 150.0]), 1)  # an outlier hardly pulls
    >>> score.round(3)
    array([-0.667, -0.033])
    """

    sigma: float = None  # type: ignore[assignment]  # where it is a parameter

    kind = "student_t"
    number = parameter = "nu"
    names = "nu", "sigma"
    example = "4, 1.3"
    meaning = "the degrees of freedom of the noise"
    heading = "Noise (Student t of scale sigma, nu degrees of freedom)"
    number_prior = "Gamma(alpha=2, beta=0.1)"
    unknown = "fit has what is missing as a parameter; its coreset has both near the middle"
    rows = staticmethod(student_rows)
    derivatives = staticmethod(student_derivatives)
    numbers = True
    scale = "response"

    def __post_init__(self) -> None:
        known = self.sigma is not None
        if self.lacks_size:
            if known:
                raise ValueError(f"sigma={self.sigma!r} is given without nu: give both, or nu alone, or neither")
            object.__setattr__(self, "name", self.kind)
            return
        super().__post_init__()
        if not known:
            return
        sigma = check_positive(self.sigma, "sigma")
        if not 1.0 / MAX_NUMBER < sigma < MAX_NUMBER:
            raise ValueError(f"sigma={sigma:g} must be between {1.0 / MAX_NUMBER:g} and {MAX_NUMBER:g}; rescale y")
        object.__setattr__(self, "sigma", sigma)
        object.__setattr__(self, "name", f"{self.name[:-1]}, {repr(sigma).removesuffix('.0')})")

    @property
    def complete(self) -> bool:
        """Whether both numbers are known."""
        return self.size is not None and self.sigma is not None

    @staticmethod
    def prior_slope(log_number: float) -> float:
        """Return the slope of the log prior density of log nu."""
        return 2.0 - 0.1 * math.exp(log_number)

    @staticmethod
    def draw_prior(n: int, rng: np.random.Generator) -> FloatArray:
        """Return n draws of the prior of nu."""
        return np.asarray(rng.gamma(2.0, 10.0, n))

    def asked(self, numbers: Iterable[str]) -> str:
        """Return the name of the family whose `numbers` are parameters: nu is given where it is not among them."""
        return self.kind if "nu" in numbers else type(self)(self.size).name

    @property
    def missing(self) -> str:
        """The number that is a parameter: nu, or where that is given sigma."""
        return "nu" if self.lacks_size else "sigma"

    @property
    def unit(self) -> float:
        """The scale."""
        return self.sigma

    def given(self) -> tuple[float, ...]:
        """Return nu and sigma."""
        return self.size, self.sigma

    def completed(self, value: float) -> Self:
        """Return the family with the number that is missing: of both nu."""
        return type(self)(value) if self.lacks_size else type(self)(self.size, value)

    def at(self, size: Any) -> Self:
        """Return the formulas at draws of sigma, or of both numbers as a structured array, in a shape for eta's."""
        family, both = copy(self), getattr(getattr(size, "dtype", None), "names", None)
        object.__setattr__(family, "sigma", size["sigma"] if both else size)
        if both:
            object.__setattr__(family, "size", size["nu"])
        return family

    def _v(self, eta: FloatArray) -> FloatArray:
        return np.asarray((np.asarray(eta, dtype=np.float64) / self.sigma) ** 2 / self.size)

    def log_p(self, eta: FloatArray, side: Any) -> FloatArray:
        """Return the log density of a residual -eta, whatever the side."""
        nu = np.asarray(self.size)
        constant = special.gammaln(0.5 * nu + 0.5) - special.gammaln(0.5 * nu) - 0.5 * np.log(nu * math.pi)
        falls = 0.5 * (nu + 1.0) * np.log1p(self._v(eta))
        return np.asarray(constant - np.log(self.sigma) - falls + 0.0 * np.asarray(side))

    def _bend(self, eta: FloatArray, side: Any) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return eta, v, and minus the score over eta."""
        eta, v = np.asarray(eta, dtype=np.float64) + 0.0 * np.asarray(side), self._v(eta)
        return eta, v, (self.size + 1.0) / (self.size * self.sigma**2) / (1.0 + v)

    def score(self, eta: FloatArray, side: Any) -> FloatArray:
        """Return the pull of a residual, which dies away as that grows."""
        eta, _, bend = self._bend(eta, side)
        return np.asarray(-bend * eta)

    def curvature(self, eta: FloatArray, side: Any) -> FloatArray:
        """Return the curvature: below 0 where a residual is above sigma sqrt(nu)."""
        eta, v, bend = self._bend(eta, side)
        return np.asarray(bend * (1.0 - v) / (1.0 + v) + 0.0 * eta)

    def third(self, eta: FloatArray, side: Any) -> FloatArray:
        """Return the third derivative."""
        eta, v, bend = self._bend(eta, side)
        return np.asarray(2.0 * bend * eta * (3.0 - v) / (1.0 + v) ** 2 / (self.size * self.sigma**2))

    def variance(self, eta: FloatArray) -> FloatArray:
        """Return sigma^2 nu / (nu - 2), infinite where nu is not above 2."""
        nu = np.asarray(self.size, dtype=np.float64)
        with np.errstate(divide="ignore"):
            return np.asarray(np.where(nu > 2.0, self.sigma**2 * nu / np.maximum(nu - 2.0, 0.0), np.inf) + 0.0 * eta)

    def excess_kurtosis(self, eta: FloatArray) -> FloatArray:
        """Return 6 / (nu - 4), infinite where nu is not above 4."""
        nu = np.asarray(self.size, dtype=np.float64)
        with np.errstate(divide="ignore"):
            return np.asarray(np.where(nu > 4.0, 6.0 / np.maximum(nu - 4.0, 0.0), np.inf) + 0.0 * np.asarray(eta))

    def size_slopes(self, eta: FloatArray, events: FloatArray, weights: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return the slope in log nu of the log-likelihood of n numbers at predictors of shape (n, S), shape (S,)."""
        nu, v = np.asarray(self.size), self._v(eta)
        rise = special.digamma(0.5 * nu + 0.5) - special.digamma(0.5 * nu)
        of_rows = weights @ np.log1p(v)
        return np.asarray(0.5 * nu * (rise * weights.sum() - of_rows) + 0.5 * self.scale_slopes(eta, weights))

    def scale_slopes(self, eta: FloatArray, weights: FloatArray) -> FloatArray:
        """Return the slope in log sigma, shape (S,)."""
        v = self._v(eta)
        return np.asarray((self.size + 1.0) * (weights @ (v / (1.0 + v))) - weights.sum())

    def most_likely(self, events: FloatArray, expected: FloatArray) -> None:
        """Return None: the search for nu and sigma is that of `fitting.student_t`."""

    def draw(self, eta: FloatArray, rng: np.random.Generator, exposure: Any = 1.0) -> FloatArray:  # noqa: ARG002
        """Return responses drawn at eta."""
        eta = np.asarray(eta, dtype=np.float64)
        return np.asarray(eta + self.sigma * rng.standard_t(np.broadcast_to(self.size, eta.shape)))

    def log_p_graph(self, eta: Any, side: Any) -> Any:
        """Return `log_p` as a PyTensor expression."""
        import pytensor.tensor as pt

        constant = float(special.gammaln(0.5 * self.size + 0.5) - special.gammaln(0.5 * self.size))
        constant -= 0.5 * math.log(self.size * math.pi) + math.log(self.sigma)
        return constant - 0.5 * (self.size + 1.0) * pt.log1p((eta / self.sigma) ** 2 / self.size) + 0.0 * side
