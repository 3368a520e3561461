"""The report of a comparison: one HTML file, no network, readable on screen and on paper.

Verdicts first, then numbers with their Monte Carlo errors, pictures, what the coresets and the chains were, and how
to repeat it. `report.html.j2` holds the order and the look; this module prepares what it shows.
"""

import base64
import io
import platform
from collections import Counter
from collections.abc import Callable, Hashable
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from jinja2 import Environment, StrictUndefined
from matplotlib.figure import Figure

from bayescore.diagnostics import plots
from bayescore.diagnostics.draws import Posterior
from bayescore.diagnostics.wording import number, with_error
from bayescore.validation import whole_file

if TYPE_CHECKING:
    from bayescore.diagnostics.compare import Comparison

# name: label, factor to the label's unit, meaning
METRICS: dict[str, tuple[str, float, str]] = {
    "mmd_whitened": (
        "MMD, whitened",
        1.0,
        "Distance between the two sets of draws over all moments up to the third, in the reference's own scale; "
        "its ± takes that scale as known, and is too small where the distance is large.",
    ),
    "mmd": ("MMD", 1.0, "The same in the units of the coefficients; comparable within this report only."),
    "mean_error_sd": ("Mean (sd)", 1.0, "Largest error of a posterior mean, in reference sds."),
    "sd_error": ("Sd (%)", 100.0, "Largest relative error of a posterior sd."),
    "correlation_error": ("Correlation", 1.0, "Largest error of a posterior correlation."),
    "tail_error_sd": ("Tails (sd)", 1.0, "Largest error of a 2.5% or 97.5% quantile, in reference sds."),
    "nll": (
        "Test NLL",
        1.0,
        "Mean negative log predictive density of the test rows, in nats per row; the last row is the reference's.",
    ),
}
_MAX_ROWS = 2000
_WORST = 40
_PROVENANCE = {
    "likelihood": "Likelihood",
    "prior": "Prior",
    "sampler": "Sampler",
    "random_seed": "Seed",
    "tuning_steps": "Warm-up",
    "inference_library": "Library",
    "inference_library_version": "Its version",
    "bayescore_version": "bayescore",
}


def write_report(
    comparison: "Comparison", path: str | Path, *, title: str = "Posterior comparison", command: str | None = None
) -> None:
    """Write the report to `path`, replacing a file of that name only once the new one is complete.

    Parameters
    ----------
    comparison : Comparison
        What `compare` returned.
    path : str or Path
        The HTML file.
    title : str
        Heading of the page.
    command : str, optional
        Command line that repeats the comparison.

    Raises
    ------
    OSError
        If the file cannot be written; an earlier file of that name is then untouched.
    """
    with whole_file(path) as partial:
        partial.write_text(_render(comparison, Path(path).name, title, command), encoding="utf-8")


def as_text(comparison: "Comparison") -> str:
    """Return the verdicts and metrics as plain text."""
    lines = [f"  {name}: {verdict.level}. {verdict.text}" for name, verdict in comparison.verdicts.items()]
    return "\n".join([f"Comparison of {_scope(comparison)}", *lines, "", _frame(comparison).to_string()])


def as_fragment(comparison: "Comparison") -> str:
    """Return the verdicts and metrics as HTML for a notebook."""
    template = (
        "<div><p>Comparison of {{ scope }}</p><ul>{% for name, verdict in verdicts.items() %}"
        "<li><strong>{{ name }}: {{ verdict.level }}.</strong> {{ verdict.text }}</li>{% endfor %}</ul></div>"
    )
    words = _environment().from_string(template).render(scope=_scope(comparison), verdicts=comparison.verdicts)
    return words + _frame(comparison).to_html(border=0)


def _environment() -> Environment:
    return Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


def _render(comparison: "Comparison", file_name: str, title: str, command: str | None) -> str:
    template = _environment().from_string((files(__package__) / "report.html.j2").read_text(encoding="utf-8"))
    shown = [name for name in METRICS if name in comparison.metrics]
    everyone = {"reference": comparison.reference, **comparison.candidates}
    return template.render(
        title=title,
        scope=_scope(comparison),
        counts=Counter(verdict.level for verdict in comparison.verdicts.values()),
        verdicts=comparison.verdicts,
        health=comparison.health,
        metrics={name: METRICS[name] for name in shown},
        metric_rows=_metric_rows(comparison, shown),
        pictures=[
            ("MMD", _picture(plots.mmd, comparison), "Whitened MMD of each candidate and the noise floor"),
            ("Coefficients", _picture(plots.forest, comparison), "Means and 94% intervals of each coefficient"),
            ("Marginal densities", _picture(plots.marginals, comparison), "Marginal densities of the coefficients"),
        ],
        coresets={name: _coreset(posterior) for name, posterior in comparison.candidates.items() if posterior.coreset},
        coordinates=_coordinates(comparison.coordinates),
        provenance=_PROVENANCE,
        attrs={name: posterior.attrs for name, posterior in everyone.items()},
        versions={
            "Python": platform.python_version(),
            **{name: version(name) for name in ("arviz", "numpy", "scipy")},
        },
        command=command,
        snippet=_snippet(comparison, file_name),
        number=number,
        with_error=with_error,
    )


def _scope(comparison: "Comparison") -> str:
    count = len(comparison.candidates)
    chains, draws, features = comparison.reference.draws.shape
    return (
        f"{count} candidate{'s' * (count > 1)} with a reference of {chains} chain{'s' * (chains > 1)} of {draws:,} "
        f"draws, {features} coefficient{'s' * (features > 1)}"
    )


def _metric_rows(comparison: "Comparison", shown: list[str]) -> dict[str, list[tuple[str, str]]]:
    return {
        str(name): [
            with_error(METRICS[metric][1] * row[metric], METRICS[metric][1] * row[f"{metric}_mcse"]) for metric in shown
        ]
        for name, row in comparison.metrics.iterrows()
    }


def _frame(comparison: "Comparison") -> pd.DataFrame:
    shown = [name for name in METRICS if name in comparison.metrics]
    rows = _metric_rows(comparison, shown)
    cells = [[f"{value} ± {error}" if error else value for value, error in row] for row in rows.values()]
    return pd.DataFrame(cells, index=list(rows), columns=[METRICS[name][0] for name in shown])


def _picture(draw: Callable[[Figure, "Comparison"], Any], comparison: "Comparison") -> dict[str, Any]:
    figure = Figure()
    draw(figure, comparison)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=192, metadata={"Software": None})
    return {"png": base64.b64encode(buffer.getvalue()).decode("ascii"), "width": round(96 * figure.get_figwidth())}


def _coreset(posterior: Posterior) -> dict[str, str]:
    about, weights = posterior.coreset, posterior.weights
    size, n_total = about.get("size"), about.get("n_total")
    params = about.get("params") or {}
    row = {
        "Method": str(about.get("method", "–")),
        "Rows": "–" if size is None else f"{size:,}",
        "Share": "–" if size is None or not n_total else f"{number(100 * size / n_total, 2)}%",
        "Weight ESS": "–",
        "Largest weights": "–",
        "Sum of weights": "–",
        "Data rows": "–" if n_total is None else f"{n_total:,}",
        "Seed": str(about.get("random_state", "–")),
        "Parameters": ", ".join(f"{key} = {_short(value)}" for key, value in params.items()) or "–",
    }
    if weights is not None and len(weights):
        total = float(weights.sum())
        row["Weight ESS"] = f"{total**2 / float((weights**2).sum()):,.1f}"
        row["Largest weights"] = ", ".join(f"{100 * w / total:.2g}%" for w in np.sort(weights)[::-1][:3])
        row["Sum of weights"] = f"{total:,.6g}"
    return row


def _short(value: object) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 60 else text[:59] + "…"


def _coordinates(table: pd.DataFrame) -> dict[str, tuple[list[dict[Hashable, Any]], str]]:
    shown = {}
    for name, rows in table.groupby("candidate", sort=False):
        note = ""
        if len(table) > _MAX_ROWS and len(rows) > _WORST:
            size = rows[["mean_error_sd", "sd_error"]].abs().max(axis=1)
            note = f"the {_WORST} of {len(rows)} with the largest errors; Comparison.coordinates has all"
            rows = rows.loc[size.sort_values(ascending=False).index[:_WORST]]
        shown[str(name)] = (rows.to_dict(orient="records"), note)
    return shown


def _snippet(comparison: "Comparison", file_name: str) -> str:
    names = list(comparison.candidates)
    listed = "\n".join(f"    {name!r}: az.from_netcdf({f'{name}.nc'!r})," for name in names[:5])
    more = f"\n    # and {len(names) - 5} more" if len(names) > 5 else ""
    test = ", test=test" if "nll" in comparison.metrics else ""
    return (
        "import arviz as az\nimport bayescore as bc\n\n"
        f"candidates = {{\n{listed}{more}\n}}\n"
        'reference = az.from_netcdf("reference.nc")\n'
        f"comparison = bc.compare(candidates, reference{test}, max_draws={comparison.max_draws})\n"
        f"comparison.to_html({file_name!r})\n"
    )
