"""Parquet files of many rows, written for a benchmark row group by row group and deleted after it."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROW_GROUP = 1 << 20


@contextmanager
def rows_file(n: int, block: Callable[[int, np.random.Generator], dict[str, np.ndarray]]) -> Iterator[Path]:
    """Write n rows, a row group at a time: ``block(n, rng)`` makes n of them. The file is deleted at the end."""
    rng = np.random.default_rng(0)
    schema = pa.table(block(1, np.random.default_rng(0))).schema
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        with pq.ParquetWriter(path, schema) as file:
            for start in range(0, n, ROW_GROUP):
                file.write_table(pa.table(block(min(ROW_GROUP, n - start), rng)), row_group_size=ROW_GROUP)
        yield path


def columns(X: np.ndarray) -> dict[str, np.ndarray]:
    """Return the columns of X by name: x1, x2, ..."""
    return {f"x{d}": column for d, column in enumerate(X.T, start=1)}
