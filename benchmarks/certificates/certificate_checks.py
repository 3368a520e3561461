"""What one gets without options, and what correction makes of coresets that are too small.

`certificate_defaults`: ``build_coreset(X, y, intercept=True, standardize=True)``, `sample`, `certify`, 20 seeds on each
set. Draws come from MALA, the default up to 200 columns (of w8a 4 x 500), on German credit, ChemReact and Binary10 from
NUTS.

`certificate_corrections`: calibrated coresets of 5 D rows, 4 x 4000 draws, 3 seeds, beside the posterior of all rows by
`importance`, or long MCMC (`full_posteriors`) where its draws cover too little. Largest errors of the raw and of the
corrected draws: of a mean in sds, of an sd (relative) and of a correlation, and each with two standard errors (of draws
and reference) off; *within* says that the latter are at most 0.05 for means and sds.

Rows are kept in ``.references/`` as they come, and a run goes on where the last one ended: delete those files when the
code has changed. ``--trials`` are seeds, ``--workers 2`` processes.
"""

import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import bayescore as bc
from benchmarks.accuracy.full_posteriors import FOLDER, reference
from benchmarks.accuracy.importance import Known, by_importance, gaps, of_draws
from benchmarks.certificates.certificate_problems import german
from benchmarks.commands import command
from benchmarks.problems import PROBLEMS, SHARED, load, readable
from benchmarks.tables import publish

GERMAN, WIDE = "german_credit", "w8a_train"
MADE_HARD = ("quasi-separated", "gauss")  # in the corrections alone, where w8a's reference would take an hour
NUTS = (GERMAN, "chemreact_ds1_10", "Binary10")
DESIGN = {"intercept": True, "standardize": True, "progressbar": False}
LINK, PRIOR = "logistic", bc.priors.Normal(0, 4)
NEGLIGIBLE_ERROR = 0.05
LEAST_SHARE = 0.3  # of the draws of `importance`, below which long MCMC is the reference
KINDS = ("mean", "sd", "correlation")
Row = dict[str, Any]


def rows_of(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Return raw columns and labels."""
    return german() if name == GERMAN else load(name)


def kept(path: Path, tasks: list[tuple[str, int]], work: Callable[[str, int], Row], workers: int) -> pd.DataFrame:
    """Return a row for each task (set, seed): those in the file, and the others, appended to it as they come."""
    FOLDER.mkdir(exist_ok=True)
    old = pd.read_csv(path) if path.is_file() else pd.DataFrame(columns=["data", "seed"])
    done = set(zip(old["data"], old["seed"], strict=True))
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        asked = [pool.submit(work, *task) for task in tasks if task not in done]
        for one in as_completed(asked):
            row = one.result()
            pd.DataFrame([row]).to_csv(path, mode="a", header=not path.is_file(), index=False, float_format="%.5g")
            print(row["data"], row["seed"], row["level"], flush=True)
    frame = pd.read_csv(path)
    return frame[[task in tasks for task in zip(frame["data"], frame["seed"], strict=True)]]


def default(name: str, seed: int) -> Row:
    """Build, sample and certify as one does who gives no options."""
    warnings.filterwarnings("ignore")  # what chains warn of, the certificate sees
    X, y = rows_of(name)
    times = [time.perf_counter()]
    core = bc.build_coreset(X, y, random_state=seed, **DESIGN)
    times.append(time.perf_counter())
    options: Row = {"sampler": "nuts"} if name in NUTS else {"sampler": "mala"}
    if name == WIDE:
        options |= {"draws": 500, "tune": 250}
    idata = bc.sample(core, cores=1, random_seed=seed, progressbar=False, **options)
    times.append(time.perf_counter())
    certificate = bc.certify(idata, core, X, y, progressbar=False)
    times.append(time.perf_counter())
    build, draw, certify = np.diff(times)
    return {
        "data": name,
        "seed": seed,
        "N": len(y),
        "D": core.n_features,
        "rows": len(core),
        "sampler": options["sampler"],
        "level": str(certificate.level),
        "build": build,
        "sample": draw,
        "certify": certify,
        "text": certificate.text,
    }


@command("certificate_defaults")
def defaults(trials: int = 20, workers: int = 2) -> None:
    names = [*(name for name in readable(PROBLEMS) if name not in MADE_HARD), *([GERMAN] if SHARED.is_dir() else [])]
    # the wide one first, so that no worker is left with it at the end
    names.sort(key=lambda name: name != WIDE)
    tasks = [(name, seed) for name in names for seed in range(trials)]
    frame = kept(FOLDER / "certificate_defaults.csv", tasks, default, workers)
    rows = []
    for name, group in frame.groupby("data", sort=False):
        row = {"data": name, **group[["N", "D", "sampler"]].iloc[0], "rows, median": int(group["rows"].median())}
        row |= {"seeds": len(group)}
        row |= {level: int((group["level"] == level).sum()) for level in ("certified", "corrected", "not certified")}
        rows.append(row | {f"{part} (s)": group[part].median() for part in ("build", "sample", "certify")})
    publish("certificate_defaults", rows, 3)


def truth(name: str, data: bc.Coreset) -> Known:
    """Return the figures of the full data's posterior: by importance where it is nearly normal, else by long MCMC."""
    found = by_importance(data, bc.find_map(data, LINK, PRIOR), LINK, PRIOR)
    if found.share >= LEAST_SHARE:
        return found
    return of_draws(reference(name, data, LINK, PRIOR).posterior["beta"].values)


def correction(name: str, seed: int) -> Row:
    """Correct the posterior of a coreset of 5 D rows."""
    warnings.filterwarnings("ignore")
    X, y = rows_of(name)
    data = bc.build_coreset(X, y, method="aggregate", **DESIGN)
    known = truth(name, data)
    size = 5 * data.n_features
    core = bc.build_coreset(X, y, method="calibrated", size=size, random_state=seed, **DESIGN)
    idata = bc.sample(
        core, LINK, PRIOR, sampler="mala", draws=4000, tune=250, thin=20, cores=1, random_seed=seed, progressbar=False
    )
    certificate = bc.certify(idata, core, data, progressbar=False)
    row = {"data": name, "seed": seed, "D": data.n_features, "rows": len(core), "level": str(certificate.level)}
    row["reference"] = "MCMC" if known.share == 1.0 else f"importance, {known.share:.2f}"
    row |= {f"raw {key}": value for key, value in gaps(idata.posterior["beta"].values, known).items()}
    new = {} if certificate.idata is None else gaps(certificate.idata.posterior["beta"].values, known)
    row |= {f"corrected {kind}{of}": new.get(f"{kind}{of}", np.nan) for kind in KINDS for of in ("", " beyond")}
    beyond = [row[f"corrected {kind} beyond"] for kind in ("mean", "sd")]
    return row | {"within": bool(max(beyond) <= NEGLIGIBLE_ERROR) if new else "", "text": certificate.text}


@command("certificate_corrections")
def corrections(trials: int = 3, workers: int = 2) -> None:
    names = [name for name in readable(PROBLEMS) if name != WIDE]
    tasks = [(name, seed) for seed in range(trials) for name in names]
    frame = kept(FOLDER / "certificate_corrections.csv", tasks, correction, workers)
    publish("certificate_corrections", frame.drop(columns="text").to_dict("records"), 3)
