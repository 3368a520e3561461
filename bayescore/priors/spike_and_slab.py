"""Independent mixtures of two normals, a spike and a slab."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bayescore.compiled import jit_inner
from bayescore.priors.normal import LOG_SQRT_2PI, Normal
from bayescore.priors.prior import Independent


@jit_inner
def spike_and_slab_terms(x: Any, parameters: Any) -> tuple[Any, Any, Any]:
    """Return log density, slope and minus the curvature, given the sds of spike and slab and the slab's probability."""
    spike, slab, p = parameters[0], parameters[1], parameters[2]
    a = np.log(p) - np.log(slab) - 0.5 * (x / slab) ** 2
    b = np.log1p(-p) - np.log(spike) - 0.5 * (x / spike) ** 2
    share = 1.0 / (1.0 + np.exp(np.minimum(b - a, 700.0)))
    pull = share / (slab * slab) + (1.0 - share) / (spike * spike)
    gap = 1.0 / (spike * spike) - 1.0 / (slab * slab)
    return np.logaddexp(a, b) - LOG_SQRT_2PI, -x * pull, pull - share * (1.0 - share) * gap * gap * x * x


@dataclass(frozen=True)
class SpikeAndSlab(Independent):
    """Mixture of two centred normals: `spike` (sd, near 0) and `slab` (sd), `inclusion` the slab's probability.

    The indicators are summed out, so the density is smooth (George and McCulloch 1993).

    Parameters
    ----------
    spike : float or array, shape (D,), default 0.1
        Sd of the coefficients that do not matter.
    slab : float or array, shape (D,), default 4
        Sd of those that do.
    inclusion : float or array, shape (D,), default 0.5
        Probability that a coefficient matters, between 0 and 1.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not a number or vector of numbers, or is not finite, or out of its range.

    Examples
    --------
    >>> import bayescore as bc
    >>> bc.priors.SpikeAndSlab(inclusion=0.1)
    SpikeAndSlab(spike=0.1, slab=4.0, inclusion=0.1)
    """

    spike: ArrayLike = 0.1
    slab: ArrayLike = 4.0
    inclusion: ArrayLike = 0.5

    unimodal = False
    positive = ("spike", "slab", "inclusion")
    below_one = ("inclusion",)
    in_units = ("spike", "slab")
    each = staticmethod(spike_and_slab_terms)

    def covering(self) -> Normal:
        """Return the slab alone: in a spike, the curvature says nothing about the posterior's width."""
        return Normal(0.0, self.slab)

    def distribution(self, n_features: int) -> tuple[Any, dict[str, Any]]:
        """Return PyMC's mixture of normals."""
        import pymc as pm

        spike, slab, inclusion = self.table(n_features)
        shares = np.stack([1.0 - inclusion, inclusion], axis=-1)
        return pm.NormalMixture, {"w": shares, "mu": 0.0, "sigma": np.stack([spike, slab], axis=-1)}
