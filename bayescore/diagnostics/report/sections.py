"""The sections of pages: each a frozen dataclass with its own data, and the template of its name.

A page is a list of sections; `page.render` puts them together. A new one is a class here and a template.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bayescore.diagnostics.health import Health
from bayescore.diagnostics.model_check import ModelCheck
from bayescore.diagnostics.results import Level
from bayescore.limits import FAMILYWISE_ALPHA, MAX_ERROR, MAX_FAILURE_PROBABILITY, NEGLIGIBLE_ERROR

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
class Verdict(Section):
    """The verdict of a certificate and its figures: cells are pairs, a value and its standard error or ""."""

    name: str
    certificate: Any
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
class Table(Section):
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
    prior_scale: str
    picture: Picture
    rows: Sequence[Mapping[Any, Any]]
    note: str


@dataclass(frozen=True, kw_only=True)
class Priors(Section):
    """The priors: coefficients, prior, and that in units of the data."""

    priors: Sequence[tuple[str, str, str]]
    prior_scale: str


@dataclass(frozen=True, kw_only=True)
class Fit(Section):
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
