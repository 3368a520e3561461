"""Coresets and draws whose bits are kept in digests.json: each method, likelihood, source and sampler from two seeds.

``python -m tests.golden.cases`` writes the file anew; do so only where a change of bits is meant, and say so in the
changelog. Bits depend on the rounding of BLAS and of compiled code, so that digests of all bits are kept by
environment; elsewhere the rows that were drawn must be the same, and sums over them agree to `ROUNDING`.
"""

import hashlib
import json
import sys
import warnings
from importlib.metadata import version
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

import bayescore as bc

FILE = Path(__file__).with_name("digests.json")
ROUNDING = 1e-6
SEEDS = (3, 4)
N = 70_000  # two blocks

METHODS = {
    "uniform": {"size": 40},
    "sensitivity": {"size": 40},
    "leverage": {"size": 40},
    "leverage by sketch": {"method": "leverage", "scores": "sketch", "size": 40},
    "online": {"size": 40},
    "merge_reduce": {"size": 32, "leaf_rows": 20_000},
    "merge_reduce by condensed": {"method": "merge_reduce", "reduce": "condensed", "size": 32, "leaf_rows": 20_000},
    "merge_reduce by sensitivity": {"method": "merge_reduce", "reduce": "sensitivity", "size": 32, "leaf_rows": 20_000},
    "merge_reduce by leverage": {"method": "merge_reduce", "reduce": "leverage", "size": 32, "leaf_rows": 20_000},
    "calibrated": {"size": 80},
    "condensed": {"size": 30},
    "aggregate": {},
    "multilevel": {"intercept": True},
    "auto": {"size": 80},
    "auto of a stream": {"method": "auto", "size": 32},
}
ONE_PASS = ("uniform", "online", "merge_reduce", "aggregate")
SOURCES = ("array", "parquet", "dask", "stream")
SAMPLERS = {"nuts": ("logistic", "probit"), "mala": ("logistic", "probit"), "gibbs": ("probit",)}
SAMPLERS["polya_gamma"] = ("logistic",)


def rows():
    """Return X and y: two columns of numbers, and one with as few values as aggregation needs of all of them."""
    rng = np.random.default_rng(11)
    X = np.column_stack([np.round(rng.normal(size=N), 1), rng.integers(0, 3, N), rng.integers(0, 2, N)])
    return X.astype(np.float64), np.where(X[:, 0] - 0.5 * X[:, 1] + rng.logistic(size=N) > 0, "yes", "no")


X, Y = rows()


def groups():
    """Return the groups of rows, whose labels are not alike."""
    rng = np.random.default_rng(12)
    found = rng.integers(0, 40, N)
    return np.where((Y == "yes") & (rng.random(N) < 0.2), found // 2, found)


GROUP = groups()


def as_source(kind, folder, grouped=False):
    """Return the rows as a source of that kind, with what `build_coreset` is to be told of it."""
    if kind == "array":
        return (X, Y), {"groups": GROUP} if grouped else {}
    if kind == "stream":
        return (((X[i : i + 9_000], Y[i : i + 9_000]) for i in range(0, N, 9_000)),), {}
    frame = pd.DataFrame(X, columns=["x0", "x1", "x2"]).assign(label=Y)
    told = {"label": "label", **({"groups": "group"} if grouped else {})}
    if grouped:
        frame["group"] = GROUP
    if kind == "parquet":
        path = Path(folder) / f"rows{'_grouped' * grouped}.parquet"
        if not path.exists():
            frame.to_parquet(path, row_group_size=15_000)
        return (path,), told
    import dask.dataframe as dd

    return (dd.from_pandas(frame, npartitions=5),), told


def cases():
    """Yield the coresets that there are: method, likelihood and source."""
    for name, likelihood, source in product(METHODS, ("logistic", "probit"), SOURCES):
        if likelihood == "probit" and "sensitivity" in name:
            continue  # its bound is the logistic likelihood's
        if name.startswith("auto"):  # what it chooses is above; here that it goes on to choose so
            if (likelihood, source) == ("logistic", "stream" if name.endswith("stream") else "array"):
                yield name, likelihood, source
            continue
        if source == "stream" and METHODS[name].get("method", name) not in ONE_PASS:
            continue
        yield name, likelihood, source


def build(name, likelihood, source, seed, folder=None):
    """Build one of the coresets."""
    arguments, told = as_source(source, folder, name == "multilevel")
    given = {"method": name, **METHODS[name], **told}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of coresets as small as these
        return bc.build_coreset(*arguments, likelihood=likelihood, random_state=seed, progressbar=False, **given)


def draw(sampler, likelihood):
    """Return the last draw of the first chain of one sampler, shape (D,)."""
    core = build("calibrated", likelihood, "array", SEEDS[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        idata = bc.sample(core, sampler=sampler, draws=50, tune=50, chains=2, cores=1, random_seed=5, progressbar=False)
    return idata.posterior["beta"].values[0, -1]


def environment():
    """Return what the rounding of sums depends on."""
    from llvmlite.binding import get_host_cpu_name

    parts = [f"{name} {version(name)}" for name in ("numpy", "scipy", "numba", "pymc", "pytensor")]
    return ", ".join([f"Python {sys.version_info[0]}.{sys.version_info[1]}", *parts, get_host_cpu_name()])


def digest(*arrays):
    """Return 16 hexadecimal digits of a hash of all bits."""
    made = hashlib.sha256()
    for array in arrays:
        made.update(np.ascontiguousarray(array).tobytes())
    return made.hexdigest()[:16]


def summary(core):
    """Return the digest of a coreset, that of the rows drawn, and sums over them that their weights enter."""
    sums = [core.weights.sum(), np.sqrt(core.weights @ core.weights), *(core.weights @ core.Z)]
    return digest(core.X, core.y, core.weights, core.index), digest(core.index), [float(value) for value in sums]


def main():
    """Write digests.json; other environments' digests stay where the sums are the same."""
    known = json.loads(FILE.read_text()) if FILE.exists() else {"coresets": {}, "draws": {}, "digests": {}}
    coresets, draws, own = {}, {}, {}
    with TemporaryDirectory() as folder:
        for (name, likelihood, source), seed in product(cases(), SEEDS):
            bits, index, sums = summary(build(name, likelihood, source, seed, folder))
            key = f"{name}, {likelihood}, seed {seed}"
            coresets.setdefault(key, {"rows": index, "sums": sums})
            own.setdefault(key, bits)
            if own[key] != bits:
                raise SystemExit(f"{key}: the {source} gives {bits}, the array {own[key]}")
    for sampler, likelihoods in SAMPLERS.items():
        for likelihood in likelihoods:
            beta = draw(sampler, likelihood)
            draws[f"{sampler}, {likelihood}"] = [float(value) for value in beta]
            own[f"{sampler}, {likelihood}"] = digest(beta)
    digests = known["digests"] if known["coresets"].keys() == coresets.keys() else {}
    digests[environment()] = own
    FILE.write_text(json.dumps({"coresets": coresets, "draws": draws, "digests": digests}, indent=1) + "\n")


if __name__ == "__main__":
    main()
