"""The only chain loop: several chains of a compiled sampler in threads, reproducible from one seed.

A sampler gives an `advance`; see `mala`, `gibbs` and `polya_gamma`. Each chain has its own random stream, spawned from
the seed by chain number, so that the draws do not depend on the number of threads.
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from bayescore.data.passes.threads import one_blas_thread
from bayescore.progress import Bar, progress
from bayescore.types import FloatArray

CHUNK = 256


@dataclass(frozen=True, eq=False)
class Draws:
    """Draws of several chains, shape (chains, draws, D), and of each its log density and what warm-up adapted."""

    theta: FloatArray
    log_density: FloatArray  # (chains, draws), not normalised
    acceptance_rate: FloatArray  # (chains, draws), mean probability since the draw before
    tuning: list[Any]


class Segment(NamedTuple):
    """A part of a chain to be filled: draws, shape (n, D), their log densities and mean acceptance probabilities."""

    draws: FloatArray
    values: FloatArray
    acceptance: FloatArray
    thin: int = 1  # transitions for each draw
    iteration: int = -1  # transitions of warm-up before it; negative after warm-up, when nothing may adapt

    @classmethod
    def empty(cls, n: int, n_features: int, thin: int = 1) -> "Segment":
        """Return a segment of n draws after warm-up."""
        return cls(np.empty((n, n_features)), np.empty(n), np.empty(n), thin)

    def cut(self, part: slice) -> "Segment":
        """Return some of the draws, to be filled in place."""
        return self._replace(draws=self.draws[part], values=self.values[part], acceptance=self.acceptance[part])


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
    """Run one chain from each start, shape (chains, D); `draws` are kept after `tune`, each after `thin` transitions.

    The sampler's `advance` (rng, point, tuning, arguments, segment) fills a `Segment` and returns the last point and
    what `tuning` has become. `chunk` draws are made between two looks at Ctrl-C. Samplers that draw their noise a chunk
    at a time give other draws with another chunk: let it depend on data and options alone, not on cores or the clock.
    """
    chains, n_features = starts.shape
    stop = threading.Event()
    theta = np.empty((chains, draws, n_features))
    log_density, acceptance = np.empty((chains, draws)), np.empty((chains, draws))
    tuned: list[Any] = [tuning] * chains

    def chain(c: int, bar: Bar) -> None:
        rng = np.random.default_rng(seeds[c])
        point, own = starts[c], tuning
        warm = Segment.empty(min(chunk, tune), n_features, thin)
        segments = [
            warm.cut(slice(min(chunk, tune - begin)))._replace(iteration=begin * thin)
            for begin in range(0, tune, chunk)
        ]
        kept = Segment(theta[c], log_density[c], acceptance[c], thin)
        segments += [kept.cut(slice(begin, begin + chunk)) for begin in range(0, draws, chunk)]
        for segment in segments:
            if stop.is_set():
                return
            point, own = sampler.advance(rng, point, own, arguments, segment)
            bar.advance(len(segment.draws))
        tuned[c] = own

    total = chains * (tune + draws)
    with progress(progressbar, description, total) as bar, one_blas_thread(), ThreadPoolExecutor(cores) as pool:
        running = [pool.submit(chain, c, bar) for c in range(chains)]
        try:
            for future in running:
                future.result()
        except BaseException:
            stop.set()
            raise
    return Draws(theta, log_density, acceptance, tuned)
