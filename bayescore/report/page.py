"""What all HTML pages share: a page is a list of sections, each a template with its values.

`base.html.j2` holds the look, `pieces.html.j2` the tables; a page has no script and needs no network. `render` puts
sections together; a new one is a template. A value that it lacks is an error, see `environment`.

What the pictures of a comparison show: which coordinates, which candidates, and what is seen, in words.
"""

import base64
import io
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure
from numpy.typing import NDArray

from bayescore.diagnostics.results import ComparisonData, Level
from bayescore.limits import FAMILYWISE_ALPHA, MAX_ERROR, MAX_FAILURE_PROBABILITY, MAX_RHAT, MIN_ESS, NEGLIGIBLE_ERROR
from bayescore.text import counted, number, with_error
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


MAX_ROWS = 2000  # of all tables of coefficients together; beyond, each shows its WORST


WORST = 40


@cache
def environment() -> Environment:
    """Return the templates' environment: everything is escaped, a name left out is an error."""
    made = Environment(
        loader=PackageLoader("bayescore", "report/templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["repr"] = repr
    made.globals |= {
        "number": number,
        "with_error": with_error,
        "looks": LOOKS,
        "provenance": PROVENANCE,
        "max_rhat": MAX_RHAT,
        "min_ess": MIN_ESS,
        "versions": {"Python": platform.python_version()}
        | {name: version(name) for name in ("arviz", "numpy", "scipy")},
    }
    return made


def section(template: str, **values: Any) -> Markup:
    """Return a section of a page: the template of that name, such as "priors", with its values."""
    return Markup(environment().get_template(f"{template}.html.j2").render(values))


Cells = tuple[Sequence[str], Mapping[str, Sequence[str]]]
"""Labels of columns, and text by row."""


def table(key: str, heading: str, first: str, cells: Cells, **more: Any) -> Markup:
    """Return a section with a table whose `first` column names the rows, and what stands before and after it."""
    labels, rows = cells
    return section("table", key=key, heading=heading, first=first, labels=labels, rows=rows, **more)


def render(title: str, about: str, sections: Iterable[Markup]) -> str:
    """Return the page of some sections, in their order."""
    return environment().get_template("base.html.j2").render(title=title, about=about, sections=list(sections))


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
    others, total = counted(len(candidates(comparison)[0]), "candidate"), len(comparison.reference.features)
    shown, panels = (counted(min(total, limit), "coefficient") for limit in (MAX_COORDINATES, MAX_PANELS))
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
