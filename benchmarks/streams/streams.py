"""What does a stream lose? `stream(formula=)` of twelve files of 100,000 rows beside one build of all twelve.

`mean` and `sd` are the largest differences of coefficients and sds of effects, in sds of one build and relative, of
160,000 draws of either coreset by one seed. `mcse` is the Monte Carlo error of a mean's difference, in sds, by the
smallest effective sample size. `moved` is how far the posterior's mean has moved since the first rows were condensed,
in sds of the posterior then. `seconds` are processor time, after a first stream that compiles.
"""

import time
from typing import Any

import numpy as np
import pandas as pd

import bayescore as bc
from benchmarks.commands import command
from benchmarks.streams import update
from benchmarks.tables import publish

ROWS, FILES = 100_000, 12
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "formula": (update.FORMULAS["formula"], {"size": 300}),
    "spline": (update.FORMULAS["spline"], {"size": 300}),
    "(1 | g)": (update.FORMULAS["(1 | g)"], {}),
}


def _streamed(formula: str, options: dict[str, Any], files: list[pd.DataFrame]) -> bc.Coreset:
    stream = bc.stream(formula=formula, random_state=1, **options)
    for rows in files:
        stream.partial_fit(rows)
    return stream.coreset()


@command("streams")
def main() -> None:
    """Write the table."""
    files, records = [update.month(k, ROWS) for k in range(FILES)], []
    rows = pd.concat(files, ignore_index=True)
    for name, (formula, options) in MODELS.items():
        _streamed(formula, options, [files[0][:5000], files[1][:5000]])
        begin = time.process_time()
        core = _streamed(formula, options, files)
        seconds = time.process_time() - begin
        whole = bc.build_coreset(rows, design=core.design, random_state=2, progressbar=False)
        (a, _), (b, _) = update.figures(core), update.figures(whole)
        records.append(
            {
                "model": name,
                "rows": len(core),
                "rows_at_once": len(whole),
                "mean": ((a["mean"] - b["mean"]).abs() / b["sd"]).max(),
                "sd": (a["sd"] / b["sd"] - 1.0).abs().max(),
                "mcse": float(np.hypot(*(own["ess_bulk"].min() ** -0.5 for own in (a, b)))),
                "moved": core.params.get("moved", np.nan),
                "seconds": seconds,
            }
        )
    publish("streams", records)
