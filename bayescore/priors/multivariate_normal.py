"""The normal prior with correlated coefficients."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bayescore.compiled import jit_inner
from bayescore.priors.normal import Normal
from bayescore.priors.prior import Prior
from bayescore.types import FloatArray, IntArray


@jit_inner
def multivariate_normal_terms(
    _prior: Any, beta: FloatArray, _places: IntArray, table: FloatArray, gradient: FloatArray
) -> float:
    """Return the log density, and write its gradient."""
    total = float(table[1, 0])
    for d in range(beta.size):
        gradient[d] = 0.0
        for j in range(beta.size):
            gradient[d] -= table[2 + d, j] * (beta[j] - table[0, j])
        total += 0.5 * gradient[d] * (beta[d] - table[0, d])
    return total


@dataclass(frozen=True)
class MultivariateNormal(Prior):
    """Normal prior with mean `mu` and a full `covariance` matrix, shape (D, D), such as an earlier posterior's.

    Parameters
    ----------
    mu : float or array, shape (D,)
        Mean.
    covariance : array, shape (D, D)
        Symmetric and positive definite.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not a number or vector of numbers, or is not finite, or `covariance` is not
        a symmetric, positive definite matrix.

    Examples
    --------
    >>> import bayescore as bc
    >>> bc.priors.MultivariateNormal(0, [[1, 0.5], [0.5, 1]])
    MultivariateNormal(mu=0, covariance=((1.0, 0.5), (0.5, 1.0)))
    """

    mu: ArrayLike
    covariance: ArrayLike

    gaussian = True
    in_units = ("mu",)
    terms = staticmethod(multivariate_normal_terms)

    def __post_init__(self) -> None:
        try:
            values = np.asarray(self.covariance, dtype=np.float64)
        except (TypeError, ValueError):
            raise TypeError(f"prior: covariance={self.covariance!r} must be a matrix of numbers") from None
        if values.ndim != 2 or values.shape[0] != values.shape[1]:
            raise ValueError(f"prior: covariance has shape {values.shape}, not (D, D); for sds alone use Normal")
        if not np.isfinite(values).all():
            raise ValueError("prior: covariance has NaN or infinite entries; they must all be finite")
        uneven, sd = np.abs(values - values.T), np.sqrt(np.abs(np.diagonal(values)))
        if (uneven > 1e-8 * np.outer(sd, sd)).any():
            i, j = (int(k) for k in np.argwhere(uneven == uneven.max())[0])
            raise ValueError(
                f"prior: covariance is not symmetric, with {values[i, j]:g} at ({i}, {j}) and {values[j, i]:g} at "
                f"({j}, {i}); give C with C = C'"
            )
        values = 0.5 * (values + values.T)
        try:
            np.linalg.cholesky(values)
        except np.linalg.LinAlgError:
            least = float(np.linalg.eigvalsh(values)[0])
            raise ValueError(
                f"prior: covariance is not positive definite, its smallest eigenvalue is {least:.3g}; every direction "
                "needs a positive variance"
            ) from None
        super().__post_init__()
        object.__setattr__(self, "covariance", tuple(map(tuple, values.tolist())))

    def table(self, n_features: int) -> FloatArray:
        """Return the mean, the log density there (repeated), and the precision matrix, D + 2 rows in all."""
        covariance = np.array(self.covariance)
        if len(covariance) != n_features:
            raise ValueError(
                f"prior: covariance has shape {covariance.shape}; give one row and column for each of the {n_features} "
                "features (the intercept included)"
            )
        precision = np.linalg.inv(covariance)
        peak = -0.5 * float(np.linalg.slogdet(2.0 * np.pi * covariance)[1])
        mean = self.vector("mu", n_features)
        return np.vstack([mean, np.full(n_features, peak), 0.5 * (precision + precision.T)])

    def log_density(self, beta: FloatArray) -> FloatArray:
        """Return the log density, quadratic in `beta`."""
        mean, peak = self.table(beta.shape[-1])[:2]
        return np.asarray(peak[0] + 0.5 * (self.gradient(beta) * (beta - mean)).sum(axis=-1))

    def gradient(self, beta: FloatArray) -> FloatArray:
        """Return the precision times what `beta` is below the mean."""
        return np.asarray((self.table(beta.shape[-1])[0] - beta) @ self.precision(beta))

    def precision(self, beta: FloatArray) -> FloatArray:
        """Return the inverse of the covariance, wherever `beta` is."""
        return self.table(beta.shape[-1])[2:]

    def distribution(self, n_features: int) -> tuple[Any, dict[str, Any]]:
        """Return PyMC's multivariate normal distribution."""
        import pymc as pm

        return pm.MvNormal, {"mu": self.table(n_features)[0], "cov": np.array(self.covariance)}

    def of_coefficient(self, d: int, name: str, n_features: int) -> Normal:
        """Return the normal marginal prior of a coefficient."""
        return Normal(float(self.vector("mu", n_features)[d]), float(np.sqrt(np.diagonal(self.covariance)[d])))
