"""Independent normal priors."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bayescore.compiled import jit_inner
from bayescore.priors.prior import Independent

LOG_SQRT_2PI = math.log(math.sqrt(2.0 * math.pi))


@jit_inner
def normal_terms(x: Any, parameters: Any) -> tuple[Any, Any, Any]:
    """Return log density, slope and minus the curvature, given mean and sd."""
    sd = parameters[1]
    r = (x - parameters[0]) / sd
    return -(0.5 * r * r + np.log(sd) + LOG_SQRT_2PI), -r / sd, 1.0 / (sd * sd)


@dataclass(frozen=True)
class Normal(Independent):
    """Normal prior with mean `mu` and standard deviation `sigma`.

    Parameters
    ----------
    mu : float or array, shape (D,), default 0
        Mean.
    sigma : float or array, shape (D,), default 4
        Standard deviation, positive, in units of the coefficients.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not a number or vector of numbers, or is not finite, or `sigma` is not positive.

    Examples
    --------
    >>> import bayescore as bc
    >>> bc.priors.Normal(0, [10, 2.5, 2.5])
    Normal(mu=0, sigma=(10.0, 2.5, 2.5))
    """

    mu: ArrayLike = 0.0
    sigma: ArrayLike = 4.0

    gaussian = True
    positive = ("sigma",)
    in_units = ("mu", "sigma")
    each = staticmethod(normal_terms)
    pymc = "Normal"
