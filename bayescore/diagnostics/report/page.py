"""What all HTML pages share: a page is a list of sections, each plain data and one template.

`base.html.j2` holds the look, `pieces.html.j2` the tables; a page has no script and needs no network.
"""

import base64
import io
import platform
from collections.abc import Callable, Iterable
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure

from bayescore.diagnostics.formatting import number, with_error
from bayescore.diagnostics.report.sections import LOOKS, PROVENANCE, Picture, Section
from bayescore.limits import MAX_RHAT, MIN_ESS

MAX_ROWS = 2000  # of all tables of coefficients together; beyond, each shows its WORST
WORST = 40


def environment() -> Environment:
    """Return the templates' environment: everything is escaped, a name left out is an error."""
    found = Environment(
        loader=PackageLoader("bayescore", "diagnostics/report/templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters["repr"] = repr
    found.globals |= {
        "number": number,
        "with_error": with_error,
        "looks": LOOKS,
        "provenance": PROVENANCE,
        "max_rhat": MAX_RHAT,
        "min_ess": MIN_ESS,
        "versions": {"Python": platform.python_version()}
        | {name: version(name) for name in ("arviz", "numpy", "scipy")},
    }
    return found


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
