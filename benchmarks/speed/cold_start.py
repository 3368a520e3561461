"""How long is a cold start, with no machine code kept by numba or PyTensor, and how long the same again?

Steps: `import bayescore` and its first use, the first `build_coreset` (N = 100,000, D = 5, calibrated), the first MALA
and the first NUTS. Processor seconds beside those of the clock: on a busy machine they are the ones to read. Run it on
each Python; rows of other stacks stay in the table.
"""

import platform
from importlib.metadata import version
from tempfile import TemporaryDirectory

import pandas as pd

from benchmarks.commands import command
from benchmarks.measure import printed_json
from benchmarks.tables import RESULTS, publish

FILE = RESULTS / "cold_start.csv"
SCRIPT = """
import json, resource, time
def processor():
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
rows, before = [], (time.perf_counter(), processor())
def done(step):
    global before
    now = time.perf_counter(), processor()
    rows.append((step, now[0] - before[0], now[1] - before[1]))
    before = now
import bayescore as bc
import numpy as np
bc.build_coreset
done("import")
rng = np.random.default_rng(0)
X = rng.normal(size=(100_000, 5))
y = X[:, 0] + rng.logistic(size=100_000) > 0
core = bc.build_coreset(X, y, random_state=0, progressbar=False)
done("build_coreset")
bc.sample(core, sampler="mala", random_seed=1, progressbar=False)
done("MALA, 4 x 1000")
import pymc
done("import pymc")
bc.sample(core, sampler="nuts", random_seed=1, progressbar=False, cores=1)
done("NUTS, 4 x 1000")
print(json.dumps(rows))
"""


def stack() -> str:
    """Return the versions that tell one stack from another."""
    return f"Python {platform.python_version()}, " + ", ".join(f"{name} {version(name)}" for name in ("pymc", "arviz"))


@command("cold_start")
def main() -> None:
    rows = []
    with TemporaryDirectory() as folder:
        caches = {"NUMBA_CACHE_DIR": f"{folder}/numba", "PYTENSOR_FLAGS": f"base_compiledir={folder}/pytensor"}
        for state in ("cold", "warm"):
            for step, seconds, processor in printed_json("-W", "ignore", "-c", SCRIPT, **caches):
                rows.append(
                    {"stack": stack(), "step": step, "state": state, "seconds": seconds, "processor seconds": processor}
                )
    kept = pd.read_csv(FILE) if FILE.exists() else pd.DataFrame(columns=["stack"])
    publish("cold_start", [*kept[kept["stack"] != stack()].to_dict("records"), *rows])
