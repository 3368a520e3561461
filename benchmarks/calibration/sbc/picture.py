"""What came of replications: rows of a table, and differences of ECDFs from uniform within their simultaneous bands."""

from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from benchmarks.calibration.sbc.ranks import band, counts_below, p_values
from benchmarks.calibration.sbc.way import DRAWS, KINDS, Replication, names

PLACES = DRAWS + 1


@dataclass(frozen=True, eq=False)
class Panel:
    """The replications of one setting, and what it is called: column of the table -> value."""

    about: dict[str, str]
    found: list[Replication]

    def ranks(self, kind: str) -> np.ndarray:
        """Return the ranks, shape (replications, Q)."""
        return np.array([each.ranks[KINDS.index(kind)] for each in self.found])


def row_of(panel: Panel, sizes: dict[str, int]) -> list[dict]:
    """Return a row for each kind of draws: p-values of coefficients (the smallest) and of the other quantities."""
    rows = []
    for number, kind in enumerate(KINDS):
        p = p_values(panel.ranks(kind), PLACES)
        labels = names(len(p) - 3)
        own = {
            "replications": len(panel.found),
            "not certified": sum(each.refused[number] for each in panel.found),
            "smallest ESS": round(min(each.ess[number] for each in panel.found)),
        }
        p_of = {"coefficients, smallest of p": p[:-3].min(), **dict(zip(labels[-3:], p[-3:], strict=True))}
        rows.append({**panel.about, **sizes, "draws": kind, **own, **p_of})
    return rows


def draw(panels: list[Panel]) -> Figure:
    """Return the picture: a column for each setting, a row for each kind of draws."""
    figure = Figure(figsize=(3.0 * len(panels) + 0.6, 2.4 * len(KINDS) + 0.8), layout="constrained")
    axes = figure.subplots(len(KINDS), len(panels), sharex=True, sharey="row", squeeze=False)
    z = np.arange(1, PLACES) / PLACES
    for column, panel in zip(axes.T, panels, strict=True):
        n_ranks = len(panel.found)
        low, high = band(n_ranks, PLACES)
        for one, kind in zip(column, KINDS, strict=True):
            one.fill_between(z, low, high, color="#e0e0e0", lw=0, step="mid", label="95% of uniform ECDFs lie within")
            ranks = panel.ranks(kind)
            labels = names(ranks.shape[1] - 3)
            looks = [{"color": "#999999", "lw": 0.8}] * (len(labels) - 3)
            looks += [
                {"color": "#009E73", "lw": 1.2, "ls": ":"},
                {"color": "#0072B2", "lw": 1.6},
                {"color": "#D55E00", "lw": 1.4, "ls": "--"},
            ]
            for d, (label, look) in enumerate(zip(labels, looks, strict=True)):
                name = "a coefficient" if d == 0 else label if d >= len(labels) - 3 else None
                one.plot(z, counts_below(ranks[:, d], PLACES) / n_ranks - z, label=name, **look)
            one.axhline(0.0, color="black", lw=0.5)
            one.spines[["top", "right"]].set_visible(False)
        column[0].set_title(", ".join(panel.about.values()), fontsize=10)
        column[-1].set_xlabel("rank of the truth, as a share")
    for one, kind in zip(axes[:, 0], KINDS, strict=True):
        one.set_ylabel(f"{kind}:\nECDF − uniform", fontsize=9)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False, fontsize=9)
    return figure
