"""Print a table and keep it as CSV, in ``results/``; with ``--quick`` in ``.quick/results/``."""

import sys
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

SECONDS = "evidence_seconds"
RESULTS = Path(__file__).resolve().parent / (".quick/results" if "--quick" in sys.argv else "results")


def publish(name: str, rows: list[dict], digits: int = 6) -> None:
    """Print `rows` and write them to ``results/<name>.csv`` with that many digits."""
    frame = pd.DataFrame(rows)
    print(frame.to_string(index=False, float_format=lambda value: f"{value:.4g}"))
    RESULTS.mkdir(parents=True, exist_ok=True)
    frame.to_csv(RESULTS / f"{name}.csv", index=False, float_format=f"%.{digits}g")


def keep_seconds(name: str, seconds: float, commands: Iterable[str]) -> None:
    """Write to ``results/evidence_seconds.csv`` what one of the commands took by the clock; of others what is known."""
    path = RESULTS / f"{SECONDS}.csv"
    known = pd.read_csv(path).set_index("command")["minutes"].to_dict() if path.is_file() else {}
    known[name] = seconds / 60.0
    frame = pd.DataFrame([(one, known.get(one)) for one in commands], columns=["command", "minutes"])
    frame.to_csv(path, index=False, float_format="%.3g")
