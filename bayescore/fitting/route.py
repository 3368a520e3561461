r"""From rows to draws that can be used: build, sample, certify, and what follows where the certificate refuses.

===============================  ==============================================================================
the certificate asks for         next try
===============================  ==============================================================================
more draws                       as many as it names, of the same coreset
more draws than `most_draws`     with groups NUTS, of all rows where it may take so many; else that many
chains that agree                twice the warm-up and twice the draws
a coreset that covers more       twice the rows, about the mode under the model's own prior; with groups all rows
the same for the third time      all rows, with the same sampler
===============================  ==============================================================================

A try that would take longer than `max_seconds`, by what the last one took without compiling, is not made. Nor are all
rows taken in place of a build that failed, or kept by one, where gradients of some of them say that it would take more.

How many draws `fit` takes next where the certificate asks for more, and the most that it takes.

Of models with groups the certificate weighs some draws, evenly spaced, and estimates from these how many would do. That
holds for draws as far apart: those between them depend on their neighbours, and say less. So chains get longer by as
much as the weighed draws become more.

What `fit` did, step by step.

What `fit` was given: rows and the roles of their columns, remembered so that later questions need none.

Whether rows that a fit is given again are those that it was made of, by sums over them in one pass.

The coreset knows their number and their weight. Without groups, and of sums of all rows, it also knows their score at
one point, the gradient of their log-likelihood: its own rows' score with the shortfall that the build left. It is
compared in units of the roots of the curvatures there,

.. math:: |g_d - g'_d| / \sqrt{F_{dd}},

by so many sds the mode moves along a coefficient, the others known. The limit is 0.01: rounding, as of another type of
storage, makes less of it. Pseudo-rows without a shortfall, and coresets united since, know the score to second order,
and the limit is 0.5; opposite labels of n rows make about the root of n. With groups the certificate knows the weights
of the two labels by group.

Coresets of other methods, and groups of a fit that was updated, are held against number and weight alone.
"""

import importlib.util
import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from scipy import sparse

from bayescore.compiled import available_cores, compilation
from bayescore.coresets.build import all_rows, build_coreset
from bayescore.coresets.methods import METHODS
from bayescore.data.blocks import is_stream
from bayescore.data.coreset import Coreset
from bayescore.data.dataset import ComomentsTotal, Dataset
from bayescore.data.design import Design
from bayescore.data.formula_design import formula_of
from bayescore.data.formula_parsing import parsed
from bayescore.data.open import open_designed
from bayescore.data.responses import ABOVE, POSITIVE, TIMED
from bayescore.data.roles import ROLES
from bayescore.data.source import Source
from bayescore.data.sources import column_names, has_named_columns
from bayescore.data.tables import is_table
from bayescore.diagnostics.certificate.estimates import bare_table
from bayescore.diagnostics.results import Level, Need, Remedy
from bayescore.diagnostics.row_sums import full_rows
from bayescore.families import Family
from bayescore.families.family import Sized, check_family
from bayescore.families.normal import Gaussian
from bayescore.fitting.earlier import EarlierRows
from bayescore.fitting.prior import design_prior, raw_prior
from bayescore.limits import MAX_DRAWS as MOST_DRAWS
from bayescore.limits import MAX_ROWS_BYTES
from bayescore.models.groups.rows import label_weights
from bayescore.models.laplace import missed_terms
from bayescore.models.posterior import Derivatives, likelihood_terms, posterior
from bayescore.priors import Normal, Prior
from bayescore.priors.by_name import check_unnamed, needs_default, prior_of
from bayescore.priors.groups import (
    GroupPrior,
    check_group_prior,
    default_prior,
    is_default,
    prior_of_comoments,
    with_bends,
)
from bayescore.progress import LONG, Pace, say, step
from bayescore.report.certify import Certificate, certified_by_rows, certify
from bayescore.samplers.posterior import has_fewer_draws, is_between_fits, read_posterior, with_own_model_attrs
from bayescore.samplers.sample import AUTO, SAMPLERS, sample_as_tree
from bayescore.samplers.summaries import DataUnits, with_scales
from bayescore.text import counted, number
from bayescore.types import INTERCEPT, FloatArray, WeightedData
from bayescore.validation import DataError, LittleGainWarning, check_alone, check_choice, check_integer, warn


@contextmanager
def build_warned() -> Iterator[None]:
    """Give no warning of rows that miss something, or are separated: the build of the coreset did."""
    with warnings.catch_warnings():
        for text in ("missing='drop' left out", "the labels .* completely separated"):
            warnings.filterwarnings("ignore", text, UserWarning)
        yield


@dataclass(frozen=True, eq=False)
class Given:
    """Rows, labels and roles, as `build_coreset` takes them."""

    whole: ClassVar[bool] = True  # whether these are all rows of the fit

    data: Any
    y: Any = None
    formula: str | None = None
    intercept: bool = True  # of data without a formula
    positive: Any = None
    roles: Mapping[str, Any] = field(default_factory=dict)  # label, weights, offset, trials, exposure, ...
    progressbar: bool = False
    known: bool = True  # to be the rows of the fit
    predictive: bool = True  # to have elpd and dispersion in the certificate
    like: Coreset | None = None  # in whose design the rows are read, and in whose units the sd of numbers' noise is

    @property
    def once(self) -> bool:
        """Whether the rows can be read once only, or are gone: those that a coreset misses a part of."""
        return is_stream(self.data) or self.lossy

    @property
    def lossy(self) -> bool:
        """True if only a coreset that misses a part of the rows is left of them."""
        return isinstance(self.data, Coreset) and not self.data.lossless

    @property
    def smooths(self) -> tuple[str, ...]:
        """The smooth terms of the formula, or of a coreset."""
        if isinstance(self.data, Coreset):
            return self.data.design.smooths
        return () if self.formula is None else parsed(self.formula).smooths

    @property
    def adds_intercept(self) -> bool:
        """Whether a build adds an intercept to rows without a formula."""
        return self.formula is None and self.intercept and not isinstance(self.data, Coreset)

    def build(self, **options: Any) -> Coreset:
        """Return a coreset; one that is given in place of rows stays as it is."""
        if isinstance(self.data, Coreset) and self.lossy:
            return self.data
        return self._with_unknown_sd(build_coreset(self.data, self.y, **self._arguments(), **options))

    def everything(self, family: str) -> Coreset:
        """Return all rows, in memory."""
        if isinstance(self.data, Coreset):
            return self.data
        return self._with_unknown_sd(all_rows(self.data, self.y, **self._arguments(), family=family))

    def _with_unknown_sd(self, core: Coreset) -> Coreset:
        if self.like is None or not self.like._sd_unknown:
            return core
        return replace(core, params={**self.like.params, **core.params})

    def _arguments(self) -> dict[str, Any]:
        """Return roles and design of the rows, as builds take them."""
        roles = self.role_arguments()
        if self.like is not None:
            return {**roles, "design": self.like.design}
        has_intercept = self.intercept
        if self.formula is not None:
            has_intercept = any(str(term) == "1" for term in parsed(self.formula).terms)
        # intercepts take up the means of columns, and the rows are read again
        standardize = has_intercept and not self.once and not isinstance(self.data, Coreset)
        asked = {**roles, "formula": self.formula, "standardize": standardize, "positive": self.positive}
        named = isinstance(self.data, Coreset) or self.formula is not None
        return asked if named else {**asked, "intercept": self.intercept}

    def certify(self, idata: Any, core: Coreset, max_draws: int, model: Any = None) -> Certificate:
        """Return the certificate of draws of a coreset; a lossless one is held against itself."""
        options: dict[str, Any] = {"model": model, "max_draws": max_draws, "progressbar": self.progressbar}
        labels = core.response == "labels"  # of others only rows of the data tell elpd and dispersion
        with build_warned():
            if core.lossless and (self.once or labels):
                return certify(idata, core, core, **options)
            return certified_by_rows(idata, core, self.data, self.y, self.roles, predictive=self.predictive, **options)

    @property
    def why_unchecked(self) -> str:
        """Why no draws can be held against the rows, and what is known of their error."""
        if not isinstance(self.data, Coreset):
            return (
                "The rows came once, so that no draws can be held against them; give a callable that returns a fresh "
                "iterator of blocks each time, or a file."
            )
        params, error = self.data.params, "It has no estimate of its error"
        if "mean_error" in params:
            mean, sd = params["mean_error"], params["sd_error"]
            error = f"By its own estimate means are off by about {mean:.2g} sd, and sds by {100.0 * sd:.2g}%"
        elif "moved" in params:
            error = (
                f"The posterior moved by {params['moved']:.2g} sds after earlier rows were condensed (limit "
                f"{params['moved_limit']:.2g}), and means are off to second order in that"
            )
        return (
            f"The rows are a coreset of the method {self.data.method!r}, which misses a part of the data. {error}. No "
            "draws can be held against the data without them: fit.update(data=rows) certifies."
        )

    def check_group_prior(self, prior: Any) -> None:
        """Raise if it is no prior of sds of effects, or there can be no groups."""
        if prior is None:
            return
        check_group_prior(prior)
        if self.formula is not None:
            grouped = bool(parsed(self.formula).groups or self.smooths)
        elif isinstance(self.data, WeightedData):
            grouped = self.data.group is not None or bool(self.smooths)
        else:  # blocks may bring groups of their own
            grouped = self.once or callable(self.data) or isinstance(self.data, Source)
        if not grouped and self.roles.get("groups") is None:
            raise DataError(
                f"group_prior={prior} is for effects of groups, and the model has none; give a term (1 | g), or leave "
                "it out"
            )

    def check_lossy(self, family: str | None, prior: Any) -> None:
        """Raise if arguments do not go with a coreset that misses a part of its rows."""
        if not (isinstance(self.data, Coreset) and self.lossy):
            return
        core = self.data
        check_alone("a coreset", **self.roles, positive=self.positive)
        if family not in (None, core.family):
            raise DataError(
                f"family={family!r} is given, and the coreset was built for {core.family!r}; leave it out, or build "
                "another from the rows"
            )
        if isinstance(prior, Mapping):
            prior_of(prior, core.feature_names)
        if needs_default(prior) and core.pseudo.any() and core.design.given_others is None:
            raise DataError(
                "prior is missing: the default one goes by the sds of columns, which pseudo-rows do not tell; give a "
                'prior, such as prior=bc.priors.Normal(0, 2.5), and by name one of all others, "*"'
            )

    def rows(self, core: Coreset, **asked: Any) -> Dataset:
        """Return the rows in the design of a coreset."""
        with build_warned():
            return full_rows(core, self.data, self.y, progress=self.progressbar, **self.roles, **asked)

    def undesigned(self, *, response: str, **beside: Any) -> Dataset:
        """Return the rows in the design of the formula, not standardised."""
        roles = {**self.roles, "response": response, **beside}
        return open_designed(self.data, self.y, formula=self.formula, positive=self.positive, **roles)

    def check_names(self, prior: Mapping[str, Prior], *, response: str) -> None:
        """Raise unless the names of a prior are those of coefficients, before a build reads the rows."""
        with warnings.catch_warnings(action="ignore"):  # the build gives them
            design = self.undesigned(response=response).design
        names = design.names
        if design.smooths:
            check_unnamed(prior, design)
        prior_of(prior, (INTERCEPT, *names) if self.adds_intercept else names)

    def check_parameter(self, family: Sized) -> None:
        """Raise if coefficients or groups would have the name of the family's parameter, before the rows are read."""
        name, made, asked = family.parameter, set[str](), self.roles.get("groups", ())
        named = [asked] if isinstance(asked, str) else list(asked) if isinstance(asked, list | tuple | dict) else []
        if self.formula is not None:
            formula = parsed(self.formula)
            made = {str(term) for term in formula.terms}
            named += [term.column for term in formula.groups]
        elif has_named_columns(self.data):
            made = {*column_names(self.data)} - {each for each in self.roles.values() if isinstance(each, str)}
        if name in named:
            raise DataError(
                f"groups has the column {name!r}, the name of the family's parameter: rename it, or give the {name}, "
                f"as in '{family.kind}(2.5)'"
            )
        if name in made:
            raise DataError(f"column {name!r} has the name of a parameter of the family: rename the column")

    def role_arguments(self) -> dict[str, Any]:
        """Return the roles of columns, as verbs take them."""
        return {**self.roles, "progressbar": self.progressbar}


def all_rows_of(core: Coreset, data: Any, roles: dict[str, Any], *, progressbar: bool) -> Given:
    """Return rows, or a pair of rows and labels, with the roles of columns that the coreset remembers."""
    rows, y = data if isinstance(data, tuple) and len(data) == 2 else (data, None)
    formula, design = formula_of(core.design), core.design
    remembered: dict[str, Any] = design.role_columns if has_named_columns(rows) else {}
    asked = None if formula is None else parsed(formula)
    if remembered and design.offset is not None and (asked is None or asked.offset is None):
        remembered["offset"] = design.offset
    if remembered and design.exposure is not None:
        remembered["exposure"] = design.exposure
    for role in ("trials", "exposure"):
        if asked is not None and getattr(asked, role) is not None:
            remembered.pop(role, None)
    if remembered and formula is None and design.groups:
        remembered["groups"] = [grouping.name for grouping in design.groups]
    return rows_like(core, rows, y, roles={**remembered, **roles}, progressbar=progressbar)


def rows_like(core: Coreset, data: Any, y: Any, **options: Any) -> Given:
    """Return rows that are read as those of a coreset were: by its formula, or with its intercept, and its labels."""
    positive = core.classes[1] if core.response == "labels" else None
    return Given(data, y, formula_of(core.design), core.design.constant is not None, positive, **options)


_EXACT_SDS, _NEAR_SDS = 0.01, 0.5  # limits of the score, in sds
_WEIGHT_TOLERANCE = 1e-6  # of a weight, that rounding may make
_REMEDY = "give the rows that the fit was made of, or leave data out"


def in_memory(data: Any) -> bool:
    """Whether rows are in this process's memory, so that a pass takes no time to speak of."""
    return is_table(data) or isinstance(data, np.ndarray | list | tuple | WeightedData) or sparse.issparse(data)


def check_same_rows(given: Given, core: Coreset, effects: Any, point: FloatArray, *, updated: bool) -> None:
    """Raise `DataError` unless rows add up to what is known of those of a fit; one pass.

    Parameters
    ----------
    given : Given
        The rows; of those that come once nothing is asked.
    core : Coreset
        The fit's.
    effects : DataFrame
        `CertificateData.effects`.
    point : array, shape (D,)
        The mean of the draws.
    updated : bool
        Whether some rows were not there when the certificate was made.
    """
    if given.once:
        return
    family, score, limit = check_family(core.family), None, _EXACT_SDS
    if core.group is None or core.lossless:
        if core.shortfall is not None:
            point = core.shortfall.point
            score = likelihood_terms(point, core, family) + missed_terms(core.shortfall, point)
        elif core.lossless or core.method == "condensed":
            score = likelihood_terms(point, core, family)
        if "parts" in core.params or (core.shortfall is None and not core.lossless):
            limit = _NEAR_SDS
    by_label = None
    if score is None and core.groups and len(effects) and not updated:
        first = core.groups[0]
        table = effects.iloc[: len(first) * len(first.effects) : len(first.effects)]
        ups = (table["weight"] * table["share"].fillna(0.0)).to_numpy(float)
        by_label = np.stack([ups, table["weight"].to_numpy(float) - ups], axis=1)
    with warnings.catch_warnings(action="ignore"):  # the fit gave them
        dataset = given.rows(core)
        n_groups = 0 if by_label is None else len(by_label)
        sums = partial(_block_sums, family=family, point=None if score is None else point, n_groups=n_groups)
        sizes, weights, terms, labels = zip(*dataset.map(sums, "checking rows", canonical=True), strict=True)
    if (n_rows := sum(sizes)) != core.n_total:
        raise DataError(f"data has {n_rows:,} rows, and the fit was made of {core.n_total:,}: {_REMEDY}")
    if not math.isclose(weight := math.fsum(weights), core.weight_total, rel_tol=_WEIGHT_TOLERANCE):
        raise DataError(
            f"data has the total weight {weight:,.10g}, and the rows of the fit {core.weight_total:,.10g}: "
            f"{_REMEDY}, with their weights"
        )
    if by_label is not None:
        _check_labels(sum(labels), by_label, core)
    if score is not None:
        _check_score(sum(terms[1:], terms[0]), score, limit, core)


def _block_sums(
    _: int, block: WeightedData, family: Family, point: FloatArray | None, n_groups: int
) -> tuple[int, float, Derivatives | None, FloatArray | None]:
    """Return number and weight of rows, terms of the log-likelihood at a point, and weights of +1 and -1 by group."""
    terms = None if point is None else likelihood_terms(point, block, family)
    labels = None if block.group is None or not n_groups else label_weights(block, block.group[:, 0], n_groups)
    return len(block), float(block.weights.sum()), terms, labels


def _check_labels(labels: FloatArray, expected: FloatArray, core: Coreset) -> None:
    """Raise unless the weights of +1 and -1 in each group of the first factor, shape (G, 2), are those of the fit."""
    most = max(core.weight_total, 1.0) * _WEIGHT_TOLERANCE
    gap = np.abs(labels - expected).max(axis=1)
    if gap.max() <= most:
        return
    grouping, k = core.groups[0], int(gap.argmax())
    named = {"labels": f"labels {core.classes[1]!r}", POSITIVE: "sums"}
    named |= dict.fromkeys(("counts", ABOVE, TIMED), "events")
    what = named.get(core.response, "rows")
    now, then = labels[k, 0], expected[k, 0]
    if abs(now - then) <= most:
        now, then, what = labels[k].sum(), expected[k].sum(), "rows"
    raise DataError(
        f"data has {what} of weight {now:,.10g} in {grouping.name}={grouping.levels[k]!r}, and the fit {then:,.10g}: "
        f"{_REMEDY}"
    )


def _check_score(terms: Derivatives, expected: Derivatives, limit: float, core: Coreset) -> None:
    """Raise unless the gradient of the log-likelihood is that of the fit's rows, within `limit` sds."""
    F = np.abs(np.diagonal(expected.precision))
    with np.errstate(divide="ignore", invalid="ignore"):  # of a column of zeros
        gap = np.where(F > 0.0, np.abs(terms.gradient - expected.gradient) / np.sqrt(F), 0.0)
    if not gap.max() <= limit:
        name = core.feature_names[int(gap.argmax())]
        raise DataError(
            f"data has as many rows as the fit, and other labels or columns: the score of {name!r} at the mode is off "
            f"by {number(float(gap.max()), 2)} sds (limit {limit:g}): {_REMEDY}"
        )


DRAWS_MARGIN = 1.5  # more than the certificate's estimate, which has an error of its own
MOST_BYTES = 1 << 30  # of draws, which the certificate copies: a quarter of what samplers refuse


class Length(NamedTuple):
    """Draws of a chain, its warm-up, and how many draws of all chains are weighed."""

    draws: int
    tune: int
    max_draws: int


def most_draws(core: Coreset, chains: int, first: int) -> int:
    """Return the most draws that a chain may have, `first` being those of the first try."""
    effects = sum(len(grouping) * len(grouping.effects) for grouping in core.groups)
    fit_in = MOST_BYTES // (8 * chains * (core.n_features + effects))
    return max(min(MOST_DRAWS, fit_in), first)


def next_lengths(remedy: Remedy, now: Length, n_weighed: int, chains: int, most: int) -> list[Length]:
    """Return what may be done next, best first; empty where nothing is left.

    >>> now = Length(1000, 1000, 500)
    >>> next_lengths(Remedy(Need.DRAWS, max_draws=1500), now, 500, 4, 20_000)
    [Length(draws=4500, tune=1000, max_draws=2300), Length(draws=1000, tune=1000, max_draws=4000)]
    """
    lengths, n_all = [], chains * now.draws
    if remedy.max_draws:
        times = min(DRAWS_MARGIN * remedy.max_draws / n_weighed, most / now.draws)
        if times > 1.0:
            lengths.append(Length(min(_hundreds(times * now.draws), most), now.tune, _hundreds(times * n_weighed)))
        lengths.append(now._replace(max_draws=max(n_all, now.max_draws)))
    else:
        draws = max(min(remedy.draws, most), now.draws)
        weighed = now.max_draws if now.max_draws < n_all else max(chains * draws, now.max_draws)  # all, as before
        tune = max(remedy.tune, 2 * now.tune if remedy.need is Need.ORIGIN and not remedy.tune else now.tune)
        lengths.append(Length(draws, tune, weighed))
    return [each for each in lengths if each != now]


def first_affordable(limit: float, left: list[Length], now: Length, taken: float) -> tuple[float, Length]:
    """Return the first length that samples in `limit` seconds or less, by the pace of the last, else the first."""
    pace = taken / (now.draws + now.tune)
    timed = [(pace * (each.draws + each.tune) if each[:2] != now[:2] else 0.0, each) for each in left]
    return next((one for one in timed if one[0] <= limit), timed[0])


def none_left(remedy: Remedy, now: Length, most: int) -> str:
    """Return why nothing is left to do, and what a user may."""
    asked = "more draws to weigh" if remedy.max_draws > now.max_draws else ""
    if remedy.draws > now.draws:
        asked = "more draws"
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
        "build", "update", "sample", "certify", "cluster", "pool", "stop", or a parameter of the family such as "size".
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
        read = f", {counted(self.passes, 'pass', 'passes')}" if self.passes else ""
        return f"{self.what:<8}{self.rows:>13,} rows{read}, {self.seconds:.1f} s: {self.why}"


@contextmanager
def collected_warnings(*, gain: bool = True) -> Iterator[list[UserWarning]]:
    """Yield bayescore's warnings of the body as they come; they are given after it, unless it raises.

    Without `gain` those of little gain are not given: the user has not chosen the method.
    """
    caught: list[UserWarning] = []
    with warnings.catch_warnings():
        warnings.filterwarnings("always", category=UserWarning)
        show = warnings.showwarning

        def hear(message: Any, category: Any, *where: Any, **more: Any) -> None:
            if category in (UserWarning, LittleGainWarning):
                caught.append(category(str(message)))
            else:
                show(message, category, *where, **more)

        warnings.showwarning = hear
        yield caught
    for each in {str(each): each for each in caught}.values():  # builds that try again say the same
        if gain or not isinstance(each, LittleGainWarning):
            warn(str(each), type(each))


def warnings_text(caught: list[UserWarning]) -> str:
    """Return warnings as the end of what a step says."""
    heads = {str(each): "" if isinstance(each, LittleGainWarning) else "warning: " for each in caught}
    return "".join(f"; {head}{text}" for text, head in heads.items())


# seconds in which a step's kernels are compiled, once on a machine, without groups and with them; only shown
COMPILING = {"build": (4, 6), "update": (4, 6), "sample": (2, 10), "certify": (1, 3)}
# passes that a step makes, about, without groups and with them; only shown
PASSES = {"build": (4, 12), "update": (4, 12), "sample": (1, 1), "certify": (1, 2)}
TRIES = 3  # of escalation, after the first
DRAWS, TUNE, MAX_DRAWS = 1000, 1000, 500  # the verbs' own defaults
CHAINS = 4
TIMED_FROM_ROWS = 10_000  # rows that a build has kept, below which they are sampled without asking how long that takes
_TIMED_NUMBERS = 2**17  # of the design matrix whose gradient is timed: fewer take mostly the call
_NUTS_GRADIENTS = 30  # gradients of a draw of NUTS, about
_LANGEVIN_GRADIENTS = 3  # of a draw, about: Langevin steps take as many, NUTS more
FAILURES = (RuntimeError, ArithmeticError, np.linalg.LinAlgError)  # of a posterior that is hard; others are bad input
TRY_ERRORS = (DataError, MemoryError, *FAILURES)  # of a try beyond the first, which lose that try alone

T = TypeVar("T")


@dataclass(frozen=True)
class FitOptions:
    """How a fit builds and samples at first: options of `fit`, checked when made.

    Parameters
    ----------
    draws, chains : int
        Draws kept of each chain, and chains.
    tune : int
        Draws of warm-up.
    sampler, method : str
        "auto", or a name that is kept.
    size : int or "auto"
        Rows of the coreset.
    """

    draws: int = DRAWS
    tune: int = TUNE
    chains: int = CHAINS
    sampler: str = AUTO
    method: str = AUTO
    size: int | str = AUTO

    def __post_init__(self) -> None:
        check_integer(self.draws, "draws", low=1)
        check_integer(self.chains, "chains", low=1)
        check_integer(self.tune, "tune", low=0)
        check_choice(self.sampler, "sampler", (AUTO, *SAMPLERS))
        check_choice(self.method, "method", METHODS)
        if self.size != AUTO:
            check_integer(self.size, "size", low=1)

    @property
    def build_options(self) -> dict[str, Any]:
        """The options of `build_coreset` that were given."""
        return {name: value for name, value in (("method", self.method), ("size", self.size)) if value != AUTO}


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
    options: FitOptions = field(default_factory=FitOptions)

    def __post_init__(self) -> None:
        self.seeds = [int(each) for each in np.random.SeedSequence(self.seed).generate_state(2 + 2 * TRIES)]
        options = self.options
        self.draws, self.tune, self.max_draws = options.draws, options.tune, MAX_DRAWS
        self.sampler = options.sampler
        self.core: Coreset
        self.drawn: Any = None
        self.certificate: Certificate
        self.seconds: dict[str, float] = {}  # of the last step of each kind, without what was compiled in it
        self.pace = Pace()
        self.kept: tuple[EarlierRows, ...] = ()
        self.effects: int | None = None  # groups whose draws of effects `collapsed` keeps, by default by their memory

    def run(self) -> None:
        """Go from the first build to draws that are certified, or to the end of what may be tried."""
        self.begin()
        self.sample_until_certified()
        self.keep()

    def begin(self) -> None:
        """Build the first coreset; all rows where that fails."""
        asked = self.options.build_options
        first = "as asked" if asked else "the default build"
        try:
            self.build("the rows are a coreset" if self.given.lossy else first, **asked)
        except FAILURES as error:
            if self.given.once or asked:
                raise
            self._fall_back(error)
        else:
            self._check_kept()

    def can_finish(self, error: BaseException) -> bool:
        """Whether a run that an error ended has finished what `finish` goes on from; a failure comes again."""
        return self.drawn is not None or ("core" in vars(self) and isinstance(error, KeyboardInterrupt))

    def finish(self) -> "Route":
        """Return the route after a run that was interrupted; its coreset is sampled where it has no draws."""
        if self.drawn is None:
            self.sample_until_certified()
            self.keep()
        elif "certificate" not in vars(self):
            self.certificate = refused(self.drawn, "The run was interrupted before the draws were checked.")
        return self

    def _fall_back(self, error: Exception) -> None:
        """Take all rows in place of a build that failed; raise if they would be too many, or take too long."""
        family = check_family(self.family or "logistic", seek=True)
        data = self.given.data
        rows = (
            Dataset(data.as_source()) if isinstance(data, Coreset) else self.given.undesigned(response=family.response)
        )
        n, D = rows.source.n_rows, rows.n_features + int(self.given.adds_intercept)
        refused = self._too_many(n, D)
        if not refused:
            part = next(iter(rows.blocks()))
            refused = self._too_long(part, family, n)
        if refused:
            raise RuntimeError(
                f"the default build failed ({error}), and {refused}: give more max_seconds, fewer rows, or a prior "
                "that says more"
            ) from error
        self._everything(f"the default build failed: {error}")

    def _check_kept(self) -> None:
        """Raise if a build has kept all of many rows, which would take too long to sample."""
        core = self.core
        if self.given.lossy or core.method != "multilevel" or not TIMED_FROM_ROWS <= core.n_total <= len(core):
            return
        refused = self._too_long(core, check_family(core.family), len(core))
        if refused:
            raise RuntimeError(
                f"the default build has kept all rows, as their groups are small, and {refused}: give more "
                "max_seconds, or fewer rows"
            )

    def _too_many(self, n: int, D: int) -> str:
        """Return why so many rows cannot be held in memory; empty if they can."""
        size = 8 * n * D
        return f"all {n:,} rows of {D:,} columns take {size / 1e9:.1f} GB of memory" if size > MAX_ROWS_BYTES else ""

    def _too_long(self, rows: WeightedData, family: Family, n: int) -> str:
        """Return why n rows are not sampled, by the time that some of them take; empty if they may be."""
        seconds = seconds_of(rows, n, family, self.draws + self.tune, self.options.chains)
        if seconds <= self.max_seconds:
            return ""
        return f"sampling all rows would take about {seconds:,.0f} s, more than max_seconds={self.max_seconds:g}"

    def sample_until_certified(self, *, strict: tuple[type[Exception], ...] = (), sampled: bool = False) -> None:
        """Sample the coreset, unless it was, and certify; try again as the certificate asks. `strict` are raised."""
        if not sampled:
            self.draw()
        self.certify(strict=strict)
        doubled = False
        for _ in range(TRIES):
            remedy = self.certificate.remedy
            if self.certificate.trusted or remedy is None:
                return
            last = self.core, self.drawn, self.certificate
            try:
                if remedy.need is Need.ROWS:
                    why, doubled = self._other_rows(doubled), True
                else:
                    why = self._more_draws(remedy)
                if why is None:
                    return
                if why:
                    self.sample(why)
                self.certify(strict=TRY_ERRORS)
            except BaseException as error:
                self.core, self.drawn, self.certificate = last
                if not isinstance(error, TRY_ERRORS):
                    raise
                self._stop(f"the next try failed, and draws and certificate are those before it: {error}")
                return

    def draw(self) -> None:
        """Sample the coreset as was asked for."""
        self.sample(self._sampling_text())

    def keep(self) -> None:
        """Keep what updates need of the rows, in one more pass; nothing where the coreset has it all."""
        certificate = self.certificate
        if not certificate.trusted or self.core.lossless or self.given.once:
            return
        self.kept = (self.earlier_rows_of(self.given.rows(self.core)),)

    def earlier_rows_of(self, rows: Dataset, share: float = 1.0) -> EarlierRows:
        """Return what is kept of rows near the draws that the fit hands over; one pass. See `EarlierRows.of`."""
        idata = self.drawn if self.certificate._idata is None else self.certificate._idata
        return EarlierRows.of(rows, self.core, read_posterior(idata, "idata").predictor(), share)

    def build(self, why: str, **options: Any) -> None:
        """Build a coreset."""
        with collected_warnings(gain="method" in options) as caught:
            self.core = self.timed(
                "build",
                lambda: self.given.build(family=self.family, random_state=self.next_seed(), **options),
                lambda core: (
                    core.n_total,
                    int(core.params.get("passes", 0)),
                    f"{why}: {coreset_text(core)}{warnings_text(caught)}",
                ),
            )

    def sample(self, why: str) -> None:
        """Draw from the coreset's posterior; warnings of chains are the certificate's to give."""
        asked: dict[str, Any] = {
            "prior": self.design_prior(),
            "progressbar": self.given.progressbar,
            "draws": self.draws,
            "tune": self.tune,
            "chains": self.options.chains,
            "sampler": self.sampler,
            "random_seed": self.next_seed(),
            **({} if self.group_prior is None else {"group_prior": self.group_prior}),
            **({} if self.effects is None or self.sampler not in (AUTO, "collapsed") else {"effects": self.effects}),
        }
        if self.sampler == "nuts" and self.core.group is not None and importlib.util.find_spec("nutpie") is not None:
            asked["nuts_sampler"] = "nutpie"

        def draw() -> Any:
            with warnings.catch_warnings():
                for text in ("the chains have not mixed", "the cap of max_gradients"):
                    warnings.filterwarnings("ignore", text, UserWarning)
                try:
                    return sample_as_tree(self.core, **asked)
                except FAILURES:
                    if self.options.sampler != AUTO:
                        raise
                    return sample_as_tree(self.core, **{**asked, "sampler": "nuts"})  # needs no mode

        self.drawn = self.timed("sample", draw, lambda _: (len(self.core), 0, why))
        self.sampler = str(self.drawn.posterior.attrs["sampler"])
        seconds = self.drawn.sample_stats.attrs.get("sampling_time")
        if self.sampler == "nuts" and seconds is not None:  # PyMC's own, without compiling
            self.seconds["sample"] = float(seconds)

    def certify(self, *, strict: tuple[type[Exception], ...] = ()) -> None:
        """Judge the draws by the full data; of errors, those of the kinds `strict` are raised, others are a refusal."""

        def judge() -> Certificate:
            if self.given.once and not self.core.lossless:
                return refused(self.drawn, self.given.why_unchecked)
            try:
                return self.given.certify(self.drawn, self.core, self.max_draws)
            except strict:
                raise
            except (DataError, *FAILURES) as error:
                return refused(self.drawn, f"The certificate could not be made: {error}.")

        self.certificate = self.timed(
            "certify", judge, lambda found: (self.core.n_total, found.n_passes, f"{found.level}: {found.text}")
        )

    def _more_draws(self, remedy: Remedy) -> str | None:
        """Plan more draws of the same coreset, and return why; empty if more of them are only weighed.

        None if nothing is left to do, or allowed.
        """
        now, chains = Length(self.draws, self.tune, self.max_draws), self.drawn.posterior.sizes["chain"]
        most = most_draws(self.core, chains, self.options.draws)
        may_use_nuts = self.sampler != "nuts" and self.options.sampler == AUTO
        if remedy.draws > most and self.core.group is not None and may_use_nuts:
            return self._nuts(most)
        if not (left := next_lengths(remedy, now, self.certificate.n_draws, chains, most)):
            return self._stop(none_left(remedy, now, most))
        seconds, each = first_affordable(self.max_seconds, left, now, self.seconds["sample"])
        if not self._in_time(seconds, f"{each.draws:,} draws a chain"):
            return None
        self.draws, self.tune, self.max_draws = each
        return f"{remedy.need}: {self._sampling_text()}" if each[:2] != now[:2] else ""  # else those there are weighed

    def _nuts(self, most: int) -> str | None:
        """Take NUTS where the sampler's chains hardly move, and return why; None if it may take too long."""
        core, why = self.core, f"NUTS, as {self.sampler!r} would take more than {most:,} draws a chain"
        many = core.n_total > TIMED_FROM_ROWS or self._too_many(core.n_total, core.n_features)
        whole = self.given.whole and not (core.lossless or self.given.once or many)
        rows = core.n_total if whole else len(core)
        iterations = self.options.draws + max(self.tune, TUNE)
        seconds = seconds_of(core, rows, check_family(core.family), iterations, self.options.chains)
        if not self._in_time(seconds * _NUTS_GRADIENTS / _LANGEVIN_GRADIENTS, why):
            return None
        if whole:
            self._everything("NUTS takes them where they are few")
        self.sampler, self.draws, self.tune = "nuts", self.options.draws, max(self.tune, TUNE)
        self.max_draws = self.options.chains * self.draws
        return why

    def _other_rows(self, doubled: bool) -> str | None:
        """Take a larger coreset, or all rows, and return why; None if there are none, or they may take too long."""
        core = self.core
        if core.lossless or not self.given.whole:
            return None
        if asked := self.options.build_options:
            text = ", ".join(f"{name}={value!r}" for name, value in asked.items())
            return self._stop(f"the certificate asks for another coreset: fit again with another {text}, or without")
        if doubled or core.group is not None or self.given.once or 2 * len(core) >= core.n_total:
            return self._all_rows(doubled)
        prior, size, why = self.design_prior(), min(2 * len(core), core.n_total), "twice the rows"
        asked = {"size": size, "method": "calibrated"}
        if core.method == "condensed":
            asked["size"], why = "auto", "rows of the data"
        if prior.closed_form and prior.unimodal:
            asked["prior"] = prior
        if not self._in_time(2.0 * sum(self.seconds.get(what, 0.0) for what in ("build", "sample", "certify")), why):
            return None
        self.build(why, **asked)
        return self._sampling_text()

    def _all_rows(self, doubled: bool) -> str | None:
        """Take all rows, and return why; None if they are too many, or may take too long."""
        n, D = self.core.n_total, self.core.n_features
        seconds = self.seconds["sample"] * n / len(self.core)
        if self.given.once:
            return self._stop("the rows came once")
        if self._too_many(n, D):
            return self._stop("all rows are too many to hold in memory")
        if not self._in_time(seconds, f"sampling all {n:,} rows"):
            return None
        why = "twice the rows were not enough" if doubled else "a larger coreset would be most of the rows"
        self._everything("groups leave no larger coreset" if self.core.group is not None else why)
        if self.sampler == "collapsed" and n <= TIMED_FROM_ROWS and self.options.sampler == AUTO:
            self.sampler = "joint"  # reads rows once where the other has nodes of each effect
        return f"{self._sampling_text()}; about {seconds:.0f} s were expected"

    def _everything(self, why: str) -> None:
        """Take all rows for the coreset."""
        family = self.family or "logistic"
        self.core = self.timed(
            "build", lambda: self.given.everything(family), lambda core: (len(core), 2, f"all rows: {why}")
        )

    def _in_time(self, seconds: float, what: str) -> bool:
        """Whether a step may be made by the time it will take; say so beforehand where that is long."""
        if seconds <= self.max_seconds:
            if self.given.progressbar and seconds > LONG:
                say(f"bayescore: {what} takes about {seconds:.0f} s")
            return True
        self._stop(f"{what} would take about {seconds:,.0f} s, more than max_seconds={self.max_seconds:g}")
        return False

    def _stop(self, why: str) -> str | None:
        """Add to the story why nothing else is tried; return None, no words of a next try."""
        self._add(Step("stop", len(self.core), 0, 0.0, why))
        return None

    def timed(self, what: str, work: Callable[[], T], described: Callable[[T], tuple[int, int, str]]) -> T:
        """Return the result of a step's work, and add the step to the story: time, rows, passes and text."""
        begin, formula, core = time.perf_counter(), self.given.formula, vars(self).get("core")  # none before a build
        grouped = core.groups if core else formula is not None and parsed(formula).groups
        about, passes = COMPILING[what][bool(grouped)], PASSES[what][bool(grouped)]

        def compiling() -> None:
            describe(f"{what}, compiling, once on this machine: about {about} s")

        shown = step(self.given.progressbar, what, passes=passes, pace=self.pace)
        with shown as describe, compilation(compiling) as compiled:
            result = work()
        seconds = time.perf_counter() - begin
        self.seconds[what] = max(seconds - compiled.seconds, 0.0)
        rows, passes, why = described(result)
        if compiled.seconds > 1.0:
            why += f" ({compiled.seconds:.0f} s of it compiling, once)"
        self._add(Step(what, rows, passes, seconds, why))
        return result

    def _add(self, done: Step) -> None:
        """Add a step to the story, and show it."""
        self.story.append(done)
        if self.given.progressbar:
            say(str(done))

    def next_seed(self) -> int:
        """Return the seed of the next step."""
        return self.seeds[sum(step.what in ("build", "sample", "update") for step in self.story) % len(self.seeds)]

    def _sampling_text(self) -> str:
        return f"{counted(self.options.chains, 'chain')} of {self.draws:,} draws"

    def design_prior(self) -> Prior:
        """Return the prior of the columns of the coreset."""
        if self.in_design is not None:
            return self.in_design
        prior = design_prior(self.prior, self.core.design, self._default() if needs_default(self.prior) else None)
        return with_bends(prior, self.core, self.prior, self.group_prior) if self.core.design.smooths else prior

    def _default(self) -> Prior:
        """Return the default prior of the coreset's columns: of a stream whose rows are there by all rows."""
        core, design, given = self.core, self.core.design, self.given
        is_in_design = core.numbers or design.given_others is not None or design.scale is not None
        if is_in_design or given.once or isinstance(given.data, Coreset):
            return default_prior(core)
        return prior_of_comoments(ComomentsTotal(counts=core.counts).of(given.rows(core)), design)


def usable_draws(drawn: Any, certificate: Certificate) -> Any:
    """Return the draws to use: corrected ones, or those drawn where there are none.

    Where all draws are certified as they are, and only some of them were weighed and corrected, all are used.
    """
    corrected = certificate._idata
    if corrected is None:
        return drawn
    varied = is_between_fits(corrected.posterior.attrs)  # which the draws of one size do not replace
    few = certificate.level == Level.CERTIFIED and has_fewer_draws(corrected, drawn) and not varied
    return drawn if few else corrected


_LEVELS = (Level.CERTIFIED, Level.CORRECTED, Level.NOT_CERTIFIED)  # from best to worst


def certificate_rank(certificate: Certificate) -> tuple[int, float]:
    """Return a key that sorts certificates from best to worst."""
    return _LEVELS.index(certificate.level), certificate.mean_bound


def refused(idata: Any, why: str) -> Certificate:
    """Return a certificate of draws that could not be held against the rows."""
    posterior = read_posterior(idata, "idata")
    groups = () if posterior.design is None or not posterior.terms else posterior.design.groups
    units = DataUnits(Design(posterior.features) if posterior.design is None else posterior.design)
    return Certificate(Level.NOT_CERTIFIED, why, bare_table(with_scales(posterior, groups), units))


def seconds_of(rows: WeightedData, n: int, family: Family, iterations: int, chains: int) -> float:
    """Return about how many seconds sampling n rows takes, by gradients of some that are like these.

    Fewer rows than that are repeated, as many as n where that is possible: of a few, a gradient is mostly its call.
    """
    family = family if family.complete else Gaussian(1.0)
    size = min(n, max(_TIMED_NUMBERS // rows.n_features, 1))
    part = rows.take(np.arange(size) % len(rows))
    target = posterior(part, family, Normal(0.0, 1.0))
    at, taken = np.zeros(rows.n_features), math.inf
    for _ in range(3):  # the first may compile
        begin = time.perf_counter()
        target.log_density(at)
        taken = min(taken, time.perf_counter() - begin)
    return chains * iterations * _LANGEVIN_GRADIENTS * taken * n / (size * min(chains, available_cores()))


def coreset_text(core: Coreset) -> str:
    """Return the kind and the size of a coreset in words."""
    sums = check_family(core.family).quadratic
    exact = "exact, as a normal likelihood is in sums" if sums else "exact, of few distinct rows"
    if core.method != "aggregate" and core.lossless:
        exact = "all rows as they are"
    kind = exact if core.lossless else f"{core.method!r}"
    return f"{kind}, {len(core):,} rows"


def route_of_draws(
    idata: Any, core: Coreset, given_rows: tuple[Any, Any], roles: Mapping[str, Any], *, model: Any, progressbar: bool
) -> Route:
    """Return the route whose last step is the certificate of draws; arguments as in `Fit.from_draws`."""
    data, y = given_rows
    if not isinstance(core, Coreset):
        raise TypeError(f"core is a {type(core).__name__}; give the coreset that the draws are of")
    if unknown := sorted(set(roles) - set(ROLES)):
        raise TypeError(f"{unknown[0]}={roles[unknown[0]]!r} is no role of a column; they are {', '.join(ROLES)}")
    if data is None and (extra := [name for name, value in {"y": y, **roles}.items() if value is not None]):
        raise TypeError(f"{extra[0]} is given and data is not: give the rows too, or neither")
    idata = idata if model is None else with_own_model_attrs(idata, core)
    posterior, prior = read_posterior(idata, "idata"), None
    story = posterior.story
    if story:
        prior = None if is_default(posterior.prior, core) else raw_prior(posterior.prior, core.design)
    elif model is None:
        raise DataError(
            "idata does not tell its prior; give what bayescore.sample returned for a coreset, or model=, the "
            "PyMC model that the draws are of"
        )
    if posterior.features != core.feature_names or (story and story["rows"] != core.rows_digest):
        raise DataError("idata is not of core's posterior; give the coreset that the draws are of")
    given = Given(core, progressbar=progressbar)
    if data is not None:
        given = rows_like(core, data, y, roles=dict(roles), progressbar=progressbar)
    begin = time.perf_counter()
    if given.lossy or (model is not None and core.groups):
        certificate = refused(idata, _UNCHECKED if given.lossy else _OWN_GROUPS)
    else:
        certificate = given.certify(idata, core, MAX_DRAWS, model)
    taken, why = time.perf_counter() - begin, f"{certificate.level}: {certificate.text}"
    route = Route(given, core.family, prior, 0, 600.0)
    route.core, route.drawn, route.certificate = core, idata, certificate
    route.story = [Step("certify", core.n_total, certificate.n_passes, taken, why)]
    route.keep()
    return route


_UNCHECKED = (
    "The draws were not checked: no rows were given, and the coreset misses a part of them. Give the rows, "
    "Fit.from_draws(idata, core, rows), or to this fit, fit.update(data=rows)."
)

_OWN_GROUPS = (
    "The draws were not checked: there is no certificate of a model of your own with effects of groups. Draws of "
    "sample(core), or of fit with a term (1 | g), have one."
)
