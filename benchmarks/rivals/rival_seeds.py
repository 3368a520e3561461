r"""How near is bayescore to the posterior of all rows, beside approximations of all rows and HMCECS? Twenty runs.

Rows: an intercept; published columns standardised; N(0, 4^2) priors. The truth is by importance weights from the normal
approximation where at least 80% of its draws count, else by long MCMC (`full_posteriors`), kept in ``.references/``. On
sets of the first kind no system can be more accurate than the reference, whose error is a column. Each run is a process
of its own with one thread of BLAS, stopped at 60 processor seconds; a system whose first run is stopped, or fails, has
that run alone. Seeds 1 to 20 are of whatever a system draws: rows, proposals, chains. Modes draw nothing and have one
run. duckreg has the set whose rows repeat, HMCECS those on which it has been run. Figures are medians, and where 90% of
the runs lie. Errors are those of `truth`: of the mean in all directions, in sds, and the largest of an sd, relative.

"worst combination" is the largest error of the mean of a linear combination of coefficients, in its sds: that in
"mean" times sqrt(D). "says" is what the system itself says of its error: the certificate's words, or the largest k-hat
of Pareto smoothed weights, which are not to be used above 0.7; nothing where it says nothing. Of one run there are no
quantiles. ``--only chemreact phishing`` runs some sets; other rows of the CSV stay.
"""

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.commands import command
from benchmarks.problems import SHARED
from benchmarks.rivals.process import within
from benchmarks.rivals.systems import SYSTEMS
from benchmarks.rivals.truth import DATA, PUBLISHED, QUICK, Truth, measured, rows_of, truth_of
from benchmarks.tables import known_rows, publish

NAME, SEEDS, CAP, WHOLE = "rival_seeds", 20, 60.0, "whole"
FEW = {"duckreg": ("Binary10",), "hmcecs": ("chemreact", "phishing", "t3 rare, 1e6", "KDD, numeric")}


def says(told: Sequence[dict[str, Any]]) -> str:
    """Return what a system says of its error, in all its runs."""
    if khat := [float(found[1]) for one in told if (found := re.search(r"k-hat (-?[\d.]+)", one["timed"]))]:
        return f"k-hat up to {max(khat):.2f}"
    words = [found[1] for one in told if (found := re.search(r"rows, ((?:not )?certified|corrected)", one["timed"]))]
    return "; ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))


def summary(told: list[dict[str, Any]], truth: Truth) -> dict[str, Any]:
    """Return medians of errors and of processor seconds, and the quantiles of 5% and 95%."""
    ended = [one for one in told if one["timed"].startswith(WHOLE)]
    row: dict[str, Any] = {"runs": len(told), "ended": len(ended)}
    if not ended:
        return row | {"says": told[0]["timed"]}
    found = [
        measured(np.array(one["mean"]), np.array(one["covariance"]), truth)
        | {"processor s": one["cpu"], "peak MB": one["MB"]}
        for one in ended
    ]
    for key in ("mean", "sd", "KL", "processor s", "peak MB"):
        values = np.array([one[key] for one in found])
        row[key] = np.median(values)
        if key in ("mean", "sd", "KL") and len(ended) > 1:
            row |= {f"{key}, {end}": np.quantile(values, q) for end, q in (("5%", 0.05), ("95%", 0.95))}
    row["worst combination"] = row["mean"] * np.sqrt(len(truth.mean))
    return row | {"says": says(ended)}


@command(NAME, sets=DATA)
def main(only: Sequence[str] = DATA, trials: int = SEEDS, *, quick: bool = False) -> None:
    """Run systems on data sets, one after the other, and write the table after each."""
    rows = {(row["data"], row["system"], row["setting"]): row for row in known_rows(NAME)}
    order = [(name, own.label, own.setting) for name in DATA for own in SYSTEMS.values()]
    for name in [one for one in only if one in QUICK] if quick else only:
        if name in PUBLISHED and name != "Binary10" and not SHARED.is_dir():
            print(f"not run: ../shared/data is absent ({name})")
            continue
        full = rows_of(name, quick)
        truth, (N, D) = truth_of(f"{name}, quick" if quick else name, full), full.X.shape
        with tempfile.TemporaryDirectory() as folder:
            np.save(Path(folder) / "X.npy", full.X)
            np.save(Path(folder) / "y.npy", full.y)
            del full
            for key, system in SYSTEMS.items():
                if name not in FEW.get(key, DATA):
                    continue
                told = [within(key, Path(folder), CAP, 1)]
                if told[0]["timed"].startswith("not installed"):
                    print(f"{system.label}: {told[0]['timed']}")
                    continue
                if system.random and told[0]["timed"].startswith(WHOLE):
                    told += [within(key, Path(folder), CAP, seed) for seed in range(2, (2 if quick else trials) + 1)]
                row = {"data": name, "N": N, "D": D, "system": system.label, "setting": system.setting}
                row |= summary(told, truth) | {"reference": truth.origin, "reference error": truth.error}
                print(row, flush=True)
                rows[name, system.label, system.setting] = row
                publish(NAME, [rows[one] for one in order if one in rows], 3)
