"""Columns of grouping factors: the types that levels may have, and combinations of columns, ``a:b``, as text."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from bayescore.types import Parts
from bayescore.validation import DataError

JOINT = ":"


def columns_of(factor: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return the column of a grouping factor if `names` have it, else the columns that its name joins."""
    return (factor,) if factor in names else tuple(name.strip() for name in factor.split(JOINT))


def parts_of(factor: str, schema: pa.Schema) -> Parts:
    """Return the columns that a grouping factor joins, and what kind each is; () if it is a column."""
    names = columns_of(factor, schema.names)
    return tuple((name, _kind(schema.field(name).type)) for name in names) if len(names) > 1 else ()


def check_alike(parts: Parts, others: Parts) -> None:
    """Raise unless columns that are joined are of the kind that they were in rows before; "" is any kind."""
    for (name, kind), (_, other) in zip(parts, others, strict=False):
        if kind and other and kind != other:
            raise DataError(f"groups: column {name!r} holds {other}, and held {kind} in other rows; convert it")


def column_of(rows: pa.Table | pa.RecordBatch, factor: str, known: Parts = ()) -> pa.Array | pa.ChunkedArray:
    """Return a grouping factor of rows: a column, or combinations of columns as text, null where one is missing.

    `known`, the parts that it had in other rows, decide.
    """
    if not known and factor in rows.schema.names:
        return rows.column(factor)
    names = [name for name, _ in known] or columns_of(factor, rows.schema.names)
    check_alike(known, tuple((name, _kind(rows.schema.field(name).type)) for name in names))
    texts = [values(rows.column(name), name).cast(pa.string()) for name in names]
    for name, text in zip(names[:-1], texts, strict=False):
        if (split := text.filter(pc.match_substring(text, JOINT))) and len(split):
            raise DataError(
                f"groups: column {name!r} has the level {split[0].as_py()!r}; of columns that are joined only the last "
                "may have colons: replace them by another mark"
            )
    return pc.binary_join_element_wise(*texts, JOINT)


def _kind(kind: pa.DataType) -> str:
    if pa.types.is_dictionary(kind):
        return _kind(kind.value_type)
    if pa.types.is_null(kind):
        return ""
    if pa.types.is_boolean(kind):
        return "true and false"
    return "numbers" if pa.types.is_integer(kind) or pa.types.is_floating(kind) else "text"


def values(column: pa.Array | pa.ChunkedArray, name: str) -> pa.Array:
    """Return a column of text, whole numbers or booleans in one array: whole floats as integers, NaN missing."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    kind, types = column.type, pa.types
    if types.is_dictionary(kind):
        inner = values(column.dictionary, name)
        if inner.null_count or len(inner.unique()) < len(inner):  # dictionaries that Arrow takes, and levels are not
            return inner.take(column.indices)
        return pa.DictionaryArray.from_arrays(column.indices, inner, ordered=kind.ordered)
    if types.is_boolean(kind):
        return column
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return column.cast(pa.string())
    if types.is_floating(kind):
        column = pc.if_else(pc.is_nan(column), None, column)
    if types.is_integer(kind) or types.is_floating(kind) or types.is_null(kind):
        try:
            return column.cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise DataError(
                f"groups (column {name!r}) holds numbers that are not whole, or beyond 64 bits ({error}); levels are "
                "text or whole numbers: make bins of it, or turn it into text"
            ) from None
    raise DataError(f"groups (column {name!r}) is {kind}; levels are text or whole numbers: turn it into text")
