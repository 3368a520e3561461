"""Columns of grouping factors: the types that levels may have, and combinations of columns, ``a:b``, as text."""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bayescore.validation import DataError

JOINT = ":"


def columns_of(factor: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the columns that make a grouping factor: of `names` the one of its name, else those it joins."""
    return (factor,) if factor in names else tuple(factor.split(JOINT))


def column_of(rows: pa.Table | pa.RecordBatch, factor: str) -> pa.Array | pa.ChunkedArray:
    """Return a grouping factor of rows: a column, or combinations of columns as text, null where one is missing."""
    parts = columns_of(factor, rows.schema.names)
    if len(parts) == 1:
        return rows.column(factor)
    coded = [_coded(rows.column(name), name, last=name == parts[-1]) for name in parts]
    sizes = [len(own.dictionary) for own in coded]
    missing = np.zeros(rows.num_rows, dtype=bool)
    key = np.zeros(rows.num_rows, dtype=np.int64)
    for own, size in zip(coded, sizes, strict=True):
        missing |= own.indices.is_null().to_numpy(zero_copy_only=False)
        key = key * size + own.indices.fill_null(0).to_numpy(zero_copy_only=False)
    found = pa.array(key, mask=missing).dictionary_encode()
    places = np.unravel_index(found.dictionary.to_numpy(zero_copy_only=False), [max(size, 1) for size in sizes])
    text = [own.dictionary.take(pa.array(place)).to_pylist() for own, place in zip(coded, places, strict=True)]
    levels = pa.array([JOINT.join(each) for each in zip(*text, strict=True)], pa.string())
    return pa.DictionaryArray.from_arrays(found.indices, levels)


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


def _coded(column: pa.Array | pa.ChunkedArray, name: str, *, last: bool) -> pa.DictionaryArray:
    """Return a column with its levels as text; of no level but the last of a combination a colon is a part."""
    plain = values(column, name)
    coded = plain if pa.types.is_dictionary(plain.type) else plain.dictionary_encode()
    levels = coded.dictionary.cast(pa.string())
    if not last and (split := [level for level in levels.to_pylist() if JOINT in level]):
        raise DataError(
            f"groups: column {name!r} has the level {split[0]!r}, whose colon would make combinations ambiguous; "
            "replace colons by another mark"
        )
    return pa.DictionaryArray.from_arrays(coded.indices, levels)
