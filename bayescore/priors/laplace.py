"""Independent Laplace priors: the Bayesian lasso."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from bayescore.compiled import jit_inner
from bayescore.priors.prior import Independent
from bayescore.types import FloatArray

LAPLACE_ROUNDING = 0.01
"""|r| becomes sqrt(r^2 + 0.01^2) - 0.01 where a mode is sought; samplers see |r|."""


@jit_inner
def laplace_terms(x: Any, parameters: Any) -> tuple[Any, Any, Any]:
    """Return log density, slope and minus the curvature, given location, scale and rounding of the kink."""
    scale, rounding = parameters[1], parameters[2]
    r = (x - parameters[0]) / scale
    size = np.maximum(np.sqrt(r * r + rounding * rounding), 1e-100)  # not 0, whose inverse cube is needed
    return -(size - rounding + np.log(2.0 * scale)), -r / (size * scale), (rounding / scale) ** 2 / size**3


@dataclass(frozen=True)
class Laplace(Independent):
    """Laplace (double exponential) prior with location `mu` and scale `b`: the Bayesian lasso.

    Parameters
    ----------
    mu : float or array, shape (D,), default 0
        Location.
    b : float or array, shape (D,), default 1
        Scale, positive, in units of the coefficients; the sd is sqrt(2) b.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not a number or vector of numbers, or is not finite, or `b` is not positive.

    Examples
    --------
    >>> import bayescore as bc
    >>> bc.priors.Laplace(b=0.5)
    Laplace(mu=0.0, b=0.5)
    """

    mu: ArrayLike = 0.0
    b: ArrayLike = 1.0

    rounding: ClassVar[float] = 0.0
    kinked = True
    positive = ("b",)
    in_units = ("mu", "b")
    each = staticmethod(laplace_terms)
    pymc = "Laplace"

    def table(self, n_features: int) -> FloatArray:
        """Return location, scale and rounding of each coefficient."""
        return np.vstack([super().table(n_features), np.full(n_features, self.rounding)])

    def smoothed(self) -> "Laplace":
        """Return the prior with its kink rounded off."""
        return _Rounded(self.mu, self.b)


class _Rounded(Laplace):
    rounding: ClassVar[float] = LAPLACE_ROUNDING
