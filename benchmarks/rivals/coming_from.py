"""Do ten lines in the words of another package run, and what do they print? Two scripts each for users of five.

The scripts, in `benchmarks/rivals/ten_lines`, read one made-up table of 3,000 rows and use what their users type: the
family's name there, the formula, `draws`, `random_seed`. Each runs in a process of its own, without the seconds that a
fit prints. A warning of the package or an error fails the command.
"""

import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

from benchmarks.commands import command
from benchmarks.tables import RESULTS

SCRIPTS = Path(__file__).parent / "ten_lines"
N = 3000
SEED = 5


def clicks() -> pd.DataFrame:
    """Return the rows: a label, counts of trials, counts with an exposure, and numbers."""
    rng = np.random.default_rng(SEED)
    rows = pd.DataFrame({"age": rng.integers(18, 80, N), "device": rng.choice(["desktop", "phone", "tablet"], N)})
    county = rng.integers(0, 20, N)
    rows["county"] = [f"c{code:02}" for code in county]
    rows["hours"] = rng.uniform(0.5, 4.0, N).round(1)
    effect = rng.normal(0, 0.4, 20)[county]
    eta = 0.03 * (rows["age"] - 45) - 0.5 * (rows["device"] == "phone") + effect
    rows["clicked"] = (eta + rng.logistic(size=N) > 0).astype(int)
    rows["offers"] = rng.integers(1, 9, N)
    rows["bought"] = rng.binomial(rows["offers"], 1.0 / (1.0 + np.exp(1.0 - eta)))
    rows["visits"] = rng.poisson(rows["hours"] * np.exp(0.3 * eta))
    rows["spent"] = (20.0 + 5.0 * eta + rng.normal(0, 6, N)).round(2)
    return rows


def code_of(script: Path) -> str:
    """Return a script without its docstring."""
    return script.read_text(encoding="utf-8").partition('"""\n\n')[2]


def printed(script: Path, folder: str) -> str:
    """Run a script in the folder of the rows; return what it printed, without the seconds, which differ."""
    command = [sys.executable, "-W", "error::UserWarning:bayescore", str(script)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{script.name}: {done.stderr}")
    return "\n".join(re.sub(r"; [\d.]+ s$", "", line.rstrip()) for line in done.stdout.splitlines())


@command("coming_from")
def main() -> None:
    rows = []
    with TemporaryDirectory() as folder:
        clicks().to_csv(f"{folder}/clicks.csv", index=False)
        for script in sorted(SCRIPTS.glob("*.py")):
            text = printed(script, folder)
            lines = [line for line in code_of(script).splitlines() if line]
            row = {"package": script.stem.partition("_")[0], "script": script.name, "lines": len(lines)}
            rows.append(row | {"printed": text})
            print(f"{script.name}\n{text}\n")
    RESULTS.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(rows).to_csv(RESULTS / "coming_from.csv", index=False)
