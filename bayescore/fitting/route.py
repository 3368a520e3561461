"""From rows to draws that can be used: build, sample, certify, and what follows where the certificate refuses.

===============================  ==============================================================================
the certificate asks for         next try
===============================  ==============================================================================
more draws                       as many as it names, of the same coreset: `most_draws` says how many at most
chains that agree                twice the warm-up and twice the draws
a coreset that covers more       twice the rows, about the mode under the model's own prior; with groups all rows
the same for the third time      all rows, with the same sampler
===============================  ==============================================================================

A try that would take longer than `max_seconds`, by what the last one took without compiling, is not made.

How many draws `fit` takes next where the certificate asks for more, and the most that it takes.

Of models with groups the certificate weighs some draws, evenly spaced, and estimates from these how many would do. That
holds for draws as far apart: those between them depend on their neighbours, and say less. So chains get longer by as
much as the weighed draws become more.

What `fit` did, step by step.
"""

import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
from rich.console import Console

from bayescore.compiled import compile_seconds
from bayescore.data.coreset import Coreset
from bayescore.diagnostics.certificate.estimates import bare_table
from bayescore.diagnostics.health import Need, Remedy
from bayescore.diagnostics.results import Level
from bayescore.fitting.given import Given, design_prior
from bayescore.priors import Normal, Prior
from bayescore.priors.by_name import leaves_out
from bayescore.priors.defaults import DEFAULT_SCALE, autoscaled, on_columns
from bayescore.priors.groups import GroupPrior
from bayescore.progress import say, step
from bayescore.report.certify import Certificate
from bayescore.samplers.posterior import read_posterior
from bayescore.samplers.sample import sample
from bayescore.validation import DataError, warn

SPARE = 1.5  # more than the certificate's estimate, which has an error of its own


MOST_TIMES = 20  # draws of a chain over those of the first: chains that need more mix badly


MOST_BYTES = 1 << 30  # of draws, which the certificate copies: a quarter of what samplers refuse


class Length(NamedTuple):
    """Draws of a chain, its warm-up, and how many draws of all chains are weighed."""

    draws: int
    tune: int
    max_draws: int

    def longer(self, than: "Length") -> bool:
        """Whether new draws are needed."""
        return self[:2] != than[:2]


def most_draws(core: Coreset, chains: int, first: int) -> int:
    """Return the most draws that a chain may have, `first` being those of the first try."""
    effects = sum(len(own) * len(own.effects) for own in core.groups)
    fit_in = MOST_BYTES // (8 * chains * (core.n_features + effects))
    return max(min(MOST_TIMES * first, fit_in), first)


def next_lengths(remedy: Remedy, now: Length, n_weighed: int, chains: int, most: int) -> list[Length]:
    """Return what may be done next, best first; empty where nothing is left.

    >>> now = Length(1000, 1000, 500)
    >>> next_lengths(Remedy(Need.DRAWS, max_draws=1500), now, 500, 4, 20_000)
    [Length(draws=4500, tune=1000, max_draws=2300), Length(draws=1000, tune=1000, max_draws=4000)]
    """
    found, n_all = [], chains * now.draws
    if remedy.max_draws:
        times = min(SPARE * remedy.max_draws / n_weighed, most / now.draws)
        if times > 1.0:
            found.append(Length(min(_hundreds(times * now.draws), most), now.tune, _hundreds(times * n_weighed)))
        found.append(now._replace(max_draws=max(n_all, now.max_draws)))
    else:
        draws = max(min(remedy.draws, most), now.draws)
        weighed = now.max_draws if now.max_draws < n_all else max(chains * draws, now.max_draws)  # all, as before
        tune = max(remedy.tune, 2 * now.tune if remedy.need is Need.ORIGIN and not remedy.tune else now.tune)
        found.append(Length(draws, tune, weighed))
    return [each for each in found if each != now]


def first_within(limit: float, left: list[Length], now: Length, taken: float) -> tuple[float, Length]:
    """Return the first that takes `limit` seconds or less of sampling, else the first, by what the last one took."""
    pace = taken / (now.draws + now.tune)
    timed = [(pace * (each.draws + each.tune) if each.longer(now) else 0.0, each) for each in left]
    return next((one for one in timed if one[0] <= limit), timed[0])


def none_left(remedy: Remedy, now: Length, most: int) -> str:
    """Return why nothing is left to do, and what a user may."""
    asked = f"{remedy.max_draws:,} draws to weigh" if remedy.max_draws > now.max_draws else ""
    if remedy.draws > now.draws:
        asked = f"{remedy.draws:,} draws a chain"
    if not asked:
        return "the certificate asks for no more than was done"
    return (
        f"the certificate asks for {asked}, and fit takes at most {most:,} a chain: chains that need "
        "more hardly move. Give a prior that says more, or leave out terms that the rows tell little of"
    )


def _hundreds(n: float) -> int:
    return math.ceil(n / 100.0) * 100


@dataclass(frozen=True)
class Step:
    """A step of a fit.

    Parameters
    ----------
    what : str
        "build", "update", "sample", "certify", "cluster" or "stop".
    rows : int
        Rows that the step worked on: those of the data where it read them, else those of the coreset.
    passes : int
        Passes over the data.
    seconds : float
        Wall time.
    why : str
        What was chosen, and for which reason.

    Examples
    --------
    >>> print(Step("certify", 1_000_000, 1, 0.4, "certified"))
    certify     1,000,000 rows, 1 pass, 0.4 s: certified
    """

    what: str
    rows: int
    passes: int
    seconds: float
    why: str

    def __str__(self) -> str:
        read = f", {self.passes} pass{'es' * (self.passes != 1)}" if self.passes else ""
        return f"{self.what:<8}{self.rows:>13,} rows{read}, {self.seconds:.1f} s: {self.why}"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain JSON values."""
        return asdict(self)


@contextmanager
def overheard() -> Iterator[list[str]]:
    """Yield bayescore's warnings of the body as they come; they are given after it, unless it raises."""
    caught: list[str] = []
    with warnings.catch_warnings():
        warnings.filterwarnings("always", category=UserWarning)
        show = warnings.showwarning

        def hear(message: Any, category: Any, *where: Any, **more: Any) -> None:
            if category is UserWarning:
                caught.append(str(message))
            else:
                show(message, category, *where, **more)

        warnings.showwarning = hear
        yield caught
    for text in caught:
        warn(text)


def words(caught: list[str]) -> str:
    """Return warnings as the end of a step's words."""
    return "".join(f"; warning: {text}" for text in dict.fromkeys(caught))


LONG = 10.0  # seconds of a step that are said beforehand


TRIES = 3  # of escalation, after the first


DRAWS, TUNE, MAX_DRAWS = 1000, 1000, 500  # the verbs' own defaults


MAX_BYTES = 2 << 30  # of the matrix of all rows


_ROUNDING = 1e-12  # share of a column's largest entry, below which its sd is 0


FAILURES = (RuntimeError, ArithmeticError, np.linalg.LinAlgError)  # of a posterior that is hard; others are bad input


LOST = (DataError, MemoryError, *FAILURES)  # of a try beyond the first, which lose that try alone


T = TypeVar("T")


@dataclass
class Route:
    """A way from rows to certified draws; it keeps the last try and the story."""

    given: Given
    family: str | None
    prior: Prior | Mapping[str, Prior] | None
    seed: int
    max_seconds: float
    story: list[Step] = field(default_factory=list)
    in_design: Prior | None = None  # the prior of the coreset's columns, where it is known
    group_prior: GroupPrior | None = None

    def __post_init__(self) -> None:
        self.seeds = [int(each) for each in np.random.SeedSequence(self.seed).generate_state(2 + 2 * TRIES)]
        self.draws, self.tune, self.max_draws = DRAWS, TUNE, MAX_DRAWS
        self.sampler = "auto"
        self.core: Coreset
        self.drawn: Any = None
        self.certificate: Certificate
        self.seconds: dict[str, float] = {}  # of the last step of each kind, without what was compiled in it

    def run(self) -> None:
        """Go from the first build to draws that are certified, or to the end of what may be tried."""
        own = {"prior": Normal(0.0, DEFAULT_SCALE)} if self.given.standardize else {}
        try:
            self.build("the rows are a coreset" if self.given.lossy else "the default build", **own)
        except FAILURES as error:
            if self.given.once:
                raise
            self._everything(f"the default build failed: {error}")
        self.settle()

    def settle(self) -> None:
        """Sample and certify the coreset; try again as the certificate asks."""
        self.sample(self._sampling())
        self.certify()
        doubled = False
        for _ in range(TRIES):
            remedy = self.certificate.remedy
            if self.certificate.trusted or remedy is None:
                return
            last = self.core, self.drawn, self.certificate
            try:
                if remedy.need is not Need.ROWS:
                    done = self._again(remedy)
                elif self.core.lossless or not self.given.whole:
                    return
                else:
                    done, doubled = (self._all_rows(doubled) if self._last(doubled) else self._more()), True
            except LOST as error:
                self.core, self.drawn, self.certificate = last
                self._stop(f"the next try failed, and draws and certificate are those before it: {error}")
                return
            if not done:
                return

    def build(self, why: str, **options: Any) -> None:
        """Build a coreset."""
        with overheard() as caught:
            self.core = self.timed(
                "build",
                lambda: self.given.build(family=self.family, random_state=self.next_seed(), **options),
                lambda core: (core.n_total, int(core.params.get("passes", 0)), f"{why}: {called(core)}{words(caught)}"),
            )

    def sample(self, why: str) -> None:
        """Draw from the coreset's posterior; warnings of chains are the certificate's to give."""
        prior = self.design_prior()
        asked: dict[str, Any] = {
            "draws": self.draws,
            "tune": self.tune,
            "sampler": self.sampler,
            "random_seed": self.next_seed(),
            **({} if self.group_prior is None else {"group_prior": self.group_prior}),
        }

        def draw() -> Any:
            try:
                return attempt()
            except FAILURES:
                asked["sampler"] = "nuts"  # needs no mode
                return attempt()

        def attempt() -> Any:
            with warnings.catch_warnings():
                for text in ("the chains have not mixed", "the cap of max_gradients"):
                    warnings.filterwarnings("ignore", text, UserWarning)
                return sample(self.core, prior=prior, progressbar=self.given.progressbar, **asked)

        self.drawn = self.timed("sample", draw, lambda _: (len(self.core), 0, why))
        self.sampler = str(self.drawn.posterior.attrs["sampler"])
        own = self.drawn.sample_stats.attrs.get("sampling_time")
        if self.sampler == "nuts" and own is not None:  # PyMC's own, without compiling
            self.seconds["sample"] = float(own)

    def certify(self, *, strict: tuple[type[Exception], ...] = ()) -> None:
        """Judge the draws by the full data; of errors, those of the kinds `strict` are raised, others are a refusal."""

        def judge() -> Certificate:
            if self.given.once and not self.core.lossless:
                return _refused(self.drawn, self.given.gone)
            try:
                return self.given.certify(self.drawn, self.core, self.max_draws)
            except strict:
                raise
            except (DataError, *FAILURES) as error:
                return _refused(self.drawn, f"The certificate could not be made: {error}.")

        self.certificate = self.timed(
            "certify", judge, lambda found: (self.core.n_total, found.n_passes, f"{found.level}: {found.text}")
        )

    def _again(self, remedy: Remedy) -> bool:
        """Take more draws of the same coreset, or weigh more of them; return whether that was done."""
        now, chains = Length(self.draws, self.tune, self.max_draws), self.drawn.posterior.sizes["chain"]
        most = most_draws(self.core, chains, DRAWS)
        if not (left := next_lengths(remedy, now, self.certificate.n_draws, chains, most)):
            self._stop(none_left(remedy, now, most))
            return False
        seconds, each = first_within(self.max_seconds, left, now, self.seconds["sample"])
        if not self._allowed(seconds, f"{each.draws:,} draws a chain"):
            return False
        self.draws, self.tune, self.max_draws = each
        if each.longer(now):
            self.sample(f"{remedy.need}: {self._sampling()}")
        self.certify(strict=LOST)
        return True

    def _more(self) -> bool:
        """Build twice as large, of pseudo-rows of real ones; return whether that was done."""
        prior = self.design_prior()
        own = {"prior": prior} if prior.closed_form and prior.unimodal else {}
        size: int | str = min(2 * len(self.core), self.core.n_total)
        why = "twice the rows"
        if self.core.method == "condensed":
            why, size = "rows of the data", "auto"
        seconds = sum(self.seconds.get(what, 0.0) for what in ("build", "sample", "certify"))
        if not self._allowed(2.0 * seconds, why):
            return False
        self.build(why, size=size, method="calibrated", **own)
        self.sample(self._sampling())
        self.certify(strict=LOST)
        return True

    def _last(self, doubled: bool) -> bool:
        """Whether only all rows are left to try."""
        return doubled or self.core.group is not None or self.given.once or 2 * len(self.core) >= self.core.n_total

    def _all_rows(self, doubled: bool) -> bool:
        """Take all rows; return whether that was done."""
        n, D = self.core.n_total, self.core.n_features
        seconds = self.seconds["sample"] * n / len(self.core)
        if self.given.once or 8 * n * D > MAX_BYTES:
            self._stop("all rows are too many to hold in memory" if not self.given.once else "the rows came once")
            return False
        if not self._allowed(seconds, f"sampling all {n:,} rows"):
            return False
        why = "twice the rows were not enough" if doubled else "a larger coreset would be most of the rows"
        why = "groups leave no larger coreset" if self.core.group is not None else why
        self._everything(why)
        self.sample(f"{self._sampling()}; about {seconds:.0f} s were expected")
        self.certify(strict=LOST)
        return True

    def _everything(self, why: str) -> None:
        """Take all rows for the coreset."""
        family = self.family or "logistic"
        self.core = self.timed(
            "build", lambda: self.given.everything(family), lambda core: (len(core), 2, f"all rows: {why}")
        )

    def _allowed(self, seconds: float, what: str) -> bool:
        """Whether a step may be made by the time it will take; say so beforehand where that is long."""
        if seconds <= self.max_seconds:
            if self.given.progressbar and seconds > LONG:
                Console(stderr=True).print(f"bayescore: {what} takes about {seconds:.0f} s")
            return True
        self._stop(f"{what} would take about {seconds:,.0f} s, more than max_seconds={self.max_seconds:g}")
        return False

    def _stop(self, why: str) -> None:
        self._tell(Step("stop", len(self.core), 0, 0.0, why))

    def timed(self, what: str, work: Callable[[], T], told: Callable[[T], tuple[int, int, str]]) -> T:
        """Return what a step finds, and add it to the story: rows, passes and words."""
        begin = time.perf_counter()
        with step(self.given.progressbar, what), compile_seconds() as compiled:
            result = work()
        seconds = time.perf_counter() - begin
        self.seconds[what] = max(seconds - sum(compiled), 0.0)
        rows, passes, why = told(result)
        if sum(compiled) > 1.0:
            why += f" ({sum(compiled):.0f} s of it compiling, once)"
        self._tell(Step(what, rows, passes, seconds, why))
        return result

    def _tell(self, done: Step) -> None:
        """Add a step to the story, and show it."""
        self.story.append(done)
        if self.given.progressbar:
            say(str(done))

    def next_seed(self) -> int:
        """Return the seed of the next step."""
        return self.seeds[sum(step.what in ("build", "sample", "update") for step in self.story) % len(self.seeds)]

    def _sampling(self) -> str:
        return f"4 chains of {self.draws:,} draws"

    @cached_property
    def default(self) -> Prior | None:
        """The default prior of numbers, or of columns that were not standardised; None where that of `fit` goes.

        Rows that came once, or left a coreset alone, are gone: its weighted rows stand for them.
        """
        core = self.core
        if core.numbers:
            return autoscaled(core)
        if core.design.scale is not None:
            return None
        if self.given.once or isinstance(self.given.data, Coreset):
            share = core.weights / core.weights.sum()
            mean = share @ core.X
            sd, largest = np.sqrt(share @ (core.X - mean) ** 2), np.abs(core.X).max(axis=0)
        else:
            scan = self.given.rows(core).scan
            mean, sd, largest = scan.mean, scan.sd, scan.largest
        return on_columns(mean, np.where(sd > _ROUNDING * largest, sd, 0.0), core.design.constant)

    def design_prior(self) -> Prior:
        """Return the prior of the columns of the coreset."""
        if self.in_design is not None:
            return self.in_design
        return design_prior(self.prior, self.core.design, self.default if leaves_out(self.prior) else None)


def _refused(idata: Any, why: str) -> Certificate:
    """Return a certificate of draws that could not be held against the rows."""
    return Certificate(Level.NOT_CERTIFIED, why, bare_table(read_posterior(idata, "idata")))


def called(core: Coreset) -> str:
    """Return the kind and the size of a coreset in words."""
    exact = "exact, as a normal likelihood is in sums" if core.numbers else "exact, of few distinct rows"
    kind = exact if core.lossless else f"{core.method!r}"
    return f"{kind}, {len(core):,} rows"
