r"""Whose posterior is nearer, bayescore's or that of what else is free? Errors, then seconds, passes and memory.

All systems have the same design, N(0, 4^2) priors and a process of their own with one BLAS thread, stopped after 60
processor seconds, imports included (300 on w8a, where bayescore had ``--cap 600``). The design has an intercept, which
D counts, and standardised columns where rows are published, but for w8a's of 0 and 1: standardised, rare ones get
coefficients with walls, and the reference's own chains do not mix (R-hat 1.9 after ten minutes). ``--quick`` has first
settings alone, on 5,000 rows of two sets.

Errors are against the reference's mean m and covariance S = L L': "mean" is :math:`|L^{-1}(\mu - m)| / \sqrt D`, "sd"
the largest relative error of an sd, "KL" the Kullback-Leibler divergence KL(system || reference) of the normal
distributions with these moments, "z2" the mean of squared errors of means in sds (Hot DoG's average squared z-score,
2024). Draws of a system have Monte Carlo errors in them: about 1 / sqrt(ESS) in "mean", D (D + 3) / (4 ESS) in KL.

The reference is by importance weights from the Laplace approximation where at least 80% of its draws count, else long
MCMC on all rows (`full_posteriors`); "reference error" is its own in "mean", below which nothing can be told apart.

"processor s" are those of all threads, from rows in memory to moments, imports left out; compiled code that a library
keeps on disk is there, what it compiles in each process counts. "seconds" are the clock's. The machine had other work:
compare times inside one data set, and processor seconds rather than the clock's. NUTS on all rows is *scaled* (nuts.py:
a timed gradient times the gradients of 4 x 2000 draws), and its errors are those *expected* of so many effective draws:
of sds, the largest of D errors, by simulation. Where it was stopped, counting those gradients on the coreset and timing
a few on all rows took the limit already.
"passes" are passes over all rows, or as many gradients' rows; "peak MB" the process's, libraries and rows included.

Each system has its documented setting first (SGLD-CV has none for its step), then those of its grid: see the modules of
`rival_systems`. "best" is the setting with the least error of the mean; that is four times the draws for bayescore on
most sets, which NUTS, HMCECS and uniform subsamples did not get, so the page has bayescore's first setting beside it.
"its build warns" says that the coreset's own build expects errors beyond its tolerance. GIGA, quasi-Newton, coreset
MCMC (from its authors' published code) and SGLD-CV are our own short implementations. One seed.

``pip install numpyro pymc-extras glum`` for those that bayescore does not bring; a missing one is said so in "timed".
``--only chemreact "w8a"`` runs some sets, ``--rivals bayescore,sgld`` some systems; other rows of the CSV stay.
A system or a setting without a row for a data set has not been run there. ``make evidence`` has three of the eight
sets, an easy, a large and a skewed one, so that it ends within three hours.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayescore.compiled import available_cores
from benchmarks.commands import command
from benchmarks.problems import SHARED
from benchmarks.rivals.rival_systems import SYSTEMS
from benchmarks.rivals.rival_systems.process import within
from benchmarks.rivals.rival_systems.truth import DATA, PUBLISHED, QUICK, Truth, errors_of, rows_of, truth_of
from benchmarks.tables import known_rows, publish

NAME = "rival_posteriors"
CAP, QUICK_CAP = 60.0, 20.0
CAPS = {"w8a": 300.0}  # of hundreds of columns
EVIDENCE = "chemreact", "Binary10", "KDD, numeric"


def others(data: str, systems: Sequence[str]) -> list[dict[str, Any]]:
    """Return the rows of the CSV that are not measured anew."""
    labels = [SYSTEMS[one].label for one in systems]
    return [row for row in known_rows(NAME) if row["data"] != data or row["system"] not in labels]


def row_of(told: dict[str, Any], truth: Truth) -> dict[str, Any]:
    """Return the measured part of a row."""
    cores, cpu = available_cores(), told.get("cpu", np.nan)
    errors = "expected" if told.get("ess") is not None else "measured" if told.get("mean") is not None else ""
    return {
        "errors": errors,
        **errors_of(told, truth),
        "processor s": cpu,
        "seconds": cpu / cores if errors == "expected" else told.get("seconds", np.nan),
        "passes": told.get("passes", np.nan),
        "peak MB": told.get("MB", np.nan),
        "timed": told["timed"],
    }


def marked(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows in order, with the best setting of each system on each set marked."""
    order = [system.label for system in SYSTEMS.values()]
    rows = sorted(rows, key=lambda row: (DATA.index(row["data"]), order.index(row["system"])))
    frame = pd.DataFrame(rows)
    frame["best"], frame["mean, documented"] = False, np.nan
    for _, own in frame.groupby(["data", "system"], sort=False):
        frame.loc[own.index[0] if own["mean"].isna().all() else own["mean"].idxmin(), "best"] = True
        frame.loc[own.index, "mean, documented"] = own["mean"].where(own["documented"].astype(bool)).max()
    return frame.to_dict("records")


def study(name: str, systems: Sequence[str], cap: float, quick: bool) -> list[dict[str, Any]]:
    """Run systems on one data set, one after the other."""
    full = rows_of(name, quick)
    truth, rows = truth_of(f"{name}, quick" if quick else name, full), []
    about = {"data": name, "N": len(full), "D": full.n_features}
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "X.npy", full.X)
        np.save(Path(folder) / "y.npy", full.y)
        del full
        for key in systems:
            for number, setting in enumerate(SYSTEMS[key].settings):
                if number and (quick or not rows[-1]["timed"].startswith(("whole", "scaled"))):
                    break  # a grid of what was stopped would be, too
                told = within(key, setting, Path(folder), cap)
                rows.append(
                    {
                        **about,
                        "system": SYSTEMS[key].label,
                        "setting": setting,
                        "documented": SYSTEMS[key].documented and number == 0,
                        **row_of(told, truth),
                        "cap": cap,
                        "reference": truth.origin,
                        "reference error": truth.error,
                    }
                )
                print({key: value for key, value in rows[-1].items() if key != "reference"}, flush=True)
    return rows


@command("rival_posteriors", evidence=EVIDENCE, sets=DATA)
def main(
    only: Sequence[str] = DATA, rivals: str = ",".join(SYSTEMS), cap: float | None = None, *, quick: bool = False
) -> None:
    """Run systems on data sets and write the table after each."""
    systems = [one for one in rivals.split(",") if one]
    if unknown := [one for one in systems if one not in SYSTEMS]:
        raise SystemExit(f"unknown rival {unknown[0]!r}; choose from {', '.join(SYSTEMS)}")
    for name in [one for one in only if one in QUICK] if quick else only:
        if name in PUBLISHED and name != "Binary10" and not SHARED.is_dir():
            print(f"not run: ../shared/data is absent ({name})")
            continue
        limit = cap or (QUICK_CAP if quick else CAPS.get(name, CAP))
        rows = marked(others(name, systems) + study(name, systems, limit, quick))
        publish(NAME, rows)
