"""What do formulas and factors cost? Passes over Parquet beside those over the same columns coded as numbers.

A file with three numbers and two columns of text (5 and 12 levels), and files with the columns of each design matrix,
indicators as int8, written for the purpose and deleted. `formulas`: seconds (best of 5 rounds) and processor seconds of
two passes, the check of the rows and a log-likelihood with its gradient and Hessian, of the design and of the coded
columns; of the pass in which a formula learns, and of opening the file, for labels and levels, beside the check of the
coded rows; and the ratio of the processor seconds.
N is 2e6; the published figures are of ``python -m benchmarks.sources.formulas 20000000``, on a machine with other work
to do.
"""

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bayescore.data.dataset import Dataset, open_rows
from bayescore.data.factors import Selection
from bayescore.data.formula_learning import learner
from bayescore.data.open import open_designed, open_in
from bayescore.families.family import check_family
from bayescore.models.posterior import likelihood_terms
from benchmarks.commands import command
from benchmarks.sources.sources import timed
from benchmarks.tables import publish

N, GROUP = 2_000_000, 1 << 20
DESIGNS = {
    "numbers and factors": "y ~ x + z + v + f + g",
    "an interaction and a logarithm": "y ~ x * f + log(z) + v + g",
    "what is learnt": "y ~ scale(x) + bs(v, df=5, extrapolation='clip') + C(k)",
}


@contextmanager
def files(n: int) -> Iterator[tuple[Path, dict[str, Path]]]:
    """Write n rows as they come, and coded for each design."""
    five, twelve = [f"level {i}" for i in range(5)], [f"group {i:02d}" for i in range(12)]
    with tempfile.TemporaryDirectory() as folder:
        raw, coded = Path(folder) / "raw.parquet", {name: Path(folder) / f"{name}.parquet" for name in DESIGNS}
        rng, learnt = np.random.default_rng(0), {}
        writers: dict[Path, pq.ParquetWriter] = {}

        def write(path: Path, table: pa.Table) -> None:
            if path not in writers:
                writers[path] = pq.ParquetWriter(path, table.schema)
            writers[path].write_table(table, row_group_size=GROUP)

        for start in range(0, n, GROUP):
            m = min(GROUP, n - start)
            numbers = {"x": rng.normal(size=m), "z": rng.lognormal(size=m), "v": rng.uniform(size=m)}
            text = {"f": np.array(five)[rng.integers(0, 5, m)], "g": np.array(twelve)[rng.integers(0, 12, m)]}
            y = (numbers["x"] + rng.logistic(size=m) > 0.5).astype(np.int8)
            rows = pa.table({**numbers, **text, "k": rng.integers(0, 6, m), "y": y})
            write(raw, rows)
            for name, formula in DESIGNS.items():
                if name not in learnt:
                    learnt[name] = open_designed(rows, formula=formula).design
                X = open_in(learnt[name], rows).load().X
                columns = {
                    column: X[:, d].astype(np.int8) if np.isin(X[:1000, d], (0.0, 1.0)).all() else X[:, d]
                    for d, column in enumerate(learnt[name].names)
                }
                write(coded[name], pa.table({**columns, "y": y}))
        for writer in writers.values():
            writer.close()
        yield raw, coded


def newton(dataset: Dataset) -> None:
    """Run one pass for a log-likelihood, its gradient and Hessian at 0."""
    family, theta = check_family("logistic"), np.zeros(dataset.n_features)
    for _ in dataset.map(lambda _, block: likelihood_terms(theta, block, family), canonical=True):
        pass


@command("formulas")
def main(n: int = N) -> None:
    rows = []
    with files(n) as (raw, coded):
        for name, formula in DESIGNS.items():
            ours = open_designed(raw, formula=formula)
            theirs = open_rows(coded[name], label="y")
            plain: Any = open_rows(raw, label="y", selection=Selection(ours.design.raw_names))
            by = learner(ours.design.raw_names, formula, plain.source.levels, n)
            work: dict[str, Callable[[], object]] = {
                "check": lambda o=ours: Dataset(o.rows, o.design).scan,
                "check, coded": lambda o=theirs: Dataset(o.rows).scan,
                "log-likelihood": lambda o=ours: newton(o),
                "log-likelihood, coded": lambda o=theirs: newton(o),
                "opening": lambda o=plain: open_rows(raw, label="y", selection=Selection(o.design.raw_names)),
                "learning": lambda o=plain, by=by: reduce(add, o.map(by)),
            }
            spent = timed(work)
            for kind, beside in (
                ("opening", "check, coded"),
                ("check", "check, coded"),
                ("log-likelihood", "log-likelihood, coded"),
                ("learning", "check, coded"),
            ):
                rows.append(
                    {
                        "design": name,
                        "formula": formula,
                        "columns": ours.n_features,
                        "pass": kind,
                        "seconds": spent[kind][0],
                        "processor seconds": spent[kind][1],
                        "coded, seconds": spent[beside][0],
                        "coded, processor seconds": spent[beside][1],
                        "ratio": spent[kind][1] / spent[beside][1],
                    }
                )
    publish("formulas", rows)


if __name__ == "__main__":
    main(int(sys.argv[1]))
