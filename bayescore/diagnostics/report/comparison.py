"""The report of a comparison: one HTML file, no network, readable on screen and on paper.

Verdicts first, then numbers with their Monte Carlo errors, pictures, what the coresets and the chains were, and how to
repeat it.
"""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from bayescore.diagnostics.formatting import number, with_error
from bayescore.diagnostics.report import chosen, facts, page, plots, sections, tables
from bayescore.diagnostics.results import CertificateData, ComparisonData
from bayescore.files import whole_file

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
LISTED = 4  # candidates whose verdicts are read as sentences; of more a table comes first
NOISE_FLOOR = "The same metrics between halves of the reference's chains, scaled to two runs of full length."


def write_report(
    comparison: ComparisonData,
    path: str | Path,
    *,
    certificates: Mapping[str, CertificateData] | None = None,
    title: str = "Posterior comparison",
    command: str | None = None,
) -> None:
    """Write the report to `path`, replacing a file of that name only once the new one is complete.

    Of candidates with `certificates`, it shows what each predicted beside the errors against the reference. `title` is
    its heading, `command` a command line that repeats it.
    """
    certified = tables.check_certificates(certificates or {}, comparison)
    with whole_file(path) as partial:
        parts = _sections(comparison, certified, Path(path).name, command)
        partial.write_text(page.render(title, f"Comparison of {_scope(comparison)}.", parts), encoding="utf-8")


def as_text(comparison: ComparisonData) -> str:
    """Return the verdicts and metrics as plain text."""
    lines = [f"  {name}: {verdict.level}. {verdict.text}" for name, verdict in comparison.verdicts.items()]
    return "\n".join([f"Comparison of {_scope(comparison)}", *lines, "", _frame(comparison).to_string()])


def as_fragment(comparison: ComparisonData) -> str:
    """Return the verdicts and metrics as HTML for a notebook."""
    template = (
        "<div><p>Comparison of {{ scope }}</p><ul>{% for name, verdict in verdicts.items() %}"
        "<li><strong>{{ name }}: {{ verdict.level }}.</strong> {{ verdict.text }}</li>{% endfor %}</ul></div>"
    )
    words = page.environment().from_string(template).render(scope=_scope(comparison), verdicts=comparison.verdicts)
    return words + _frame(comparison).to_html(border=0)


def _sections(
    comparison: ComparisonData, certificates: dict[str, CertificateData], file_name: str, command: str | None
) -> Iterator[sections.Section]:
    shown = [name for name in METRICS if name in comparison.metrics]
    everyone = {"reference": comparison.reference, **comparison.candidates}
    short = _short(comparison, certificates) if len(comparison.verdicts) > LISTED else {}
    counts = Counter(verdict.level for verdict in comparison.verdicts.values())
    yield sections.Verdicts(verdicts=comparison.verdicts, counts=counts, short=short, health=comparison.health)
    first = next((own for own in everyone.values() if own.coreset), None)
    if first is not None and (data := facts.data_facts(first.coreset, first.positive)):
        yield sections.Facts(key="data", heading="Data", facts=data)
    if certificates:
        yield tables.section(comparison, certificates, short=bool(short))
    yield sections.Metrics(labels=[METRICS[name][0] for name in shown], rows=_metric_rows(comparison, shown))
    yield sections.Plots(pictures=_pictures(comparison))
    coresets = {name: own for name, own in comparison.candidates.items() if own.coreset}
    if coresets:
        curves = {name: curve for name, own in coresets.items() if (curve := facts.size_curve(own.coreset))}
        rows = {name: facts.coreset_facts(own.coreset, own.weights) for name, own in coresets.items()}
        for name, own in coresets.items():
            listed = ", ".join(f"{key} = {value}" for key, value in facts.parameters(own.coreset).items())
            rows[name]["Parameters"] = listed or "–"
        yield sections.Coresets(coresets=rows, size_curves=curves)
    yield sections.SamplerHealth(health=comparison.health)
    yield sections.Coordinates(coordinates=_coordinates(comparison.coordinates))
    again = page.code(
        "compare_again",
        candidates=list(comparison.candidates),
        certificates=list(certificates),
        test="nll" in comparison.metrics,
        max_draws=comparison.max_draws,
        file_name=file_name,
    )
    yield sections.Reproduce(
        attrs={name: posterior.attrs for name, posterior in everyone.items()}, command=command, snippet=again
    )
    terms = {METRICS[name][0]: METRICS[name][2] for name in shown} | {"Noise floor": NOISE_FLOOR}
    terms |= sections.terms(sections.VERDICTS)
    if certificates:
        terms |= tables.meanings(tables.figures_of(())) | tables.AGREEMENT | sections.terms(sections.CERTIFICATES)
    yield sections.Facts(key="glossary", heading="Glossary", facts=terms | sections.HEALTH_TERMS)


def _scope(comparison: ComparisonData) -> str:
    count = len(comparison.candidates)
    chains, draws, features = comparison.reference.draws.shape
    return (
        f"{count} candidate{'s' * (count > 1)} with a reference of {chains} chain{'s' * (chains > 1)} of {draws:,} "
        f"draws, {features} coefficient{'s' * (features > 1)}"
    )


def _short(comparison: ComparisonData, certificates: dict[str, CertificateData]) -> dict[str, dict[str, Any]]:
    """Return for each candidate what one line of a table says: levels, and the errors that decide."""
    return {
        name: {
            "levels": [verdict.level, *([getattr(certificates.get(name), "level", "")] if certificates else [])],
            "errors": [
                number(METRICS[metric][1] * float(comparison.metrics[metric][name]), 2)
                for metric in ("mean_error_sd", "sd_error", "correlation_error")
            ],
        }
        for name, verdict in comparison.verdicts.items()
    }


def _pictures(comparison: ComparisonData) -> list[sections.Picture]:
    """Return the pictures, that of the model's fit to the test rows among them if there are any."""
    seen = chosen.alternatives(comparison)
    found = [
        page.picture("MMD", seen["mmd"], plots.mmd, comparison),
        page.picture("Coefficients", seen["forest"], plots.forest, comparison),
        page.picture("Marginal densities", seen["marginals"], plots.marginals, comparison),
    ]
    if comparison.fit is not None:
        design = comparison.reference.design
        classes = (-1, 1) if design is None or design.classes is None else design.classes
        share, predicted, right = facts.words_of_fit(classes, test=True)
        words = f"Left, the {share} among test rows against the reference's predicted {predicted}; "
        words += f"right, histograms {right}"
        caption = "Does the model fit the test rows?"
        found.append(page.picture(caption, words, plots.model_check, comparison.fit, classes))
    return found


def _metric_rows(comparison: ComparisonData, shown: list[str]) -> dict[str, list[tuple[str, str]]]:
    return {
        str(name): [
            with_error(METRICS[metric][1] * row[metric], METRICS[metric][1] * row[f"{metric}_mcse"]) for metric in shown
        ]
        for name, row in comparison.metrics.iterrows()
    }


def _frame(comparison: ComparisonData) -> pd.DataFrame:
    shown = [name for name in METRICS if name in comparison.metrics]
    rows = _metric_rows(comparison, shown)
    cells = [[f"{value} ± {error}" if error else value for value, error in row] for row in rows.values()]
    return pd.DataFrame(cells, index=list(rows), columns=[METRICS[name][0] for name in shown])


def _coordinates(table: pd.DataFrame) -> dict[str, tuple[list[dict[Hashable, Any]], str]]:
    shown = {}
    for name, rows in table.groupby("candidate", sort=False):
        size = rows[["mean_error_sd", "sd_error"]].abs().max(axis=1)
        rows, note = page.worst(rows, size, len(table), "Comparison.coordinates")
        shown[str(name)] = (rows.to_dict(orient="records"), note)
    return shown
