"""Did the chains themselves work? Checked for every posterior before its errors are believed.

Limits, in `limits`: R-hat at most 1.01, bulk and tail effective sample size at least 400; no divergences. Of D
coordinates some R-hat exceeds 1.01 by chance: of m split chains, R-hat^2 - 1 is about chi^2_(m-1) m / ((m - 1) ESS).
Chains disagree where an R-hat is above 1.01 and above what that explains at `FAMILYWISE_ALPHA`, over all coordinates.

Reference: Vehtari et al. (2021), Bayesian Analysis 16, 667-718.
"""

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from scipy import stats

from bayescore.limits import FAMILYWISE_ALPHA, MAX_RHAT, MIN_ESS
from bayescore.numerics.chains import bulk_and_rhat, ess
from bayescore.samplers.posterior import Posterior
from bayescore.types import FloatArray


class Need(StrEnum):
    """What refused draws need."""

    DRAWS = "more draws"
    CHAINS = "chains that agree"
    ROWS = "a coreset that covers the posterior"
    ORIGIN = "draws of the coreset's posterior"


@dataclass(frozen=True)
class Remedy:
    """What to change where draws were refused; a number of 0 stays as it is.

    Parameters
    ----------
    need : Need
        What is missing.
    draws, tune : int
        Draws and warm-up of each chain, of `sample`.
    max_draws : int
        Draws that `certify` weighs.

    Examples
    --------
    >>> Remedy(Need.DRAWS, draws=4000).need.value
    'more draws'
    """

    need: Need
    draws: int = 0
    tune: int = 0
    max_draws: int = 0

    def __str__(self) -> str:
        given = ", ".join(f"{name}={n}" for name in ("tune", "draws", "max_draws") if (n := getattr(self, name)))
        return f"{self.need} ({given})" if given else str(self.need)


_SPARE = 1.2  # more draws than the effective sample size asks for, which is an estimate


@dataclass(frozen=True)
class Health:
    """State of the chains of one posterior; None is what the sampler does not report."""

    chains: int
    draws: int  # in each chain
    rhat: float  # rank-normalised and split, the largest over coordinates
    ess_bulk: float  # the smallest over coordinates, as `ess_tail`
    ess_tail: float
    divergences: int | None
    acceptance_rate: float | None
    sampling_time: float | None  # seconds
    text: str  # what is wrong and what to do; empty if nothing is

    @property
    def ess_per_second(self) -> float | None:
        """Smallest bulk ESS for each second of sampling."""
        return self.ess_bulk / self.sampling_time if self.sampling_time else None


def health(posterior: Posterior) -> Health:
    """Return the state of a posterior's chains."""
    (bulk, r), tail = bulk_and_rhat(posterior.draws), ess(posterior.draws, "tail")
    low, few, time = np.fmin(bulk, tail), "", posterior.attrs.get("sampling_time")
    if (low < MIN_ESS).any():
        i = int(low.argmin())
        few = f"The effective sample size of {posterior.features[i]!r} is {low[i]:.0f}, below {MIN_ESS}: "
        few += f"{_more(posterior, low[i])}."
    return Health(
        chains=posterior.draws.shape[0],
        draws=posterior.draws.shape[1],
        rhat=float(np.fmax.reduce(r)),
        ess_bulk=float(bulk.min()),
        ess_tail=float(tail.min()),
        divergences=posterior.divergences,
        acceptance_rate=posterior.acceptance_rate,
        sampling_time=None if time is None else float(time),
        text=" ".join(filter(None, [_stuck(posterior), _apart(posterior, r, low), few, _diverged(posterior)])),
    )


def unfit(posterior: Posterior) -> tuple[str, Remedy] | None:
    """Return why draws are too few, or their chains are not to be believed, and the remedy; None if they are fit."""
    chains = Remedy(Need.CHAINS, 2 * posterior.draws.shape[1], _longer(posterior))
    if still := _stuck(posterior):
        return still, chains
    bulk, r = bulk_and_rhat(posterior.draws)
    low = np.minimum(bulk, ess(posterior.draws, "tail"))
    n_all = posterior.draws.shape[0] * posterior.draws.shape[1]
    low = np.minimum(np.where(np.isnan(low), 0.0, low), n_all)
    if (low < MIN_ESS).any():
        i = int(low.argmin())
        return (
            f"Too few draws: the effective sample size of {posterior.features[i]!r} is {low[i]:.0f}, below {MIN_ESS}; "
            f"{_more(posterior, low[i])}."
        ), Remedy(Need.DRAWS, _needed(posterior, low[i]))
    trouble = _apart(posterior, r, low) or _diverged(posterior)
    return (trouble, chains) if trouble else None


def _needed(posterior: Posterior, size: float) -> int:
    """Return how many draws a chain would have the effective sample size that is asked for."""
    n: int = posterior.draws.shape[1]
    return math.ceil(_SPARE * n * MIN_ESS / max(size, 1.0) / 10.0) * 10


def _more(posterior: Posterior, size: float) -> str:
    return f"sample with draws={_needed(posterior, size)} in place of {posterior.draws.shape[1]}"


def _longer(posterior: Posterior) -> int:
    """Return twice the warm-up."""
    return 2 * max(int(posterior.attrs.get("tuning_steps", 0)), 500)


def longer_warm_up(posterior: Posterior) -> str:
    """Return an argument of `sample` for twice the warm-up."""
    return f"tune={_longer(posterior)}"


def _stuck(posterior: Posterior) -> str:
    still = (np.ptp(posterior.draws, axis=1) == 0.0).any(axis=0)
    if not still.any():
        return ""
    name = posterior.features[int(still.argmax())]
    return f"{name!r} never moves: the chains are stuck; sample with {longer_warm_up(posterior)}."


def _apart(posterior: Posterior, r: FloatArray, low: FloatArray) -> str:
    chains, _, D = posterior.draws.shape
    halves = 2 * max(chains, 2)  # a single chain is compared as its halves, each split again
    size = np.maximum(low, MIN_ESS)  # fewer have a message of their own, and explain no R-hat
    chance = np.sqrt(1.0 + stats.chi2.isf(FAMILYWISE_ALPHA / D, halves - 1) * halves / ((halves - 1) * size))
    beyond = r - np.maximum(MAX_RHAT, chance)
    if not (beyond > 0.0).any():
        return ""
    i = int(np.nanargmax(beyond))
    return (
        f"R-hat of {posterior.features[i]!r} is {r[i]:.3f}, above {MAX_RHAT} and more than chance explains: the chains "
        f"disagree; sample with {longer_warm_up(posterior)}, draws={2 * posterior.draws.shape[1]}."
    )


def _diverged(posterior: Posterior) -> str:
    if not posterior.divergences:
        return ""
    return f"{posterior.divergences:,} transitions diverged: raise target_accept, or use a prior with lighter tails."
