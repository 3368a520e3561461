"""Predictions of the rows of a file, written to another beside the rows' own columns."""

from pathlib import Path
from typing import Any

import pandas as pd

from bayescore.files import whole_file
from bayescore.fitting.fitted import read_fit

_KINDS = (".csv", ".parquet")


def check_files(rows: Path, output: Path) -> None:
    """Raise unless there are rows, and the output's name ends as a kind of file that is written."""
    if output.suffix.lower() not in _KINDS:
        raise ValueError(f"--output={str(output)!r} is of no kind that predict writes; end it in {' or '.join(_KINDS)}")
    if not rows.exists():
        raise FileNotFoundError(f"rows={str(rows)!r} does not exist; give a Parquet or CSV file of new rows")


def write_predictions(model: Path, rows: Path, output: Path, **options: Any) -> pd.DataFrame:
    """Write the columns of a file's rows and after them their predictions by a saved fit; return these predictions."""
    csv, found = [each.suffix.lower() == ".csv" for each in (rows, output)], read_fit(model)
    new: pd.DataFrame = (pd.read_csv if csv[0] else pd.read_parquet)(rows)
    if all(name is not None for name in new.index.names):  # such as the rows' identities, which pandas stores so
        new = new.reset_index()
    predicted: pd.DataFrame = found.predict(new, **options)
    if both := [str(name) for name in predicted.columns if name in new.columns]:
        raise ValueError(f"{rows} has a column {both[0]!r}, as the predictions do; rename it")
    table = pd.concat([new, predicted], axis=1)
    with whole_file(output) as partial:
        table.to_csv(partial, index=False) if csv[1] else table.to_parquet(partial, index=False)
    return predicted
