"""Calibrated coresets of 20 D rows on real data, 10 seeds: errors of the mode and of sds against the full data's.

Intercept, standardised columns, N(0, 4^2) priors; D counts the intercept. "mean" is the largest error of a mode in
posterior sds, "sd" the largest relative error of an sd of the Laplace approximation; beside them the same figures of
uniform subsamples of that size, and of the pair sensitivity / logistic. Reads ../shared/data.
"""

import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import bayescore as bc
from benchmarks.tables import publish

SHARED = Path(__file__).resolve().parents[1].parent / "shared" / "data"
PROBLEMS = (
    "chemreact_ds1_10",
    "covtype_ramp16pct",
    "covtype_cover2v4",
    "kddcup99_10pct",
    "phishing_libsvm",
)
SEEDS = 10


def load(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Return the numeric columns that are not constant, and the label."""
    frame = pd.read_parquet(SHARED / f"{name}.parquet")
    y = frame.pop("y").to_numpy()
    frame = frame.drop(columns=[c for c in ("cover_type", "label", "split") if c in frame])
    frame = frame.select_dtypes("number").astype(float)
    return frame.loc[:, frame.nunique() > 1], y


def main() -> None:
    if not SHARED.is_dir():
        print("not run: the published data are not in ../shared/data")
        return
    warnings.filterwarnings("ignore", message="all .* rows of the coreset have one label|column .* is constant")
    rows = []
    for name in PROBLEMS:
        X, y = load(name)
        for link in ("logistic", "probit"):
            design = {"intercept": True, "standardize": True, "likelihood": link, "progressbar": False}
            truth = bc.find_map(bc.full_data(X, y, **design))
            D = len(truth.beta)
            for method in ("uniform", "sensitivity", "calibrated") if link == "logistic" else ("uniform", "calibrated"):
                errors, taken, passes = [], [], 0
                for seed in range(SEEDS):
                    begin = time.perf_counter()
                    core = bc.build_coreset(X, y, method=method, size=20 * D, random_state=seed, **design)
                    taken.append(time.perf_counter() - begin)
                    own = bc.find_map(core)
                    passes = max(passes, core.params["passes"])
                    errors.append(
                        (np.abs((own.beta - truth.beta) / truth.sd).max(), np.abs(own.sd / truth.sd - 1).max())
                    )
                mean, sd = np.array(errors).T
                rows.append(
                    {
                        "data": name,
                        "N": len(y),
                        "D": D,
                        "M": 20 * D,
                        "likelihood": link,
                        "method": method,
                        "mean, median": np.median(mean),
                        "mean, worst": mean.max(),
                        "sd, median": np.median(sd),
                        "sd, worst": sd.max(),
                        "seconds": np.median(taken),
                        "passes, most": passes,
                    }
                )
    publish("calibrated", rows)
