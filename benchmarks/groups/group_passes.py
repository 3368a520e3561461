"""What does a pass over rows with groups cost compared with one without? Each pass of two builds from one Parquet file.

Nine columns of float32, an intercept, a label and 50,000 groups; 4e6 rows (``--rows``), written for the purpose and
deleted. Processor seconds of all threads, after a build of 100,000 rows of each kind that compiles; the least of three.
"of a flat pass" are those over the mean of the flat build's passes. Passes over a sample in memory, with which a build
with groups begins, are in the whole build only.
"""

import time
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import bayescore as bc
from bayescore.data.dataset import Dataset
from bayescore.data.sources import ArraySource
from benchmarks.commands import command
from benchmarks.groups.many_groups import grouped
from benchmarks.measure import alone
from benchmarks.sources.parquet import rows_file
from benchmarks.tables import publish

N, GROUPS = 4_000_000, 50_000
TERMS = " + ".join(f"x{d}" for d in range(1, 10))
FORMULAS = {"flat": f"y ~ {TERMS}", "(1 | g)": f"y ~ {TERMS} + (1 | g)"}


def passes(path: Path, formula: str) -> list[tuple[str, float]]:
    """Return what each pass of a build does, and its processor seconds; the last is all that the build took."""
    taken, whole = list[tuple[str, float]](), Dataset.map

    def timed(self: Dataset, work: Any, description: str = "", **options: Any) -> Iterator[Any]:
        begin = time.process_time()
        yield from whole(self, work, description, **options)
        if not isinstance(self.rows, ArraySource):
            taken.append((description, time.process_time() - begin))

    begin = time.process_time()
    with patch.object(Dataset, "map", timed):
        bc.build_coreset(path, formula=formula, random_state=0, progressbar=False)
    return [*taken, ("whole build", time.process_time() - begin)]


def measured(path: Path, warm: Path) -> list[dict[str, Any]]:
    """Return a row for each pass of both builds."""
    for formula in FORMULAS.values():
        passes(warm, formula)
    runs = [{model: passes(path, formula) for model, formula in FORMULAS.items()} for _ in range(3)]
    rows = []
    for model in FORMULAS:
        seconds = np.min([[cpu for _, cpu in run[model]] for run in runs], axis=0)
        of_flat = np.mean(np.min([[cpu for _, cpu in run["flat"][:-1]] for run in runs], axis=0))
        done: dict[str, int] = defaultdict(int)
        for (name, _), cpu in zip(runs[0][model], seconds, strict=True):
            done[name] += 1
            rows.append(
                {"model": model, "pass": name, "turn": done[name], "CPU s": cpu, "of a flat pass": cpu / of_flat}
            )
    return rows


@command("group_passes")
def main(rows: int = N, groups: int = GROUPS) -> None:
    """Publish the passes."""
    with rows_file(100_000, partial(grouped, 100)) as warm, rows_file(rows, partial(grouped, groups)) as path:
        made = alone(measured, path, warm)
    table = [{"N": rows, "G": groups, **row, "CPU ns a row": row["CPU s"] / rows * 1e9} for row in made]
    publish("group_passes", table)
