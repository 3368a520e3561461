"""Ranks of truths among draws, and a quick test of whether they are uniform."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats

from bayescore.types import FloatArray, IntArray


def rank(draws: FloatArray, truth: FloatArray) -> IntArray:
    """Return the rank of each quantity's truth, shape (Q,), among its draws, shape (S, Q): 0 to S."""
    return (draws < truth).sum(axis=0)


def binned_p_values(ranks: IntArray, n_places: int, bins: int = 10) -> FloatArray:
    """Return the p-value of a chi-square test of uniform ranks for each quantity, shape (Q,); ranks of shape (N, Q)."""
    of_bins = (ranks * bins) // n_places
    counts = np.stack([(of_bins == k).sum(axis=0) for k in range(bins)])
    return stats.chisquare(counts, axis=0).pvalue


def ranks_table(quantities: Sequence[str], ranks: IntArray, n_places: int) -> list[dict[str, Any]]:
    """Return a row for each quantity: its name, the number of data sets and the binned p-value of its ranks."""
    p_values_of = binned_p_values(ranks, n_places)
    return [
        {"quantity": name, "sets": len(ranks), "p_value": p} for name, p in zip(quantities, p_values_of, strict=True)
    ]
