"""One system on one data set, in a process of its own with a limit on its processor time.

``python -m benchmarks.rivals.rival_systems.process SYSTEM SETTING FOLDER SEED`` reads X.npy and y.npy and prints a line
of JSON.
"""

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

PATIENCE = 6.0  # times the limit in seconds of the clock, on a machine with other work
KILLED = "stopped after"


def within(system: str, setting: str, folder: Path, cap: float, seed: int = 0) -> dict[str, Any]:
    """Return what the system's process found, or why it found nothing."""
    command = [sys.executable, "-m", "benchmarks.rivals.rival_systems.process", system, setting, str(folder), str(seed)]
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


def seconds_of(who: int) -> float:
    """Return the processor seconds of this process, or of those it waited for."""
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def spent() -> float:
    """Return the processor seconds of this process and of those it waited for."""
    return seconds_of(resource.RUSAGE_SELF) + seconds_of(resource.RUSAGE_CHILDREN)


def main(system: str, setting: str, folder: Path, seed: int) -> dict[str, Any]:
    """Run, and return what is told of it."""
    from benchmarks.rivals.rival_systems import SYSTEMS
    from benchmarks.rivals.rival_systems.found import Rows

    rows = Rows(np.load(folder / "X.npy"), np.load(folder / "y.npy"), seed)
    try:
        run = SYSTEMS[system].settings[setting](rows)
    except ImportError as missing:
        return {"timed": f"not installed: {missing.name or missing}"}
    wall, cpu = time.perf_counter(), spent()
    found = run()
    wall, cpu = time.perf_counter() - wall, spent() - cpu
    told = {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in asdict(found).items()}
    told["seconds"] = wall if found.cpu is None else None
    told["cpu"] = cpu if found.cpu is None else found.cpu
    peaks = [resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    told["MB"] = max(peaks) / 1024
    return told


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    told = main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
    print("\n" + json.dumps(told))
