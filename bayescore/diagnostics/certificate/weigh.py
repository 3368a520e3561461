r"""How a certificate weighs draws by the full data: one contract, and a strategy for each kind of model.

=========  ==================  =============================================================================
strategy   models              log weight of a draw
=========  ==================  =============================================================================
`flat`     no group terms      log-likelihoods of all rows and of the coreset, the draws moved by an affine map
`marginal` (1 | g)             the same of (beta, log sigma), effects integrated out on both sides
`joint`    other group terms   the same of (beta, u), effects included
=========  ==================  =============================================================================

Draws of all rows need no weights, whatever the model (`whole.AllRows`).

A strategy says which draws are judged and whose they are, weighs some of them in a pass over the full data, and gives
the effects of groups under the weights. What follows is the same for all: `verdict.judge` and `verdict.verdict`.
Corrected draws are made here, too. Resampling is systematic over all chains (Carpenter, Clifford and Fearnhead 1999): a
draw of weight w, relative to the mean, is kept floor(w) or ceil(w) times, in its place. The kept draws are dealt out to
the chains in that order, so that copies count as correlated draws in effective sample sizes.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayescore.compat import as_xarray, inference_data
from bayescore.data.coreset import Coreset
from bayescore.data.dataset import Dataset
from bayescore.data.design import Grouping
from bayescore.diagnostics.certificate.estimates import sd_or_width
from bayescore.diagnostics.elpd import SampledCounts
from bayescore.diagnostics.results import EFFECT_INDEX, Remedy, no_effects
from bayescore.models.laplace import Transport
from bayescore.numerics.psis import FullWeights
from bayescore.samplers.posterior import Posterior
from bayescore.types import FloatArray, IntArray

Columns = dict[str, FloatArray]

_PIECE = 1 << 19  # numbers of an array of some effects at all draws


@dataclass(frozen=True, eq=False, kw_only=True)
class Weighed:
    """Draws that were weighed; strategies add what their models have."""

    at: IntArray  # their positions among all draws
    weights: FullWeights
    transport: Transport | None = None  # the map that moved them
    epsilon: float = math.nan  # largest |L - L~| / |L|; NaN of log-likelihoods up to a constant
    n_missed: int = 0  # effects of groups that lie where the coreset does not look
    exact: bool = False  # the draws are the full posterior's: they need no weights
    note: str = ""  # what the data are like that nobody expects: said before the verdict
    how: str = ""  # what else corrects them, for their attributes

    def moved(self, draws: FloatArray) -> FloatArray:
        """Return draws, shape (..., D), where the affine map moves them."""
        return draws if self.transport is None else self.transport(draws)

    @property
    def weigh_all(self) -> "Callable[[], Weighed] | None":
        """The function that weighs all draws in the same way, by one more pass; None if that takes too much memory."""
        return None

    def effects(self, slow: float) -> pd.DataFrame:  # noqa: ARG002
        """Return `CertificateData.effects`; numerical errors are multiplied by `slow`."""
        return no_effects()

    def elpd(self, counts: SampledCounts | None = None) -> dict[str, Any]:  # noqa: ARG002
        """Return the fields of `CertificateData` on predictive densities; of data of counts `counts` are a sample."""
        return {}

    def values(self, posterior: Posterior, kept: IntArray | None) -> dict[str, FloatArray]:  # noqa: ARG002
        """Return draws of variables that resampling alone does not correct; `kept` are places among the weighed."""
        return {}

    def constants(self, posterior: Posterior, constants: Any) -> Any:  # noqa: ARG002
        """Return the constant data of corrected draws, given those of the draws."""
        return constants


class Weigher(Protocol):
    """A strategy: what the certificate asks of a kind of model."""

    @property
    def core(self) -> Coreset:
        """The coreset."""

    @property
    def dataset(self) -> Dataset:
        """The full data."""

    @property
    def posterior(self) -> Posterior:
        """Draws of all coordinates that are judged."""

    @property
    def remedy(self) -> str:
        """What to do where the coreset's posterior does not cover the full data's."""

    @property
    def scope(self) -> str:
        """A sentence on what the verdict assumes; empty where it assumes nothing."""

    def provenance(self) -> str:
        """Return why the draws are not those of the coreset's posterior by their attributes; empty if they are."""

    def missed_identities(self) -> str:
        """Return how the draws miss Stein's identities of the coreset's posterior; empty if they do not."""

    def missed_tails(self) -> tuple[str, Remedy] | None:
        """Return what draws miss of marginal densities with long tails, and the remedy; None if nothing."""

    def weigh(self, at: IntArray) -> Weighed:
        """Return some draws weighed by the full data; raise `DataError` where that takes too much memory."""

    def tails(self) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Return k-hat of each coordinate's tail, and which coordinates have no moments, shape (D,) each."""


class DrawnEffectMoments(NamedTuple):
    """Mean and variance of each effect at each draw, shape (S, E)."""

    mean: FloatArray
    variance: FloatArray

    @classmethod
    def empty(cls, shape: tuple[int, ...]) -> "DrawnEffectMoments":
        """Return moments to be filled by `put`."""
        return cls(np.empty(shape), np.empty(shape))

    def put(self, cut: slice, moments: "DrawnEffectMoments") -> None:
        """Write those of some draws."""
        self.mean[cut], self.variance[cut] = moments

    def of_draws(self, at: IntArray) -> "DrawnEffectMoments":
        """Return those of some draws."""
        return DrawnEffectMoments(self.mean[at], self.variance[at])

    def of(self, cut: slice) -> "DrawnEffectMoments":
        """Return those of some effects."""
        return DrawnEffectMoments(self.mean[:, cut], self.variance[:, cut])

    def over(self, w: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and sd of each effect over weighted draws, shape (E,)."""
        mean = w @ self.mean
        return mean, np.sqrt(w @ (self.variance + (self.mean - mean) ** 2))


def effect_slices(n_effects: int, n_draws: int) -> list[slice]:
    """Return all effects in slices, short enough that an array of one at all draws takes little memory."""
    step = max(1, _PIECE // n_draws)
    return [slice(start, min(start + step, n_effects)) for start in range(0, n_effects, step)]


def effect_columns(
    w: FloatArray, by_core: DrawnEffectMoments, by_full: DrawnEffectMoments, rows: FloatArray
) -> Columns:
    """Return columns of `CertificateData.effects` for E effects, given weights `w` of draws, shape (S,).

    `rows`, shape (E, 2), are the weights of rows of +1 and of -1 in each effect's group.
    """
    even = np.full(len(w), 1.0 / len(w))
    core_mean, core_sd = by_core.over(even)
    mean, sd = by_full.over(w)
    sd = sd_or_width(sd, core_sd)
    with np.errstate(all="ignore"):  # an effect that the nodes miss
        square = (by_full.variance + (by_full.mean - mean) ** 2) / sd**2
        return {
            "mean": core_mean,
            "sd": core_sd,
            "corrected_mean": mean,
            "corrected_sd": sd,
            "mean_error_sd": (core_mean - mean) / sd,
            "log_sd_error": np.log(core_sd / sd),
            "log_sd_error_mcse": 0.5 * np.sqrt((w - even) ** 2 @ (square - 1.0) ** 2),
            "weight": rows.sum(axis=1),
            "share": rows[:, 0] / rows.sum(axis=1),
        }


def joined(parts: list[Columns]) -> Columns:
    """Return columns of the effects of all parts."""
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def effects_table(groups: tuple[Grouping, ...], columns: Columns, slow: float) -> pd.DataFrame:
    """Return `CertificateData.effects`; numerical errors are multiplied by `slow`, as draws are not independent.

    Effects stand factor by factor: levels, and within a level its effects.
    """
    places = [(factor.name, level, effect) for factor in groups for level in factor.levels for effect in factor.effects]
    index = pd.MultiIndex.from_tuples(places, names=EFFECT_INDEX)
    return pd.DataFrame(columns | {"log_sd_error_mcse": slow * columns["log_sd_error_mcse"]}, index=index)


def resample_systematically(weights: FloatArray) -> IntArray:
    """Return n positions, in order, each as often as its weight says; weights of shape (n,).

    >>> resample_systematically(np.array([1.0, 2.0, 0.0, 1.0])).tolist()
    [0, 1, 1, 3]
    """
    edges = np.cumsum(weights)
    points = (np.arange(len(weights)) + 0.5) / len(weights) * edges[-1]
    return np.asarray(np.searchsorted(edges, points), dtype=np.int64)


def corrected_idata(idata: Any, posterior: Posterior, weighed: Weighed, kept: IntArray | None) -> Any:
    """Return corrected draws: the posterior's variables, its attributes and its constant data.

    `kept` are the places among the weighed draws that resampling keeps, in order; None where all draws stay.
    """
    source, weights = idata["posterior"], weighed.weights
    instead = weighed.values(posterior, kept)
    values, dims = {}, {}
    for name in map(str, source.data_vars):
        each = source[name].transpose("chain", "draw", ...)
        array = each.values
        if kept is not None:
            flat = array.reshape(-1, *array.shape[2:])[weighed.at[kept]]
            array = flat.reshape(len(array), -1, *array.shape[2:])
        values[name], dims[name] = instead.get(name, array), [str(dim) for dim in each.dims[2:]]
    if "coef" in values and (design := posterior.design) is not None:
        values["coef"] = np.array(design.raw_coefficients(values["beta"]))
    dropped = ("chain", "draw")
    coords = {str(name): c.values for name, c in source.coords.items() if name not in dropped and c.ndim == 1}
    made = inference_data({"posterior": values}, coords=coords, dims=dims)
    if "constant_data" in idata:
        made["constant_data"] = weighed.constants(posterior, as_xarray(idata["constant_data"]))
    how = ["moved to the full posterior's mode and Hessian"] * (weighed.transport is not None)
    if kept is not None:
        how.append(f"resampled by importance weights (effective {weights.ess:.0f} of {len(weights.weights)})")
    how += [weighed.how] * bool(weighed.how)
    attrs = {key: value for key, value in posterior.attrs.items() if key not in ("posterior_of", "effects_of")}
    made.posterior.attrs.update(attrs, corrected=", ".join(how or ["not moved"]))
    return made
