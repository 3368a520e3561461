"""A plain run prints what is for its user, and nothing of what happens inside."""

import os
import re
import subprocess
import sys

import pytest

pytest.importorskip("dask.distributed")

# what PyMC says of its sampling, and the last line
EXPECTED = r"""
Multiprocess sampling \(2 chains in \d jobs?\)|Sequential sampling \(2 chains in 1 job\)
NUTS: \[.*\]
Sampling 2 chains for .* took \d+ seconds\.
We recommend running at least 4 chains for robust computation of convergence diagnostics
Chain \d reached the maximum tree depth\. .*
There were \d+ divergences after tuning\. .*
The (rhat statistic|effective sample size) .* See https://arxiv\.org/abs/1903\.08008 for details
done
"""
COMMON = """
import numpy as np, pandas as pd, bayescore as bc
rng, n = np.random.default_rng(0), 2000
a, b = rng.integers(0, 9, n), rng.integers(0, 5, n)
frame = pd.DataFrame({"x": rng.normal(size=n), "a": np.char.add("a", a.astype(str)), "b": b})
frame["y"] = frame["x"] + 0.5 * rng.normal(size=9)[a] + rng.logistic(size=n) > 0

def run(rows, formula, **options):
    core = bc.build_coreset(rows, formula=formula, random_state=1, progressbar=False, **options)
    idata = bc.sample(core, random_seed=2, progressbar=False, **DRAWS)
    bc.certify(idata, core, rows, progressbar=False)
"""
FLAT = """
DRAWS = {}
if __name__ == "__main__":
    import dask.dataframe as dd
    from dask.distributed import Client, LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster:
        with Client(cluster):
            run(dd.from_pandas(frame, npartitions=4), "y ~ x + a + b", size=400)
    print("done")
"""
GROUPS = """
DRAWS = {"draws": 100, "tune": 100, "chains": 2}
if __name__ == "__main__":
    run(frame, "y ~ x + (1 + x | a) + (1 | b)")
    print("done")
"""


def printed(script, folder):
    """Return the lines that a script prints, to either stream, on the day's first run of ArviZ."""
    path = folder / "script.py"
    path.write_text(COMMON + script)
    env = {name: value for name, value in os.environ.items() if name != "PYTHONWARNINGS"}
    env["XDG_CACHE_HOME"] = str(folder)  # ArviZ 0.23 notes there that it announced its successor today
    ran = subprocess.run([sys.executable, path], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return ran.stdout.splitlines()


def unexpected(lines):
    known = re.compile("|".join(EXPECTED.strip().split("\n")))
    return [line for line in lines if not known.fullmatch(line)]


@pytest.mark.slow
@pytest.mark.parametrize("script", [FLAT, GROUPS], ids=["flat, from Dask", "slopes and crossed groups"])
def test_a_plain_run_prints_nothing_of_the_inside(script, tmp_path):
    lines = printed(script, tmp_path)
    assert unexpected(lines) == []
    assert lines[-1] == "done"


def test_warnings_and_tracebacks_are_unexpected():
    lines = [
        "... UserWarning: PyTensor could not link to a BLAS installation.",
        "Using NumPy C-API based implementation for BLAS functions.",
        "2026-01-01 00:00:00,000 - distributed.worker - ERROR - Compute Failed",
        "RuntimeWarning: overflow encountered in square",
        "ArviZ is undergoing a major refactor",
    ]
    assert unexpected([*lines, "NUTS: [beta]", "done"]) == lines
