"""What golden cases see of a fit: print, summary, story, figures of its certificate, its page, all without times."""

import re
from dataclasses import fields as fields_of
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd

from tests.golden import view
from tests.golden.case import Fields

DIFFERENCES = 1e-8
"""What numbers of fits may be off: errors in sds are differences of close figures, of 3e-4 sd by 1.4e-9 of that."""

_COMPILED = re.compile(r" \(\d+ s of it compiling, once\)")
_SECONDS = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)? (s|seconds|ms|min)\b")
_VERSION = re.compile(r"(bayescore|PyMC|ArviZ|pymc|arviz) \d+\.[\w.]+")


def timeless(text: str) -> str:
    """Return text without seconds and versions."""
    return _VERSION.sub(r"\1 #", _SECONDS.sub(r"# \1", _COMPILED.sub("", text)))


def matrix(table: pd.DataFrame, name: str) -> Fields:
    """Return the numbers of a table as one array, each column compared at its own scale, and all else as text.

    R-hats have three digits: the two draws beside the median are as far from it, and a last bit says which is farther,
    which moves the R-hat of their ranks by up to 4e-5.
    """
    table = table.assign(
        **{column: table[column].map("{:.3f}".format) for column in table.columns if column == "r_hat"}
    )
    numeric = [column for column in table.columns if pd.api.types.is_numeric_dtype(table[column])]
    lines = [f"columns: {table.index.names}, {', '.join(map(str, table.columns))}"]
    counted = isinstance(table.index, pd.RangeIndex)
    lines.append(f"rows: {len(table) if counted else ', '.join(map(str, table.index.tolist()))}")
    for column in table.columns.difference(numeric, sort=False):
        lines.append(f"{column}: {', '.join(map(str, table[column]))}")
    about = [f"{key}: {value}" for key, value in sorted(table.attrs.items())]
    return {name: table[numeric].to_numpy(dtype=np.float64), f"{name} labels": [*lines, *about]}


def figures(certificate: Any) -> list[str]:
    """Return the numbers of a certificate in full."""
    known = ((each.name, getattr(certificate, each.name)) for each in fields_of(certificate))
    return [f"{name}: {value!r}" for name, value in known if isinstance(value, bool | int | float)]


def _short(value: Any) -> Any:
    """Return six digits of a number that a search ends at."""
    return f"{value:.6g}" if isinstance(value, float) else value


def printed(fit: Any) -> list[str]:
    """Return the lines that a fit prints above its table."""
    return repr(fit).partition("\n\n")[0].splitlines()


def of_fit(fit: Any) -> Fields:
    """Return print above the table but for the story's steps, summary, story, and the certificate's figures."""
    certificate, settings = (
        fit.certificate,
        [fit.level, fit.spread, str(fit.formula), str(fit.prior), str(fit.group_prior)],
    )
    spread = certificate.dispersion
    steps = {f"  {step}" for step in fit.story}
    shown = [timeless(line) for line in printed(fit) if line not in steps]
    tables = {"coordinates": certificate.coordinates, "effects": certificate.effects}
    return {
        "shown": shown,
        "settings": settings,
        "story": [f"{step.what}, {step.rows} rows, {step.passes} passes: {timeless(step.why)}" for step in fit.story],
        **matrix(fit.summary(), "summary"),
        "certificate about": figures(certificate),
        **({} if spread is None else {"dispersion": [f"{key}: {_short(each)}" for key, each in vars(spread).items()]}),
        **{key: value for name, table in tables.items() if len(table) for key, value in matrix(table, name).items()},
    }


def of_page(fit: Any) -> Fields:
    """Return the whole print and the text of the page of a fit, whose draws then have no time and no version."""
    for idata in (fit._drawn, fit.certificate.idata, fit._robust):
        if idata is not None:
            view.undated(idata)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        fit.report(path)
        lines = view.of_page(path)["text"]
    return {"page": list(map(timeless, lines)), "print": timeless(repr(fit)).splitlines()}
