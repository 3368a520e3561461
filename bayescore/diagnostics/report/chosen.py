"""What the pictures of a comparison show: which coordinates, which candidates, and what is seen, in words."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayescore.diagnostics.formatting import number
from bayescore.diagnostics.results import ComparisonData
from bayescore.types import IntArray

MAX_COORDINATES = 40
MAX_PANELS = 12
MAX_CANDIDATES = 8  # or one of each method, if these are more


def alternatives(comparison: ComparisonData) -> dict[str, str]:
    """Return in words what `mmd`, `forest` and `marginals` show, for readers who do not see them."""
    *own, floor = (number(value, 2) for value in comparison.metrics["mmd_whitened"])
    ranked = comparison.metrics["mmd_whitened"].to_numpy()[:-1].argsort(kind="stable")
    names = list(comparison.candidates)
    least, most = (f"{own[i]} ({names[i]})" for i in (ranked[0], ranked[-1]))
    count, total = len(candidates(comparison)[0]), len(comparison.reference.features)
    others = f"{count} candidate{'s' * (count > 1)}"
    shown, panels = (
        f"{min(total, limit)} coefficient{'s' * (min(total, limit) > 1)}" for limit in (MAX_COORDINATES, MAX_PANELS)
    )
    span = f"from {least} to {most}" if len(own) > 1 else f"{least}"
    return {
        "mmd": f"Whitened MMD of each candidate, {span}, on a log scale above the noise floor, {floor}",
        "forest": f"Means and 94% intervals of {shown}: the reference's, and below them those of {others}",
        "marginals": f"Posterior densities of {panels}: the reference's filled, those of {others} as lines",
    }


def coordinates(comparison: ComparisonData, limit: int, *, worst_first: bool = False) -> tuple[list[int], str]:
    """Return the places of the `limit` coordinates with the largest errors, and a note on what is left out."""
    table = comparison.coordinates
    names = list(comparison.reference.features)
    # rows of `coordinates` are candidate by candidate, features in the reference's order
    size = table[["mean_error_sd", "sd_error"]].abs().max(axis=1).to_numpy().reshape(-1, len(names)).max(axis=0)
    ranked = np.argsort(-size, kind="stable").tolist()
    if len(names) <= limit:
        return (ranked if worst_first else list(range(len(names)))), ""
    return ranked[:limit], f"the {limit} of {len(names)} coordinates with the largest errors"


def candidates(comparison: ComparisonData) -> tuple[list[str], str]:
    """Return the names of the candidates in pictures of coefficients, and a note on those left out."""
    names = list(comparison.candidates)
    sizes = np.array([int(own.coreset.get("size", 0)) for own in comparison.candidates.values()])
    places, several = of_each_method(comparison, MAX_CANDIDATES, -sizes)
    shown = [names[i] for i in places]
    if len(shown) == len(names):
        return shown, ""
    told = "of each method the largest" if several else "the largest" if sizes.any() else "the first"
    return shown, f"{len(shown)} of {len(names)} candidates, {told}"


def of_each_method(comparison: ComparisonData, limit: int, order: NDArray[Any]) -> tuple[IntArray, bool]:
    """Return the places of at most `limit` candidates, or one of each method, and whether there are several methods.

    Methods take turns, each with what is next by `order`, as long as a whole turn has room: so none is hidden by the
    many sizes of another.
    """
    methods = np.array([str(own.coreset.get("method", "")) for own in comparison.candidates.values()])
    turn = np.empty(len(methods), dtype=np.int64)
    for method in set(methods.tolist()):
        own = np.flatnonzero(methods == method)
        turn[own[np.argsort(order[own], kind="stable")]] = np.arange(len(own))
    counts = np.bincount(turn).cumsum()
    turns = max(1, int((counts <= limit).sum()))
    return np.flatnonzero(turn < turns), bool(counts[0] > 1)
