r"""How much do runs of a system vary? Twenty runs of each that takes seconds: medians, and where 90% lie.

Rows, priors, processes, limits and errors are those of `rival_posteriors`, of which w8a is left out: a run of bayescore
takes six minutes there. Seeds 1 to 20 are of whatever a system draws: rows, proposals, chains. A system whose first run
is stopped at 60 processor seconds, or fails, has that run alone. Modes draw nothing and have one run. PyMC's NUTS on
all rows runs to its end, one seed of its defaults, on the sets where it ends within 30 minutes of a processor. duckreg
has the set whose rows repeat.

"worst combination" is the largest error of the mean of a linear combination of coefficients, in its sds: that in
"mean" times sqrt(D). "says" is what the system itself says of its error: the certificate's words, or the largest k-hat
of Pareto smoothed weights, which are not to be used above 0.7; nothing where it says nothing. Of one run there are no
quantiles. Draws are moment-matched where k-hat of some seed is above 0.7: elsewhere no draw would be moved.

``--only chemreact phishing`` runs some sets, ``--rivals weighed`` some systems; other rows of the CSV stay.
"""

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.commands import command
from benchmarks.problems import SHARED
from benchmarks.rivals.rival_systems import SYSTEMS
from benchmarks.rivals.rival_systems.normals import ENOUGH
from benchmarks.rivals.rival_systems.process import within
from benchmarks.rivals.rival_systems.truth import DATA, PUBLISHED, Truth, errors_of, rows_of, truth_of
from benchmarks.tables import known_rows, publish

NAME, SEEDS, CAP, WHOLE_CAP = "rival_seeds", 20, 60.0, 1800.0
SETS = tuple(name for name in DATA if name != "w8a")
FIXED = ("laplace", "glum", "duckreg")  # nothing is random in these
MATCHED = "moment-matched, 4,000 draws"
TO_THE_END, WHOLE = "defaults, to the end", "whole"
SETTINGS = {
    "bayescore": ("4 x 1000 draws", "certify's draws"),
    "condensed": ("default size",),
    "laplace": ("all rows",),
    "weighed": ("4,000 draws", MATCHED),
    "pathfinder": ("jitter 2",),
    "advi": ("mean field, Adam 0.01",),
    "svi": ("AutoMultivariateNormal",),
    "hmcecs": ("1000 rows",),
    "sgld": ("h = 0.3 / curvature",),
    "quasi_newton": ("20 D rows",),
    "giga": ("weights refitted",),
    "coreset_mcmc": ("moves turned, rate 0.03 N / M",),
    "uniform": ("200 D rows",),
    "glum": ("irls",),
    "duckreg": ("irls",),
    "pymc": (TO_THE_END,),
}
FEW = {"pymc": ("chemreact", "phishing"), "duckreg": ("Binary10",)}  # sets on which it ends, or is made for


def khats(told: Sequence[dict[str, Any]]) -> list[float]:
    """Return the k-hat of each run that has one."""
    return [float(found[1]) for one in told if (found := re.search(r"k-hat (-?[\d.]+)", one["timed"]))]


def says(told: Sequence[dict[str, Any]]) -> str:
    """Return what a system says of its error, in all its runs."""
    if khat := khats(told):
        return f"k-hat up to {max(khat):.2f}"
    words = [found[1] for one in told if (found := re.search(r"rows, ((?:not )?certified|corrected)", one["timed"]))]
    return "; ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))


def summary(told: list[dict[str, Any]], truth: Truth) -> dict[str, Any]:
    """Return medians of errors and of processor seconds, and the quantiles of 5% and 95%."""
    ended = [one for one in told if one["timed"].startswith(WHOLE)]
    row: dict[str, Any] = {"runs": len(told), "ended": len(ended)}
    if not ended:
        return row | {"says": told[0]["timed"]}
    found = [errors_of(one, truth) | {"processor s": one["cpu"], "peak MB": one["MB"]} for one in ended]
    for key in ("mean", "sd", "KL", "processor s", "peak MB"):
        values = np.array([one[key] for one in found])
        row[key] = np.median(values)
        if key in ("mean", "sd", "KL") and len(ended) > 1:
            row |= {f"{key}, {end}": np.quantile(values, q) for end, q in (("5%", 0.05), ("95%", 0.95))}
    row["worst combination"] = row["mean"] * np.sqrt(len(truth.mean))
    return row | {"says": says(ended)}


def in_order(rows: dict[tuple[str, str, str], dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows by data set, then system."""
    labels = [SYSTEMS[key].label for key in SETTINGS]
    return sorted(rows.values(), key=lambda row: (SETS.index(row["data"]), labels.index(row["system"])))


@command("rival_seeds", sets=SETS)
def main(only: Sequence[str] = SETS, rivals: str = ",".join(SETTINGS), trials: int = SEEDS) -> None:
    """Run systems on data sets and write the table after each."""
    chosen = rivals.split(",")
    if unknown := [one for one in chosen if one not in SETTINGS]:
        raise SystemExit(f"unknown rival {unknown[0]!r}; choose from {', '.join(SETTINGS)}")
    rows = {(row["data"], row["system"], row["setting"]): row for row in known_rows(NAME)}
    for name in only:
        if name in PUBLISHED and name != "Binary10" and not SHARED.is_dir():
            print(f"not run: ../shared/data is absent ({name})")
            continue
        full = rows_of(name, quick=False)
        truth, D = truth_of(name, full), full.n_features
        with tempfile.TemporaryDirectory() as folder:
            np.save(Path(folder) / "X.npy", full.X)
            np.save(Path(folder) / "y.npy", full.y)
            n = len(full)
            del full
            for key in [one for one in chosen if name in FEW.get(one, SETS)]:
                told: list[dict[str, Any]] = []
                for setting in SETTINGS[key]:
                    if setting == MATCHED and max(khats(told), default=0.0) <= ENOUGH:
                        continue  # no draw would be moved
                    cap = WHOLE_CAP if setting == TO_THE_END else CAP
                    told = [within(key, setting, Path(folder), cap, 1)]
                    if key not in FIXED and setting != TO_THE_END and told[0]["timed"].startswith(WHOLE):
                        told += [within(key, setting, Path(folder), cap, seed) for seed in range(2, trials + 1)]
                    label = SYSTEMS[key].label
                    about = {"data": name, "N": n, "D": D, "system": label, "setting": setting}
                    row = about | summary(told, truth)
                    rows[name, label, setting] = row | {"reference": truth.origin, "reference error": truth.error}
                    print(row, flush=True)
                    publish(NAME, in_order(rows), 3)
