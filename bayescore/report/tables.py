r"""A certificate's figures as text: for the page of its own and for its section in a report of a comparison.

What coresets, data and repeating a page are, as text by label: the plain facts of sections.

Was a certificate right? What it predicted, and whether a reference agrees.

For each coefficient the predicted and the measured error of the mean, and

.. math:: z = (\mathrm{predicted} - \mathrm{measured}) / \mathrm{se},

se their two standard errors together; they agree where no |z| exceeds the Sidak quantile of all coefficients.
Use it where a reference was sampled after all.
"""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from markupsafe import Markup

from bayescore.data.design import Design, Grouping, one_intercept
from bayescore.data.responses import ABOVE, POSITIVE, TIMED, response_of
from bayescore.diagnostics.model_check import ModelCheck
from bayescore.diagnostics.results import CertificateData, ComparisonData, Level, Verdict
from bayescore.families.family import find_family
from bayescore.limits import ENDS, MAX_K, PROB
from bayescore.numerics.moments import sidak_quantile
from bayescore.report import page
from bayescore.samplers.posterior import Posterior
from bayescore.samplers.summaries import prior_table
from bayescore.text import counted, first_difference, listed, number, with_error
from bayescore.types import FloatArray
from bayescore.validation import DataError


def beside_reference(certificate: CertificateData, verdict: Verdict) -> CertificateData:
    """Return the certificate as a comparison shows it: a reference that shows a large error overrules it."""
    if certificate.level != Level.CERTIFIED or verdict.level != Level.DIFFERS:
        return certificate
    text = f"Certified without the reference, which shows a larger error: see the verdict. {certificate.text}"
    return certificate._with(level=Level.NOT_CERTIFIED, text=text, mean_bound=math.nan)


def predicted_error(certificate: CertificateData) -> tuple[float, float]:
    """Return the largest predicted error of a mean, in sds, and its Monte Carlo standard error.

    Largest when two standard errors are added.
    """
    errors = certificate.coordinates[["mean_error_sd", "mean_error_sd_mcse"]].abs().dropna().to_numpy()
    if not len(errors):  # no coordinate has a mean
        return math.nan, math.nan
    error, mcse = errors[int(np.argmax(errors @ [1.0, 2.0]))]
    return float(error), float(mcse)


def agreement(certificate: CertificateData, measured: pd.DataFrame) -> bool | None:
    """Return whether the predicted errors of the means are the measured ones but for Monte Carlo error.

    Exact predictions disagree with probability `limits.FAMILYWISE_ALPHA`. None where the certificate is not to be
    trusted. `measured` are the candidate's rows of `Comparison.coordinates`, its errors in sds of the reference.
    """
    if not certificate.trusted:
        return None
    table = certificate.coordinates.loc[measured["feature"]]
    unit = measured["sd"].to_numpy() / measured["reference_sd"].to_numpy()
    has_mean = table["mean_error_sd"].notna().to_numpy()  # a coordinate without a mean has no error of it
    gap = unit * table["mean_error_sd"].to_numpy() - measured["mean_error_sd"].to_numpy()
    spread = np.hypot(unit * table["mean_error_sd_mcse"].to_numpy(), measured["mean_error_sd_mcse"].to_numpy())
    return bool((np.abs(gap) <= sidak_quantile(len(table)) * spread)[has_mean].all())


_NAMED = 8  # names in a cell


class Figure(NamedTuple):
    """A figure of certificates: what tables call it, what it means, its text and standard error, and which have it."""

    label: str
    meaning: str
    text: Callable[[CertificateData], tuple[str, str]]
    shown: Callable[[tuple[Grouping, ...]], bool] = lambda _: True


def _worst_effect(column: str, certificate: CertificateData) -> tuple[str, str]:
    errors = certificate.effects[column].abs()
    if errors.empty:
        return "–", ""
    largest = float(errors.max())
    return number(100.0 * float(np.expm1(largest)) if column.startswith("log") else largest, 2), ""


# the hyphen of k-hat is one that no line breaks at
FIGURES = (
    Figure(
        "Pareto k‑hat",
        "How heavy the tail of the importance weights is that turn the coreset's draws into draws given the full data. "
        f"Below {MAX_K} corrected figures can be trusted.",
        lambda own: (number(own.pareto_k, 2), ""),
    ),
    Figure(
        "ESS of draws",
        "Effective sample size of those weights, of the draws weighed: how many the correction leaves.",
        lambda own: ("–" if math.isnan(own.ess) else f"{own.ess:,.0f} of {own.n_draws:,}", ""),
    ),
    Figure(
        "Realised epsilon",
        "Largest |L − L̃| / |L| over the draws; L is the full data's log-likelihood, L̃ the coreset's.",
        lambda own: (number(own.epsilon, 2), ""),
        lambda groups: not groups,
    ),
    Figure(
        "Sd of log ratio",
        "Standard deviation of the log weights: how far the two posteriors are apart. Without group terms it is what "
        "the affine map to the full posterior's mode and scale leaves; effects of (1 | g) are integrated out.",
        lambda own: (number(own.log_ratio_sd, 2), ""),
    ),
    Figure(
        "Predicted error (sd)",
        "Own mean minus corrected mean, in sds of the coreset's posterior, predicted without a posterior of the full "
        "data; ± is the standard error of the prediction given the draws; their own Monte Carlo error is not in it. In "
        "the table of certificates, the largest.",
        # of what cannot be trusted a figure would look like one to rely on
        lambda own: with_error(*predicted_error(own)) if own.trusted else ("–", ""),
    ),
    Figure(
        "Worst effect's mean (sd)",
        "Largest error of the mean of a group's effect, in sds of that effect.",
        partial(_worst_effect, "mean_error_sd"),
        bool,
    ),
    Figure(
        "Worst effect's sd (%)",
        "Largest relative error of the sd of a group's effect.",
        partial(_worst_effect, "log_sd_error"),
        bool,
    ),
    Figure(
        "Full-data elpd",
        "Expected log predictive density of as many new rows as the full data have, in nats, estimated leave-one-out; "
        "± is one standard error over rows. A dash where the weights cannot be trusted.",
        lambda own: with_error(own.elpd_loo, own.elpd_loo_se),
        lambda groups: not one_intercept(groups),
    ),
    Figure(
        "elpd, groups left out",
        "Expected log predictive density of as many new groups as the full data have, in nats, estimated by leaving "
        "one group out at a time; ± is one standard error over groups. A dash where the weights cannot be trusted.",
        lambda own: with_error(own.elpd_logo, own.elpd_logo_se),
        one_intercept,
    ),
)


def figures_of(groups: tuple[Grouping, ...]) -> list[Figure]:
    """Return the figures of certificates of a model with these group terms."""
    return [figure for figure in FIGURES if figure.shown(groups)]


def meanings(figures: Sequence[Figure]) -> dict[str, str]:
    """Return the glossary of some figures."""
    return {figure.label: figure.meaning for figure in figures}


# of a comparison, beside FIGURES
AGREEMENT = {
    "Measured error (sd)": "Largest error of a mean against the reference, in sds of the reference: what the "
    "certificate predicted without it.",
    "Agree": "Whether the predicted errors of all means are the measured ones but for Monte Carlo error, at the 1% "
    "level.",
}


def check_certificates(certificates: object, comparison: ComparisonData) -> dict[str, CertificateData]:
    """Return the certificates in the candidates' order; raise unless each is one of a candidate's."""
    if not isinstance(certificates, Mapping):
        raise TypeError(f"certificates is of type {type(certificates).__name__}; give a dict of them by candidate")
    for name, certificate in certificates.items():
        if name not in comparison.candidates:
            raise ValueError(
                f"certificates has the name {name!r}, which is no candidate; the candidates are "
                f"{', '.join(map(repr, comparison.candidates))}"
            )
        check_certificate(certificate, comparison.reference.features, f"certificates[{name!r}]")
    return {
        name: beside_reference(certificates[name], comparison.verdicts[name])
        for name in comparison.candidates
        if name in certificates
    }


def check_certificate(certificate: object, features: tuple[str, ...], name: str) -> None:
    """Raise unless `certificate` is one of a posterior with these features."""
    if not isinstance(certificate, CertificateData):
        raise TypeError(f"{name} is of type {type(certificate).__name__}; give what bayescore.certify returned")
    if set(certificate.coordinates.index) != set(features):
        shown, drawn = first_difference(list(certificate.coordinates.index), features)
        raise DataError(
            f"{name} has the features {shown}, the posterior {drawn}; give the certificate of this posterior"
        )


def coefficients(certificate: CertificateData, total: int) -> tuple[list[dict[Hashable, Any]], str]:
    """Return the rows of the table of coefficients, largest errors first, and what is left out of it."""
    table = certificate.coordinates.rename_axis("feature").reset_index()
    order = np.argsort(-table["mean_error_sd"].abs().to_numpy(), kind="stable")
    table = table.iloc[order]
    rows, note = page.worst(table, table["mean_error_sd"], total, "Certificate.coordinates")
    return rows.to_dict(orient="records"), note


def in_units(certificate: CertificateData, best: Posterior, design: Design) -> Markup:
    """Return the section on the `best` draws' coefficients in units of the data, and the ratios that they stand for."""
    raw = design.raw_coefficients(best.flat)
    bounds = np.quantile(raw, [ENDS[0], 0.5, ENDS[1]], axis=0)
    family, scale = find_family(best.attrs.get("family", "")), best.attrs.get("prior_scale", "")
    ratio = None if family is None else family.ratio
    rows = {}
    for d, name in enumerate(best.features):
        low, middle, high = bounds[:, d]
        rows[name] = [number(float(raw[:, d].mean())), f"{number(low)} to {number(high)}"]
        if ratio is not None:
            with np.errstate(over="ignore"):
                ratios = [number(float(np.exp(value))) for value in (middle, low, high)]
            rows[name] += ["", ""] if d == design.constant else [ratios[0], f"{ratios[1]} to {ratios[2]}"]
    interval = f"{PROB:.0%} interval"
    spread = f" Their spread is {best.attrs['spread']}." if "spread" in best.attrs else ""
    note = (
        f"{drawn_from(certificate)}{spread} A coefficient is the change of the linear predictor for one unit more of "
    )
    note += f"the column as the data have it{f'; the model is of {scale}' if scale else ''}."
    labels = ["Mean", interval, *([ratio.capitalize(), interval] if ratio is not None else [])]
    note += f" {ratio.capitalize()}s are medians." if ratio is not None else ""
    return page.table("effects", "In units of the data", "Coefficient", (labels, rows), note=note)


def drawn_from(certificate: CertificateData) -> str:
    """Return a sentence on the draws behind a table."""
    which = "coreset's" if certificate._idata is None else "corrected"
    return f"From the {which} draws{'' if certificate.trusted else ', which are not certified'}."


def priors(posterior: Posterior) -> list[tuple[str, str, str]]:
    """Return coefficients, the prior that they share, and that in units of the data; empty where it is not known."""
    texts = prior_table(posterior)
    if texts is None:
        return []
    shared: dict[tuple[str, str], list[str]] = {}
    for name, row in texts.iterrows():
        shared.setdefault((row["prior"], row["in_data_units"]), []).append(str(name))
    return [(listed(names, _NAMED, str), prior, raw) for (prior, raw), names in shared.items()]


def certificates_section(
    comparison: ComparisonData, certificates: dict[str, CertificateData], *, short: bool
) -> Markup:
    """Return the section on the candidates' certificates: figures beside the measured errors, and coefficients."""
    measured = dict(list(comparison.coordinates.groupby("candidate", sort=False)))
    rows, agree = {}, {}
    *others, elpd = figures_of(())
    for name, certificate in certificates.items():
        agree[name] = agreement(certificate, measured[name])
        truth = comparison.metrics.loc[name, ["mean_error_sd", "mean_error_sd_mcse"]]
        word = {True: "yes", False: "no", None: "–"}[agree[name]]
        first = [figure.text(certificate) for figure in others]
        rows[name] = [*first, with_error(*map(float, truth)), (word, ""), elpd.text(certificate)]
    total = len(certificates) * len(comparison.reference.features)
    return page.section(
        "certificates",
        certificates=certificates,
        short=short,
        labels=[*meanings(others), *AGREEMENT, elpd.label],
        rows=rows,
        agreement=_agreement(list(agree.values())),
        corrected={name: coefficients(one, total) for name, one in certificates.items() if agree[name] is not None},
    )


def _agreement(agree: list[bool | None]) -> str:
    trusted = [one for one in agree if one is not None]
    if not trusted:
        return "No candidate is certified, so no correction can be trusted and none is shown."
    left = " Where a candidate is not certified, no correction can be trusted and none is shown."
    return (
        "Predicted errors were found without the reference, measured ones against it. Of the "
        f"{counted(len(trusted), 'certificate')} whose correction can be trusted, the predictions of "
        f"{sum(trusted)} agree with the reference in every mean, up to Monte Carlo error."
        f"{left if len(trusted) < len(agree) else ''}"
    )


def rows_by_group(certificate: CertificateData, grouping: Grouping) -> pd.DataFrame | None:
    """Return weight and share of +1 of the rows of each group; None where no pass was made."""
    table = certificate.effects
    if table.empty:
        return None
    of_factor = table[table.index.get_level_values("factor") == grouping.name].droplevel(["factor", "effect"])
    return of_factor[~of_factor.index.duplicated()]


# a parameter of a coreset: what reports call it
PARAMETERS = {
    "prior": "Prior assumed while choosing rows",
    "mean_error": "Expected error of means (sd)",
    "sd_error": "Expected error of sds (relative)",
    "correlation_error": "Expected error of correlations",
    "passes": "Passes over the data",
    "epsilon": "Guaranteed relative error of the log-likelihood (epsilon)",
    "delta": "Chance that the guarantee fails (delta)",
    "mu": "Complexity of the data (mu)",
    "draws": "Rows drawn, repeats included",
    "reducer": "How nodes are reduced",
    "leaves": "Leaves of the tree",
    "lossless": "Lossless",
    "cells": "Groups, or cells of groups",
    "merged_cells": "Of them condensed to pseudo-rows",
    "kept_small": "Of them kept because they have few rows",
    "kept_shape": "Of them kept for their shape",
    "kept_rows": "Rows kept",
    "pseudo_rows": "Pseudo-rows, successes and failures as one",
    "effect_sds": "Sds of effects",
    "mode_error": "Expected error of means by the gradient that is left (sd)",
    "shape_error": "Largest error of a group's likelihood (nats)",
    "bytes": "Memory of sums by group (bytes)",
}


# what builders keep for their own tests, and the curve, which has a table of its own
_ACCOUNTS = {
    "size_curve", "levels", "residual_mean", "residual_curvature", "certain", "dropped", "rounds", "rank",
    "score_total", "node_size", "tree_error",
}  # fmt: skip


_COLUMNS = 20  # names in a cell


def coreset_facts(about: Mapping[str, Any], weights: FloatArray | None) -> dict[str, str]:
    """Return what `Coreset.summary` says about a coreset, and its weights, as text by label."""
    size, n_total = about.get("size"), about.get("n_total")
    row = {
        "Method": str(about.get("method", "–")),
        "Rows": "–" if size is None else f"{size:,}",
        "Share": "–" if size is None or not n_total else f"{number(100 * size / n_total, 2)}%",
        "Weight ESS": "–",
        "Largest weights": "–",
        "Sum of weights": "–",
        "Data rows": "–" if n_total is None else f"{n_total:,}",
        "Seed": str(about.get("random_state", "–")),
    }
    if weights is not None and len(weights):
        total = float(weights.sum())
        row["Weight ESS"] = f"{total**2 / float((weights**2).sum()):,.1f}"
        row["Largest weights"] = ", ".join(f"{100 * w / total:.2g}%" for w in np.sort(weights)[::-1][:3])
        row["Sum of weights"] = f"{total:,.6g}"
    return row


def parameters(about: Mapping[str, Any]) -> dict[str, str]:
    """Return a coreset's parameters as short text by label, without the builder's own accounts of its work."""
    params = (about.get("params") or {}).items()
    return {PARAMETERS.get(key, key): _short(value) for key, value in params if key not in _ACCOUNTS}


def data_facts(about: Mapping[str, Any], positive: float | None) -> dict[str, str]:
    """Return what `Coreset.summary` says about the data, as text by label; `positive` is the share that is +1."""
    design, classes = about.get("design") or {}, about.get("classes")
    n_total, weight, names = about.get("n_total"), about.get("weight_total"), design.get("raw_names") or []
    facts: dict[str, str] = {}
    sides = {
        "counts": "Events and exposures",
        ABOVE: "Rows, two of each count",
        POSITIVE: "Rows, two of each number",
        TIMED: "Rows, two of each time",
    }.get(response_of(classes))
    if n_total is not None:
        facts[sides or "Rows"] = f"{n_total:,}"
        if sides is None and weight is not None and weight != n_total:
            facts["Total weight"] = f"{weight:,.6g}"
    if classes:
        of_label = f"{about.get('label')}: {classes[1]} against {classes[0]}"
        response = response_of(classes)
        facts["Label"] = of_label if response == "labels" else f"{about.get('label')}: {response}"
        if positive is not None:
            facts[f"Share of {classes[1]}"] = f"{number(100.0 * positive)}% of the rows' weight"
    if names:
        facts["Columns"] = f"{len(names):,}: {listed(names, _COLUMNS, str)}"
    if levels := design.get("levels"):
        facts["Factors"] = ", ".join(
            f"{name} ({len(levels_of_name)} levels)" for name, levels_of_name in levels.items()
        )
    if design.get("formula"):
        facts["Formula"] = design["formula"]
    if design.get("offset"):
        facts["Offset"] = design["offset"]
    if names:
        scaled = design.get("center") is not None
        facts["Scaling"] = "columns centered and divided by their sd" if scaled else "columns as they are"
    return facts


def words_of_fit(check: ModelCheck | None, classes: tuple[Any, Any], *, test: bool = False) -> tuple[str, str, str]:
    """Return what is observed of a group of rows, or of `test` rows, what is predicted, and what histograms are of."""
    rows, rates, shares = "rows", "predictions", "predictions"
    if test:
        rows, rates, shares = "test rows", "predicted rates", "predicted probabilities"
    of_labels = f"share of {classes[1]}", "probability", f"of the {shares} of {rows} of either class"
    of_counts = f"of the {rates} of {rows} with and without events"
    if check is not None and check.frequencies is not None:
        of_counts = f"of the counts of {rows} and of those that the model gives"
    of_numbers = "mean of the responses", "mean", "of the responses and of those that the model gives"
    return {
        **dict.fromkeys(("counts", ABOVE, TIMED), ("events by exposure", "rate", of_counts)),
        **dict.fromkeys((POSITIVE, "numbers"), of_numbers),
    }.get(response_of(classes), of_labels)


def size_curve(about: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the predicted error for each size that the builder tried; empty where only one was."""
    curve = (about.get("params") or {}).get("size_curve") or []
    return curve if len(curve) > 1 else []


def _short(value: object) -> str:
    text = number(value) if isinstance(value, float) else str(value)
    return text if len(text) <= 60 else text[:59] + "…"
