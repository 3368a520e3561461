r"""The likelihood of numbers with normal noise: y ~ N(eta, sd^2) with one sd.

.. math:: \log p(y) = -\frac{(y - \eta)^2}{2 \, \mathrm{sd}^2} - \log(\mathrm{sd} \sqrt{2 \pi})

A row has -y as its offset, so that its linear predictor x . beta - y is minus the residual, and both sides are
l = -eta^2 / (2 sd^2) - log(sd sqrt(2 pi)). l is a quadratic: a few sums over rows tell the posterior without loss
(`coresets.aggregate`).

sd is given, or left out: then it is a parameter, `sigma` of the posterior, with the prior HalfStudentT(3, 2.5 sd(y)).
A build finds about where it is (`models.normal`), and its coreset has the family with that sd in it, as a unit.

Gelman, Carlin, Stern, Dunson, Vehtari and Rubin (2013), Bayesian Data Analysis, 3rd edition, chapter 14.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayescore.compiled import jit_inner
from bayescore.data.passes import TILE
from bayescore.families.family import Sized
from bayescore.limits import MAX_NUMBER
from bayescore.types import FloatArray

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
LARGEST_SD = MAX_NUMBER
"""That of responses themselves; its inverse is the smallest sd."""


@jit_inner
def normal_rows(eta: FloatArray, side: FloatArray, log_p: FloatArray, size: float) -> None:  # noqa: ARG001
    """Write l of each row, and replace eta by the score."""
    precision, constant = 1.0 / (size * size), math.log(size) + _HALF_LOG_2PI
    for n in range(eta.size):
        score = -eta[n] * precision
        log_p[n] = 0.5 * eta[n] * score - constant
        eta[n] = score


@jit_inner
def normal_derivatives(
    eta: FloatArray,
    side: FloatArray,  # noqa: ARG001
    out: FloatArray,
    scratch: FloatArray,  # noqa: ARG001
    size: float,
) -> None:
    """Write l, s, c and l''' at eta, shape (TILE,), to the rows of `out`."""
    precision, constant = 1.0 / (size * size), math.log(size) + _HALF_LOG_2PI
    for lane in range(TILE):
        score = -eta[lane] * precision
        out[0, lane], out[1, lane] = 0.5 * eta[lane] * score - constant, score
        out[2, lane], out[3, lane] = precision, 0.0


@dataclass(frozen=True)
class Gaussian(Sized):
    r"""Numbers with normal noise: y ~ N(x . beta, sd^2).

    Parameters
    ----------
    size : float, optional
        The sd of the noise, in units of y. By default it is a parameter, and draws have it as `sigma`. `fit`,
        `build_coreset`, `stream` and `all_rows` find its mode by restricted likelihood, and their coreset has that in
        its family, as a unit. If the sd is given, a certificate compares it with the residuals' sd.

    Raises
    ------
    ValueError, TypeError
        If the sd is not a number above 1e-24 and below 1e24.

    Examples
    --------
    >>> import numpy as np, bayescore as bc
    >>> family = bc.families.Gaussian(2.5)
    >>> family.mean(np.array([-1.0, 7.0])), family.variance(np.zeros(1))
    (array([-1.,  7.]), array([6.25]))
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> y = 3.0 * X[:, 0] + rng.normal(0.0, 2.5, 5000)
    >>> len(bc.build_coreset(X, y, family="normal(2.5)", progressbar=False))  # two columns and y: three rows, exact
    3
    >>> bc.build_coreset(X, y, family="normal", progressbar=False).family  # about the sd, which is a parameter
    'normal(2.50483)'
    """

    kind = "normal"
    number = "sd"
    parameter = "sigma"
    found = True
    unknown = "fit, build_coreset, stream and all_rows find it from the rows, and the family of their coreset has it"
    rows = staticmethod(normal_rows)
    derivatives = staticmethod(normal_derivatives)
    numbers = True
    quadratic = True
    scale = "response"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.complete and not 1.0 / LARGEST_SD < self.size < LARGEST_SD:
            raise ValueError(f"sd={self.size:g} must be between {1.0 / LARGEST_SD:g} and {LARGEST_SD:g}; rescale y")

    @property
    def unit(self) -> float:
        """The sd."""
        return self.size

    @property
    def latent_variance(self) -> float | None:  # type: ignore[override]
        """The variance of the noise."""
        return self.size**2 if self.complete else None

    def log_p(self, eta: FloatArray, side: Any) -> FloatArray:
        """Return the log density of a residual -eta, whatever the side."""
        square = (np.asarray(eta, dtype=np.float64) / self.size) ** 2
        return np.asarray(-0.5 * square - np.log(self.size) - _HALF_LOG_2PI + 0.0 * np.asarray(side))

    def score(self, eta: FloatArray, side: Any) -> FloatArray:
        """Return -eta / sd^2."""
        return np.asarray(-np.asarray(eta, dtype=np.float64) / self.size**2 + 0.0 * np.asarray(side))

    def curvature(self, eta: FloatArray, side: Any) -> FloatArray:
        """Return 1 / sd^2."""
        return np.full(np.broadcast_shapes(np.shape(eta), np.shape(side)), self.size**-2)

    def third(self, eta: FloatArray, side: Any) -> FloatArray:
        """Return 0."""
        return np.zeros(np.broadcast_shapes(np.shape(eta), np.shape(side)))

    def variance(self, eta: FloatArray) -> FloatArray:
        """Return sd^2."""
        return np.full(np.shape(eta), self.size**2)

    def excess_kurtosis(self, eta: FloatArray) -> FloatArray:
        """Return 0."""
        return np.zeros(np.shape(eta))

    def draw(self, eta: FloatArray, rng: np.random.Generator, exposure: Any = 1.0) -> FloatArray:  # noqa: ARG002
        """Return responses drawn at eta."""
        eta = np.asarray(eta, dtype=np.float64)
        return eta + self.size * rng.standard_normal(eta.shape)

    def log_p_graph(self, eta: Any, side: Any) -> Any:
        """Return `log_p` as a PyTensor expression."""
        log_sd = math.log(self.size) if isinstance(self.size, float | int) else self.size.log()
        return -0.5 * (eta / self.size) ** 2 - (log_sd + _HALF_LOG_2PI) + 0.0 * side
