"""Are builds, samplers and certificates as fast as those of another checkout, which ``--tree`` names?

Processes of the two by turns, three of each, and in each a step three times after a smaller one that compiles. Seconds
are of the processor, the least of all: other work on the machine makes them more, never less. "ratio" is this checkout
over the other.
"""

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from benchmarks.commands import command
from benchmarks.tables import publish

TURNS = 3
ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import json, time, warnings
import numpy as np, pandas as pd
import bayescore as bc
warnings.simplefilter("ignore")
QUIET = {"random_state": 1, "progressbar": False}
KINDS = {
    "flat": ("y ~ x1 + x2 + x3 + x4", "logistic", 400_000),
    "probit": ("y ~ x1 + x2 + x3 + x4", "probit", 400_000),
    "poisson": ("c ~ x1 + x2 + x3 + x4", "poisson", 400_000),
    "(1 | g)": ("y ~ x1 + x2 + (1 | g)", "logistic", 200_000),
    "(1 | a) + (1 | b)": ("y ~ x1 + x2 + (1 | a) + (1 | b)", "logistic", 50_000),
}
def made(n):
    rng = np.random.default_rng(3)
    rows = pd.DataFrame(rng.normal(size=(n, 4)), columns=["x1", "x2", "x3", "x4"])
    rows["g"], rows["a"], rows["b"] = (rng.integers(0, size, n) for size in (max(20, n // 100), 30, 12))
    eta = 0.5 * rows["x1"] - 1.0 + rng.normal(size=max(20, n // 100))[rows["g"]] + rng.normal(size=30)[rows["a"]]
    rows["y"] = (eta + rng.logistic(size=n) > 0).astype(int)
    return rows.assign(c=rng.poisson(np.exp(0.5 * rows["x1"] - 0.5)))
def steps(n, formula, family):
    rows, times, kept = made(n), {}, []
    def timed(name, run):
        begin = time.process_time()
        kept.append(run())
        times[name] = time.process_time() - begin
    timed("build", lambda: bc.build_coreset(rows, formula=formula, family=family, **QUIET))
    core = kept[0]
    timed("draws", lambda: bc.sample(core, random_seed=1, progressbar=False))
    label = formula.split()[0]
    timed("certificate", lambda: bc.certify(kept[1], core, rows, label=label, progressbar=False))
    return times
for kind, (formula, family, n) in KINDS.items():
    steps(4_000, formula, family)
    for _ in range(3):
        for step, seconds in steps(n, formula, family).items():
            print(json.dumps([kind, step, seconds]), flush=True)
"""


@command("versions")
def main(tree: str | None = None) -> None:
    if tree is None:
        print("not run: give --tree, another checkout")
        return
    least: dict[tuple[str, str], dict[Path, float]] = defaultdict(dict)
    for _ in range(TURNS):
        for root in (ROOT, Path(tree).resolve()):
            # bytecode and machine code are kept where the tree is
            env = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
            done = subprocess.run(
                [sys.executable, "-c", SCRIPT], cwd=root, env=env, capture_output=True, text=True, check=True
            )
            for kind, step, seconds in map(json.loads, done.stdout.splitlines()):
                own = least[kind, step]
                own[root] = min(seconds, own.get(root, seconds))
    rows = [
        {"model": kind, "step": step, "seconds": own[ROOT], "other's": (other := own[Path(tree).resolve()])}
        | {"ratio": own[ROOT] / other}
        for (kind, step), own in least.items()
    ]
    publish("versions", rows)
