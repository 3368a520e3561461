"""Seconds and memory of a piece of work, in this process or in a fresh one, and what R and other Pythons print."""

import json
import multiprocessing
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pandas as pd


class Timed(NamedTuple):
    """What a piece of work returned, its seconds by the clock, and its processor seconds over all threads."""

    result: Any
    wall: float
    cpu: float


def processor_seconds() -> float:
    """Return what this process and its children have used."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def timed(work: Callable[[], Any]) -> Timed:
    """Run a piece of work and time it."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    return Timed(result, time.perf_counter() - wall, time.process_time() - cpu)


def peak_mb() -> float:
    """Return the peak memory of this process in MB."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def alone(work: Callable[..., Any], *arguments: Any) -> Any:
    """Return ``work(*arguments)`` of a fresh process."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *arguments).result()


def printed_json(*arguments: str, **environment: str) -> Any:
    """Return the JSON that a Python process of its own prints as its last line."""
    command = [sys.executable, *arguments]
    done = subprocess.run(command, env=os.environ | environment, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def r_has(package: str) -> bool:
    """Whether there is an R with a package."""
    command = ["Rscript", "-e", f"library({package})"]
    return shutil.which("Rscript") is not None and not subprocess.run(command, capture_output=True).returncode


def in_r(code: str, rows: pd.DataFrame, **fields: str) -> list[str]:
    """Return the lines that R prints; ``{path}`` in its code is a CSV file of the rows."""
    with TemporaryDirectory() as folder:
        path = f"{folder}/rows.csv"
        rows.to_csv(path, index=False)
        command = ["Rscript", "--vanilla", "-e", code.format(path=path, **fields)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout.strip().splitlines()
