"""Times of builds, gradients, samplers and certificates beside those of an earlier commit: ratios inside one run.

Two processes, one a tree, do each piece of work in turn; compilation is over before the first is timed. The earlier
tree is checked out beside this one and removed afterwards. Where names of the interface changed, either is taken.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.commands import command
from benchmarks.tables import publish

COMMIT, REPEATS = "938af35", 9
ROOT = Path(__file__).parents[2]


@command("earlier")
def main(trials: int = REPEATS, commit: str = COMMIT) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "earlier"
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", tree, commit], cwd=ROOT, check=True)
        try:
            rows = _compared(tree, trials, commit)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", tree], cwd=ROOT, check=True)
    publish("earlier", rows, digits=3)


def _compared(tree: Path, trials: int, commit: str) -> list[dict[str, Any]]:
    then, now = _worker(tree), _worker(ROOT)
    rows = []
    for name in WORK:
        pairs = [(_asked(then, name), _asked(now, name)) for _ in range(trials + 1)][1:]  # the first may compile
        ratios = sorted(new / old for old, new in pairs)
        row = {"work": name, "commit": commit, "its seconds": statistics.median(old for old, _ in pairs)}
        row |= {"seconds now": statistics.median(new for _, new in pairs)}
        row |= {"ratio": statistics.median(ratios), "lowest": ratios[0], "highest": ratios[-1]}
        print(row, flush=True)
        rows.append(row)
    for each in (then, now):
        each.communicate("")
    return rows


def _worker(tree: Path) -> "subprocess.Popen[str]":
    environment = os.environ | {"PYTHONPATH": str(tree)}
    command = [sys.executable, __file__]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=tree, env=environment, **pipes)  # type: ignore[call-overload, no-any-return]


def _asked(worker: "subprocess.Popen[str]", name: str) -> float:
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write(name + "\n")
    worker.stdin.flush()
    for line in worker.stdout:
        if line.startswith("seconds "):
            return float(line.split()[1])
    raise RuntimeError(f"the process of {worker.args} ended in the work {name!r}")


class Data:
    """What the pieces of work are about, made once a process."""

    def __init__(self) -> None:
        import numpy as np
        import pandas as pd

        import bayescore as bc

        self.bc, rng, n, d = bc, np.random.default_rng(0), 1_000_000, 10
        X = np.column_stack([np.ones(n), rng.normal(size=(n, d))])
        eta = X @ np.linspace(-1, 1, d + 1)
        self.X, self.y = X, eta + rng.logistic(size=n) > 0
        self.full = getattr(bc, "all_rows", None) or bc.full_data
        self.rows = self.full(X, self.y, progressbar=False)
        self.core = bc.build_coreset(X, self.y, size=500, random_state=0, progressbar=False)
        self.idata = bc.sample(self.core, sampler="mala", draws=500, tune=500, cores=1, **SEEDED)
        groups = rng.integers(0, 500, 100_000)
        frame = pd.DataFrame(X[:100_000, 1:4], columns=list("abc")).assign(g=groups)
        self.frame = frame.assign(y=eta[:100_000] + rng.normal(size=500)[groups] + rng.logistic(size=100_000) > 0)
        self.grouped = bc.build_coreset(self.frame, **GROUPED)
        self.effects = bc.sample(self.grouped, draws=500, tune=500, cores=1, **SEEDED)


SEEDED = {"random_seed": 1, "progressbar": False}
GROUPED: dict[str, Any] = {"formula": "y ~ a + b + c + (1 | g)", "random_state": 0, "progressbar": False}


@cache
def _loop() -> Callable[..., float]:
    import numba

    from bayescore.models.density import log_density

    @numba.njit
    def loop(n, beta, gradient, arguments):  # type: ignore[no-untyped-def]
        total = 0.0
        for _ in range(n):
            total += log_density(beta, gradient, *arguments)
        return total

    return loop  # type: ignore[no-any-return]


def _gradients(data: Data) -> None:
    import numpy as np

    from bayescore.models.posterior import posterior
    from bayescore.models.priors import Normal

    target = posterior(data.core, "logistic", Normal(0, 4))
    _loop()(50_000, np.zeros(11), np.empty(11), target.arguments())


WORK: dict[str, Callable[[Data], Any]] = {
    "build: calibrated": lambda data: data.bc.build_coreset(
        data.X, data.y, method="calibrated", size=500, random_state=0, progressbar=False
    ),
    "build: condensed": lambda data: data.bc.build_coreset(
        data.X, data.y, method="condensed", random_state=0, progressbar=False
    ),
    "build: uniform": lambda data: data.bc.build_coreset(
        data.X, data.y, method="uniform", size=500, random_state=0, progressbar=False
    ),
    "build: (1 | g)": lambda data: data.bc.build_coreset(data.frame, **GROUPED),
    "gradients of 500 rows": _gradients,
    "find_map of all rows": lambda data: data.bc.find_map(data.rows, "logistic"),
    "sampler: mala": lambda data: data.bc.sample(data.core, sampler="mala", draws=1000, cores=1, **SEEDED),
    "sampler: polya_gamma": lambda data: data.bc.sample(data.core, sampler="polya_gamma", draws=500, cores=1, **SEEDED),
    "sampler: collapsed, (1 | g)": lambda data: data.bc.sample(data.grouped, draws=500, cores=1, **SEEDED),
    "certify": lambda data: data.bc.certify(data.idata, data.core, data.X, data.y, progressbar=False),
    "certify: (1 | g)": lambda data: data.bc.certify(data.effects, data.grouped, data.frame, progressbar=False),
}


if __name__ == "__main__":
    made = Data()
    for asked in sys.stdin:
        begin = time.perf_counter()
        WORK[asked.strip()](made)
        print("seconds", time.perf_counter() - begin, flush=True)
