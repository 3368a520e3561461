"""The table of answers: of each public function, and each method of the classes it returns, what comes in and out."""

import inspect
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from numpydoc.docscrape import FunctionDoc

import bayescore as bc

CLASSES = (bc.Fit, bc.Coreset, bc.Certificate, bc.StreamingCoreset)
CHECKED = "ess_bulk, ess_tail, r_hat"
INTERVAL = "mean, sd, 2.5%, 97.5%"
# the columns of tables, which the docstrings describe in words; a test compares them with what comes back
COLUMNS = {
    "loo_compare": "rank, elpd_loo, se, elpd_diff, dse, diff_mcse, pareto_k, bad_k",
    "Fit.summary": f"{INTERVAL}, {CHECKED}",
    "Fit.predict": INTERVAL,
    "Fit.average_predictions": f"(columns of by or variables), {INTERVAL}, sampling_se",
    "Fit.comparisons": f"contrast, (columns of by), {INTERVAL}, P(>0), sampling_se",
    "Fit.slopes": f"contrast, (columns of by), {INTERVAL}, P(>0), sampling_se",
    "Fit.effects": f"{INTERVAL}, rank, rank 2.5%, rank 97.5%",
    "Fit.icc": f"{INTERVAL}, {CHECKED}",
    "Fit.check": "(columns of by), predicted, observed, 2.5%, 97.5%, outside",
    "Fit.prior_summary": "prior, in_data_units",
    "Fit.prior_sensitivity": f"scale, parameter, {INTERVAL}, shift, by, pareto_k, level",
    "Fit.poststratify": f"{INTERVAL}, weight",
    "Coreset.to_frame": "(columns of the design), (label), weight",
    "Coreset.to_counts": "(columns of the design), successes, failures",
}


class Answer(NamedTuple):
    """A public function or method: what it takes, the type it returns, a table's columns, in brackets any number."""

    name: str
    role: str
    takes: str
    returns: str
    columns: str


def public() -> Iterator[tuple[str, Any]]:
    """Yield the names and functions of the table: of the top level first, then the methods of each class."""
    for name in sorted(bc.__all__):
        thing = getattr(bc, name)
        if inspect.isfunction(thing):
            yield name, thing
    for kind in CLASSES:
        for name in sorted(vars_of(kind)):
            thing = getattr(kind, name)
            if not name.startswith("_") and callable(thing) and not isinstance(thing, type):
                yield f"{kind.__name__}.{name}", thing


def vars_of(kind: type) -> set[str]:
    """Return the names of the methods that a class has by itself or from the package."""
    return {
        name
        for base in kind.__mro__
        if base.__module__.startswith("bayescore")
        for name, thing in vars(base).items()
        if isinstance(thing, classmethod | staticmethod) or inspect.isfunction(thing)
    }


def takes(thing: Any) -> str:
    """Return the names of parameters, with a mark before those that are given by name alone."""
    names, by_name = [], False
    for parameter in inspect.signature(thing).parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not by_name:
            names, by_name = [*names, "by name:"], True
        names.append(
            {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "") + parameter.name
        )
    return ", ".join(names).replace("by name:,", "by name:").replace(", by name:", "; by name:") or "nothing"


def returns(name: str, thing: Any) -> str:
    """Return the type of what comes back: as the docstring says, or as the signature does."""
    if said := FunctionDoc(thing)["Returns"]:
        return str(said[0].type).partition(",")[0]
    kind = inspect.signature(thing).return_annotation
    shown = kind if isinstance(kind, str) else getattr(kind, "__name__", str(kind))
    shown = str(shown).strip('"').rpartition(".")[2]
    return {"Self": name.partition(".")[0], "FloatArray": "array", "ndarray": "array"}.get(shown, shown)


def answers() -> list[Answer]:
    """Return the rows of the table."""
    return [
        Answer(name, "meth" if "." in name else "func", takes(thing), returns(name, thing), COLUMNS.get(name, ""))
        for name, thing in public()
    ]


def page() -> str:
    """Return the table in Markdown."""
    lines = ["| name | takes | returns |", "|---|---|---|"]
    for each in answers():
        columns = f": {each.columns}" if each.columns else ""
        link = f"{{{each.role}}}`{each.name} <bayescore.{each.name}>`"
        given = re.sub(r"([*_])", r"\\\1", each.takes)
        lines.append(f"| {link} | {given} | {each.returns}{re.sub('_', chr(92) + '_', columns)} |")
    return "\n".join(lines) + "\n"
