"""The Laplace mechanism, from OpenDP: the one place where privacy's noise is drawn, and the clipping it needs.

OpenDP's sampler is exact and safe in floating point (the value is rounded to a grid and gets discrete noise), and the
privacy loss is its own figure. Its noise comes from the operating system's entropy and cannot be seeded.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from bayescore.types import FloatArray

_ROUNDING = 1.0 + 1e-9  # of sums of absolute values, far above D units in the last place


def opendp() -> Any:
    """Return OpenDP's prelude with the mechanisms used here enabled.

    Raises
    ------
    ImportError
        If OpenDP is not installed.
    """
    try:
        import opendp.prelude as dp
    except ImportError:
        raise ImportError(
            "private seeding takes its noise from OpenDP, which is not installed: pip install 'bayescore[private]'"
        ) from None
    dp.enable_features("contrib")
    return dp


@dataclass(frozen=True, eq=False)
class LaplaceMechanism:
    """OpenDP's Laplace mechanism on vectors; a `Noise`.

    Parameters
    ----------
    scale : float
        b of the noise on each coordinate.
    epsilon : float
        Privacy loss of one release, OpenDP's own figure.
    measure : callable
        The mechanism.
    """

    scale: float
    epsilon: float
    measure: Any

    def __call__(self, center: FloatArray, rng: np.random.Generator) -> FloatArray:  # noqa: ARG002 - OpenDP draws alone
        """Return the center with noise."""
        return np.array(self.measure(center.tolist()))

    def variance(self, n_features: int) -> float:
        """Return the trace of the covariance, 2 b^2 D."""
        return 2.0 * self.scale**2 * n_features


@lru_cache(maxsize=64)
def laplace(sensitivity: float, epsilon: float, whole: bool = False) -> LaplaceMechanism:
    """Return the Laplace mechanism of least scale that spends at most `epsilon` on values of this L1 sensitivity.

    Parameters
    ----------
    sensitivity : float
        Largest L1 distance of the values that must not be told apart.
    epsilon : float
        Privacy loss.
    whole : bool
        Whether the values are whole numbers: the noise then is too.
    """
    dp = opendp()
    domain = dp.vector_domain(dp.atom_domain(T="i64") if whole else dp.atom_domain(T=float, nan=False))
    metric = dp.l1_distance(T="i64" if whole else float)
    distance = math.ceil(sensitivity) if whole else sensitivity * _ROUNDING

    def made(scale: float) -> Any:
        return dp.m.make_laplace(domain, metric, scale=scale)

    scale = dp.binary_search_param(made, d_in=distance, d_out=epsilon, T=float)
    measure = made(scale)
    return LaplaceMechanism(scale, measure.map(distance), measure)


def clip_to_ball(X: FloatArray, radius: float) -> tuple[FloatArray, int]:
    """Return X, shape (n, D), with rows outside |x|_1 <= radius drawn back to its border, and how many were."""
    norms = np.abs(X).sum(axis=1, keepdims=True)
    outside = norms > radius
    return np.where(outside, X * (radius / np.where(outside, norms, 1.0)), X), int(outside.sum())
