"""Columns of text and categories: their levels, and rows as codes, the positions of their levels.

Levels are sorted, whatever the order of the rows. A categorical keeps its order if all parts of the data agree on
it. Levels that no row has are left out.

Columns of text whose levels are numbers: one wrong entry makes a column of numbers text.

Coded as a factor, such a column has a coefficient for each number, and no word of the fit says so. Levels with leading
zeros, such as the postal code 06510, are codes, and a factor of them is what was meant.

Columns of grouping factors: the types that levels may have, and combinations of columns, ``a:b``, as text.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bayescore.data.column_kinds import check_read, is_text, level_position, level_values, without_views
from bayescore.limits import (
    GROUP_BYTES,
    MAX_EXACT,
    MAX_GROUPS_BYTES,
    MAX_LEVEL_SHARE,
    MIN_NUMBER_LEVELS,
    MIN_NUMBER_SHARE,
)
from bayescore.text import listed, see
from bayescore.types import FloatArray, Parts
from bayescore.validation import DataError, OneOnlyError, RowError, warn

Levels = tuple[tuple[str, tuple[Any, ...]], ...]
"""Columns of text and their levels."""


@dataclass(frozen=True)
class Selection:
    """Which columns are features, and the levels of text columns where given."""

    names: tuple[str, ...] | None = None
    levels: Levels | None = None
    factors: tuple[str, ...] = ()  # columns that the user calls so: their text may be numbers

    def calls_factor(self, schema: pa.Schema, name: str) -> bool:
        """Whether the user calls a column a factor, by a term C(...) or by its type."""
        return name in self.factors or bool(pa.types.is_dictionary(schema.field(name).type))


def level_codes(column: pa.Array, name: str, levels: Sequence[Any], start: int) -> FloatArray:
    """Return the positions of a column's entries among its levels, NaN for missing ones.

    Raises `RowError` for an unknown level; the first row has position `start` in the data.
    """
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    given = column.type
    if not pa.types.is_dictionary(given):
        plain = pa.types.is_null(column.type) or pa.types.is_temporal(column.type)  # no entry has a type
        column = (column.cast(pa.string()) if plain else without_views(column)).dictionary_encode()
    places = {level: float(place) for place, level in enumerate(levels)}
    levels_of_column = level_values(column.dictionary)
    table = np.array([np.nan if v is None else level_position(v, places) for v in levels_of_column] or [np.nan])
    if not is_text(given) and given != pa.null() and (table < 0.0).all():  # numbers in place of text
        raise DataError(f"column {name!r} is {given}, and held text before ({listed(levels)}); convert it")
    coded: FloatArray = table[column.indices.fill_null(0).to_numpy(zero_copy_only=False)]
    if column.null_count:
        coded[~column.is_valid().to_numpy(zero_copy_only=False)] = np.nan
    if (table < 0.0).any() and (coded < 0.0).any():
        row = int(np.argmax(coded < 0.0))
        level = levels_of_column[column.indices[row].as_py()]
        raise RowError(
            f"column {name!r} has the level {level!r} in row {start + row}, which is not one of those "
            f"known ({listed(levels)}); drop such rows, or build with rows of every level",
            start + row,
        )
    return coded


def check_level_count(name: str, column: str, n_levels: int, limit: int) -> None:
    """Raise if a factor, by its `name` in messages and the name of its column, has too many levels."""
    if n_levels > limit:
        raise DataError(
            f"{name} has more than {limit:,} levels, too many for a coefficient each: for effects from one prior write "
            f"(1 | {_quoted(column)}) in place of it in the formula, or without one give groups={column!r}; else "
            f"merge levels, or drop it{'' if limit >= 1000 else ', or name it in a formula if it is a factor'}"
            f"{see('how-to/many-levels.md')}"
        )


def _quoted(column: str) -> str:
    """Return a column's name as a formula has it."""
    return column if column.isidentifier() else f"`{column}`"


def check_levels(name: str, column: str, levels: Sequence[Any], limit: int) -> None:
    """Raise unless a factor has at least two levels, and not too many."""
    check_level_count(name, column, len(levels), limit)
    if len(levels) < 2:
        what = f"one level only, {levels[0]!r}" if levels else "no entries"
        raise OneOnlyError(f"{name} has {what}; drop it")


def check_levels_repeat(name: str, levels: Sequence[Any], n_rows: int) -> None:
    """Raise if a factor has nearly as many levels as rows; text of numbers has another warning."""
    few = len(levels) < MIN_NUMBER_LEVELS or len(levels) <= MAX_LEVEL_SHARE * n_rows
    if not few and number_text(levels) is None:
        raise DataError(
            f"{name} has {len(levels):,} levels in {n_rows:,} rows, nearly one for each, whose coefficients nothing "
            f"tells from their labels: drop it if it is an identifier, or merge levels, as to the first letters"
        )


def check_memory(name: str, n_levels: int) -> None:
    """Raise if the levels of a grouping factor need too much memory."""
    if (size := n_levels * GROUP_BYTES) > MAX_GROUPS_BYTES:
        raise DataError(
            f"groups (column {name!r}) has {n_levels:,} levels or more, which take {size:,} bytes at {GROUP_BYTES} "
            f"each, above the {MAX_GROUPS_BYTES:,} that they may: name a coarser column, or merge small groups"
        )


_POINT = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)


_COMMA = re.compile(r"\s*[+-]?(\d+,?\d*|,\d+)([eE][+-]?\d+)?\s*", re.ASCII)


_CODE = re.compile(r"\s*0\d+\s*", re.ASCII)


_THOUSANDS = re.compile(r"\s*[+-]?[1-9]\d{0,2}(,\d{3})*\s*", re.ASCII)  # which may be decimals too


_CURRENCY = "$€£¥₹₩₽"


_FORMATTED = re.compile(  # separators of thousands, percent, a currency: as spreadsheets show numbers
    rf"\s*[-+−(]?\s*[{_CURRENCY}]?\s*[+-]?(\d{{1,3}}([,.'\s’]\d{{3}})+|\d+)([.,]\d+)?\s*[%‰{_CURRENCY}]?\)?\s*"
)


class NumberText(NamedTuple):
    """Levels of text, nearly all of them numbers in one notation."""

    n_levels: int
    others: tuple[str, ...]  # levels that are no numbers
    comma: bool  # whether numbers have decimal commas
    formatted: bool = False  # whether they have separators of thousands, a percent sign or a currency


def number_text(levels: Iterable[str]) -> NumberText | None:
    """Return what levels of text have of numbers; None where they are few, not nearly all numbers, or codes.

    >>> number_text([*map(str, range(18, 58)), "forty"])
    NumberText(n_levels=41, others=('forty',), comma=False, formatted=False)
    >>> number_text([f"${k},000" for k in range(1, 41)]).formatted
    True
    >>> number_text(["06510", *map(str, range(10001, 10041))]) is None
    True
    """
    texts = [level for level in levels if isinstance(level, str)]
    if len(texts) < MIN_NUMBER_LEVELS or any(_CODE.fullmatch(level) for level in texts):
        return None
    tried = [[level for level in texts if pattern.fullmatch(level) is None] for pattern in (_POINT, _COMMA, _FORMATTED)]
    most = (1.0 - MIN_NUMBER_SHARE) * len(texts) * (1.0 + 1e-12)  # 1 of 10 is a tenth
    plain = min((0, 1), key=lambda k: len(tried[k]))
    best = plain if len(tried[plain]) <= most else 2
    if best == 1 and not tried[1] and all(_THOUSANDS.fullmatch(level) for level in texts):
        best = 2
    others = tuple(tried[best])
    if len(others) > most:
        return None
    return NumberText(len(texts), others, best == 1, best == 2)


def check_number_text(
    name: str, levels: Iterable[str], row_of: Callable[[str], int] | None = None, *, limit: int | None = None
) -> None:
    """Raise if nearly all levels of a column of text are numbers, and warn if all are.

    `row_of` finds the first row of a level, which an error names. Levels above a `limit` are too many for a factor:
    those of all numbers raise.
    """
    text = number_text(levels)
    if text is None:
        return
    numbers = f"{text.n_levels - len(text.others):,} of its {text.n_levels:,} levels are numbers"
    reader = "read it with decimal=','" if text.comma else "pandas.to_numeric"
    commas = " with decimal commas" if text.comma else ""
    if text.formatted:
        reader = "pandas.to_numeric after .str.replace(r'[^0-9.eE-]', '', regex=True), or read it with thousands=','"
        commas = " with separators, percent or currency signs"
    factor = f"C({_quoted(name)}) in a formula, or make it a categorical"
    many = limit is not None and text.n_levels > limit
    if text.others:
        missing = "" if text.comma else ", where errors='coerce' makes the other entries missing"
        remedy = "name it as groups" if many else f"write {factor}"
        place = "" if row_of is None else f" (row {row_of(text.others[0])})"
        raise DataError(
            f"column {name!r} is text, but {numbers}{commas}, and the first other is {text.others[0]!r}{place}: turn "
            f"it into numbers ({reader}{missing}); if it is a factor, {remedy}"
        )
    if many:
        raise DataError(
            f"column {name!r} has more than {limit:,} levels, and all are numbers{commas}: turn it into numbers "
            f"({reader}), or name it as groups, (1 | {_quoted(name)}) in a formula"
        )
    warn(
        f"column {name!r} is text, and all its {text.n_levels:,} levels are numbers{commas}: it is coded as a factor, "
        f"with a coefficient for each level but the first. Turn it into numbers ({reader}) for one coefficient; "
        f"if it is a factor, write {factor}"
    )


JOINT = ":"


def columns_of(factor: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return the column of a grouping factor if `names` have it, else the columns that its name joins."""
    return (factor,) if factor in names else tuple(name.strip() for name in factor.split(JOINT))


def parts_of(factor: str, schema: pa.Schema) -> Parts:
    """Return the columns that a grouping factor joins, and what kind each is; () if it is a column."""
    names = columns_of(factor, schema.names)
    return tuple((name, _kind(schema.field(name).type)) for name in names) if len(names) > 1 else ()


def check_same_kinds(parts: Parts, others: Parts) -> None:
    """Raise unless columns that are joined are of the kind that they were in rows before; "" is any kind."""
    for (name, kind), (_, other) in zip(parts, others, strict=False):
        if kind and other and kind != other:
            raise DataError(f"groups: column {name!r} holds {other}, and held {kind} in other rows; convert it")


def column_of(rows: pa.Table | pa.RecordBatch, factor: str, columns: Parts = ()) -> pa.Array | pa.ChunkedArray:
    """Return a grouping factor of rows: a column, or combinations of columns as text, null where one is missing.

    `columns`, the parts that it had in other rows, decide.
    """
    check_read(rows.schema, [name for name in columns_of(factor, rows.schema.names) if name in rows.schema.names])
    if not columns and factor in rows.schema.names:
        return rows.column(factor)
    names = [name for name, _ in columns] or columns_of(factor, rows.schema.names)
    check_same_kinds(columns, tuple((name, _kind(rows.schema.field(name).type)) for name in names))
    texts = [factor_values(rows.column(name), name).cast(pa.string()) for name in names]
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


def factor_values(column: pa.Array | pa.ChunkedArray, name: str) -> pa.Array:
    """Return a column of text, whole numbers or booleans in one array: whole floats as integers, NaN missing."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    kind, types = column.type, pa.types
    if types.is_dictionary(kind):
        dictionary = column.dictionary
        if isinstance(dictionary.type, pa.BaseExtensionType) or types.is_temporal(dictionary.type):
            dictionary = pa.array(level_values(dictionary), pa.string())
        inner = factor_values(dictionary, name)
        if inner.null_count or len(inner.unique()) < len(inner):  # dictionaries that Arrow takes, and levels are not
            return inner.take(column.indices)
        return pa.DictionaryArray.from_arrays(column.indices, inner, ordered=kind.ordered)
    if types.is_boolean(kind):
        return column
    if is_text(kind):
        return column.cast(pa.string())
    if types.is_floating(kind):
        column = pc.if_else(pc.is_nan(column), None, column)
        if (pc.max(pc.abs(column)).as_py() or 0.0) >= MAX_EXACT:
            raise DataError(
                f"groups (column {name!r}) holds floats of {MAX_EXACT} and more, where whole numbers are no longer "
                f"told apart: read the column as whole numbers (dtype={{{name!r}: 'Int64'}}), or as text"
            )
    if types.is_integer(kind) or types.is_floating(kind) or types.is_null(kind):
        try:
            return column.cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise DataError(
                f"groups (column {name!r}) holds numbers that are not whole, or beyond 64 bits ({error}); levels are "
                "text or whole numbers: make bins of it, or turn it into text"
            ) from None
    raise DataError(f"groups (column {name!r}) is {kind}; levels are text or whole numbers: turn it into text")
