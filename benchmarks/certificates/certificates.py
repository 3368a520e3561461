"""Is "certified" right? Thousands of certificates beside known posteriors: false ones, and good draws refused.

A cell is a problem (`certificate_problems`), a method, a size of 3 to 40 D rows (or a quarter or half of all rows,
or "auto") and one run of a sampler, from one seed: cell c uses seed [13, c]. Its trials show the certificate the draws,
three short parts of them and four kinds of wrong ones (`certificate_draws`). Truth is the error of the figures that
one reads off the draws themselves, Monte Carlo error included: the largest of a mean in sds, of an sd (relative) and
of a correlation, less three standard errors of the reference; where sds do not exist, of median and quartile spread.
*False*: "certified" though the draws, or "corrected" though the corrected draws are off by more than 0.25 in one of
these. *Good*: right draws, at least 1,000 effective ones (bulk and tail), within 0.1 sd, 10% and 0.1 of a
correlation. Intervals are Clopper and Pearson's, 95%: by trials, of those with a word ("certified", "corrected"), as
most of the short and wrong ones can only be refused; and by cells, whose trials share a coreset and a run: the cells
with a false word, of those with any.

Rows are appended to ``.references/certificate_trials.csv`` as they come, and a run goes on where the last one ended:
delete that file when the code has changed. ``--trials 3200 --workers 2`` are the defaults.
"""

import csv
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

import numpy as np
import pandas as pd
from scipy import stats
from threadpoolctl import threadpool_limits

from benchmarks.accuracy.full_posteriors import FOLDER
from benchmarks.certificates.certificate_problems import PROBLEMS
from benchmarks.certificates.certificate_references import reference
from benchmarks.certificates.certificate_trials import PARTS, WRONG, Row, cell, study, width
from benchmarks.commands import command
from benchmarks.tables import publish

LOG = FOLDER / "certificate_trials.csv"
TRIALS = 3200
OFF, GOOD, GOOD_ESS = 0.25, 0.1, 1000.0
FIELDS = (
    "cell", "trial", "problem", "D", "family", "prior", "method", "rows", "sampler", "kind", "chains", "draws", "level",
    "ESS", "mean", "sd", "correlation", "off", "corrected mean", "corrected sd", "corrected correlation",
    "corrected off", "seconds",
)  # fmt: skip


def _settle(index: int) -> int:
    warnings.filterwarnings("ignore")
    with threadpool_limits(1):
        reference(PROBLEMS[index])
    return index


def run(trials: int, workers: int) -> pd.DataFrame:
    """Find references, then run cells until there are so many trials; return all of them."""
    FOLDER.mkdir(exist_ok=True)
    numbers = range(-(-trials // (1 + PARTS + WRONG)))
    done = set(pd.read_csv(LOG)["cell"]) if LOG.is_file() else set()
    missing = [number for number in numbers if number not in done]
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool, LOG.open("a", newline="") as log:
        for _ in pool.map(_settle, sorted({cell(number).problem for number in missing}, key=lambda i: -PROBLEMS[i].d)):
            pass
        print("references are there", flush=True)
        writer = csv.DictWriter(log, FIELDS)
        if not done:
            writer.writeheader()
        # wide ones first, so that no worker is left with one at the end
        order = sorted(missing, key=lambda number: -cell(number).posterior.d)
        tasks = {pool.submit(study, number): number for number in order}
        for count, task in enumerate(as_completed(tasks), 1):
            rows = task.result()
            writer.writerows({**row, **{k: f"{v:.4g}" for k, v in row.items() if isinstance(v, float)}} for row in rows)
            log.flush()
            if count % 20 == 0:
                print(f"{count} of {len(missing)} cells", flush=True)
    frame = pd.read_csv(LOG)
    return frame[frame["cell"].isin(numbers)].sort_values(["cell", "trial"])


def judged(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the trials with a certificate, and of each whether it was said, was false, and should have been said."""
    frame = frame[frame["kind"].notna()].copy()
    frame["certified"] = frame["level"] == "certified"
    frame["corrected"] = frame["level"] == "corrected"
    frame["false"] = (frame["certified"] & (frame["off"] > OFF)) | (frame["corrected"] & (frame["corrected off"] > OFF))
    frame["good"] = (
        (frame["kind"] == "own")
        & (frame["ESS"] >= GOOD_ESS)
        & (frame[["mean", "sd", "correlation"]].fillna(0.0) <= GOOD).all(axis=1)
    )
    frame["columns"] = frame["D"].map(width)
    return frame


def upper(k: int, n: int) -> float:
    """Return the upper end of Clopper and Pearson's 95% interval of a share, k of n."""
    return float(stats.binomtest(k, n).proportion_ci(method="exact").high) if n else 1.0


def counted(group: pd.DataFrame) -> Row:
    """Return how often which word was said, and how often it was false or missing."""
    said = int((group["certified"] | group["corrected"]).sum())
    cells = group[group["certified"] | group["corrected"]].groupby("cell")["false"].any()
    false, good = int(group["false"].sum()), group[group["good"]]
    kept = int(good["certified"].sum())
    return {
        "trials": len(group),
        "certified": int(group["certified"].sum()),
        "corrected": int(group["corrected"].sum()),
        "false": false,
        "false, of said at most": upper(false, said),
        "false, of cells at most": upper(int(cells.sum()), len(cells)),
        "good": len(good),
        "good, certified": kept,
        "good, corrected": int(good["corrected"].sum()),
        "power": kept / len(good) if len(good) else np.nan,
    }


def summary(frame: pd.DataFrame) -> list[Row]:
    """Return the counts of all trials, and by method, columns, link, prior, kind of draws and their number."""
    frame = judged(frame)
    rows = [{"by": "all", "value": "", **counted(frame)}]
    for by in ("method", "columns", "family", "prior", "rows", "kind", "draws"):
        rows += [{"by": by, "value": value, **counted(group)} for value, group in frame.groupby(by, sort=True)]
    return rows


def references_used(frame: pd.DataFrame) -> list[Row]:
    """Return a row for each problem: where its truth comes from, and its largest errors."""
    rows = []
    for index in sorted(set(frame["problem"])):
        problem = PROBLEMS[index]
        found = reference(problem)
        if found is None:
            continue
        known, error = (found.robust, found.robust_error) if problem.robust else (found.moments, found.error)
        rows.append(
            {
                "problem": index,
                "rows": problem.rows,
                "N": len(problem.data),
                "D": problem.data.n_features,
                "family": problem.family,
                "prior": problem.prior,
                "reference": found.kind,
                "R-hat or ESS": found.quality,
                "mean error": (error.location / known.scale).max(),
                "sd error": (error.scale / known.scale).max(),
                "correlation error": error.correlation.max(initial=0.0),
            }
        )
    return rows


@command("certificates")
def main(trials: int = TRIALS, workers: int = 2) -> None:
    frame = run(trials, workers)
    print(frame["level"].value_counts().to_string())
    publish("certificate_references", references_used(frame), 3)
    short = [name for name in FIELDS if name not in ("D", "family", "prior", "sampler", "seconds")]
    publish("certificate_trials", frame[short].to_dict("records"), 2)
    publish("certificates", summary(frame), 4)
