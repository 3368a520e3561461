"""Build, draws and certificate from rows on a disk, in seconds and memory."""

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bayescore as bc
from benchmarks.sources.sources import peak_mb

Build = Callable[[Path], bc.Coreset]
Draw = Callable[[bc.Coreset], Any]
Found = tuple[Any, Any]  # draws, and their certificate


def whole_way(path: Path, build: Build, draw: Draw) -> tuple[dict[str, Any], Found]:
    """Build, draw and certify; return what that took, and what was found."""
    begin = time.perf_counter()
    core = build(path)
    built, peak = time.perf_counter() - begin, peak_mb()
    idata = draw(core)
    drawn = time.perf_counter() - begin
    certificate = bc.certify(idata, core, path, label="y", progressbar=False)
    row = {
        "D": core.n_features,
        "rows": len(core),
        "passes": core.params["passes"],
        "build, s": built,
        "draws, s": drawn - built,
        "certify, s": time.perf_counter() - begin - drawn,
        "level": str(certificate.level),
        "peak MB, build": peak,
        "peak MB": peak_mb(),
    }
    return row, (idata, certificate)


def measured(path: Path, warm: Path, build: Build, draw: Draw, tell: Callable[..., dict] | None = None) -> dict:
    """Compile by a small file, then go the `whole_way`, in this fresh process; `tell` adds columns on what is found."""
    warnings.simplefilter("ignore", UserWarning)
    whole_way(warm, build, draw)
    row, found = whole_way(path, build, draw)
    return row | (tell(*found) if tell else {})
