"""Levels of text and groups in rows that come in blocks.

Codes of groups are places in the order of first occurrence. Once all levels are known, `recoded` gives the codes that
every other source gives.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from bayescore.data.factors import Selection, codes, is_text, keeps_order
from bayescore.data.sources.group_columns import column_of, columns_of, parts_of, values
from bayescore.data.sources.groups import MISSING_HINT, Given, Grouper, groups_seen
from bayescore.data.sources.survey import NOTHING, Seen, Survey, seen
from bayescore.data.tables import as_numbers, as_table, check_numeric, is_table
from bayescore.types import NO_GROUP, IntArray
from bayescore.validation import DataError, RowError


def coded_table(data: Any, selection: Selection, start: int, where: str) -> tuple[pd.DataFrame, dict[str, Seen]]:
    """Return the selected columns of a block, text as codes, and the values of text whose levels are not known yet.

    Codes of such text are 0. The first row stands at position `start` of the data.
    """
    table, levels = as_table(data, f"{where}: X"), dict(selection.levels or ())
    names = selection.names or tuple(table.column_names)
    if missing := [name for name in names if name not in table.column_names]:
        raise DataError(f"{where} lacks the column {missing[0]!r}")
    new = [name for name in names if name not in levels and is_text(table.schema.field(name).type)]
    if new and selection.levels is not None:
        raise DataError(f"{where}: column {new[0]!r} is text, and held numbers before; convert it")
    check_numeric(table.schema, tuple(name for name in names if name not in levels and name not in new))
    columns: dict[str, Any] = {}
    for name in names:
        if name in levels:
            columns[name] = codes(table.column(name), name, levels[name], start)
        else:
            columns[name] = np.zeros(table.num_rows) if name in new else as_numbers(table.column(name))
    kinds = {name: (keeps_order(table.schema, name), selection.calls_factor(table.schema, name)) for name in new}
    found = {name: seen(table.column(name), ordered=own, factor=factor) for name, (own, factor) in kinds.items()}
    return pd.DataFrame(columns), found


def beside_rows(X: Any, groups: Any, columns: tuple[str, ...], where: str, features: Sequence[str]) -> tuple[Any, Any]:
    """Return the features of a block and its groups, which may be columns of it; those of `features` stay."""
    if not columns:
        return X, groups
    if groups is not None or not is_table(X):
        raise DataError(f"{where}: groups={columns[0]!r} names a column of X, so that X must be a table that has it")
    table = as_table(X, f"{where}: X")
    names = table.column_names
    read = list(dict.fromkeys(part for name in columns for part in columns_of(name, names)))
    if missing := [name for name in read if name not in names]:
        raise DataError(f"{where} lacks the column {missing[0]!r} of groups")
    groups = pa.table({name: column_of(table, name) for name in columns})
    parts = {name: parts_of(name, table.schema) for name in columns}
    left = table.drop_columns([name for name in read if name not in features])
    return left.to_pandas(), Given(columns, groups, parts)


def group_codes(
    groups: Any, factors: tuple[str, ...] | None, before: Survey, n_rows: int, where: str
) -> tuple[IntArray | None, dict[str, Seen]]:
    """Return the codes of a block's groups in the order of occurrence, shape (n, F), and their values in the block.

    `before` is the survey of the blocks before it, and `factors` are their grouping factors, None in the first block.
    """
    given = groups if isinstance(groups, Given) else Given.of(groups, n_rows)
    if factors is not None and given.names != factors:
        known = ", ".join(map(repr, factors)) or "none"
        raise DataError(f"{where} has other groups than the blocks before it, {known}; give the same in every block")
    if given.names and given.columns is None:
        raise DataError(f"{where}: groups={groups!r} names a column; give an array of levels")
    if given.columns is None:
        return None, {}
    own = groups_seen(given.columns, given.names)
    own = {name: replace(found, parts=given.parts.get(name, ())) for name, found in own.items()}
    for name, found in own.items():
        if found.missing:
            holes = ~values(given.columns.column(name), name).is_valid().to_numpy(zero_copy_only=False)
            row = before.n_rows + int(np.argmax(holes))
            problem = f"{where}: groups ({name!r}) is missing in {holes.sum()} rows, first in row {row}"
            raise RowError(f"{problem}: {MISSING_HINT}", row)
    levels = {name: before.levels.get(name, NOTHING) + found for name, found in own.items()}
    return np.stack([_places(given.columns.column(name), name, levels[name]) for name in own], axis=1), own


def _places(column: pa.ChunkedArray, name: str, levels: Seen) -> IntArray:
    plain = values(column, name)
    coded = plain if pa.types.is_dictionary(plain.type) else plain.dictionary_encode()
    places = {level: place for place, level in enumerate(levels.values)}
    found = np.array([places.get(level, NO_GROUP) for level in coded.dictionary.to_pylist()], dtype=np.int64)
    own: IntArray = found[coded.indices.to_numpy(zero_copy_only=False)]
    return own


def recoded(codes: IntArray, occurred: Sequence[Seen], known: Sequence[Grouper]) -> IntArray:
    """Return codes in the order of occurrence as codes of levels that are known, shape (n, F); -1 stays."""
    found = np.empty_like(codes)
    for k, (own, by) in enumerate(zip(occurred, known, strict=True)):
        levels = list(own.values)
        places = by.places(pa.array(levels))
        if not by.new and (places == NO_GROUP).any():
            raise DataError(by.unknown(levels[int(np.argmax(places == NO_GROUP))]))
        found[:, k] = np.append(places, NO_GROUP)[codes[:, k]]
    return found
