"""Moments of posteriors that tests compare with, from samplers that are not the package's: JSON files in this folder.

``python -m tests.reference_moments`` draws them all again, ``python -m tests.reference_moments bambi`` this one. The
function `reference_draws` of a test module returns the draws of a name and the rows that they belong to.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bayescore.numerics.chains import ess, mcse_mean
from bayescore.numerics.moments import moments_mcse

DRAWN_BY = {
    "bambi": "tests.samplers.test_beside_bambi",
    "hierarchy-logistic": "tests.samplers.test_steps",
    "hierarchy-probit": "tests.samplers.test_steps",
    "walkers": "tests.samplers.test_joint",
}


@dataclass(frozen=True, eq=False)
class Moments:
    """Means and sds of quantities, with their Monte Carlo standard errors, shape (k,)."""

    mean: np.ndarray
    mean_error: np.ndarray
    sd: np.ndarray
    sd_error: np.ndarray

    @classmethod
    def of(cls, draws: np.ndarray) -> "Moments":
        """Return the moments of draws, shape (chains, draws, k)."""
        return cls(draws.mean(axis=(0, 1)), mcse_mean(draws), draws.std(axis=(0, 1)), moments_mcse(draws).sd)


def digest_of(rows: Sequence[Any]) -> str:
    """Return a digest of arrays of numbers, the same on every machine."""
    text = json.dumps([[f"{value:.9g}" for value in np.asarray(part, dtype=float).ravel()] for part in rows])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _path(name: str) -> Path:
    return Path(__file__).with_name(f"{name}.json")


def moments(name: str, rows: Sequence[Any]) -> Moments:
    """Return the moments of a reference posterior; its rows must be those that it was drawn for."""
    kept = json.loads(_path(name).read_text(encoding="utf-8"))
    assert kept["rows"] == digest_of(rows), f"rows have changed: run python -m tests.reference_moments {name}"
    return Moments(**{field: np.array(kept[field]) for field in ("mean", "mean_error", "sd", "sd_error")})


def write(name: str, draws: np.ndarray, rows: Sequence[Any]) -> None:
    """Write the moments of draws, and the smallest effective sample size."""
    found = Moments.of(draws)
    kept = {"rows": digest_of(rows), "draws": draws.shape[0] * draws.shape[1]}
    kept["smallest ESS"] = int(min(ess(draws, "mean").min(), ess(draws, "sd").min()))
    for field, values in vars(found).items():
        kept[field] = [float(f"{value:.6g}") for value in values]
    lines = ",\n".join(f' "{field}": {json.dumps(value)}' for field, value in kept.items())
    _path(name).write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
