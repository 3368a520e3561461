"""Independent Student t priors, the Cauchy distribution among them."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from bayescore.compiled import jit_inner
from bayescore.priors.prior import Independent
from bayescore.types import FloatArray


@jit_inner
def student_t_terms(x: Any, parameters: Any) -> tuple[Any, Any, Any]:
    """Return log density, slope and minus the curvature, given location, scale, nu and the greatest log density."""
    scale, nu = parameters[1], parameters[2]
    r = (x - parameters[0]) / scale
    v = nu + r * r
    value = parameters[3] - 0.5 * (nu + 1.0) * np.log1p(r * r / nu)
    return value, -(nu + 1.0) * r / (v * scale), (nu + 1.0) * (nu - r * r) / (v * v * scale * scale)


def _table(location: FloatArray, scale: FloatArray, nu: FloatArray) -> FloatArray:
    peak = gammaln(0.5 * (nu + 1.0)) - gammaln(0.5 * nu) - 0.5 * np.log(nu * math.pi) - np.log(scale)
    return np.stack([location, scale, nu, peak])


@dataclass(frozen=True)
class StudentT(Independent):
    """Student t prior with `nu` degrees of freedom, location `mu` and scale `sigma`.

    Parameters
    ----------
    nu : float or array, shape (D,)
        Degrees of freedom, positive.
    mu : float or array, shape (D,), default 0
        Location.
    sigma : float or array, shape (D,), default 2.5
        Scale, positive, in units of the coefficients.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not a number or vector of numbers, or is not finite, or `nu` or `sigma` is not positive.

    Examples
    --------
    >>> import bayescore as bc
    >>> bc.priors.StudentT(3)
    StudentT(nu=3, mu=0.0, sigma=2.5)
    """

    nu: ArrayLike
    mu: ArrayLike = 0.0
    sigma: ArrayLike = 2.5

    long_tails = True
    positive = ("nu", "sigma")
    in_units = ("mu", "sigma")
    each = staticmethod(student_t_terms)
    pymc = "StudentT"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "finite_variance", bool((np.asarray(self.nu) > 2.0).all()))

    def table(self, n_features: int) -> FloatArray:
        """Return location, scale, degrees of freedom and log density at the location of each coefficient."""
        return _table(*(self.vector(name, n_features) for name in ("mu", "sigma", "nu")))


@dataclass(frozen=True)
class Cauchy(Independent):
    """Cauchy prior with location `loc` and scale `scale` (Gelman et al. 2008 use 2.5, 10 for the intercept).

    Parameters
    ----------
    loc : float or array, shape (D,), default 0
        Location.
    scale : float or array, shape (D,), default 2.5
        Scale, positive, in units of the coefficients.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not a number or vector of numbers, or is not finite, or `scale` is not positive.

    Examples
    --------
    >>> import bayescore as bc
    >>> bc.priors.Cauchy(0, [10, 2.5, 2.5])
    Cauchy(loc=0, scale=(10.0, 2.5, 2.5))
    """

    loc: ArrayLike = 0.0
    scale: ArrayLike = 2.5

    finite_variance = False
    long_tails = True
    positive = ("scale",)
    in_units = ("loc", "scale")
    each = staticmethod(student_t_terms)

    def table(self, n_features: int) -> FloatArray:
        """Return what `StudentT` does, with one degree of freedom."""
        return _table(self.vector("loc", n_features), self.vector("scale", n_features), np.ones(n_features))

    def distribution(self, n_features: int) -> tuple[Any, dict[str, Any]]:
        """Return PyMC's Student t distribution, with one degree of freedom."""
        import pymc as pm

        mu, sigma, nu, _ = self.table(n_features)
        return pm.StudentT, {"nu": nu, "mu": mu, "sigma": sigma}
