"""Sparse matrices of SciPy: rows in CSR form, made dense one block at a time.

Dense blocks make all results the same, to the last bit, as for an array. Filling them costs little: 0.06 s a pass for
1e5 rows of 1,000 levels. Work quadratic in columns skips zeros where most entries are 0 (`passes.nonzeros`).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

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
        rows = sparse.csr_array((rows.data, rows.indices, rows.indptr), shape=rows.shape)  # the caller's own stays
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
