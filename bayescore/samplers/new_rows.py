"""New rows of a posterior's model: their columns in its design, their offsets and their groups."""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import numpy as np
import pandas as pd

from bayescore.data.design import Design, Grouping, one_intercept
from bayescore.data.formulas.design import formula_of
from bayescore.data.offsets import Offset
from bayescore.data.sources.group_columns import column_of, values
from bayescore.data.sources.groups import Grouper
from bayescore.data.tables import as_floats, as_table, check_numeric, feature_matrix, is_table
from bayescore.samplers.inference_data import Posterior
from bayescore.types import NO_GROUP, FloatArray, IntArray, WeightedData
from bayescore.validation import DataError, Places, check_finite, check_offset

_MISSING_HINT = "drop such rows, or give them a level that the fit does not know, which stands for a new group"


def design_rows(posterior: Posterior, X: Any) -> FloatArray:
    """Return rows of the design matrix, shape (n, D)."""
    design = posterior.design
    if design is None:
        return feature_matrix(X, posterior.features)
    return finite_design(design, feature_matrix(X, design.raw_names, design.raw_levels))


def finite_design(design: Design, raw: FloatArray, start: Places = 0, where: str = "X") -> FloatArray:
    """Return finite raw rows, numbered from or by `start`, in the design; raise `RowError` if a term is not."""
    rows = design.transform(raw)
    if formula_of(design) is not None:
        check_finite(rows, design.names, start, where, given=design.raw_names)
    return rows


def positive_rows(X: FloatArray, offset: FloatArray | None, group: IntArray | None = None) -> WeightedData:
    """Return rows of a design matrix, shape (n, D), with labels +1 and weights 1."""
    n = len(X)
    return WeightedData(X, np.ones(n, np.int8), np.ones(n), np.arange(n), offset=offset, group=group)


def groups_of(posterior: Posterior, X: Any, n_rows: int, given: Any) -> IntArray | None:
    """Return the groups of new rows, shape (n, F), `NO_GROUP` for a new one: those given, or columns of X."""
    if not posterior.terms:
        if given is not None:
            raise DataError(
                f"groups is given, but the rows that {posterior.name} was drawn from had none; leave it out"
            )
        return None
    design = posterior.design
    assert design is not None
    names = [own.name for own in design.groups]
    if one_intercept(design.groups) and given is not None and not isinstance(given, Mapping):
        given = {names[0]: given}
    known = f"give a dict with the levels of the rows, or their column, by the names {', '.join(map(repr, names))}"
    if given is not None and not isinstance(given, Mapping):
        raise DataError(f"groups is a {type(given).__name__}; {known}")
    by_name = {} if given is None else given
    if unknown := [name for name in by_name if name not in names]:
        raise DataError(f"groups names {unknown[0]!r}, no grouping factor of the posterior; {known}")
    return np.stack([_codes(own, X, n_rows, by_name.get(own.name)) for own in design.groups], axis=1)


def numbers_of_new(posterior: Posterior, X: Any, group: IntArray, given: Any) -> IntArray:
    """Return a number of each row's group, the same for a level whatever the other rows are, shape (n, F)."""
    found, design = np.zeros_like(group), posterior.design
    assert design is not None
    for f, own in enumerate(design.groups):
        if (new := np.flatnonzero(group[:, f] == NO_GROUP)).size:
            each = given.get(own.name) if isinstance(given, Mapping) else given
            levels = values(_levels_of(own, X, len(group), each), own.name)  # 7.0 is the level 7, as among those drawn
            distinct, place = np.unique(levels.take(new).to_pandas().astype(str), return_inverse=True)
            digests = [blake2b(level.encode(), digest_size=7).digest() for level in distinct]
            found[new, f] = np.array([int.from_bytes(digest, "big") for digest in digests], dtype=np.int64)[place]
    return found


def _codes(own: Grouping, X: Any, n_rows: int, given: Any) -> IntArray:
    """Return the place of each row's group among the levels drawn, shape (n,), `NO_GROUP` for a new one."""
    return Grouper(own, new=True).codes(_levels_of(own, X, n_rows, given), 0, hint=_MISSING_HINT)


def _levels_of(own: Grouping, X: Any, n_rows: int, given: Any) -> Any:
    """Return the group of each row, a column of Arrow."""
    column, known, read = (own.name, own.parts, own.columns) if given is None else (given, (), (given,))
    if isinstance(column, str):
        table = as_table(X, "X") if is_table(X) else None
        names = [] if table is None else table.column_names
        if table is None or (missing := [name for name in read if name not in names]):
            lacking = column if table is None else missing[0]
            raise DataError(
                f"X has no column {lacking!r} with the group of each row; add it, or where the function takes it give "
                "groups=, a level for each row, or any other value for a new group"
            )
        found = column_of(table, column, known)
    else:
        found = as_table(pd.DataFrame({own.name: np.asarray(column)}), "groups").column(own.name)
    if len(found) != n_rows:
        raise DataError(f"groups has {len(found)} entries and X {n_rows} rows; give one for each row")
    return found


def offset_of(posterior: Posterior, X: Any, n_rows: int, given: Any) -> FloatArray | None:
    """Return the offsets of new rows: those given, or the column of X that is named."""
    if posterior.offset is None:
        if given is not None:
            raise DataError(
                f"offset is given, but the rows that {posterior.name} was drawn from had none; leave it out"
            )
        return None
    name = posterior.offset if given is None else given
    if not isinstance(name, str):
        return check_offset(name, n_rows)
    return column_offset(X, name, "X", f", which {posterior.name} was drawn with")


def column_offset(data: Any, text: str, argument: str, whence: str = "") -> FloatArray:
    """Return the offsets of rows of a table, the argument called so: a column, or an expression of columns."""
    table = as_table(data, argument) if is_table(data) else None
    own = Offset.of(text, [] if table is None else table.column_names)
    for name in own.columns:
        if table is None or name not in table.column_names:
            raise DataError(
                f"{argument} has no column {name!r} of the offset {text!r}{whence}: add the column, or where the "
                "function takes it give offset=, a number for each row, 0 for none"
            )
    assert table is not None
    check_numeric(table.schema, own.columns)
    return own.values(lambda name: as_floats(table.column(name)), table.num_rows)
