"""The only chain loop: several chains of a compiled sampler in threads, reproducible from one seed.

A sampler gives an `advance`; see `mala`, `gibbs` and `polya_gamma`. Each chain has its own random stream, spawned from
the seed by chain number, so that the draws do not depend on the number of threads.
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from rich.progress import Progress

from bayescore.data.passes.threads import one_blas_thread
from bayescore.progress import progress
from bayescore.types import FloatArray

CHUNK = 256


@dataclass(frozen=True, eq=False)
class Draws:
    """Draws of several chains.

    Parameters
    ----------
    theta : array, shape (chains, draws, D)
        Coefficients.
    log_density, acceptance_rate : arrays, shape (chains, draws)
        Log posterior density (not normalised), and mean acceptance probability since the draw before.
    tuning : list
        What each chain's warm-up ended with.
    """

    theta: FloatArray
    log_density: FloatArray
    acceptance_rate: FloatArray
    tuning: list[Any]


class Advancing(Protocol):
    """What the chain loop needs of a sampler, be it a declared one or a module."""

    @property
    def advance(self) -> Callable[..., tuple[FloatArray, Any]]:
        """Fill some draws; see `run_chains`."""
        ...


def run_chains(
    sampler: Advancing,
    arguments: tuple[Any, ...],
    starts: FloatArray,
    tuning: Any,
    *,
    draws: int,
    tune: int,
    thin: int,
    cores: int,
    seeds: list[np.random.SeedSequence],
    progressbar: bool,
    description: str = "sampling",
    chunk: int = CHUNK,
) -> Draws:
    """Run one chain from each start; `draws` are kept after `tune`, each after `thin` transitions.

    Parameters
    ----------
    sampler : Advancing
        Has an `advance` (rng, point, tuning, arguments, thin, iteration, draws, values, acceptance) that fills
        the last three and returns the last point and what `tuning` has become. `iteration` counts the transitions of
        warm-up so far; it is negative after warm-up, when nothing may adapt.
    arguments : tuple
        What the sampler knows of the posterior.
    starts : array, shape (chains, D)
        First points.
    tuning : object
        What warm-up adapts, to begin with; None if nothing.
    seeds : list of SeedSequence
        One for each chain.
    description : str
        Text of the progress bar.
    chunk : int
        Kept draws between two looks at the progress bar and at Ctrl-C. Samplers that draw their noise a chunk at a time
        give other draws with another chunk, so let it depend on data and options alone, not on cores or the clock.
    """
    chains, n_features = starts.shape
    stop = threading.Event()
    theta = np.empty((chains, draws, n_features))
    log_density, acceptance = np.empty((chains, draws)), np.empty((chains, draws))
    tuned: list[Any] = [tuning] * chains

    def chain(c: int, bar: Progress, task: Any) -> None:
        rng = np.random.default_rng(seeds[c])
        point, own = starts[c], tuning
        warm = np.empty((min(chunk, tune), n_features)), np.empty(min(chunk, tune)), np.empty(min(chunk, tune))
        for begin in range(0, tune, chunk):
            if stop.is_set():
                return
            width = min(chunk, tune - begin)
            out = tuple(part[:width] for part in warm)
            point, own = sampler.advance(rng, point, own, arguments, thin, begin * thin, *out)
            bar.advance(task, width)
        for begin in range(0, draws, chunk):
            if stop.is_set():
                return
            cut = slice(begin, min(draws, begin + chunk))
            out = (theta[c, cut], log_density[c, cut], acceptance[c, cut])
            point, own = sampler.advance(rng, point, own, arguments, thin, -1, *out)
            bar.advance(task, cut.stop - cut.start)
        tuned[c] = own

    with progress(progressbar) as bar, one_blas_thread(), ThreadPoolExecutor(cores) as pool:
        task = bar.add_task(description, total=chains * (tune + draws))
        running = [pool.submit(chain, c, bar, task) for c in range(chains)]
        try:
            for future in running:
                future.result()
        except BaseException:
            stop.set()
            raise
    return Draws(theta, log_density, acceptance, tuned)
