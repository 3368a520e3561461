"""What does the first fit on a machine cost, before any kernel is compiled, and what does the same fit cost again?

Each row is a process of its own, with an empty cache of compiled code, that fits the models of the first column one
after the other: 50,000 rows, 200 groups. Byte code is there, as after installation. Figures are of the last of them, in
processor seconds: the first fit, how much of it is compiling, how many functions are compiled, the same fit again, and
in a new process, which imports all anew.
"""

import json
from compileall import compile_dir
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import bayescore
from benchmarks.commands import command
from benchmarks.measure import printed_json
from benchmarks.tables import publish

MODELS = {
    "flat": ("y ~ x1 + x2 + x3 + x4", "logistic"),
    "(1 | g)": ("y ~ x1 + x2 + (1 | g)", "logistic"),
    "poisson": ("c ~ x1 + x2 + x3 + x4", "poisson"),
    "(1 + x | g)": ("y ~ x1 + x2 + (1 + x1 | g)", "logistic"),
}
SEQUENCES = [[name] for name in MODELS] + [["flat", "poisson"], ["flat", "poisson", "(1 | g)"]]
SCRIPT = """
import json, sys, time, warnings
import numpy as np, pandas as pd
import bayescore as bc
from numba.core import event
warnings.simplefilter("ignore")
compiled, under_way = [], []
class Compiling(event.Listener):
    def on_start(self, _):
        under_way.append([time.thread_time(), 0.0])
    def on_end(self, _):
        begin, inner = under_way.pop()
        seconds = time.thread_time() - begin
        if under_way:
            under_way[-1][1] += seconds
        compiled.append(seconds - inner)
event.register("numba:compile", Compiling())
rng = np.random.default_rng(3)
rows = pd.DataFrame(rng.normal(size=(50_000, 4)), columns=["x1", "x2", "x3", "x4"])
rows["g"] = rng.integers(0, 200, len(rows))
eta = 0.5 * rows["x1"] - 1.0 + rng.normal(size=200)[rows["g"]]
rows["y"] = (eta + rng.logistic(size=len(rows)) > 0).astype(int)
rows["c"] = rng.poisson(np.exp(0.5 * rows["x1"] - 0.5))
def seconds_of_fit():
    begin = time.process_time()
    bc.fit(formula, rows, family=family, random_state=1, progressbar=False)
    return time.process_time() - begin
for formula, family in json.loads(sys.argv[1]):
    compiled.clear()
    first = seconds_of_fit()
print(json.dumps([first, compiled, seconds_of_fit()]))
"""


def first_fit(names: list[str]) -> tuple[float, list[float], float, float]:
    """Return seconds of the last model's first fit, of each function that it compiled, again, and in a new process."""
    compile_dir(Path(bayescore.__file__).parent, quiet=2)
    with TemporaryDirectory() as folder:

        def fits(models: list[str]) -> tuple[float, list[float], float]:
            first, compiled, again = printed_json(
                "-c", SCRIPT, json.dumps([MODELS[name] for name in models]), NUMBA_CACHE_DIR=folder
            )
            return first, compiled, again

        return *fits(names), fits(names[-1:])[0]


@command("first_fit")
def main() -> None:
    rows: list[dict[str, Any]] = []
    for names in SEQUENCES:
        first, compiled, again, new_process = first_fit(names)
        model = names[-1] if len(names) == 1 else f"{names[-1]} after {' and '.join(names[:-1])}"
        rows.append(
            {
                "model": model,
                "first fit": first,
                "compiling": sum(compiled),
                "functions": len(compiled),
                "again": again,
                "in a new process": new_process,
            }
        )
    publish("first_fit", rows)
