"""What a sampler declares, and how one that makes its own chains becomes draws.

A sampler is one value, at the end of its own file: its name, the likelihoods and priors that it fits, its options with
their checks, and how it draws. `SAMPLERS` in `sample` lists them all.

The only chain loop: several chains of a compiled sampler in threads, reproducible from one seed.

A sampler gives an `advance`; see `mala`, `gibbs` and `polya_gamma`. Each chain has its own random stream, spawned from
the seed by chain number, so that the draws do not depend on the number of threads.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from bayescore.compiled import one_blas_thread
from bayescore.data.coreset import feature_names
from bayescore.models.laplace import factor_of_inverse, find_mode
from bayescore.models.modes import search_start
from bayescore.models.posterior import (
    Derivatives,
    TargetDensity,
    likelihood_terms,
    posterior,
    prior_part,
    width_precision,
)
from bayescore.priors import Prior
from bayescore.priors.groups import GroupPrior
from bayescore.progress import Bar, progress
from bayescore.types import NO_OFFSET, FloatArray, WeightedData
from bayescore.validation import check_integer

CHUNK = 256  # transitions between two looks at Ctrl-C, at most


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


def run_side_by_side(pool: Executor, chain: Callable[[int], None], n_chains: int, stop: threading.Event) -> None:
    """Run ``chain(c)`` of each chain; where one raises, or Ctrl-C comes, `stop` tells the others to end."""
    try:  # Ctrl-C may come while chains are submitted, too
        for future in [pool.submit(chain, c) for c in range(n_chains)]:
            future.result()
    except BaseException:
        stop.set()
        raise


Advance = Callable[..., tuple[FloatArray, Any]]
"""What fills some draws of a chain; see `run_chains`."""


def run_chains(
    advance: Advance,
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

    ``advance(rng, point, tuning, arguments, segment)`` fills a `Segment` and returns the last point and
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
        point, adapted = starts[c], tuning
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
            point, adapted = advance(rng, point, adapted, arguments, segment)
            bar.advance(len(segment.draws))
        tuned[c] = adapted

    total = chains * (tune + draws)
    with progress(progressbar, description, total) as bar, one_blas_thread(), ThreadPoolExecutor(cores) as pool:
        run_side_by_side(pool, partial(chain, bar=bar), chains, stop)
    return Draws(theta, log_density, acceptance, tuned)


CHUNK_ENTRIES = 2e7  # entries of X read between two looks at Ctrl-C: some tenths of a second


def mode_and_precision(
    target: TargetDensity, guess: FloatArray, tolerance: float = 1e-8
) -> tuple[FloatArray, FloatArray]:
    """Return the mode, shape (D,), sought from `guess` to `tolerance` sds, and the `width_precision` there."""
    mode = find_mode(target.terms, guess, tolerance=tolerance)
    if not target.prior.kinked:
        return mode.beta, mode.terms.precision
    precision = likelihood_terms(mode.beta, target.rows, target.family).precision
    return mode.beta, width_precision(precision, mode.beta, target.prior)


def mode_and_factor(target: TargetDensity) -> tuple[FloatArray, FloatArray]:
    """Return the mode, shape (D,), and the factor L of the scale there, L L' the inverse of the precision."""
    mode, precision = mode_and_precision(target, search_start(target.rows, target.family))
    return mode, factor_of_inverse(precision)


START_SPREAD = 1.5  # posterior sds of first points about the mode: wider than the posterior, so that R-hat tells


def spread_starts(target: TargetDensity, chains: int, stream: np.random.SeedSequence) -> tuple[FloatArray, FloatArray]:
    """Return a first point for each chain, shape (chains, D), and the factor L of the scale.

    They spread `START_SPREAD` times as wide as the posterior.
    """
    mode, scale = mode_and_factor(target)
    noise = np.random.default_rng(stream).standard_normal((chains, target.n_features))
    return mode + START_SPREAD * noise @ scale.T, scale


@dataclass(frozen=True)
class Option:
    """An option of a sampler: its default, what checks a value (value, name) and returns it, and what it is."""

    default: object
    check: Callable[[Any, str], object]
    about: str


@dataclass(frozen=True, eq=False)
class Request:
    """What `sample` was asked for, checked; `streams` has one seed for each chain and one for their starts."""

    data: WeightedData
    family: str
    prior: Prior
    draws: int
    tune: int
    chains: int
    cores: int
    seed: int
    streams: list[np.random.SeedSequence]
    progressbar: bool
    options: dict[str, Any]
    sd_prior: GroupPrior | None = None  # of the sd of the noise of numbers, where it is a parameter

    def target(self) -> TargetDensity:
        """Return the posterior density."""
        return posterior(self.data, self.family, self.prior)

    def starts(self, target: TargetDensity) -> tuple[FloatArray, FloatArray]:
        """Return a first point for each chain, shape (chains, D), and the factor L of the posterior's scale."""
        return spread_starts(target, self.chains, self.streams[-1])

    def idata(
        self,
        variables: dict[str, FloatArray],
        statistics: dict[str, FloatArray],
        coords: Mapping[str, Any] | None = None,
        dims: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return draws of variables, `beta` among them, shape (chains, draws, ...), and sample_stats as a tree.

        `coords` and `dims` are those of variables beside the coefficients.
        """
        from bayescore.compat import inference_data  # xarray is slow to import, and builders do without it

        coords, dims = (
            {"feature": list(feature_names(self.data)), **(coords or {})},
            {"beta": ["feature"], **(dims or {})},
        )
        return inference_data({"posterior": variables, "sample_stats": statistics}, coords=coords, dims=dims)


@dataclass(frozen=True, kw_only=True)
class Sampler(ABC):
    """A sampler of the weighted posterior, and what it declares.

    Parameters
    ----------
    name : str
        As in ``sample(sampler=)``.
    about : str
        What it is, in a few words.
    families : tuple of str, optional
        Names of those that it fits; by default it fits every one.
    needs : tuple of str
        What a prior must be, as attributes of `Prior`, such as "gaussian"; by default it fits every prior.
    because : str
        Why it needs that, for the message to who asks for another prior.
    options : mapping of str to Option
        What it takes beside what all take.
    reports_itself : bool
        Whether it names its library in the draws, and warns of chains that have not mixed, by itself.
    grouped : bool, optional
        Whether it is for rows with groups; None if for all rows.
    draws_sd : bool
        Whether it draws the sd of the noise of numbers where that is unknown, as `sigma`.
    """

    name: str
    about: str
    families: tuple[str, ...] | None = None
    needs: tuple[str, ...] = ()
    because: str = ""
    options: Mapping[str, Option] = field(default_factory=dict)
    reports_itself: bool = False
    grouped: bool | None = False
    draws_sd: bool = False

    def checked_options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return a value for each option: that given, once checked, or the default."""
        for name in given:
            if name not in self.options:
                takes = f"which takes {', '.join(self.options)}" if self.options else "which takes none"
                raise TypeError(f"{name!r} is not an option of sampler={self.name!r}, {takes}")
        return {name: option.check(given.get(name, option.default), name) for name, option in self.options.items()}

    def fits_prior(self, prior: Prior | type[Prior]) -> bool:
        """Say whether a prior, or a class of priors, is what the sampler needs."""
        return all(getattr(prior, need) for need in self.needs)

    @property
    def takes(self) -> str:
        """Its options in words."""
        each = [f"`{name}`, {option.about} (default {option.default!r})" for name, option in self.options.items()]
        return "; ".join(each) or "none"

    @abstractmethod
    def draw(self, request: Request) -> Any:
        """Return the draws as a tree, or as PyMC does: `beta` with dims (chain, draw, feature), and sample_stats."""


CLOSED_FORM: dict[str, Any] = {
    "needs": ("closed_form", "unimodal"),
    "because": "needs a density in closed form and cannot cross between spike and slab",
}
"""What a sampler declares that follows a compiled gradient."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """What chains start from."""

    arguments: tuple[Any, ...]  # what a sampler's `advance` needs of the posterior
    starts: FloatArray  # first points, shape (chains, D)
    tuning: Any = None  # what warm-up adapts
    thin: int = 1  # transitions for each draw kept, if none are asked for


@dataclass(frozen=True, kw_only=True)
class ChainSampler(Sampler):
    """A sampler whose chains `run_chains` makes, by `advance`; it has the option `thin`.

    `statistics` turns `Draws` into sample_stats of its own, shape (chains, draws) each.
    """

    prepare: Callable[[Request], Prepared]
    advance: Advance
    statistics: Callable[[Draws], dict[str, FloatArray]] = lambda _drawn: {}

    def draw(self, request: Request) -> Any:
        """Return the draws of one chain from each start."""
        ready = self.prepare(request)
        thin = request.options["thin"] or ready.thin
        drawn = run_chains(
            self.advance,
            ready.arguments,
            ready.starts,
            ready.tuning,
            draws=request.draws,
            tune=request.tune,
            thin=thin,
            cores=request.cores,
            seeds=request.streams[:-1],
            progressbar=request.progressbar,
            description=f"sampling by {self.name}",
            chunk=max(1, min(CHUNK, int(CHUNK_ENTRIES // (thin * request.data.X.size)))),
        )
        stats = {"lp": drawn.log_density, "acceptance_rate": drawn.acceptance_rate, **self.statistics(drawn)}
        return request.idata({"beta": drawn.theta}, stats)


def thin_option(default: int | None, otherwise: str = "") -> Option:
    """Return the option of how many transitions a draw is apart from the next; `otherwise` says what None means."""
    about = f"transitions for each draw kept{otherwise and f'; None means {otherwise}'}"
    at_least_one = partial(check_integer, low=1)
    return Option(default, optional(at_least_one) if default is None else at_least_one, about)


def optional(check: Callable[[Any, str], object]) -> Callable[[Any, str], object]:
    """Return a check that lets None pass."""
    return lambda value, name: None if value is None else check(value, name)


def signed_rows(rows: WeightedData) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return y_n x_n, weights and y_n o_n, or no offsets: all that data augmentation of symmetric families needs."""
    return rows.Z, rows.weights, NO_OFFSET if rows.offset is None else rows.y * rows.offset


def augmentation(
    name: str,
    about: str,
    family: str,
    prepare: Callable[[FloatArray, FloatArray, Derivatives, FloatArray], tuple[Any, ...]],
    advance: Advance,
) -> ChainSampler:
    """Declare a sampler by data augmentation, which fits one likelihood and Gaussian priors.

    `prepare` takes signed rows, weights, the prior's terms at zero and signed offsets, if there are any.
    """

    def prepared(request: Request) -> Prepared:
        target = request.target()
        starts, _ = request.starts(target)
        terms = prior_part(np.zeros(target.n_features), target.prior)
        Z, weights, offsets = signed_rows(target.rows)
        return Prepared(prepare(Z, weights, terms, offsets), starts)

    return ChainSampler(
        name=name,
        about=about,
        families=(family,),
        needs=("gaussian",),
        because="needs a Gaussian prior",
        options={"thin": thin_option(1)},
        prepare=prepared,
        advance=advance,
    )
