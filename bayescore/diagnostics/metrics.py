"""The metrics of a candidate against a reference, and the reference against itself.

A row of metrics maps each name to its value and Monte Carlo standard error. An error over coordinates is the largest in
absolute value, with the standard error at that place.
"""

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from bayescore.diagnostics.errors import Moments, errors, errors_mcse, moments, moments_mcse
from bayescore.diagnostics.mmd import Kernel, batch_edges, block_sums, mmd_of_sums, reference_scale, root_of_sums
from bayescore.samplers.inference_data import Posterior
from bayescore.types import FloatArray, IntArray

Row = dict[str, tuple[float, float]]

MAX_SPLITS = 10
_KERNEL = Kernel()


@dataclass(frozen=True, eq=False)
class Reference:
    """A reference with all that its comparisons share; mappings have the name of an MMD as key."""

    posterior: Posterior
    moments: Moments
    mcse: Moments
    maps: Mapping[str, Callable[[FloatArray], FloatArray]]  # of draws to where the MMD is computed: whitened, or as is
    edges: IntArray  # of the batches of the thinned draws
    rows: Mapping[str, FloatArray]  # the mapped thinned draws
    sums: Mapping[str, FloatArray]  # their block sums


def measure(reference: Posterior, max_draws: int) -> Reference:
    """Return the reference with its moments and the kernel sums of at most `max_draws` of its draws."""
    thinned = reference.thinned(max_draws)
    edges = batch_edges(*thinned.shape[:2])
    maps: dict[str, Callable[[FloatArray], FloatArray]] = {
        "mmd_whitened": reference_scale(reference.flat),
        "mmd": lambda draws: draws,
    }
    rows = {name: change(thinned.reshape(-1, thinned.shape[2])) for name, change in maps.items()}
    sums = {name: block_sums(x, x, edges, edges, _KERNEL) for name, x in rows.items()}
    return Reference(reference, moments(reference.flat), moments_mcse(reference.draws), maps, edges, rows, sums)


def mmd_row(candidate: Posterior, reference: Reference, max_draws: int) -> Row:
    """Return both MMDs, from at most `max_draws` draws, and their jackknife errors."""
    thinned = candidate.thinned(max_draws)
    edges = batch_edges(*thinned.shape[:2])
    row = {}
    for name, change in reference.maps.items():
        x = change(thinned.reshape(-1, thinned.shape[2]))
        row[name] = mmd_of_sums(
            block_sums(x, x, edges, edges, _KERNEL),
            reference.sums[name],
            block_sums(x, reference.rows[name], edges, reference.edges, _KERNEL),
            np.diff(edges),
            np.diff(reference.edges),
        )
    return row


def moment_errors(candidate: Posterior, reference: Reference) -> tuple[Moments, Moments, str]:
    """Return the errors of a candidate's moments, their standard errors, and the side with the larger share."""
    own, own_mcse = moments(candidate.flat), moments_mcse(candidate.draws)
    noisier = "candidate" if (own_mcse.mean > reference.mcse.mean).mean() > 0.5 else "reference"
    difference = errors(own, reference.moments, scale=reference.moments.sd)
    return difference, errors_mcse(own, own_mcse, reference.moments, reference.mcse), noisier


def moment_row(difference: Moments, mcse: Moments) -> Row:
    """Return the largest error of each kind with its standard error."""
    spread, row = _kinds(mcse), {}
    for name, error in _kinds(difference).items():
        place = np.unravel_index(np.abs(error).argmax(), error.shape)
        row[name] = float(np.abs(error[place])), float(spread[name][place])
    return row


def noise_floor(reference: Reference) -> Row:
    """Return the metrics that two independent runs as long as the reference would show.

    The chains (or the halves of a single one) are split in two in every way, at most in 10 random ways. The metrics of
    parts of n_1 and n_2 out of n draws are averaged and multiplied by sqrt(2 n_1 n_2) / n: two runs of n draws differ
    by that much less than two halves. Their standard error is that over the splits, NaN for a single split. The very
    draws define the whitening, so the whitened MMD's floor is a few per cent low unless the effective sample size is
    large against D.
    """
    draws = reference.posterior.draws
    batches = len(reference.edges) - 1
    if len(draws) == 1:
        half = draws.shape[1] // 2
        draws = np.concatenate([draws[:, :half], draws[:, -half:]])
    sizes = np.diff(reference.edges)
    values = []
    for first in _splits(len(draws)):
        mine = np.zeros(len(draws), dtype=np.bool_)
        mine[list(first)] = True
        halves = [moments(draws[side].reshape(-1, draws.shape[2])) for side in (mine, ~mine)]
        a = mine[np.arange(batches) * len(draws) // batches]
        b = ~a
        row = {
            name: float(
                root_of_sums(s[a][:, a].sum(), s[b][:, b].sum(), s[a][:, b].sum(), sizes[a].sum(), sizes[b].sum())
            )
            for name, s in reference.sums.items()
        }
        difference = errors(*halves, scale=reference.moments.sd)
        row.update({name: float(np.abs(error).max()) for name, error in _kinds(difference).items()})
        scale = math.sqrt(2.0 * mine.sum() * (~mine).sum()) / len(mine)
        values.append({name: scale * value for name, value in row.items()})
    return {name: _mean_over_splits(np.array([row[name] for row in values])) for name in values[0]}


def _kinds(of: Moments) -> dict[str, FloatArray]:
    return {"mean_error_sd": of.mean, "sd_error": of.sd, "correlation_error": of.correlation, "tail_error_sd": of.tail}


def _mean_over_splits(values: FloatArray) -> tuple[float, float]:
    spread = float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan
    return float(values.mean()), spread


def _splits(n_chains: int) -> list[tuple[int, ...]]:
    half = n_chains // 2
    # a half and its complement are one split: with an even number of chains, chain 0 stands in the first half
    twice = 2 if n_chains % 2 == 0 else 1
    if math.comb(n_chains, half) // twice > MAX_SPLITS:
        rng = np.random.default_rng(0)
        return [tuple(rng.permutation(n_chains)[:half].tolist()) for _ in range(MAX_SPLITS)]
    every = list(itertools.combinations(range(n_chains), half))
    return every[: len(every) // twice]
