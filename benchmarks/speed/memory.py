"""How much memory does a build from Parquet take, by the number of rows and the way in?

Files of ten float32 columns and a label, and of four, one of text (30 levels), one that groups rows (2,000 counties)
and a label, written for the purpose and deleted; row groups of 2^20 rows, or all rows in one. ``calibrated`` of 20 D
rows, and ``multilevel`` for the groups, each build in a process of its own. "Peak MB" is of the whole process, of that
"imports and a small build" what it was after a build from 100,000 rows, which compiles.

A hundred million rows are read by label and by formula only. ``--rows`` takes other sizes than 1, 5, 15 and 100
million: a third of it, and it. It is no measure of seconds.
"""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy import special

import bayescore as bc
from benchmarks.commands import command
from benchmarks.measure import alone, peak_mb
from benchmarks.sources.parquet import ROW_GROUP, columns, rows_file
from benchmarks.tables import publish

SIZES = 1_000_000, 5_000_000, 15_000_000
MOST = 100_000_000
QUICK = 100_000, 300_000
WARM = 100_000
TEN = "y ~ " + " + ".join(f"x{d}" for d in range(1, 11))
LEVELS = np.array([f"level {i:02d}" for i in range(30)])


def normal(n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return n rows of standard normal columns."""
    X = rng.standard_normal((n, 10), dtype=np.float32)
    eta = X @ np.linspace(-1.0, 1.0, 10) - 1.0
    return {**columns(X), "y": (rng.random(n) < special.expit(eta)).astype(np.int8)}


def mixed(n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return n rows of four normal columns, one of text and one that groups rows."""
    X, kind, county = (
        rng.standard_normal((n, 4), dtype=np.float32),
        rng.integers(30, size=n),
        rng.integers(2000, size=n),
    )
    y = rng.random(n) < special.expit(X[:, 0] + 0.05 * kind - 1.5)
    text = {"kind": LEVELS[kind], "county": np.char.add("county ", county.astype(str))}
    return {**columns(X), **text, "y": y.astype(np.int8)}


CALIBRATED: dict[str, Any] = {"method": "calibrated", "size": 220}
LABEL = {**CALIBRATED, "label": "y", "intercept": True}
FORMULA = {**CALIBRATED, "formula": TEN}
TEXT = {"method": "calibrated", "size": 680, "formula": "y ~ x1 + x2 + x3 + x4 + kind", "standardize": True}
GROUPS = {"method": "multilevel", "formula": "y ~ x1 + x2 + x3 + x4 + (1 | county)"}
FILES = {"ten columns": (normal, ROW_GROUP), "ten columns, one row group": (normal, None), "text": (mixed, ROW_GROUP)}
PLAIN = ("ten columns", "by label"), ("ten columns", "by formula")  # what `MOST` rows are read by
WAYS: dict[tuple[str, str], dict[str, Any]] = {
    ("ten columns", "by label"): LABEL,
    ("ten columns", "by label, standardize"): {**LABEL, "standardize": True},
    ("ten columns", "by formula"): FORMULA,
    ("ten columns", "by formula, standardize"): {**FORMULA, "standardize": True},
    ("ten columns, one row group", "by label"): LABEL,
    ("ten columns, one row group", "by formula, standardize"): {**FORMULA, "standardize": True},
    ("text", "by formula with text, standardize"): TEXT,
    ("text", "by formula with (1 | county)"): GROUPS,
}


def peaks(path: Path, warm: Path, asked: dict[str, Any]) -> dict[str, float]:
    """Build from a small file and from `path`, in this fresh process; return the peak memory after each."""
    warnings.simplefilter("ignore", UserWarning)
    found = {}
    for file, name in ((warm, "imports and a small build, MB"), (path, "peak MB")):
        bc.build_coreset(file, random_state=0, progressbar=False, **asked)
        found[name] = peak_mb()
    return dict(reversed(found.items()))


@command("memory")
def main(rows: int | None = None, *, quick: bool = False) -> None:
    """Publish a row for each file, way in and number of rows."""
    sizes = (rows // 3, rows) if rows else QUICK if quick else SIZES
    found = []
    for name, (block, row_group) in FILES.items():
        for n in (*sizes, MOST) if sizes is SIZES and name == PLAIN[0][0] else sizes:
            with rows_file(WARM, block) as warm, rows_file(n, block, row_group or n) as path:
                for (file, way), asked in WAYS.items():
                    if file == name and (n < MOST or (file, way) in PLAIN):
                        found.append({"file": file, "rows in": way, "N": n, **alone(peaks, path, warm, asked)})
                        print(found[-1], flush=True)
    order = list(WAYS)
    publish("memory", sorted(found, key=lambda row: order.index((row["file"], row["rows in"]))))
