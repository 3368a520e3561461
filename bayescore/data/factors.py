"""Columns of text and categories: their levels, and rows as codes, the positions of their levels.

Levels are sorted, whatever the order of the rows. A categorical keeps its own order if all parts of the data agree on
it. Levels that no row has are left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from bayescore.limits import GROUP_BYTES, MAX_GROUPS_BYTES
from bayescore.listing import listed
from bayescore.types import FloatArray
from bayescore.validation import DataError, OneOnlyError, RowError

Levels = tuple[tuple[str, tuple[Any, ...]], ...]
"""Columns of text and their levels."""


@dataclass(frozen=True)
class Selection:
    """Which columns are features, and the known levels of those that hold text."""

    names: tuple[str, ...] | None = None
    levels: Levels | None = None
    factors: tuple[str, ...] = ()  # columns that the user calls so: their text may be numbers

    def calls_factor(self, schema: pa.Schema, name: str) -> bool:
        """Whether the user calls a column a factor, by a term C(...) or by its type."""
        return name in self.factors or bool(pa.types.is_dictionary(schema.field(name).type))


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of this type is a factor: text, or coded by a dictionary."""
    types = pa.types
    return bool(
        types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind) or types.is_dictionary(kind)
    )


def keeps_order(schema: pa.Schema, name: str) -> bool:
    """Whether the levels of a column have their own order: an ordered dictionary, or a categorical of pandas."""
    kind = schema.field(name).type
    if not pa.types.is_dictionary(kind):
        return False
    try:
        columns = (schema.pandas_metadata or {}).get("columns", ())
        kinds = [column["pandas_type"] for column in columns if column.get("field_name") == name]
    except (TypeError, ValueError, KeyError, AttributeError, RecursionError):  # that pandas did not write
        kinds = []
    return bool(kind.ordered) or "categorical" in kinds


def codes(column: pa.Array, name: str, levels: Sequence[Any], start: int) -> FloatArray:
    """Return the positions of a column's entries among its levels, NaN for missing ones.

    Raises `RowError` for an unknown level; the first row has position `start` in the data.
    """
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_null(column.type):  # no entry tells the type
        column = column.cast(pa.string())
    if not pa.types.is_dictionary(column.type):
        if not is_text(column.type):  # numbers in place of text
            raise DataError(f"column {name!r} is {column.type}, and held text before ({listed(levels)}); convert it")
        column = column.dictionary_encode()
    places = {level: float(place) for place, level in enumerate(levels)}
    known = column.dictionary.to_pylist()
    table = np.array([np.nan if v is None else places.get(v, -1.0) for v in known] or [np.nan])
    found: FloatArray = table[column.indices.fill_null(0).to_numpy(zero_copy_only=False)]
    if column.null_count:
        found[~column.is_valid().to_numpy(zero_copy_only=False)] = np.nan
    if (table < 0.0).any() and (found < 0.0).any():
        row = int(np.argmax(found < 0.0))
        raise RowError(
            f"column {name!r} has the level {column[row].as_py()!r} in row {start + row}, which is not one of those "
            f"known ({listed(levels)}); drop such rows, or build with rows of every level",
            start + row,
        )
    return found


def check_few(name: str, n_levels: int, limit: int) -> None:
    """Raise if a factor has too many levels."""
    if n_levels > limit:
        raise DataError(
            f"{name} has more than {limit} levels; so many want effects from one prior: name it as groups, or "
            "write (1 | name) in a formula; else merge levels or drop it"
            + ("" if limit >= 1000 else ", or name it in a formula if it is a factor")
        )


def check_levels(name: str, levels: Sequence[Any], limit: int) -> None:
    """Raise unless a factor has at least two levels, and not too many."""
    check_few(name, len(levels), limit)
    if len(levels) < 2:
        found = f"one level only, {levels[0]!r}" if levels else "no entries"
        raise OneOnlyError(f"{name} has {found}; drop it")


def check_memory(name: str, n_levels: int) -> None:
    """Raise if the levels of a grouping factor need too much memory."""
    if (size := n_levels * GROUP_BYTES) > MAX_GROUPS_BYTES:
        raise DataError(
            f"groups (column {name!r}) has {n_levels:,} levels or more, which take {size:,} bytes at {GROUP_BYTES} "
            f"each, above the {MAX_GROUPS_BYTES:,} that they may: name a coarser column, or merge small groups"
        )
