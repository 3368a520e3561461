"""Priors of the coefficients, independent between coefficients but for `MultivariateNormal`.

`given_priors` has how users give them by name, and how files keep them.

Every parameter is a number for all coefficients or a vector with one entry for each. All but the horseshoe
have a density in closed form, which MALA, the mode and the evidence need; `Normal(0, 4)` has standard
deviation 4.
"""

from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayescore.types import FloatArray

NORMAL, STUDENT_T, LAPLACE, SPIKE_AND_SLAB, MULTIVARIATE_NORMAL, BY_NAME = range(6)
_SMOOTH = {NORMAL, MULTIVARIATE_NORMAL, STUDENT_T}


class Prior(Protocol):
    """A distribution of the coefficients."""

    def table(self, n_features: int) -> FloatArray:
        """Return the parameters as the compiled density takes them, shape (3, D).

        MultivariateNormal has D + 2 rows, ByName a fourth with the family of each coefficient.
        """
        ...

    @property
    def family(self) -> int | None:
        """Number of the family in the compiled density; None without a density in closed form."""
        ...


def _vector(prior: object, name: str, n_features: int) -> FloatArray:
    value = np.asarray(getattr(prior, name), dtype=np.float64)
    if value.ndim and value.shape != (n_features,):
        raise ValueError(
            f"prior: {name} of {prior} has shape {value.shape}; give one number, or one for each of the "
            f"{n_features} features (the intercept included)"
        )
    return np.broadcast_to(value, (n_features,))


def _check(
    prior: object, *, positive: tuple[str, ...] = (), below_one: tuple[str, ...] = (), matrix: str | None = None
) -> None:
    for field in fields(prior):  # type: ignore[arg-type]
        if field.name == matrix:
            continue
        value = getattr(prior, field.name)
        try:
            numbers = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError):
            raise TypeError(f"prior: {field.name}={value!r} must be a number or a vector of numbers") from None
        if not np.isfinite(numbers).all():
            raise ValueError(f"prior: {field.name}={value!r} must be finite")
        if field.name in positive and (numbers <= 0).any():
            raise ValueError(f"prior: {field.name}={value!r} must be positive")
        if field.name in below_one and (numbers >= 1).any():
            raise ValueError(f"prior: {field.name}={value!r} must be below 1")
        object.__setattr__(prior, field.name, value if np.ndim(value) == 0 else tuple(numbers.tolist()))


@dataclass(frozen=True)
class Normal:
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
        If a parameter is no number or vector of numbers, or is not finite, or `sigma` is not positive.

    Examples
    --------
    >>> import bayescore as bc
    >>> bc.Normal(0, [10, 2.5, 2.5])
    Normal(mu=0, sigma=(10.0, 2.5, 2.5))
    """

    mu: ArrayLike = 0.0
    sigma: ArrayLike = 4.0
    family: ClassVar[int] = NORMAL

    def __post_init__(self) -> None:
        _check(self, positive=("sigma",))

    def table(self, n_features: int) -> FloatArray:
        """Return mean and standard deviation of each coefficient."""
        unused = np.zeros(n_features)
        return np.stack([_vector(self, "mu", n_features), _vector(self, "sigma", n_features), unused])


@dataclass(frozen=True)
class MultivariateNormal:
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
        If a parameter is no number or vector of numbers, or is not finite, or `covariance` is not
        a symmetric, positive definite matrix.

    Examples
    --------
    >>> import bayescore as bc
    >>> bc.MultivariateNormal(0, [[1, 0.5], [0.5, 1]])
    MultivariateNormal(mu=0, covariance=((1.0, 0.5), (0.5, 1.0)))
    """

    mu: ArrayLike
    covariance: ArrayLike
    family: ClassVar[int] = MULTIVARIATE_NORMAL

    def __post_init__(self) -> None:
        _check(self, matrix="covariance")
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
        return np.vstack([_vector(self, "mu", n_features), np.full(n_features, peak), 0.5 * (precision + precision.T)])


@dataclass(frozen=True)
class StudentT:
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
        If a parameter is no number or vector of numbers, or is not finite, or `nu` or `sigma` is not positive.

    Examples
    --------
    >>> import bayescore as bc
    >>> bc.StudentT(3)
    StudentT(nu=3, mu=0.0, sigma=2.5)
    """

    nu: ArrayLike
    mu: ArrayLike = 0.0
    sigma: ArrayLike = 2.5
    family: ClassVar[int] = STUDENT_T

    def __post_init__(self) -> None:
        _check(self, positive=("nu", "sigma"))

    def table(self, n_features: int) -> FloatArray:
        """Return location, scale and degrees of freedom of each coefficient."""
        return np.stack([_vector(self, name, n_features) for name in ("mu", "sigma", "nu")])


@dataclass(frozen=True)
class Cauchy:
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
        If a parameter is no number or vector of numbers, or is not finite, or `scale` is not positive.

    Examples
    --------
    >>> import bayescore as bc
    >>> bc.Cauchy(0, [10, 2.5, 2.5])
    Cauchy(loc=0, scale=(10.0, 2.5, 2.5))
    """

    loc: ArrayLike = 0.0
    scale: ArrayLike = 2.5
    family: ClassVar[int] = STUDENT_T

    def __post_init__(self) -> None:
        _check(self, positive=("scale",))

    def table(self, n_features: int) -> FloatArray:
        """Return location and scale of each coefficient, and one degree of freedom."""
        return np.stack([_vector(self, "loc", n_features), _vector(self, "scale", n_features), np.ones(n_features)])


@dataclass(frozen=True)
class Laplace:
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
        If a parameter is no number or vector of numbers, or is not finite, or `b` is not positive.

    Examples
    --------
    >>> import bayescore as bc
    >>> bc.Laplace(b=0.5)
    Laplace(mu=0.0, b=0.5)
    """

    mu: ArrayLike = 0.0
    b: ArrayLike = 1.0
    family: ClassVar[int] = LAPLACE

    def __post_init__(self) -> None:
        _check(self, positive=("b",))

    def table(self, n_features: int) -> FloatArray:
        """Return location and scale of each coefficient."""
        unused = np.zeros(n_features)
        return np.stack([_vector(self, "mu", n_features), _vector(self, "b", n_features), unused])


@dataclass(frozen=True)
class SpikeAndSlab:
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
        If a parameter is no number or vector of numbers, or is not finite, or out of its range.

    Examples
    --------
    >>> import bayescore as bc
    >>> bc.SpikeAndSlab(inclusion=0.1)
    SpikeAndSlab(spike=0.1, slab=4.0, inclusion=0.1)
    """

    spike: ArrayLike = 0.1
    slab: ArrayLike = 4.0
    inclusion: ArrayLike = 0.5
    family: ClassVar[int] = SPIKE_AND_SLAB

    def __post_init__(self) -> None:
        _check(self, positive=("spike", "slab", "inclusion"), below_one=("inclusion",))

    def table(self, n_features: int) -> FloatArray:
        """Return the two standard deviations and the slab's probability for each coefficient."""
        return np.stack([_vector(self, name, n_features) for name in ("spike", "slab", "inclusion")])


@dataclass(frozen=True)
class Horseshoe:
    r"""Regularised horseshoe prior: most coefficients near 0, few as large as a slab lets them be.

    .. math:: \beta_d \sim N\left(0, \frac{c^2 \tau^2 \lambda_d^2}{c^2 + \tau^2 \lambda_d^2}\right), \quad
              \tau \sim C^+(\texttt{tau}), \; \lambda_d \sim C^+(1), \;
              c^2 \sim \mathrm{Inv\text{-}Gamma}(\nu / 2, \nu \, \texttt{slab}^2 / 2)

    Large coefficients are so drawn in by a Student t slab of nu = 4 degrees of freedom, without which those that the
    data say little of have no moments. An intercept gets N(0, 4), unless
    `shrink_intercept`. The density has no closed form: NUTS samples tau, lambda, c^2 and beta.

    Parameters
    ----------
    tau : float
        Scale of tau, one number; (p / (D - p)) 2 / sqrt(n) if p of D coefficients are thought to matter.
    slab : float
        Scale of large coefficients.
    shrink_intercept : bool
        Whether the intercept is shrunk as the others are.

    Raises
    ------
    TypeError, ValueError
        If `tau` or `slab` is not one positive number.

    References
    ----------
    Carvalho, Polson and Scott (2010), Biometrika 97. Piironen and Vehtari (2017), Sparsity information and
    regularization in the horseshoe and other shrinkage priors, Electronic Journal of Statistics 11.

    Examples
    --------
    >>> import bayescore as bc
    >>> bc.Horseshoe(tau=0.05)
    Horseshoe(tau=0.05, slab=2.0, shrink_intercept=False)
    """

    tau: float = 1.0
    slab: float = 2.0
    _: KW_ONLY
    shrink_intercept: bool = False
    family: ClassVar[None] = None

    def __post_init__(self) -> None:
        _check(self, positive=("tau", "slab"))
        for name in ("tau", "slab"):
            if np.ndim(getattr(self, name)):
                raise ValueError(f"prior: {name}={getattr(self, name)!r} of the horseshoe must be one number for all")

    def table(self, n_features: int) -> FloatArray:
        """Raise: there is no table for a prior without a density in closed form."""
        raise ValueError("prior: the horseshoe has no density in closed form; use sampler='nuts' with it")


@dataclass(frozen=True, repr=False)
class ByName:
    """Priors of named coefficients, as `given_priors.prior_of` makes them of a dict.

    Parameters
    ----------
    priors : tuple of (str, prior)
        Names and their priors, the one of all others last.
    which : tuple of int
        Of each coefficient, the place of its prior among them.
    """

    priors: tuple[tuple[str, Prior], ...]
    which: tuple[int, ...]
    family: ClassVar[int] = BY_NAME

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{name!r}: {prior}" for name, prior in self.priors) + "}"

    def table(self, n_features: int) -> FloatArray:
        """Return the parameters of each coefficient, and below them its family."""
        if len(self.which) != n_features:
            raise ValueError(
                f"prior: {self} was made for {len(self.which)} coefficients, and there are {n_features}; give the dict"
            )
        own = [np.array([*prior.table(1)[:, 0], prior.family], dtype=np.float64) for _, prior in self.priors]
        return np.stack([own[k] for k in self.which], axis=1)


PRIORS = (Normal, MultivariateNormal, StudentT, Cauchy, Laplace, Horseshoe, SpikeAndSlab)


def check_prior(prior: Any) -> Prior:
    """Return `prior` if it is one of bayescore's."""
    if not isinstance(prior, (*PRIORS, ByName)):
        names = ", ".join(kind.__name__ for kind in PRIORS)
        raise TypeError(f"prior={prior!r} is not a prior of bayescore; use one of {names}")
    return prior


def parts(prior: Prior) -> tuple[Prior, ...]:
    """Return the priors that coefficients have."""
    return tuple(part for _, part in prior.priors) if isinstance(prior, ByName) else (prior,)


def is_smooth(prior: Prior) -> bool:
    """Whether the curvature at the mode says how wide the posterior is."""
    return {part.family for part in parts(prior)} <= _SMOOTH


def has_kink(prior: Prior, n_features: int) -> NDArray[np.bool_]:
    """Return which coefficients have a Laplace prior, shape (D,)."""
    if isinstance(prior, ByName):
        return np.asarray(prior.table(n_features)[3] == LAPLACE)
    return np.full(n_features, prior.family == LAPLACE)


def check_density(prior: Any, purpose: str) -> Prior:
    """Return `prior` if its density has a closed form, which `purpose` needs."""
    checked = check_prior(prior)
    if checked.family is None:
        raise ValueError(f"{purpose} needs a prior with a density in closed form; {prior} has none: use sampler='nuts'")
    return checked
