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
from bayescore.fitting.parts import parameters, table
from bayescore.samplers.posterior import read_posterior
from benchmarks.commands import command
from benchmarks.tables import publish

ROWS, FILES = 100_000, 12
FORMULAS = {
    "formula": "y ~ age * device + log(price)",
    "spline": "y ~ bs(age, knots=[25, 45]) + device + log(price)",
    "(1 | g)": "y ~ age + device + (1 | g)",
}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "formula": (FORMULAS["formula"], {"size": 300}),
    "spline": (FORMULAS["spline"], {"size": 300}),
    "(1 | g)": (FORMULAS["(1 | g)"], {}),
}


def month(k: int) -> pd.DataFrame:
    """Return a file; each has groups that the earlier ones lack."""
    rng = np.random.default_rng([32, k])
    rows = pd.DataFrame(
        {
            "age": rng.gamma(3.0, 12.0, ROWS).clip(1.0, 120.0),
            "device": rng.choice(["desk", "phone", "tablet"], ROWS, p=[0.1, 0.6, 0.3]),
            "price": np.exp(rng.normal(size=ROWS)),
            "g": rng.integers(5 * k, 5 * k + 100, ROWS),
        }
    )
    rows.loc[:1, "age"] = 1.0, 120.0  # a spline has no columns beyond the ages that it was made of
    eta = 0.03 * (rows["age"] - 36) - 0.8 * (rows["device"] == "tablet") + 0.4 * np.log(rows["price"]) - 1.5
    effect = np.random.default_rng(32).normal(0.0, 0.6, 5 * FILES + 100)[rows["g"]]
    return rows.assign(y=eta + effect * (rows["g"] >= 0) + rng.logistic(size=ROWS) > 0)


def figures(core: bc.Coreset) -> pd.DataFrame:
    """Return figures of many draws of a coreset."""
    prior = bc.priors.Normal(0.0, 2.5)
    idata = bc.sample(core, prior=prior, draws=40_000, random_seed=5, progressbar=False)
    return table(*parameters(read_posterior(idata, "idata")), 0.95)


def _streamed(formula: str, options: dict[str, Any], files: list[pd.DataFrame]) -> bc.Coreset:
    stream = bc.stream(formula=formula, random_state=1, **options)
    for rows in files:
        stream.partial_fit(rows)
    return stream.coreset()


@command("streams")
def main() -> None:
    """Write the table."""
    files, records = [month(k) for k in range(FILES)], []
    rows = pd.concat(files, ignore_index=True)
    for name, (formula, options) in MODELS.items():
        _streamed(formula, options, [files[0][:5000], files[1][:5000]])
        begin = time.process_time()
        core = _streamed(formula, options, files)
        seconds = time.process_time() - begin
        whole = bc.build_coreset(rows, design=core.design, random_state=2, progressbar=False)
        a, b = figures(core), figures(whole)
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
