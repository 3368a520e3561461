"""Chains of `langevin`: warm-up that learns from all of them, then draws until the effective sample size asked for.

All chains run side by side and meet at fixed counts of transitions. There the frame, the angle h, the number of steps
and the thinning are learnt from the draws of all chains. So the draws follow from the seed alone, whatever the cores.

The number of draws kept stays as it is asked. Where their effective sample size is short the chains go on with twice
the thinning: every other draw is dropped, and as many are drawn. `max_gradients` ends this.

The default sampler of rows without groups: `langevin` around the mode, `adaptive` in its length.
"""

import math
import threading
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from bayescore.compiled import one_blas_thread
from bayescore.models.posterior import TargetDensity, log_density, sparse_columns, sparse_log_density
from bayescore.numerics.chains import ess
from bayescore.progress import Bar, progress
from bayescore.samplers.langevin import LONGEST_ANGLE, Dense, Frame, StepSize, advance, long_tailed_coefficients
from bayescore.samplers.method import (
    CHUNK,
    CHUNK_ENTRIES,
    CLOSED_FORM,
    START_SPREAD,
    Option,
    Request,
    Sampler,
    Segment,
    mode_and_factor,
    optional,
    run_side_by_side,
    thin_option,
)
from bayescore.text import see
from bayescore.types import FloatArray
from bayescore.validation import check_integer, check_positive, warn

FIRST_WINDOW = 64  # transitions of the first window of warm-up; each later one is twice as long


MIN_WARM_UP = 4 * FIRST_WINDOW  # transitions of warm-up; of fewer nothing but h is learnt


WINDOW_ESS = 100.0  # effective draws of a window that covariances are learnt from


MAX_TRIALS = 3  # windows for numbers of steps of a transition, at most


DEFAULT_ESS = 1000  # effective draws that are asked for by default, of `USUAL_DRAWS` draws or fewer


USUAL_DRAWS = 4000  # draws of all chains; of more, effective draws are asked for in proportion


DEFAULT_MAX_GRADIENTS = 400_000  # of all chains, warm-up included, of `USUAL_DRAWS` draws or fewer


MAX_ESS_SHARE = 0.8  # of the draws kept, that may be asked to be effective: estimates scatter


TAIL_ESS_SHARE = 0.4  # of the bulk effective sample size that is asked for, asked of the tails


THINNING_MARGIN = 1.1  # more transitions than the effective sample size asks for, which is an estimate


MANY_PARAMETERS = 64  # from which on the least rate over a window of warm-up comes out too low


MIN_DRAWS_FOR_ESS = 100  # draws of a chain; fewer say nothing about mixing


OPTIONS = {
    "ess": Option(
        None,
        optional(check_positive),
        "the effective sample size, bulk, of the worst coefficient to reach, that of the tails being 0.4 of it; None "
        f"means {DEFAULT_ESS:,}, or half of the draws if that is less, and a quarter of more than {USUAL_DRAWS:,} "
        "draws",
    ),
    "max_gradients": Option(
        None,
        optional(partial(check_integer, low=1)),
        f"gradients of all chains, warm-up included, after which they end; None means {DEFAULT_MAX_GRADIENTS:,}, and "
        f"{DEFAULT_MAX_GRADIENTS // USUAL_DRAWS} for each of more than {USUAL_DRAWS:,} draws",
    ),
    "thin": thin_option(None, "as many as the effective sample size takes"),
}


@dataclass(frozen=True, eq=False)
class ChainPlan:
    """What is asked of the chains: effective draws of all together, and transitions between two looks at Ctrl-C.

    Draws depend on these transitions.
    """

    request: Request
    description: str
    ess: float
    max_gradients: int  # of all chains together, warm-up included
    piece: int

    @classmethod
    def of(cls, request: Request, description: str, *, readings: int = 1) -> "ChainPlan":
        """Return what `sample` was asked for; a gradient reads the rows `readings` times.

        By default it asks for 1,000 effective draws, or half of those kept if that is less. Whoever asks for more draws
        than usual wants a smaller Monte Carlo error, so that effective draws and the cap on gradients rise with them.
        """
        options, kept = request.options, request.draws * request.chains
        more = max(kept / USUAL_DRAWS, 1.0)
        ess = min(DEFAULT_ESS * more, kept / 2.0) if options["ess"] is None else options["ess"]
        cap = round(DEFAULT_MAX_GRADIENTS * more) if options["max_gradients"] is None else options["max_gradients"]
        if options["ess"] is not None and ess > MAX_ESS_SHARE * kept:
            raise ValueError(
                f"ess={ess:g} is more than {MAX_ESS_SHARE:g} of the {kept:,} draws kept: ask for "
                f"draws={math.ceil(2.0 * ess / request.chains)}"
            )
        piece = max(1, min(CHUNK, int(CHUNK_ENTRIES // (request.data.X.size * readings))))
        return cls(request, description, ess, cap, piece)

    @property
    def thin(self) -> int | None:
        """Transitions for each draw kept; None for as many as the effective sample size takes."""
        thin: int | None = self.request.options["thin"]
        return thin


@dataclass(frozen=True, eq=False)
class SampledChains:
    """Parameters at the draws, shape (chains, draws, D), and how they were made."""

    theta: FloatArray
    log_density: FloatArray  # (chains, draws), not normalised
    acceptance_rate: FloatArray
    step: StepSize
    thin: int


@dataclass(eq=False)
class ChainEnsemble:
    """Chains that run in parallel and share a frame and a step size; each has its stream and its point x."""

    frame: Frame
    step: StepSize
    x: FloatArray  # (chains, D)
    rngs: list[np.random.Generator]
    pool: Executor
    bar: Bar
    piece: int
    gradients: int = 0
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self, n: int, thin: int = 1, *, adapting: bool = False) -> Segment:
        """Advance each chain by n draws of `thin` transitions; if `adapting`, h becomes the mean of the chains."""
        chains, size = self.x.shape
        x, values, acceptance = np.empty((chains, n, size)), np.empty((chains, n)), np.empty((chains, n))
        piece = max(1, self.piece // thin)
        log_h = np.full(chains, self.step.log_h)
        target = self.frame.target, self.frame.rays, self.frame.level_shape

        def chain(c: int) -> None:
            step, late = self.step, []
            for begin in range(0, n, piece):
                if self.stop.is_set():
                    return
                part = slice(begin, begin + piece)
                iteration = begin * thin if adapting else -1
                segment = Segment(x[c, part], values[c, part], acceptance[c, part], thin, iteration)
                self.x[c], last, mean = advance(self.rngs[c], self.x[c], step, target, segment)
                step = step._replace(log_h=last)
                late.append(mean)
                self.bar.advance(len(segment.draws) * thin)
            log_h[c] = np.mean(late[len(late) // 2 :])

        run_side_by_side(self.pool, chain, chains, self.stop)
        self.gradients += chains * n * thin * self.transition_cost
        if adapting:
            self.step = self.step._replace(log_h=float(log_h.mean()))
        return Segment(x, values, acceptance)

    def ess_per_gradient(self, x: FloatArray) -> float:
        """Return effective draws for each gradient, of the monitored parameter that mixes worst, given draws of x."""
        size = float(ess(self.frame.monitored(x), "bulk").min())
        return size / float(x.shape[0] * x.shape[1] * self.transition_cost)

    @property
    def transition_cost(self) -> int:
        """Gradients of a transition."""
        return self.step.steps + (len(self.frame.rays) > 0) + 2 * (self.frame.level_shape[0] > 0)

    def learn(self, x: FloatArray) -> None:
        """Learn a better frame from draws of x, and express each chain's point in it."""
        places = self.frame.theta(self.x)
        flat = self.frame.theta(x).reshape(-1, x.shape[-1])
        effective = float(ess(self.frame.monitored(x), "bulk").min())
        self.frame = self.frame.learn(flat, min(effective, len(flat)))
        self.x = np.ascontiguousarray(self.frame.x(places))


def run_langevin(frame: Frame, plan: ChainPlan, stream: np.random.SeedSequence | None = None) -> SampledChains:
    """Return draws of all chains, each from a point of its own about the mode.

    `stream` is that of these points, by default the last of the request.
    """
    request = plan.request
    chains, seeds = request.chains, request.streams[:-1]
    noise = np.random.default_rng(stream or request.streams[-1]).standard_normal((chains, len(frame.center)))
    first = StepSize(0.0, frame.steps(1.0)[0], frame.clip_norm)
    total = chains * (plan.request.tune + request.draws * (plan.thin or 1))
    shown = progress(request.progressbar, plan.description, total)
    with shown as bar, one_blas_thread(), ThreadPoolExecutor(request.cores) as pool:
        x = np.ascontiguousarray(frame.x(frame.theta(START_SPREAD * noise)))
        ensemble = ChainEnsemble(
            frame, first, x, [np.random.default_rng(seed) for seed in seeds], pool, bar, plan.piece
        )
        rate = _warm_up(ensemble, plan)
        return _draw(ensemble, plan, rate)


def _warm_up(ensemble: ChainEnsemble, plan: ChainPlan) -> float:
    """Learn the frame, then the number of steps, then frame and h anew; return the effective draws of a gradient, or 0.

    The windows of the first half double. They go on until one has `WINDOW_ESS` effective draws, and as many as
    `n_learnt` coordinates, for each gradient of a transition, or a tenth of all gradients is spent. In the other half
    candidates for the number of steps have a window each. Where levels move by themselves, so that transitions take
    long and there is little to learn, the first half ends with a window of so many effective draws in all, and the
    other is a short window of the one candidate.
    """
    if plan.request.tune < MIN_WARM_UP:
        if plan.request.tune:
            ensemble.run(plan.request.tune, adapting=True)
        return 0.0
    half, done, window, effective, rate = plan.request.tune // 2, 0, FIRST_WINDOW // 2, 0.0, 0.0
    least, brief = max(WINDOW_ESS, ensemble.frame.n_learnt), ensemble.frame.level_shape[0] > 0
    while (done < half and not brief) or (effective < least and 10 * ensemble.gradients < plan.max_gradients):
        window *= 2
        n = half - done if done < half < done + 3 * window else window
        draws = _after_first_quarter(ensemble.run(n, adapting=True).draws)
        rate = ensemble.ess_per_gradient(draws)
        effective = draws.shape[0] * draws.shape[1] * rate * (ensemble.transition_cost if brief else 1)
        ensemble.learn(draws)
        done += n
    if brief:
        (steps,) = ensemble.frame.steps(math.exp(ensemble.step.log_h))
        ensemble.step = _with_steps(ensemble.step, steps)
        ensemble.bar.restart()
        ensemble.run(FIRST_WINDOW, adapting=True)
        # of many draws the effective sample size tells; that of a window before the frame was learnt is too low
        return rate if plan.request.draws < MIN_DRAWS_FOR_ESS else 0.0
    n, single = (plan.request.tune - half) // (MAX_TRIALS + 1), ensemble.step
    tried, best = [], (single, 0.0)
    for steps in ensemble.frame.steps(math.exp(single.log_h)):
        ensemble.step = _with_steps(single, steps)
        tried.append(_after_first_quarter(ensemble.run(n, adapting=True).draws))
        best = max(best, (ensemble.step, ensemble.ess_per_gradient(tried[-1])), key=lambda tried_step: tried_step[1])
    ensemble.step = best[0]
    ensemble.learn(np.concatenate(tried, axis=1))
    ensemble.bar.restart()  # draws take as long as transitions of as many steps
    ensemble.run(n, adapting=True)
    return best[1]


def _with_steps(step: StepSize, steps: int) -> StepSize:
    """Return a transition of so many steps, at most a quarter turn together."""
    return step._replace(steps=steps, log_h=min(step.log_h, math.log(LONGEST_ANGLE / steps)))


def _after_first_quarter(x: FloatArray) -> FloatArray:
    return x[:, x.shape[1] // 4 :]


def _draw(ensemble: ChainEnsemble, plan: ChainPlan, rate: float) -> SampledChains:
    """Return draws, thinned until they are worth what was asked, or until the cap."""
    kept = plan.request.draws
    each = len(ensemble.x) * ensemble.transition_cost  # gradients of a transition of all chains
    thin = plan.thin or 1
    if rate > 0.0 and not plan.thin:
        most = (plan.max_gradients - ensemble.gradients) // (each * kept)
        thin = max(1, min(math.ceil(THINNING_MARGIN * plan.ess / (rate * each * kept)), most))
        many = ensemble.frame.monitored(ensemble.x).shape[-1] >= MANY_PARAMETERS
        if many and thin % 2 == 0 and kept >= MIN_DRAWS_FOR_ESS:
            thin //= 2  # doubled below if need be, which loses nothing
    _show_progress(ensemble, plan, kept * thin)
    stretch = ensemble.run(kept, thin)
    while kept >= MIN_DRAWS_FOR_ESS:
        theta = ensemble.frame.monitored(stretch.draws)
        bulk, tail = (float(ess(theta, each).min()) for each in ("bulk", "tail"))
        if (bulk >= plan.ess and tail >= TAIL_ESS_SHARE * plan.ess) or plan.thin:
            break
        if ensemble.gradients + kept // 2 * 2 * thin * each > plan.max_gradients:
            warn(
                f"the cap of max_gradients={plan.max_gradients:,} is met at an effective sample size of {bulk:.0f} "
                f"(tails {tail:.0f}) in place of ess={plan.ess:.0f}: raise max_gradients, or lower ess; of labels that "
                f"are all but separated a prior with lighter tails helps{see('how-to/separated.md')}"
            )
            break
        thin *= 2
        _show_progress(ensemble, plan, kept // 2 * thin, f", effective sample size {bulk:.0f} of {plan.ess:.0f}")
        late, old = ensemble.run(kept // 2, thin), slice(1 - kept % 2, None, 2)  # the last draw stays
        both = zip(stretch[:3], late[:3], strict=True)
        draws, values, acceptance = (np.concatenate([before[:, old], after], axis=1) for before, after in both)
        stretch = Segment(draws, values, acceptance)
    theta = ensemble.frame.theta(stretch.draws)
    return SampledChains(theta, stretch.values, stretch.acceptance, ensemble.step, thin)


def _show_progress(ensemble: ChainEnsemble, plan: ChainPlan, transitions: int, reached: str = "") -> None:
    """Show in the progress bar what was reached, and how many transitions of each chain are to come."""
    ensemble.bar.expect(len(ensemble.x) * transitions, plan.description + reached)


def statistics(drawn: SampledChains) -> dict[str, FloatArray]:
    """Return sample_stats of draws, shape (chains, draws) each."""
    shape = drawn.log_density.shape
    return {
        "lp": drawn.log_density,
        "acceptance_rate": drawn.acceptance_rate,
        "step_size": np.full(shape, math.exp(drawn.step.log_h)),
        "n_steps": np.full(shape, drawn.step.steps * drawn.thin),
    }


def compiled_density(target: TargetDensity) -> tuple[Any, Any]:
    """Return the faster of the two compiled densities, which differ by rounding, and its data."""
    arguments, columns = target.arguments(), sparse_columns(target.rows.X)
    return (log_density, arguments) if columns is None else (sparse_log_density, arguments._replace(columns=columns))


class Langevin(Sampler):
    """The declaration of the sampler."""

    def draw(self, request: Request) -> Any:
        """Return draws of beta."""
        plan = ChainPlan.of(request, "sampling by langevin")
        target = request.target()
        mode, factor = mode_and_factor(target)
        long = long_tailed_coefficients(mode, factor, request.prior, len(mode))
        drawn = run_langevin(Dense.of(*compiled_density(target), mode, factor, long), plan)
        return request.idata({"beta": drawn.theta}, statistics(drawn))


LANGEVIN = Langevin(
    name="langevin",
    about="Langevin steps that leave the normal part of the posterior exact, compiled, until the effective size is met",
    **CLOSED_FORM,
    options=OPTIONS,
)
