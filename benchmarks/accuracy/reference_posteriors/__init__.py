"""Reference posteriors of real data, by posteriordb's definition: their summaries are the JSON files of this folder.

`data` says what the rows and columns are, `make` draws and checks; `summary` reads one.
"""

import json
from pathlib import Path
from typing import Any


def summary(data: str, family: str) -> dict[str, Any]:
    """Return what is known of the posterior of one of `data.DATA`: means, sds, quantiles, their errors, diagnostics."""
    found: dict[str, Any] = json.loads(Path(__file__).with_name(f"{data}-{family}.json").read_text(encoding="utf-8"))
    return found
