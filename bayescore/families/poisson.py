r"""The Poisson likelihood of counts with a log link: y ~ Poisson(E t), t = exp(eta) the rate, E the exposure.

.. math:: \log P(y) = y \, \eta - E e^\eta + y \log E - \log y!

The two sides are l+ = eta, weighed by the count, and l- = -t, weighed by the exposure: a row of data is two rows, as a
binomial count is. Coefficients are log rate ratios. The last two terms have no parameters; only
elpds have them.

l+ is linear, so that all counts together say one vector, sum w y x; -s = c = -l''' = t of l-. Proportional hazards of
exponential times are the same likelihood, the event as the count and the time at risk as the exposure.

McCullagh and Nelder (1989), Generalized Linear Models, chapter 6.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from bayescore.compiled import jit_inner
from bayescore.data.passes import TILE
from bayescore.families.family import Family
from bayescore.numerics.elementary import REACH, bounded_exp, exp_up_to
from bayescore.types import FloatArray


@jit_inner
def poisson_rows(eta: FloatArray, side: FloatArray, log_p: FloatArray) -> None:
    """Write l of each row's side, and replace eta by the score."""
    for n in range(eta.size):
        t, left = exp_up_to(eta[n]), side[n] < 0.0
        log_p[n] = -t if left else eta[n]
        eta[n] = -t if left else 1.0


@jit_inner
def poisson_derivatives(eta: FloatArray, side: FloatArray, out: FloatArray, scratch: FloatArray) -> None:  # noqa: ARG001
    """Write l, s, c and l''' at eta, shape (TILE,), to the rows of `out`."""
    for lane in range(TILE):
        left = 1.0 if side[lane] < 0.0 else 0.0  # choices are sums: some compile to masked stores, which are slow
        own = left * exp_up_to(eta[lane])
        out[0, lane], out[1, lane] = (1.0 - left) * eta[lane] - own, (1.0 - left) - own
        out[2, lane], out[3, lane] = own, -own


@dataclass(frozen=True)
class Poisson(Family):
    """Poisson counts with a log link: E(y | x) = E exp(x . beta) with the exposure E.

    Examples
    --------
    >>> import numpy as np, bayescore as bc
    >>> bc.families.Poisson().mean(np.array([0.0, 1.0])).round(2)  # events for an exposure of 1
    array([1.  , 2.72])
    """

    name = "poisson"
    rows = staticmethod(poisson_rows)
    derivatives = staticmethod(poisson_derivatives)
    counts = True
    exponential = True
    linear = 1
    reach = REACH
    scale = "log rate"
    ratio = "rate ratio"

    def log_p(self, eta: FloatArray, side: Any) -> FloatArray:
        """Return eta of the count's side, -t of the exposure's."""
        return np.where(np.asarray(side) < 0, -bounded_exp(eta), eta)

    def score(self, eta: FloatArray, side: Any) -> FloatArray:
        """Return 1 of the count's side, -t of the exposure's."""
        return np.where(np.asarray(side) < 0, -bounded_exp(eta), 1.0)

    def curvature(self, eta: FloatArray, side: Any) -> FloatArray:
        """Return 0 of the count's side, t of the exposure's."""
        return np.where(np.asarray(side) < 0, bounded_exp(eta), 0.0)

    def third(self, eta: FloatArray, side: Any) -> FloatArray:
        """Return 0 of the count's side, -t of the exposure's."""
        return np.where(np.asarray(side) < 0, -bounded_exp(eta), 0.0)

    def log_constant(self, events: FloatArray, exposure: FloatArray) -> FloatArray:
        """Return y log E - log y!."""
        return np.asarray(special.xlogy(events, exposure) - special.gammaln(events + 1.0))

    def variance(self, eta: FloatArray) -> FloatArray:
        """Return the variance of the count of an exposure of 1."""
        return bounded_exp(eta)

    def excess_kurtosis(self, eta: FloatArray) -> FloatArray:
        """Return 1 / t."""
        return 1.0 / bounded_exp(eta)

    def draw(self, eta: FloatArray, rng: np.random.Generator, exposure: Any = 1.0) -> FloatArray:
        """Return counts of exposures drawn at eta."""
        t = bounded_exp(eta) * exposure
        return np.asarray(rng.poisson(np.minimum(t, LARGEST)), dtype=np.float64)

    def log_p_graph(self, eta: Any, side: Any) -> Any:
        """Return `log_p` as a PyTensor expression."""
        import pytensor.tensor as pt

        return pt.switch(pt.lt(side, 0.0), -pt.exp(pt.minimum(eta, REACH + 1.0)), eta)


LARGEST = 1e18  # mean of a count that is drawn: NumPy refuses those beyond 64 bits
