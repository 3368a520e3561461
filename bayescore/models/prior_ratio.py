r"""The log ratio and the gradient of the prior at moved draws, in closed form or from a user's own model.

For a `pm.Model` with parameters h beside beta, the conditional prior of beta is the model's log density less the
coreset's weighted log-likelihood L~,

.. math:: \log\pi(\beta' | h) - \log\pi(\beta | h)
          = [\log p(\beta', h) - \tilde L(\beta')] - [\log p(\beta, h) - \tilde L(\beta)],

at each draw's own h. PyMC itself is not imported: the model brings its compiled functions. `at` are the positions of
draws among all draws.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bayescore.families import Family
from bayescore.models.posterior import Derivatives, derivative_tiles, log_likelihoods
from bayescore.priors import Prior
from bayescore.types import FloatArray, IntArray, WeightedData
from bayescore.validation import DataError

_TINY = 1e-300
_CHECKED_DRAWS = 7  # draws at which a potential is compared with the coreset's log-likelihood


@dataclass(frozen=True)
class ClosedForm:
    """A prior whose density has a closed form."""

    density: Prior

    @property
    def prior(self) -> Prior | None:
        """The prior if it is smooth."""
        return self.density if self.density.smooth else None

    def log_ratio(self, at: IntArray, draws: FloatArray, moved: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return log prior of `moved` minus that of `draws`, shape (S, D) each: shape (S,)."""
        return self.log_density(moved) - self.log_density(draws)

    def log_density(self, draws: FloatArray) -> FloatArray:
        """Return the log prior density at draws of shape (S, D)."""
        return self.density.log_density(draws)

    def gradient(self, at: IntArray, draws: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return the gradient of the log prior."""
        return self.density.gradient(draws)


@dataclass(frozen=True, eq=False)
class OfModel:
    """The conditional prior of `beta` in a user's own `pm.Model`, which has `weighted_potential` of the coreset."""

    model: Any
    draws: Mapping[str, FloatArray]  # of its variables, (S, ...), chains below each other
    data: WeightedData  # the coreset
    family: Family
    prior: None = None

    @property
    def moves(self) -> bool:
        """Whether beta is a variable of its own, as it is, rather than a function of others."""
        free = [rv for rv in self.model.free_RVs if rv.name == "beta"]
        return bool(free) and self.model.rvs_to_transforms[free[0]] is None

    @cached_property
    def points(self) -> list[dict[str, FloatArray]]:
        """The draws as the model's compiled functions take them, transformed where the model transforms."""
        model = self.model
        missing = [rv.name for rv in model.free_RVs if rv.name not in self.draws]
        if missing:
            raise DataError(f"idata has no draws of {', '.join(missing)}, which model= has; give the model's own draws")
        inside = []
        for rv in model.free_RVs:
            transform = model.rvs_to_transforms[rv]
            inside.append(rv if transform is None else transform.forward(rv, *rv.owner.inputs))
        change = model.compile_fn(inside, inputs=model.free_RVs, point_fn=False, on_unused_input="ignore")
        names = [model.rvs_to_values[rv].name for rv in model.free_RVs]
        columns = [self.draws[rv.name] for rv in model.free_RVs]
        return [dict(zip(names, change(*each), strict=True)) for each in zip(*columns, strict=True)]

    @cached_property
    def _log_density(self) -> Any:
        return self.model.compile_logp()

    def log_densities(self, at: IntArray) -> FloatArray:
        """Return the model's log density at draws, shape (S,), in the coordinates that its samplers move."""
        return np.array([float(self._log_density(self.points[i])) for i in at])

    def log_ratio(self, at: IntArray, draws: FloatArray, moved: FloatArray) -> FloatArray:
        """Return log prior of `moved` minus that of `draws`, given the draws' other parameters."""
        each = [self.points[i] for i in at]
        after = [self._log_density({**point, "beta": beta}) for point, beta in zip(each, moved, strict=True)]
        before = [self._log_density({**point, "beta": beta}) for point, beta in zip(each, draws, strict=True)]
        own = log_likelihoods(moved, self.data, self.family) - log_likelihoods(draws, self.data, self.family)
        return np.asarray(np.array(after, dtype=np.float64) - np.array(before, dtype=np.float64) - own)

    def gradient(self, at: IntArray, draws: FloatArray) -> FloatArray:
        """Return the gradient of the log prior with respect to beta."""
        beta = next(rv for rv in self.model.free_RVs if rv.name == "beta")
        slope = self.model.compile_dlogp(vars=[beta])
        total = [slope({**self.points[i], "beta": point}) for i, point in zip(at, draws, strict=True)]
        return np.array(total, dtype=np.float64) - score(draws, self.data, self.family)

    def joint(self, at: IntArray) -> tuple[FloatArray, FloatArray, list[str], slice]:
        """Return all unbounded parameters of some draws, their gradients, names, and the place of beta.

        The place is empty where beta is no variable of its own.
        """
        slope, order = self.model.compile_dlogp(), [value.name for value in self.model.value_vars]
        points = [self.points[i] for i in at]
        values = np.array([np.concatenate([np.ravel(point[name]) for name in order]) for point in points])
        names = [f"{name}[{i}]" if np.size(points[0][name]) > 1 else name for name in order
                 for i in range(np.size(points[0][name]))]  # fmt: skip
        first = names.index("beta[0]") if "beta[0]" in names else names.index("beta") if "beta" in names else 0
        place = slice(first, first + self.data.n_features if self.moves else first)
        return values, np.array([slope(point) for point in points]), names, place

    def check(self) -> None:
        """Raise `DataError` unless one of the model's potentials is the coreset's weighted log-likelihood."""
        model = self.model
        at = np.linspace(0, len(self.points) - 1, _CHECKED_DRAWS).round().astype(np.int64)
        potentials = model.compile_fn(
            model.replace_rvs_by_values(model.potentials), inputs=model.value_vars, on_unused_input="ignore"
        )
        values = np.array([[float(np.sum(part)) for part in potentials(self.points[i])] for i in at])
        own = log_likelihoods(self.draws["beta"][at], self.data, self.family)
        if values.size:
            gap = np.ptp(values - own[:, None], axis=0)
            if (gap <= 1e-6 * max(1.0, float(np.abs(own).max()))).any():
                return
        raise DataError(
            "no potential of model= is the coreset's weighted log-likelihood at the draws; give the model that has "
            "weighted_potential(..., core, beta) of this coreset, and its own draws"
        )


PriorRatio = ClosedForm | OfModel


def mean_curvature(draws: FloatArray, gradients: FloatArray) -> FloatArray:
    """Return minus the slope of a log density's gradients over draws, shape (S, D) each, of each coordinate: (D,).

    It is the precision of the normal density that has such gradients; 0 for a constant coordinate.
    """
    moves = draws - draws.mean(axis=0)
    return np.asarray(-(moves * gradients).sum(axis=0) / np.maximum((moves**2).sum(axis=0), _TINY))


def score(draws: FloatArray, data: WeightedData, family: Family) -> FloatArray:
    """Return the gradient of the weighted log-likelihood at draws, both of shape (S, D)."""
    total = np.zeros_like(draws)
    for X, scores in derivative_tiles(draws, data, family, 1):
        total += scores.T @ X
    return total


def stand_in(
    draws: FloatArray, gradients: FloatArray, center: FloatArray, score: FloatArray
) -> Callable[[FloatArray], Derivatives]:
    """Return a normal log prior of independent coefficients: its slope that of the gradients over the draws.

    At `center` it balances the coreset's `score`, which makes that the coreset's mode.
    """
    precision = np.maximum(mean_curvature(draws, gradients), 0.0)

    def terms(beta: FloatArray) -> Derivatives:
        step = beta - center
        gradient = -score - precision * step
        return Derivatives(float(-score @ step - 0.5 * precision @ step**2), gradient, np.diag(precision))

    return terms
