"""Published data that stand in the tree, see SOURCES.md, as weighted rows with their reference figures."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from bayescore.types import WeightedData


def beetles() -> tuple[WeightedData, dict[str, Any]]:
    """Return a row (1, dose) for each dose and outcome, weighted by its number of beetles, and the facts."""
    facts = _facts("beetles")
    dose, treated, killed = (np.array(facts[name], dtype=float) for name in ("dose", "treated", "killed"))
    X = np.column_stack([np.ones(16), np.tile(dose, 2)])
    counts = np.concatenate([killed, treated - killed])
    rows = WeightedData(X, np.repeat([1, -1], 8).astype(np.int8), counts, np.arange(16))
    return rows.take(np.flatnonzero(counts)), facts


def vaso() -> tuple[WeightedData, dict[str, Any]]:
    """Return rows (1, log volume, log rate) and the facts."""
    facts = _facts("vaso")
    X = np.column_stack([np.ones(39), np.log(facts["volume"]), np.log(facts["rate"])])
    y = np.where(facts["constricted"], 1, -1).astype(np.int8)
    return WeightedData(X, y, np.ones(39), np.arange(39)), facts


def _facts(name: str) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(Path(__file__).with_name(f"{name}.json").read_text())
    return facts
