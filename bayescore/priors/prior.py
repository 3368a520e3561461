"""What a prior of the coefficients is: the whole contract, and the part of it that independent coefficients share.

The priors that there are, by the name of their class, and the checks that each of them passes.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields, replace
from typing import Any, ClassVar, Self, TypeVar, cast

import numpy as np
from numba import types

from bayescore.compiled import MATRIX, PLACES, VECTOR, jit_inner
from bayescore.types import FloatArray, IntArray

Part = tuple["Prior", IntArray, FloatArray]
"""A prior, the places of the coefficients that have it, and its table for these."""


class Prior(ABC):
    """A prior of D coefficients, as a frozen dataclass of its parameters: the whole contract.

    A subclass stands in a file of its own and is given to `bayescore.priors.register`. Samplers, modes,
    coresets, certificates, JSON files, estimators and the command line need nothing else. Derive from `Independent` if
    the coefficients are independent: it has most of what there is to write.

    Attributes
    ----------
    closed_form : bool
        Whether the density has a closed form, which all samplers but NUTS, modes and the evidence need.
    unimodal : bool
        Whether the prior has one mode, so that a mode can be sought and a chain of small steps sees all of it.
    gaussian : bool
        Whether the density is normal, as Gibbs sampling needs.
    kinked : bool
        Whether the density has a kink, as that of `Laplace`; rows 0 and 1 of `table` are then its place and the
        scale b = sd / sqrt(2).
    finite_variance : bool
        Whether every coefficient has a variance.
    long_tails : bool
        Whether the density of some coefficient falls by a power far out, and not exponentially; rows 0 and 1 of `table`
        are then its center and its scale.
    of_design : bool
        Whether it is made for the coefficients of one design, of priors that are registered, and is not itself.
    bends : tuple of Bends
        What there is of smooth terms, whose coefficients have one sd, of `priors.smooths.Smooths` alone.
    positive, below_one : tuple of str
        Parameters that must be positive, or below 1.
    in_units : tuple of str
        Parameters in the units of the coefficients.
    terms : compiled function (prior, beta, places, table, gradient) -> float
        Returns the log density of the coefficients at `places` of `beta`, shape (D,), and writes their gradient to
        these places of `gradient`. It calls other compiled functions of its prior through `prior`.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not a number or vector of numbers, or is not finite, or out of its range.

    Examples
    --------
    >>> import numpy as np, bayescore as bc
    >>> prior = bc.priors.Normal(0, 2)
    >>> prior.gaussian, prior.smooth
    (True, True)
    >>> prior.gradient(np.array([0.0, 4.0])).tolist()
    [-0.0, -1.0]
    """

    closed_form = True
    unimodal = True
    gaussian = False
    kinked = False
    finite_variance = True
    long_tails = False
    of_design = False
    bends: Any = ()
    positive: ClassVar[tuple[str, ...]] = ()
    below_one: ClassVar[tuple[str, ...]] = ()
    in_units: ClassVar[tuple[str, ...]] = ()
    terms: ClassVar[Any]

    def __post_init__(self) -> None:
        for name, value in self.parameters().items():
            try:
                numbers = np.asarray(value, dtype=np.float64)
            except (TypeError, ValueError):
                raise TypeError(f"prior: {name}={value!r} must be a number or a vector of numbers") from None
            if not np.isfinite(numbers).all():
                raise ValueError(f"prior: {name}={value!r} must be finite")
            if name in self.positive and (numbers <= 0).any():
                raise ValueError(f"prior: {name}={value!r} must be positive")
            if name in self.below_one and (numbers >= 1).any():
                raise ValueError(f"prior: {name}={value!r} must be below 1")
            number = numbers.item() if isinstance(value, np.generic | np.ndarray) and not numbers.ndim else value
            object.__setattr__(self, name, tuple(numbers.tolist()) if numbers.ndim else number)

    @property
    def smooth(self) -> bool:
        """Whether the curvature at the mode says how wide the posterior is."""
        return self.closed_form and self.unimodal and not self.kinked

    def parameters(self) -> dict[str, Any]:
        """Return the parameters by name."""
        return {field.name: getattr(self, field.name) for field in fields(cast(Any, self))}

    def replaced(self, **parameters: Any) -> Self:
        """Return the prior with other values of some parameters."""
        return cast(Self, replace(cast(Any, self), **parameters))

    def vector(self, name: str, n_features: int) -> FloatArray:
        """Return a parameter of each coefficient, shape (D,).

        Raises
        ------
        ValueError
            If it is a vector of another length.
        """
        value = np.asarray(getattr(self, name), dtype=np.float64)
        if value.ndim and value.shape != (n_features,):
            raise ValueError(
                f"prior: {name} of {self} has shape {value.shape}; give one number, or one for each of the "
                f"{n_features} features (the intercept included)"
            )
        return np.broadcast_to(value, (n_features,))

    @abstractmethod
    def table(self, n_features: int) -> FloatArray:
        """Return the parameters as compiled code takes them, shape (P, D); raise ValueError if they do not fit D."""

    def parts(self, n_features: int) -> tuple[Part, ...]:
        """Return the priors that coefficients have, as compiled code takes them."""
        return ((self, np.arange(n_features), self.table(n_features)),)

    @abstractmethod
    def log_density(self, beta: FloatArray) -> FloatArray:
        """Return the log density at points, shape (..., D): shape (...)."""

    @abstractmethod
    def gradient(self, beta: FloatArray) -> FloatArray:
        """Return the gradient of the log density at points, shape (..., D) like these."""

    @abstractmethod
    def precision(self, beta: FloatArray) -> FloatArray:
        """Return minus the Hessian of the log density at a point, shape (D,): shape (D, D)."""

    @abstractmethod
    def distribution(self, n_features: int) -> tuple[Any, dict[str, Any]]:
        """Return PyMC's distribution of D coefficients and its parameters; PyMC is imported here, not above."""

    def variable(self, near: Callable[[], tuple[FloatArray, FloatArray]] | None = None) -> Any:
        """Add `beta`, dims "feature", to the model of the `with` block, and return it.

        `near` returns the mode of the coefficients under a weak prior and their sds, shape (D,) each, for hierarchies
        without a density in closed form.
        """
        import pymc as pm

        kind, parameters = self.distribution(len(pm.modelcontext(None).coords["feature"]))
        return kind("beta", dims="feature", **parameters)

    def smoothed(self) -> "Prior":
        """Return the prior with its kinks rounded off, under which modes are sought; by default itself."""
        return self

    def covering(self) -> "Prior":
        """Return a prior of one mode that is as wide, for proposals; by default itself."""
        return self

    def of_coefficient(self, d: int, name: str, n_features: int) -> "Prior":
        """Return the marginal prior of the coefficient `name` at place `d`, with numbers for parameters."""
        vectors = [name for name, value in self.parameters().items() if np.ndim(value)]
        return self.replaced(**{name: float(self.vector(name, n_features)[d]) for name in vectors})

    def to_dict(self) -> dict[str, Any]:
        """Return class and parameters as plain JSON values, which `prior_from_dict` reads."""
        values = asdict(cast(Any, self)).items()
        return {"kind": type(self).__name__, **{name: np.asarray(value).tolist() for name, value in values}}


@jit_inner
def terms_of_each(prior: Any, beta: FloatArray, places: IntArray, table: FloatArray, gradient: FloatArray) -> float:
    """Return the log density of independent coefficients, and write its gradient."""
    total = 0.0
    for i in range(places.size):
        value, slope, _ = prior.each(beta[places[i]], table[:, i])
        total += value
        gradient[places[i]] = slope
    return total


class Independent(Prior):
    """A prior of independent coefficients.

    A subclass gives `each`. It gives `table` where compiled code takes more than the parameters, in their order, and
    `distribution` where PyMC has no class with the parameters' names, which `pymc` names.

    Attributes
    ----------
    pymc : str
        Name of PyMC's class whose parameters have the names of this one's.
    each : compiled function (x, parameters) -> (log density, slope, minus the curvature)
        Of one coefficient x, given its column of `table`. It serves NumPy too, where x has shape (..., D) and the
        parameters are the rows of `table`. So it has NumPy's functions and no branches.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not a number or vector of numbers, or is not finite, or out of its range.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import numpy as np, bayescore as bc
    >>> @dataclass(frozen=True)
    ... class ZeroMean(bc.priors.Independent):
    ...     sigma: float = 1.0
    ...     pymc = "Normal"
    ...     positive = in_units = ("sigma",)
    ...     each = staticmethod(bc.priors.Normal.each)  # or your own, decorated with bayescore.compiled.jit
    ...     def table(self, n_features):
    ...         return np.stack([np.zeros(n_features), self.vector("sigma", n_features)])
    >>> ZeroMean(2.0).gradient(np.array([0.0, 4.0])).tolist()  # then bc.priors.register(ZeroMean)
    [-0.0, -1.0]
    """

    each: ClassVar[Any]
    pymc: ClassVar[str]
    terms = staticmethod(terms_of_each)

    def table(self, n_features: int) -> FloatArray:
        """Return the parameters of each coefficient, in their order, shape (P, D)."""
        return np.stack([self.vector(name, n_features) for name in self.parameters()])

    def distribution(self, n_features: int) -> tuple[Any, dict[str, Any]]:
        """Return PyMC's distribution and its parameters."""
        import pymc as pm

        return getattr(pm, self.pymc), {name: self.vector(name, n_features) for name in self.parameters()}

    def evaluated(self, beta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return log density, slope and minus the curvature of each coefficient, of the shape of `beta`."""
        arrays = np.empty_like(beta), np.empty_like(beta), np.empty_like(beta)
        for prior, places, table in self.parts(beta.shape[-1]):
            for out, value in zip(
                arrays, cast("Independent", prior).each.py_func(beta[..., places], table), strict=True
            ):
                out[..., places] = value
        return arrays

    def log_density(self, beta: FloatArray) -> FloatArray:
        """Return the sum of the coefficients' log densities."""
        return np.asarray(self.evaluated(beta)[0].sum(axis=-1))

    def gradient(self, beta: FloatArray) -> FloatArray:
        """Return the slopes."""
        return self.evaluated(beta)[1]

    def precision(self, beta: FloatArray) -> FloatArray:
        """Return a diagonal matrix of curvatures."""
        return np.diag(self.evaluated(beta)[2])


PRIORS: dict[str, type[Prior]] = {}


OF_DESIGN: dict[str, Callable[[Mapping[str, Any]], Prior]] = {}
"""What reads a prior of the coefficients of one design (`Prior.of_design`) from its `to_dict`, by class."""


COMPILED = {"terms": types.float64(VECTOR, PLACES, MATRIX, VECTOR)}  # what kernels call


P = TypeVar("P", bound=Prior)


def register(kind: type[P]) -> type[P]:
    """Make a class of priors known in this process, and return it: a decorator.

    Parameters
    ----------
    kind : class
        A frozen dataclass derived from `Prior` or `Independent`, which say what it must have.

    Returns
    -------
    class
        The same.

    Raises
    ------
    TypeError
        If it is not a frozen dataclass derived from `Prior`, or lacks compiled functions.
    ValueError
        If another class of this name is registered.

    Notes
    -----
    Other processes, such as workers of Dask, must import the module that registers it.

    Examples
    --------
    >>> from bayescore.priors import Normal, register
    >>> register(Normal) is Normal  # again: that changes nothing
    True
    """
    if not (isinstance(kind, type) and issubclass(kind, Prior)):
        raise TypeError(f"kind={kind!r} is not a class of priors; derive it from bayescore.priors.Prior")
    name = kind.__name__
    if not getattr(getattr(kind, "__dataclass_params__", None), "frozen", False):
        raise TypeError(f"prior {name} is not a frozen dataclass; decorate it with @dataclass(frozen=True)")
    for function in ("terms", *(["each"] if hasattr(kind, "each") else [])) if kind.closed_form else ():
        if not hasattr(getattr(kind, function, None), "py_func"):
            raise TypeError(f"prior {name} lacks the compiled function {function}; see bayescore.priors.Prior")
    if PRIORS.get(name, kind) is not kind:
        raise ValueError(f"prior {name} is registered already, as {PRIORS[name]!r}; choose another name")
    PRIORS[name] = kind
    return kind


def names(suits: Callable[[type[Prior]], bool] = lambda kind: True) -> str:  # noqa: ARG005
    """Return the names of the registered priors that suit, for a message."""
    return ", ".join(name for name, kind in PRIORS.items() if suits(kind))


def check_prior(prior: Any) -> Prior:
    """Return `prior` if its class is registered."""
    if not isinstance(prior, Prior):
        raise TypeError(f"prior={prior!r} is not a prior of bayescore; use one of {names()}")
    if PRIORS.get(type(prior).__name__) is not type(prior):
        raise TypeError(f"prior={prior!r} is not registered; call bayescore.priors.register({type(prior).__name__})")
    return prior


def check_density(prior: Prior, purpose: str) -> Prior:
    """Return `prior` if its density has a closed form, which `purpose` needs."""
    if not prior.closed_form:
        raise ValueError(f"{purpose} needs a prior with a density in closed form; {prior} has none: use sampler='nuts'")
    return prior
