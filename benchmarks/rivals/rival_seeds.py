r"""How much do runs of a system vary? Twenty runs of each that takes seconds: medians, and where 90% lie.

Rows, priors, processes, limits and errors are those of `rival_posteriors`, of which w8a is left out: a run of bayescore
takes six minutes there. Seeds 1 to 20 are of whatever a system draws: rows, proposals, chains. PyMC's NUTS on all rows
runs to its end, one seed of its defaults, on the sets where it ends within 30 minutes of a processor.

"worst combination" is the largest error of the mean of a linear combination of coefficients, in its sds: that in
"mean" times sqrt(D). "says" is what the system itself says of its error: the certificate's words, or the largest k-hat
of Pareto smoothed weights, which are not to be used above 0.7; nothing where it says nothing.

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
from benchmarks.rivals.rival_systems.process import within
from benchmarks.rivals.rival_systems.truth import DATA, PUBLISHED, Truth, errors_of, rows_of, truth_of
from benchmarks.tables import known_rows, publish

NAME, SEEDS, CAP, WHOLE_CAP = "rival_seeds", 20, 60.0, 1800.0
SETS = tuple(name for name in DATA if name != "w8a")
MODES = ("laplace", "sklearn", "glum")  # nothing is random in these
TO_THE_END = "defaults, to the end"
SETTINGS = {
    "bayescore": ("4 x 1000 draws", "certify's draws"),
    "condensed": ("default size",),
    "laplace": ("all rows",),
    "weighed": ("4,000 draws", "moments matched, 4,000 draws"),
    "sgld": ("h = 0.3 / curvature",),
    "uniform": ("200 D rows",),
    "glum": ("irls",),
    "pymc": (TO_THE_END,),
}
FEW = {"pymc": ("chemreact", "phishing")}  # sets on which it ends


def says(told: Sequence[str]) -> str:
    """Return what a system says of its error, in all its runs."""
    khat = [float(found[1]) for one in told if (found := re.search(r"k-hat (-?[\d.]+)", one))]
    if khat:
        return f"k-hat up to {max(khat):.2f}"
    words = [found[1] for one in told if (found := re.search(r"rows, ((?:not )?certified|corrected)", one))]
    return "; ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))


def summary(told: list[dict[str, Any]], truth: Truth) -> dict[str, Any]:
    """Return medians of errors and of processor seconds, and the quantiles of 5% and 95%."""
    ended = [one for one in told if one["timed"].startswith("whole")]
    row: dict[str, Any] = {"runs": len(told), "ended": len(ended)}
    if not ended:
        return row | {"says": told[0]["timed"]}
    found = [errors_of(one, truth) | {"processor s": one["cpu"], "peak MB": one["MB"]} for one in ended]
    for key in ("mean", "sd", "KL", "processor s", "peak MB"):
        values = np.array([one[key] for one in found])
        row[key] = np.median(values)
        if key in ("mean", "sd", "KL"):
            row |= {f"{key}, {end}": np.quantile(values, q) for end, q in (("5%", 0.05), ("95%", 0.95))}
    row["worst combination"] = row["mean"] * np.sqrt(len(truth.mean))
    return row | {"says": says([one["timed"] for one in ended])}


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
                for setting in SETTINGS[key]:
                    cap, runs = (WHOLE_CAP if setting == TO_THE_END else CAP), trials
                    if key in MODES or setting == TO_THE_END:
                        runs = 1
                    told = [within(key, setting, Path(folder), cap, seed) for seed in range(1, runs + 1)]
                    label = SYSTEMS[key].label
                    about = {"data": name, "N": n, "D": D, "system": label, "setting": setting}
                    row = about | summary(told, truth)
                    rows[name, label, setting] = row | {"reference": truth.origin, "reference error": truth.error}
                    print(row, flush=True)
        labels = [SYSTEMS[key].label for key in SETTINGS]
        publish(NAME, sorted(rows.values(), key=lambda row: (SETS.index(row["data"]), labels.index(row["system"]))), 3)
