"""Seconds and memory of a piece of work, in this process or in a fresh one."""

import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple


class Timed(NamedTuple):
    """What a piece of work returned, its seconds by the clock, and its processor seconds over all threads."""

    result: Any
    wall: float
    cpu: float


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
