"""Chains of `langevin`: warm-up that learns from all of them, then draws until the effective sample size asked for.

All chains run side by side and meet at fixed counts of transitions. There the frame, the angle h, the number of steps
and the thinning are learnt from the draws of all chains. So the draws follow from the seed alone, whatever the cores.

The number of draws kept stays as it is asked. Where their effective sample size is short the chains go on with twice
the thinning: every other draw is dropped, and as many are drawn. `max_gradients` ends this.
"""

import math
import threading
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from rich.progress import Progress

from bayescore.compat import effective_size
from bayescore.data.passes.threads import one_blas_thread
from bayescore.progress import progress
from bayescore.samplers.frames import Frame
from bayescore.samplers.langevin import Step, advance
from bayescore.samplers.run import Segment
from bayescore.types import FloatArray

FIRST = 64  # transitions of the first window of warm-up; each later one is twice as long
TAIL = 0.4  # of the bulk effective sample size that is asked for, asked of the tails
SPARE = 1.1  # more transitions than the effective sample size asks for, which is an estimate
LEAST = 100  # draws of a chain; fewer tell nothing of mixing
_PIECE = 256  # transitions between two looks at Ctrl-C


@dataclass(frozen=True)
class Plan:
    """What is asked of the chains."""

    draws: int
    tune: int  # transitions of warm-up
    thin: int | None
    ess: float  # of all chains together
    max_gradients: int  # of all chains together, warm-up too
    cores: int
    progressbar: bool
    description: str = "sampling"


@dataclass(frozen=True, eq=False)
class Sampled:
    """Parameters at the draws, shape (chains, draws, D), and how they were made."""

    theta: FloatArray
    log_density: FloatArray  # (chains, draws), not normalised
    acceptance_rate: FloatArray
    step: Step
    thin: int
    gradients: int  # of all chains, warm-up too
    bulk: float  # smallest effective sample sizes; NaN where draws are too few to tell
    tail: float


@dataclass(frozen=True, eq=False)
class _Stretch:
    x: FloatArray
    values: FloatArray
    acceptance: FloatArray


@dataclass(eq=False)
class Crew:
    """Chains that advance side by side: each has its own stream, and its place in coordinates x."""

    frame: Frame
    step: Step
    x: FloatArray  # (chains, D)
    rngs: list[np.random.Generator]
    pool: Executor
    bar: Progress
    task: Any
    gradients: int = 0
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self, n: int, thin: int = 1, *, adapting: bool = False) -> _Stretch:
        """Advance each chain by n draws of `thin` transitions; if `adapting`, h becomes the mean of the chains."""
        chains, size = self.x.shape
        x, values, acceptance = np.empty((chains, n, size)), np.empty((chains, n)), np.empty((chains, n))
        piece = max(1, _PIECE // thin)
        log_h = np.full(chains, self.step.log_h)

        def chain(c: int) -> None:
            step, late = self.step, []
            for begin in range(0, n, piece):
                if self.stop.is_set():
                    return
                part = slice(begin, begin + piece)
                iteration = begin * thin if adapting else -1
                segment = Segment(x[c, part], values[c, part], acceptance[c, part], thin, iteration)
                self.x[c], last, mean = advance(self.rngs[c], self.x[c], step, self.frame.target, segment)
                step = step._replace(log_h=last)
                late.append(mean)
                self.bar.advance(self.task, len(segment.draws) * thin)
            log_h[c] = np.mean(late[len(late) // 2 :])

        running = [self.pool.submit(chain, c) for c in range(chains)]
        try:
            for future in running:
                future.result()
        except BaseException:
            self.stop.set()
            raise
        self.gradients += chains * n * thin * self.step.steps
        if adapting:
            self.step = self.step._replace(log_h=float(log_h.mean()))
        return _Stretch(x, values, acceptance)

    def size(self, x: FloatArray) -> float:
        """Return the smallest bulk effective sample size of coordinates at draws of x."""
        return smallest(self.frame.theta(x)[..., self.frame.watched], "bulk")

    def learn(self, x: FloatArray) -> None:
        """Take the frame of draws, and each chain's place in it."""
        there = self.frame.theta(self.x)
        flat = self.frame.theta(x).reshape(-1, x.shape[-1])
        self.frame = self.frame.learn(flat, min(self.size(x), len(flat)))
        self.x = np.ascontiguousarray(self.frame.x(there))


def smallest(draws: FloatArray, method: str) -> float:
    """Return the smallest effective sample size of coordinates of draws, shape (chains, n, D)."""
    scale = draws.std(axis=(0, 1))
    columns = np.moveaxis((draws - draws.mean(axis=(0, 1))) / np.where(scale > 0.0, scale, 1.0), 2, 0)
    with np.errstate(all="ignore"):  # a chain that stood still
        sizes = [effective_size(each, method) for each in columns]
    return float(np.nan_to_num(sizes, nan=1.0).min())


def run(frame: Frame, starts: FloatArray, seeds: list[np.random.SeedSequence], plan: Plan) -> Sampled:
    """Return draws of one chain from each start, parameters of shape (chains, D)."""
    chains, size = starts.shape
    first = Step(0.0, 1, math.sqrt(size) + 3.0)
    with progress(plan.progressbar) as bar, one_blas_thread(), ThreadPoolExecutor(plan.cores) as pool:
        task = bar.add_task(plan.description, total=chains * (plan.tune + plan.draws * (plan.thin or 1)))
        x = np.ascontiguousarray(frame.x(starts))
        crew = Crew(frame, first, x, [np.random.default_rng(seed) for seed in seeds], pool, bar, task)
        rate = _warm_up(crew, plan)
        return _draw(crew, plan, rate)


def _warm_up(crew: Crew, plan: Plan) -> float:
    """Learn the frame, h and the number of steps; return the effective draws of a transition."""
    done, window, rate = 0, FIRST, math.nan
    while done < plan.tune:
        n = window if plan.tune - done >= 3 * window else plan.tune - done
        stretch = crew.run(n, adapting=True)
        done, window = done + n, 2 * window
        if n >= FIRST:
            late = stretch.x[:, n // 4 :]
            rate = crew.size(late) / (late.shape[0] * late.shape[1])
            if done < plan.tune:
                crew.learn(late)
    return rate


def _draw(crew: Crew, plan: Plan, rate: float) -> Sampled:
    """Return draws, thinned until they are worth what was asked, or until the cap."""
    chains, kept, step = len(crew.x), plan.draws, crew.step
    needed = SPARE * plan.ess / (chains * kept * rate) if rate > 0.0 else 1.0
    thin = plan.thin or max(1, math.ceil(needed))
    spare = (plan.max_gradients - crew.gradients) // (chains * step.steps * kept)
    if plan.thin is None:
        thin = max(1, min(thin, spare))
    stretch, bulk, tail = crew.run(kept, thin), math.nan, math.nan
    while kept >= LEAST:
        theta = crew.frame.theta(stretch.x)[..., crew.frame.watched]
        bulk, tail = smallest(theta, "bulk"), smallest(theta, "tail")
        more = kept // 2
        enough = bulk >= plan.ess and tail >= TAIL * plan.ess
        if enough or plan.thin or crew.gradients + more * 2 * thin * chains * step.steps > plan.max_gradients:
            break
        thin *= 2
        late, old = crew.run(more, thin), slice(1 - kept % 2, None, 2)  # the last one stays
        stretch = _Stretch(
            np.concatenate([stretch.x[:, old], late.x], axis=1),
            np.concatenate([stretch.values[:, old], late.values], axis=1),
            np.concatenate([stretch.acceptance[:, old], late.acceptance], axis=1),
        )
    theta = crew.frame.theta(stretch.x)
    return Sampled(theta, stretch.values, stretch.acceptance, step, thin, crew.gradients, bulk, tail)
