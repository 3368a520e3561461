"""Tables of any kind (pandas, polars, Arrow, whatever exports Arrow) as Arrow tables, and columns as floats.

Sparse matrices of SciPy: rows in CSR form, made dense one block at a time.

Dense blocks make all results the same, to the last bit, as for an array. Filling them costs little: 0.06 s a pass for
1e5 rows of 1,000 levels. Work quadratic in columns skips zeros where most entries are 0 (`passes.csr_if_sparse`).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from bayescore.data.column_kinds import as_floats, as_table, check_numeric, check_read
from bayescore.data.factors import Levels, level_codes
from bayescore.types import FloatArray
from bayescore.validation import DataError, check_finite, check_matrix

MAX_COLUMNS = 10_000
"""Columns of sparse rows: a D x D matrix of so many has 800 MB, and modes and leverage scores need several."""


def check_csr(data: Any, name: str = "data") -> Any:
    """Return sparse rows as CSR, without a copy if they are CSR; repeated entries add up.

    Finiteness is not checked here: a pass over the rows checks it block by block.
    """
    if data.ndim != 2:
        raise DataError(f"{name} has shape {data.shape}; it must be 2-D, rows by features")
    if not all(data.shape):
        raise DataError(f"{name} has shape {data.shape}; it needs at least one row and one column")
    if data.dtype.kind not in "fiub":
        raise DataError(f"{name} has dtype {data.dtype}; it must be numeric: give text in a data frame")
    if data.shape[1] > MAX_COLUMNS:
        raise DataError(
            f"{name} has {data.shape[1]:,} columns, more than {MAX_COLUMNS:,}: their curvature matrix would hold "
            f"{8e-9 * data.shape[1] ** 2:,.0f} GB; keep the most frequent levels or terms"
        )
    try:
        rows = data.tocsr()
        rows = sparse.csr_array((rows.data, rows.indices, rows.indptr), shape=rows.shape)  # the caller's stays as it is
        rows.check_format(full_check=True)  # compiled code reads where wrong indices point
    except ValueError as error:
        raise DataError(f"{name} is a damaged {type(data).__name__} ({error}); make it anew") from None
    return rows


def finite_csr(data: Any, name: str) -> Any:
    """Return sparse rows as `check_csr` does, and check that entries are finite."""
    rows = check_csr(data, name)
    bad = np.flatnonzero(~np.isfinite(rows.data))
    if bad.size:
        row = int(np.searchsorted(rows.indptr, bad[0], "right")) - 1
        names = tuple(f"x{d}" for d in range(rows.shape[1]))
        check_finite(rows[row : row + 1].toarray(), names, row, name)
    return rows


def dense(rows: Any) -> NDArray[Any]:
    """Return rows as an array, whether they are sparse or not."""
    return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows)


def check_dense(X: Any, name: str = "X", *, n_columns: int | None = None) -> NDArray[Any]:
    """Return `X`, sparse or not, as `check_matrix` does."""
    return check_matrix(dense(check_csr(X, name)) if sparse.issparse(X) else X, name, n_columns=n_columns)


def is_table(data: Any) -> bool:
    """Whether `data` is a data frame or table, not a single column."""
    two_dimensional = len(getattr(data, "shape", (0, 0))) == 2
    return isinstance(data, pd.DataFrame) or (hasattr(data, "__arrow_c_stream__") and two_dimensional)


def is_dask(data: Any) -> bool:
    """Whether `data` is a collection of Dask."""
    graph = None if isinstance(data, type) else getattr(data, "__dask_graph__", None)
    return callable(graph) and graph() is not None  # None of a Dataset of xarray in memory


def check_not_read(X: Any) -> None:
    """Raise `DataError` if rows are still in a file, or in a dict."""
    if isinstance(X, str | Path):
        raise DataError(
            f"X={str(X)!r} is text: read the rows of a file into a data frame first, as by pd.read_parquet; of a saved "
            "fit the command `bayescore predict` takes a file"
        )
    if hasattr(X, "__dask_graph__") or hasattr(X, "collect_schema"):
        how = "X.compute()" if hasattr(X, "__dask_graph__") else "X.collect()"
        raise DataError(f"X is a {type(X).__name__}, whose rows are not in memory: give {how}, part by part if need be")
    if isinstance(X, Mapping):
        raise DataError(f"X is a {type(X).__name__}: make a data frame of it first, pd.DataFrame(X)")


def feature_matrix(X: Any, names: tuple[str, ...], levels: Levels = ()) -> FloatArray:
    """Return raw features, shape (n, D): an array by position, the columns of a table by name, text as codes.

    Raises `DataError` if columns are missing, not numeric, or hold NaN or infinity. There may be no rows.
    """
    text = dict(levels)
    if not is_table(X):
        check_not_read(X)
        if text:
            raise DataError(f"X is no table, and {next(iter(text))!r} holds text; give a data frame with names")
        if getattr(X, "shape", None) == (0, len(names)):
            return np.empty((0, len(names)))
        raw = np.asarray(check_dense(X, "X", n_columns=len(names)), dtype=np.float64)
    else:
        table = as_table(X, "X")
        missing = [name for name in names if name not in table.column_names]
        if missing:
            has = ", ".join(table.column_names[:10])
            raise DataError(f"X lacks the column {missing[0]!r}; it has {has}: give the features of the coreset")
        check_read(table.schema, names)
        if table.num_rows:  # without rows, columns of a data frame may have no type
            check_numeric(table.schema, tuple(name for name in names if name not in text))
        raw = np.empty((len(X) if isinstance(X, pd.DataFrame) else table.num_rows, len(names)))
        for d, name in enumerate(names):  # none in the design of an intercept alone, which rows of no column have too
            column = table.column(name)
            raw[:, d] = level_codes(column, name, text[name], 0) if name in text else as_floats(column)
    check_finite(raw, names, 0, "X")
    return raw
