"""One system on one data set, in a process of its own with a limit on its processor time.

``python -m benchmarks.rivals.process SYSTEM FOLDER SEED`` reads X.npy and y.npy and prints a line
of JSON.
"""

import json
import os
import re
import resource
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

PATIENCE = 6.0  # times the limit in seconds of the clock, on a machine with other work
KILLED = "stopped after"


def within(system: str, folder: Path, cap: float, seed: int = 0) -> dict[str, Any]:
    """Return what the system's process found, or why it found nothing."""
    command = [sys.executable, "-m", "benchmarks.rivals.process", system, str(folder), str(seed)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    limit, before = (int(cap), int(cap) + 1), seconds_of(resource.RUSAGE_CHILDREN)
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=PATIENCE * cap,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, limit),
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"timed": f"{KILLED} {PATIENCE * cap:,.0f} s of the clock"}
    if done.returncode:
        print(done.stderr[-1500:])
        return {"timed": why(done.returncode, done.stderr, seconds_of(resource.RUSAGE_CHILDREN) - before, cap)}
    return json.loads(done.stdout.splitlines()[-1])


def why(code: int, stderr: str, used: float, cap: float) -> str:
    """Return why a process ended with that code after `used` processor seconds: the limit's signal is no crash."""
    if -code == signal.SIGXCPU or (-code == signal.SIGKILL and used >= cap):
        return f"{KILLED} {cap:,.0f} s"
    if code < 0:
        return f"failed: killed by signal {-code}"
    said = re.findall(r"^[\w.]*Error.*", stderr, re.MULTILINE) or stderr.strip().splitlines() or ["without a word"]
    return "failed: " + said[-1][:100]


def seconds_of(*who: int) -> float:
    """Return the processor seconds of this process, or of those it waited for."""
    return sum(sum(resource.getrusage(one)[:2]) for one in who)


def main(system: str, folder: Path, seed: int) -> dict[str, Any]:
    """Run, and return what is told of it."""
    from benchmarks.rivals.systems import SYSTEMS, Rows

    rows = Rows(np.load(folder / "X.npy"), np.load(folder / "y.npy"), seed)
    try:
        run = SYSTEMS[system].work(rows)
    except ImportError as missing:
        return {"timed": f"not installed: {missing.name or missing}"}
    both = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    cpu = seconds_of(*both)
    found = run()
    cpu = seconds_of(*both) - cpu
    peak = max(resource.getrusage(who).ru_maxrss for who in both) / 1024
    told = {"mean": found.mean.tolist(), "covariance": found.covariance.tolist(), "timed": found.timed}
    return told | {"cpu": cpu, "MB": peak}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print("\n" + json.dumps(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))))
