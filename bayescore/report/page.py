"""What all HTML pages share: a page is a list of sections, each plain data and one template.

`base.html.j2` holds the look, `pieces.html.j2` the tables; a page has no script and needs no network.

The sections of pages: each a frozen dataclass with its own data, and the template of its name.

A page is a list of sections; `page.render` puts them together. A new one is a class here and a template.

What the pictures of a comparison show: which coordinates, which candidates, and what is seen, in words.
"""

import base64
import io
import platform
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure
from numpy.typing import NDArray

from bayescore.diagnostics.model_check import ModelCheck
from bayescore.diagnostics.results import ComparisonData, Health, Level
from bayescore.limits import FAMILYWISE_ALPHA, MAX_ERROR, MAX_FAILURE_PROBABILITY, MAX_RHAT, MIN_ESS, NEGLIGIBLE_ERROR
from bayescore.text import number, with_error
from bayescore.types import IntArray

# name in a posterior's attributes: label
PROVENANCE = {
    "family": "Likelihood",
    "prior": "Prior",
    "prior_scale": "The prior is of",
    "sampler": "Sampler",
    "random_seed": "Seed",
    "tuning_steps": "Warm-up",
    "inference_library": "Library",
    "inference_library_version": "Its version",
    "bayescore_version": "bayescore",
}


HEALTH_TERMS = {
    "R-hat": "How much the chains disagree with each other; 1 when they do not.",
    "ESS": "Effective sample size: independent draws that would tell as much of the centre (bulk) or the tails.",
}


# a level: the look of its line, and what it means
VERDICTS = {
    Level.INDISTINGUISHABLE: (
        "good",
        "No mean, sd or correlation is off by more than Monte Carlo error explains, over all coefficients together at "
        f"the {FAMILYWISE_ALPHA:.0%} level.",
    ),
    Level.CLOSE: (
        "fair",
        f"Differences are real, but every mean is within {NEGLIGIBLE_ERROR:g} sd and every sd within "
        f"{NEGLIGIBLE_ERROR:.0%}.",
    ),
    Level.DIFFERS: (
        "bad",
        f"Some mean, sd or correlation is off by more than {NEGLIGIBLE_ERROR:g} and by "
        f"more than Monte Carlo error explains.",
    ),
    Level.TOO_FEW_DRAWS: ("unknown", "Monte Carlo error is too large to tell."),
}


CERTIFICATES = {
    Level.CERTIFIED: (
        "good",
        "The draws can be used for the full data's posterior: the chance that any mean, sd or correlation is off by "
        f"more than {MAX_ERROR:g} (sds, relative, or of a correlation) is at most {MAX_FAILURE_PROBABILITY:g}, "
        "their own Monte Carlo "
        f"error included, and the coreset's part in that is within {NEGLIGIBLE_ERROR:g}.",
    ),
    Level.CORRECTED: (
        "fair",
        "The same holds of the corrected draws, Certificate.idata, not of the draws as they are.",
    ),
    Level.NOT_CERTIFIED: (
        "bad",
        "The draws are too few, or are not those of the coreset's posterior, or that posterior does not cover the full "
        "data's.",
    ),
}


LOOKS = {level: look for level, (look, _) in (VERDICTS | CERTIFICATES).items()}


def terms(levels: Mapping[Level, tuple[str, str]]) -> dict[str, str]:
    """Return the glossary of some levels."""
    return {level.capitalize(): meaning for level, (_, meaning) in levels.items()}


@dataclass(frozen=True)
class Picture:
    """A PNG as text, its width in CSS pixels, its caption, and words in its place."""

    caption: str
    alternative: str
    png: str
    width: int


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of a page with a heading."""

    @property
    def template(self) -> str:
        """Name of the template, that of the class: SamplerHealth has sampler_health.html.j2."""
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(self).__name__).lower() + ".html.j2"


@dataclass(frozen=True, kw_only=True)
class VerdictSection(Section):
    """The verdict of a certificate and its figures: cells are pairs, a value and its standard error or ""."""

    name: str
    headline: str
    certificate: Any
    checks_heading: str
    trouble: str
    labels: Sequence[str]
    cells: Sequence[tuple[str, str]]
    notes: str


@dataclass(frozen=True, kw_only=True)
class Facts(Section):
    """Plain text by label: the data that a coreset stands for, the glossary."""

    key: str
    heading: str
    facts: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class TableSection(Section):
    """A table of text, between words, and pictures below: coefficients in the data's units, effects of groups."""

    key: str
    heading: str
    first: str
    labels: Sequence[str]
    rows: Mapping[str, Sequence[str]]
    note: str
    warning: str = ""
    before: str = ""
    pictures: Sequence[Picture] = ()
    after: str = ""


@dataclass(frozen=True, kw_only=True)
class Coefficients(Section):
    """Own and corrected figures of each coordinate."""

    heading: str
    trusted: bool
    scaled: bool
    picture: Picture | None
    rows: Sequence[Mapping[Any, Any]]
    note: str


@dataclass(frozen=True, kw_only=True)
class Priors(Section):
    """The priors: coefficients, prior, and that in units of the data."""

    priors: Sequence[tuple[str, str, str]]
    prior_scale: str


@dataclass(frozen=True, kw_only=True)
class ModelCheckSection(Section):
    """Whether the model fits; no `fit` where the rows are pseudo-rows."""

    fit: ModelCheck | None
    picture: Picture | None
    rows: str
    share: str
    right: str
    note: str


@dataclass(frozen=True, kw_only=True)
class SamplerHealth(Section):
    """The state of the chains of each posterior."""

    health: Mapping[str, Health]


@dataclass(frozen=True, kw_only=True)
class CoresetFacts(Section):
    """What a coreset is, and the errors predicted for the sizes that its builder tried."""

    facts: Mapping[str, str]
    size_curves: Mapping[str, Sequence[Mapping[str, Any]]]


@dataclass(frozen=True, kw_only=True)
class Reproduce(Section):
    """How to repeat the page."""

    attrs: Mapping[str, Mapping[str, Any]]
    command: str | None
    snippet: str  # Markup


@dataclass(frozen=True, kw_only=True)
class Verdicts(Section):
    """The verdicts of a comparison; `short` has a line for each of many."""

    verdicts: Mapping[str, Any]
    counts: Mapping[Level, int]
    short: Mapping[str, Any]
    health: Mapping[str, Health]


@dataclass(frozen=True, kw_only=True)
class Certificates(Section):
    """Certificates of the candidates, and whether the reference agrees with what they predicted."""

    certificates: Mapping[str, Any]
    short: bool
    labels: Sequence[str]
    rows: Mapping[str, Sequence[tuple[str, str]]]
    agreement: str
    corrected: Mapping[str, tuple[Sequence[Mapping[Any, Any]], str]]


@dataclass(frozen=True, kw_only=True)
class Metrics(Section):
    """Errors against the reference."""

    labels: Sequence[str]
    rows: Mapping[str, Sequence[tuple[str, str]]]


@dataclass(frozen=True, kw_only=True)
class Plots(Section):
    """Pictures."""

    pictures: Sequence[Picture]


@dataclass(frozen=True, kw_only=True)
class Coresets(Section):
    """The candidates' coresets, a row for each."""

    coresets: Mapping[str, Mapping[str, str]]
    size_curves: Mapping[str, Sequence[Mapping[str, Any]]]


@dataclass(frozen=True, kw_only=True)
class Coordinates(Section):
    """Each coefficient beside the reference's, candidate by candidate."""

    coordinates: Mapping[str, tuple[Sequence[Mapping[Any, Any]], str]]


MAX_ROWS = 2000  # of all tables of coefficients together; beyond, each shows its WORST


WORST = 40


def environment() -> Environment:
    """Return the templates' environment: everything is escaped, a name left out is an error."""
    versions = Environment(
        loader=PackageLoader("bayescore", "report/templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    versions.filters["repr"] = repr
    versions.globals |= {
        "number": number,
        "with_error": with_error,
        "looks": LOOKS,
        "provenance": PROVENANCE,
        "max_rhat": MAX_RHAT,
        "min_ess": MIN_ESS,
        "versions": {"Python": platform.python_version()}
        | {name: version(name) for name in ("arviz", "numpy", "scipy")},
    }
    return versions


def render(title: str, about: str, sections: Iterable[Section]) -> str:
    """Return the page of some sections, in their order."""
    made = environment()
    parts = [made.get_template(each.template).render(vars(each)) for each in sections]
    return made.get_template("base.html.j2").render(title=title, about=about, sections=[Markup(part) for part in parts])


def code(template: str, **values: Any) -> Markup:
    """Return Python code for readers to run, by the template of that name."""
    return Markup(environment().get_template(f"{template}.py.j2").render(values))


def picture(caption: str, alternative: str, draw: Callable[..., Any], *shown: Any) -> Picture:
    """Return what `draw(figure, *shown)` draws, inside the page, with words for readers who do not see it."""
    draw(figure := Figure(), *shown)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=192, metadata={"Software": None})
    png = base64.b64encode(buffer.getvalue()).decode("ascii")
    return Picture(caption, alternative, png, round(96 * figure.get_figwidth()))


def worst(rows: pd.DataFrame, size: pd.Series, total: int, source: str) -> tuple[pd.DataFrame, str]:
    """Return the rows of the largest `size` and a note, where the page's `total` rows are too many to read."""
    if total <= MAX_ROWS or len(rows) <= WORST:
        return rows, ""
    order = np.argsort(-size.abs().to_numpy(), kind="stable")[:WORST]
    return rows.iloc[order], f"the {WORST} of {len(rows)} with the largest errors; {source} has all"


MAX_COORDINATES = 40


MAX_PANELS = 12


MAX_CANDIDATES = 8  # or one of each method, if these are more


def alternatives(comparison: ComparisonData) -> dict[str, str]:
    """Return in words what `mmd`, `forest` and `marginals` show, for readers who do not see them."""
    *values, floor = (number(value, 2) for value in comparison.metrics["mmd_whitened"])
    ranked = comparison.metrics["mmd_whitened"].to_numpy()[:-1].argsort(kind="stable")
    names = list(comparison.candidates)
    least, most = (f"{values[i]} ({names[i]})" for i in (ranked[0], ranked[-1]))
    count, total = len(candidates(comparison)[0]), len(comparison.reference.features)
    others = f"{count} candidate{'s' * (count > 1)}"
    shown, panels = (
        f"{min(total, limit)} coefficient{'s' * (min(total, limit) > 1)}" for limit in (MAX_COORDINATES, MAX_PANELS)
    )
    span = f"from {least} to {most}" if len(values) > 1 else f"{least}"
    return {
        "mmd": f"Whitened MMD of each candidate, {span}, on a log scale above the noise floor, {floor}",
        "forest": f"Means and 95% intervals of {shown}: the reference's, and below them those of {others}",
        "marginals": f"Posterior densities of {panels}: the reference's filled, those of {others} as lines",
    }


def coordinates(comparison: ComparisonData, limit: int, *, worst_first: bool = False) -> tuple[list[int], str]:
    """Return the places of the `limit` coordinates with the largest errors, and a note on what is left out."""
    table = comparison.coordinates
    names = list(comparison.reference.features)
    # rows of `coordinates` are candidate by candidate, features in the reference's order
    size = table[["mean_error_sd", "sd_error"]].abs().max(axis=1).to_numpy().reshape(-1, len(names)).max(axis=0)
    ranked = np.argsort(-size, kind="stable").tolist()
    if len(names) <= limit:
        return (ranked if worst_first else list(range(len(names)))), ""
    return ranked[:limit], f"the {limit} of {len(names)} coordinates with the largest errors"


def candidates(comparison: ComparisonData) -> tuple[list[str], str]:
    """Return the names of the candidates in pictures of coefficients, and a note on those left out."""
    names = list(comparison.candidates)
    sizes = np.array([int(posterior.coreset.get("size", 0)) for posterior in comparison.candidates.values()])
    places, several = of_each_method(comparison, MAX_CANDIDATES, -sizes)
    shown = [names[i] for i in places]
    if len(shown) == len(names):
        return shown, ""
    words = "of each method the largest" if several else "the largest" if sizes.any() else "the first"
    return shown, f"{len(shown)} of {len(names)} candidates, {words}"


def of_each_method(comparison: ComparisonData, limit: int, order: NDArray[Any]) -> tuple[IntArray, bool]:
    """Return the places of at most `limit` candidates, or one of each method, and whether there are several methods.

    Methods take turns, each with what is next by `order`, as long as a whole turn has room: so none is hidden by the
    many sizes of another.
    """
    methods = np.array([str(posterior.coreset.get("method", "")) for posterior in comparison.candidates.values()])
    turn = np.empty(len(methods), dtype=np.int64)
    for method in set(methods.tolist()):
        places = np.flatnonzero(methods == method)
        turn[places[np.argsort(order[places], kind="stable")]] = np.arange(len(places))
    counts = np.bincount(turn).cumsum()
    turns = max(1, int((counts <= limit).sum()))
    return np.flatnonzero(turn < turns), bool(counts[0] > 1)
