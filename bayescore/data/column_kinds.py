"""What a column is: numbers, a factor, or neither; decided here for all sources, and for rows that follow a fit.

==================================================  ================================================================
column                                              is
==================================================  ================================================================
whole numbers, floats, booleans, decimals           numbers; missing entries are NaN
text                                                a factor, levels sorted
categorical, Categorical, Enum, dictionary          a factor, in its own order where it has one
intervals, as of ``pandas.cut`` and ``qcut``        a factor of their text, "(0, 30]", in order of the intervals
categorical of numbers, booleans or dates           a factor of these; dates as text. From Parquet the levels are sorted
objects that are all numbers, of whatever types     numbers
text of numbers, also "1,234", "12%" and "$5"       a factor, with a warning; refused if one of many levels is no number
dates and times, lists, bytes, objects, mixed ones  neither: refused by name if something names it
==================================================  ================================================================

Columns that nothing names are not looked at. In rows that follow, text, numbers and categoricals are compared by value,
so that the levels "1" and "2" are those of a file that has them as numbers.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from bayescore.types import FloatArray
from bayescore.validation import DataError, numbers_of_objects

_UNREAD_KEY = b"bayescore.unread"  # of the metadata of a field: why the column is not read


def as_table(data: Any, name: str = "data") -> pa.Table:
    """Return `data` as an Arrow table, without a pandas index; a column of no type is empty, see `check_read`."""
    if not isinstance(data, pd.DataFrame):
        try:
            return pa.table(data)
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid, OverflowError) as error:
            raise DataError(
                f"{name} has a column of a type that is not read ({error}); convert it, or drop it"
            ) from None
    repeated = data.columns[data.columns.duplicated()]
    if len(repeated):
        raise DataError(f"column {repeated[0]!r} stands more than once in {name}; rename one")
    frame = _readable(data)
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowException, OverflowError):
        bad = {place: why for place in range(frame.shape[1]) if (why := _unread_reason(frame.iloc[:, place]))}
    frame = frame.copy(deep=False)
    for place in [*bad]:
        column = frame.iloc[:, place]
        numbers = numbers_of_objects(column.to_numpy(object)) if column.dtype == object else None
        if numbers is not None:
            del bad[place]
        frame[frame.columns[place]] = pd.array([None] * len(frame), dtype=object) if numbers is None else numbers
    table = pa.Table.from_pandas(frame, preserve_index=False)
    schema = table.schema
    for place, why in bad.items():
        schema = schema.set(place, schema.field(place).with_metadata({_UNREAD_KEY: why.encode()}))
    return pa.Table.from_arrays(table.columns, schema=schema)


def check_read(schema: pa.Schema, columns: Iterable[str]) -> None:
    """Raise if one of the columns is of no type that is read."""
    for name in columns:
        why = (schema.field(name).metadata or {}).get(_UNREAD_KEY)
        if why is not None:
            raise DataError(f"column {name!r} {why.decode()}")


def _unread_reason(column: Any) -> str:
    """Return why Arrow has no type for the values of a column; "" if it has one."""
    try:
        pa.array(column, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        kinds = {type(value): value for value in reversed(column[column.notna()].tolist())}
        shown = " and ".join(f"{value!r} ({kind.__name__})" for kind, value in [*kinds.items()][:2])
        if len(kinds) > 1:
            return f"is of mixed types: {shown}; make them all numbers, or all text"
        return f"holds {shown}, which is neither numbers nor text; convert it, or leave it out"
    except (pa.ArrowNotImplementedError, OverflowError) as error:
        kind = f"is of type {column.dtype}, which is not read"
        return f"{kind} ({error}); convert it to real numbers of at most 64 bits, or drop it"
    return ""


def _readable(data: pd.DataFrame) -> pd.DataFrame:
    """Return a frame whose columns are of types that Arrow reads: not sparse, nor of foreign byte order."""
    other: dict[Any, Any] = {}
    for name, dtype in data.dtypes.items():
        if isinstance(dtype, pd.SparseDtype):
            other[name] = dtype.subtype
        elif isinstance(dtype, pd.IntervalDtype):
            other[name] = "category"
        elif isinstance(dtype, np.dtype) and not dtype.isnative:
            other[name] = dtype.newbyteorder("=")
    return data.astype(other) if other else data


def common_schema(schemas: Sequence[pa.Schema], files: Sequence[Any]) -> pa.Schema:
    """Return the columns of files by name: a column that some file lacks, or has of another kind, is not read.

    Whole numbers and floats of any width are one kind, and so are text and what codes it, and columns without entries.
    """
    first = schemas[0]
    if all(schema.equals(first) for schema in schemas):
        return first
    fields: dict[str, pa.Field] = {}
    for schema, file in zip(schemas, files, strict=True):
        for field in schema:
            fields.setdefault(field.name, field)
            common = fields[field.name]
            kinds = {_kind(common.type), _kind(field.type)} - {""}
            if len(kinds) > 1:
                why = f"is {common.type} in {str(files[0])!r} and {field.type} in {str(file)!r}; make them alike"
                fields[field.name] = common.with_metadata({_UNREAD_KEY: why.encode()})
            elif _UNREAD_KEY not in (common.metadata or {}):
                fields[field.name] = _common_type(common, field)
    for schema, file in zip(schemas, files, strict=True):
        for name in fields.keys() - set(schema.names):
            has = next(str(other) for one, other in zip(schemas, files, strict=True) if name in one.names)
            why = f"stands in {has!r} and not in {str(file)!r}; add it, or leave it out"
            fields[name] = fields[name].with_metadata({_UNREAD_KEY: why.encode()})
    return pa.schema(list(fields.values()), first.metadata)


def _kind(kind: pa.DataType) -> str:
    if pa.types.is_dictionary(kind) and not is_text(kind.value_type):
        return f"coded {kind.value_type}"
    return "" if pa.types.is_null(kind) else "numbers" if is_numeric(kind) else "text" if is_text(kind) else str(kind)


def _common_type(one: pa.Field, other: pa.Field) -> pa.Field:
    """Return a field of the type that takes the entries of both, which are of one kind."""
    types, (a, b) = pa.types, (one.type, other.type)
    if a.equals(b) or types.is_null(b):
        return one
    if types.is_null(a):
        return one.with_type(b)
    if _kind(a) != "numbers":
        return one if types.is_dictionary(a) and types.is_dictionary(b) else one.with_type(pa.string())
    return one.with_type(pa.int64() if types.is_integer(a) and types.is_integer(b) else pa.float64())


def is_numeric(kind: pa.DataType) -> bool:
    """Whether a column of this type has numbers, booleans among them."""
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind))


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of this type is a factor: text, or coded by a dictionary of plain values."""
    types = pa.types
    if types.is_dictionary(kind):
        return not (types.is_nested(kind.value_type) or types.is_binary(kind.value_type))
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def keeps_order(schema: pa.Schema, name: str) -> bool | tuple[str, ...]:
    """Whether the levels of a column have an order: an ordered dictionary, or a categorical of pandas.

    Of an Enum of polars its levels: in a Parquet file its dictionary stands in the order of the rows.
    """
    kind, metadata = schema.field(name).type, schema.field(name).metadata or {}
    if not pa.types.is_dictionary(kind):
        return False
    for key in (b"_PL_ENUM_VALUES2", b"_PL_ENUM_VALUES"):
        if key in metadata:
            return tuple(_enum_values(metadata[key]))
    return bool(kind.ordered) or name in _categoricals(schema)


def pandas_facts(schema: pa.Schema, key: str) -> list[Any]:
    """Return a list in the metadata that pandas writes; empty where there is none."""
    try:
        return list((schema.pandas_metadata or {}).get(key, ()))
    except (TypeError, ValueError, AttributeError, RecursionError):  # that pandas did not write
        return []


def _categoricals(schema: pa.Schema) -> set[str]:
    """Return the columns that were categoricals of pandas, by its metadata in a table or a Parquet file."""
    facts = [each for each in pandas_facts(schema, "columns") if isinstance(each, dict)]
    return {str(each.get("field_name")) for each in facts if each.get("pandas_type") == "categorical"}


def coded_numbers(schema: pa.Schema) -> set[str]:
    """Return the columns of numbers or booleans that were categoricals of pandas: Parquet files keep their values."""
    kinds = {name: schema.field(name).type for name in _categoricals(schema) & set(schema.names)}
    return {name for name, kind in kinds.items() if is_numeric(kind) and not pa.types.is_decimal(kind)}


def _enum_values(written: bytes) -> Iterator[str]:
    """Yield the levels of an Enum as polars writes them, each after its length: 3;low4;high."""
    while written:
        length, _, rest = written.partition(b";")
        yield rest[: int(length)].decode()
        written = rest[int(length) :]


def without_views(column: pa.Array) -> pa.Array:
    """Return a column, views of text as text: `unique` of Arrow takes a missing view for an empty one."""
    return column.cast(pa.string()) if column.type == pa.string_view() else column


def level_values(dictionary: pa.Array) -> list[Any]:
    """Return the entries of a dictionary as levels: intervals, periods and dates as text."""
    kind = dictionary.type
    if isinstance(kind, pa.BaseExtensionType):
        return [None if value is None or value is pd.NA else str(value) for value in dictionary.to_pandas()]
    if pa.types.is_temporal(kind):
        return list(dictionary.cast(pa.string()).to_pylist())
    return list(dictionary.to_pylist())


def level_position(value: Any, places: dict[Any, float]) -> float:
    """Return the place of a value among levels, -1 if it has none; text and numbers are compared by what they say."""
    if value in places or not places:
        return places.get(value, -1.0)
    text = isinstance(next(iter(places)), str)
    if text and isinstance(value, int | float) and not isinstance(value, bool):
        whole = isinstance(value, int) or value.is_integer()
        return places.get(str(int(value)) if whole else repr(value), -1.0)
    if not text and isinstance(value, str):
        try:
            return places.get(float(value), -1.0)
        except ValueError:
            return -1.0
    return -1.0


def check_numeric(schema: pa.Schema, columns: tuple[str, ...]) -> None:
    """Raise if one of the columns is not numeric."""
    check_read(schema, columns)
    if text := [name for name in columns if not is_numeric(schema.field(name).type)]:
        shown = ", ".join(f"{name!r} ({schema.field(name).type})" for name in text[:5])
        times = any(pa.types.is_temporal(schema.field(name).type) for name in text)
        how = ", such as days since a fixed date," if times else ""
        raise DataError(f"columns are not numeric: {shown}; turn them into numbers{how} or drop them")


def as_numbers(column: pa.Array) -> NDArray[Any]:
    """Return a numeric column as floats of any width, missing values as NaN."""
    if not pa.types.is_floating(column.type):
        column = column.cast(pa.float64(), safe=False)
    return np.asarray(column.to_numpy(zero_copy_only=False))


def as_floats(column: pa.Array) -> FloatArray:
    """Return a numeric column as float64, missing values as NaN."""
    return np.asarray(as_numbers(column), dtype=np.float64)
