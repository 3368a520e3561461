"""Draws that a certificate is shown: the right ones, too few, and those that are wrong in one way each.

`KINDS` maps the name of a way to what makes it. Wrong draws keep all that `sample` wrote beside them, as after an edit
by hand, but for those "from elsewhere", which are a bare `beta`, and those of "another coreset", which are just that.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import bayescore as bc
from benchmarks.accuracy.full_posteriors import as_idata

SHORT = (10, 25, 50, 100, 250, 500)


@dataclass(frozen=True, eq=False)
class Sampled:
    """A coreset, its link and prior, its draws, and how to draw again from it or from another one of that size."""

    core: bc.Coreset
    family: str
    prior: Any
    idata: Any
    another: Callable[[], Any]

    @property
    def beta(self) -> np.ndarray:
        """The draws, shape (chains, draws, D)."""
        return np.array(self.idata.posterior["beta"].values)


def part(idata: Any, chains: int, draws: int) -> Any:
    """Return the first draws of the first chains."""
    return idata.isel(chain=slice(chains), draw=slice(draws))


def edited(idata: Any, beta: np.ndarray) -> Any:
    """Return a copy with other values in place of the draws."""
    new = idata.copy()
    new["posterior"]["beta"] = new["posterior"]["beta"].copy(data=beta)
    return new


def _sds(beta: np.ndarray) -> np.ndarray:
    return np.asarray(beta.std(axis=(0, 1)))


def _column(beta: np.ndarray, rng: np.random.Generator) -> int:
    return int(rng.integers(beta.shape[2]))


def _moved(beta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Shift one coordinate, or all, by 0.3 to 1.5 sds."""
    shift = rng.uniform(0.3, 1.5) * _sds(beta) * rng.choice([-1.0, 1.0], beta.shape[2])
    if rng.random() < 0.5:
        shift[np.arange(len(shift)) != _column(beta, rng)] = 0.0
    return np.asarray(beta + shift)


def shifted(made: Sampled, rng: np.random.Generator) -> Any:
    return edited(made.idata, _moved(made.beta, rng))


def swapped(made: Sampled, rng: np.random.Generator) -> Any:
    beta = made.beta
    order = np.arange(beta.shape[2])
    i, j = rng.choice(order, 2, replace=False)
    order[[i, j]] = order[[j, i]]
    return edited(made.idata, beta[:, :, order])


def rescaled(made: Sampled, rng: np.random.Generator) -> Any:
    """Make all draws 1.4 to 2 times as wide around their mean, or as narrow."""
    beta, factor = made.beta, rng.uniform(1.4, 2.0)
    center = beta.mean(axis=(0, 1))
    return edited(made.idata, center + (beta - center) * (factor if rng.random() < 0.5 else 1.0 / factor))


def retouched(made: Sampled, rng: np.random.Generator) -> Any:
    """Move a tenth to a third of the draws of one coordinate by 1 to 4 sds."""
    beta, d = made.beta, _column(made.beta, rng)
    chosen = rng.random(beta.shape[:2]) < rng.uniform(0.1, 0.33)
    beta[chosen, d] += rng.uniform(1.0, 4.0) * _sds(beta)[d]
    return edited(made.idata, beta)


def shuffled(made: Sampled, rng: np.random.Generator) -> Any:
    """Put the draws of one coordinate in another order: its correlations go."""
    beta, d = made.beta, _column(made.beta, rng)
    beta[:, :, d] = rng.permutation(beta[:, :, d].ravel()).reshape(beta.shape[:2])
    return edited(made.idata, beta)


def frozen(made: Sampled, rng: np.random.Generator) -> Any:
    beta, d = made.beta, _column(made.beta, rng)
    beta[:, :, d] = beta[0, 0, d]
    return edited(made.idata, beta)


def frozen_chain(made: Sampled, _rng: np.random.Generator) -> Any:
    """Let one chain stand where it began."""
    beta = made.beta
    beta[-1] = beta[-1, :1]
    return edited(made.idata, beta)


def copied(made: Sampled, rng: np.random.Generator) -> Any:
    """Give the first draws of one chain four times."""
    n = int(rng.choice(SHORT[1:]))
    new = made.idata.isel(chain=[0, 0, 0, 0], draw=slice(n))
    for group in ("posterior", "sample_stats"):
        each = new[group]
        data = each.to_dataset() if hasattr(each, "to_dataset") else each  # ArviZ 1's groups are trees
        new[group] = data.assign_coords(chain=np.arange(4))
    return new


def tuned_badly(made: Sampled, rng: np.random.Generator) -> Any:
    """Draw by MALA without warm-up, on coordinates that are not whitened."""
    return bc.sample(
        made.core, made.family, made.prior, sampler="mala", draws=int(rng.choice([250, 1000])),
        tune=int(rng.choice([0, 20])), thin=1, preconditioner="identity", cores=1,
        random_seed=int(rng.integers(1 << 30)), progressbar=False,
    )  # fmt: skip


def another_coreset(made: Sampled, _rng: np.random.Generator) -> Any:
    return made.another()


def another_coreset_unsaid(made: Sampled, _rng: np.random.Generator) -> Any:
    """Put the draws of another coreset in place of the own ones."""
    other = made.another()
    chains, draws = (min(a, b) for a, b in zip(made.beta.shape[:2], other.posterior["beta"].shape[:2], strict=True))
    return edited(part(made.idata, chains, draws), other.posterior["beta"].values[:chains, :draws])


def elsewhere(made: Sampled, _rng: np.random.Generator) -> Any:
    return as_idata(made.beta, made.core, made.family)


def elsewhere_shifted(made: Sampled, rng: np.random.Generator) -> Any:
    return as_idata(_moved(made.beta, rng), made.core, made.family)


def elsewhere_shuffled(made: Sampled, rng: np.random.Generator) -> Any:
    return as_idata(shuffled(made, rng).posterior["beta"].values, made.core, made.family)


def twice_along(made: Sampled, rng: np.random.Generator) -> Any:
    """Give the first draws of every chain four times, one after the other."""
    beta = made.beta[:, : int(rng.choice(SHORT[2:]))]
    return as_idata(np.tile(beta, (1, 4, 1)), made.core, made.family)


KINDS: dict[str, Callable[[Sampled, np.random.Generator], Any]] = {
    "from elsewhere": elsewhere,
    "shifted": shifted,
    "columns swapped": swapped,
    "rescaled": rescaled,
    "retouched": retouched,
    "shuffled": shuffled,
    "frozen coordinate": frozen,
    "frozen chain": frozen_chain,
    "one chain, four times": copied,
    "badly tuned": tuned_badly,
    "another coreset": another_coreset,
    "another coreset, unsaid": another_coreset_unsaid,
    "shifted, from elsewhere": elsewhere_shifted,
    "shuffled, from elsewhere": elsewhere_shuffled,
    "one run, along the draws": twice_along,
}
