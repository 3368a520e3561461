"""Print a table and keep it as CSV in ``results/``; with ``--quick`` in ``.quick/results/``."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

ALL = "all"  # data sets, of a command that is not timed by each
RESULTS = Path(__file__).resolve().parent / (".quick/results" if "--quick" in sys.argv else "results")


def publish(name: str, rows: list[dict], digits: int = 6) -> None:
    """Print `rows` and write them to ``results/<name>.csv`` with that many digits."""
    frame = pd.DataFrame(rows)
    print(frame.to_string(index=False, float_format=lambda value: f"{value:.4g}"))
    RESULTS.mkdir(parents=True, exist_ok=True)
    frame.to_csv(RESULTS / f"{name}.csv", index=False, float_format=f"%.{digits}g")


def known_rows(name: str) -> list[dict[str, Any]]:
    """Return the rows of ``results/<name>.csv``; none where it has not been written."""
    path = RESULTS / f"{name}.csv"
    if not path.is_file():
        return []
    return pd.read_csv(path, keep_default_na=False, na_values=[""]).to_dict("records")


def keep_minutes(command: str, data: str, seconds: float, parts: Mapping[tuple[str, str], bool]) -> None:
    """Write to ``results/minutes.csv`` what a part took by the clock; of the other `parts` what is known.

    `parts` maps (command, data) to whether it is evidence.
    """
    known = {(row["command"], row["data"]): row["minutes"] for row in known_rows("minutes")}
    known[command, data] = seconds / 60.0
    rows = [(*part, evidence, known.get(part)) for part, evidence in parts.items()]
    frame = pd.DataFrame(rows, columns=["command", "data", "evidence", "minutes"])
    frame.to_csv(RESULTS / "minutes.csv", index=False, float_format="%.3g")
