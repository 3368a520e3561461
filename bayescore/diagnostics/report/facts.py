"""What coresets, data and repeating a page are, as text by label: the plain facts of sections."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayescore.data.sources.paired import response_of
from bayescore.diagnostics.formatting import number
from bayescore.listing import listed
from bayescore.types import FloatArray

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
    known = (about.get("params") or {}).items()
    return {PARAMETERS.get(key, key): _short(value) for key, value in known if key not in _ACCOUNTS}


def data_facts(about: Mapping[str, Any], positive: float | None) -> dict[str, str]:
    """Return what `Coreset.summary` says about the data, as text by label; `positive` is the share that is +1."""
    design, classes = about.get("design") or {}, about.get("classes")
    n_total, weight, names = about.get("n_total"), about.get("weight_total"), design.get("raw_names") or []
    found: dict[str, str] = {}
    if n_total is not None:
        found["Rows"] = f"{n_total:,}"
        if weight is not None and weight != n_total:
            found["Total weight"] = f"{weight:,.6g}"
    if classes:
        of_label = f"{about.get('label')}: {classes[1]} against {classes[0]}"
        found["Label"] = f"{about.get('label')}: numbers" if response_of(classes) == "numbers" else of_label
        if positive is not None:
            found[f"Share of {classes[1]}"] = f"{number(100.0 * positive)}% of the rows' weight"
    if names:
        found["Columns"] = f"{len(names):,}: {listed(names, _COLUMNS, str)}"
    if levels := design.get("levels"):
        found["Factors"] = ", ".join(f"{name} ({len(own)} levels)" for name, own in levels.items())
    if design.get("formula"):
        found["Formula"] = design["formula"]
    if design.get("offset"):
        found["Offset"] = design["offset"]
    if names:
        scaled = design.get("center") is not None
        found["Scaling"] = "columns centered and divided by their sd" if scaled else "columns as they are"
    return found


def words_of_fit(classes: tuple[Any, Any], *, test: bool = False) -> tuple[str, str, str]:
    """Return what is observed of a group of rows, or of `test` rows, what is predicted, and what histograms are of."""
    rows, rates, shares = "rows", "predictions", "predictions"
    if test:
        rows, rates, shares = "test rows", "predicted rates", "predicted probabilities"
    of_labels = f"share of {classes[1]}", "probability", f"of the {shares} of {rows} of either class"
    return {
        "counts": ("events by exposure", "rate", f"of the {rates} of {rows} with and without events"),
        "numbers": ("mean of the responses", "mean", "of the responses and of those that the model gives"),
    }.get(response_of(classes), of_labels)


def size_curve(about: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the predicted error for each size that the builder tried; empty where only one was."""
    curve = (about.get("params") or {}).get("size_curve") or []
    return curve if len(curve) > 1 else []


def _short(value: object) -> str:
    text = number(value) if isinstance(value, float) else str(value)
    return text if len(text) <= 60 else text[:59] + "…"
