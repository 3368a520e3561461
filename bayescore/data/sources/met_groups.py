"""Groups of rows that come in blocks: levels are met on the way, and codes are their places in the order met.

Once all blocks are known, or their levels were before, `recoded` gives the codes that every other source gives.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa

from bayescore.data.sources.factors import Seen, check_memory
from bayescore.data.sources.groups import MISSING_HINT, Given, Grouper, surveyed, values
from bayescore.data.sources.tables import as_table, is_table
from bayescore.types import NO_GROUP, Grouping, IntArray
from bayescore.validation import DataError, RowError


@dataclass(frozen=True)
class MetGroups:
    """A grouping factor so far: its levels in the order met, and the order that they have of their own, if any."""

    name: str
    met: tuple[Any, ...] = ()
    order: tuple[Any, ...] | None = None

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """Rebuild what ``dataclasses.asdict`` and JSON made of it."""
        order = fields["order"]
        return cls(str(fields["name"]), tuple(fields["met"]), None if order is None else tuple(order))

    @property
    def grouping(self) -> Grouping:
        """The factor, its levels in order."""
        return Grouping(self.name, Seen(frozenset(self.met), self.order).levels(self.name))


def beside_rows(X: Any, groups: Any, columns: tuple[str, ...], where: str) -> tuple[Any, Any]:
    """Return the features of a block and its groups, which may be columns of it."""
    if not columns:
        return X, groups
    if groups is not None or not is_table(X):
        raise DataError(f"{where}: groups={columns[0]!r} names a column of X, so that X must be a table that has it")
    table = as_table(X, f"{where}: X")
    if missing := [name for name in columns if name not in table.column_names]:
        raise DataError(f"{where} lacks the column {missing[0]!r} of groups")
    return table.drop_columns(list(columns)).to_pandas(), Given(columns, table.select(list(columns)))


def met_codes(
    groups: Any, before: tuple[MetGroups, ...] | None, n_rows: int, start: int, where: str
) -> tuple[IntArray | None, tuple[MetGroups, ...]]:
    """Return the codes of a block's groups, shape (n, F), in the order met, and what is met after it.

    Its first row stands at position `start` of the data; `before` is what was met before, None in the first block.

    Raises
    ------
    DataError
        If groups are missing, of other factors than before, or too many.
    """
    given = groups if isinstance(groups, Given) else Given.of(groups, n_rows)
    if before is not None and given.names != tuple(own.name for own in before):
        known = ", ".join(repr(own.name) for own in before) or "none"
        raise DataError(f"{where} has other groups than the blocks before it, {known}; give the same in every block")
    if given.names and given.columns is None:
        raise DataError(f"{where}: groups={groups!r} names a column; give an array of levels")
    if given.columns is None:
        return None, ()
    found = [
        _met(own, given.columns, start, where) for own in (before or tuple(MetGroups(name) for name in given.names))
    ]
    return np.stack([codes for codes, _ in found], axis=1), tuple(own for _, own in found)


def _met(before: MetGroups, columns: pa.Table, start: int, where: str) -> tuple[IntArray, MetGroups]:
    name = before.name
    own = values(columns.column(name), name)
    if own.null_count:
        row = int(np.argmax(~own.is_valid().to_numpy(zero_copy_only=False)))
        raise RowError(
            f"{where}: groups ({name!r}) is missing in {own.null_count} rows, first in row {start + row}: "
            f"{MISSING_HINT}",
            start + row,
        )
    coded = own if pa.types.is_dictionary(own.type) else own.dictionary_encode()
    places = {level: place for place, level in enumerate(before.met)}
    known = coded.dictionary.to_pylist()
    indices = coded.indices.to_numpy(zero_copy_only=False)
    for i in _in_order(indices):
        places.setdefault(known[i], len(places))
    check_memory(name, len(places))
    seen = Seen(frozenset(before.met), before.order) + surveyed(columns, [name])[name]
    codes: IntArray = np.array([places[level] for level in known], dtype=np.int64)[indices]
    return codes, MetGroups(name, tuple(places), seen.order)


def _in_order(indices: Any) -> list[int]:
    """Return the distinct indices in the order of their first appearance."""
    found, first = np.unique(indices, return_index=True)
    return [int(i) for i in found[np.argsort(first)]]


def recoded(codes: IntArray, met: Sequence[MetGroups], known: Sequence[Grouper]) -> IntArray:
    """Return codes in the order met as those of the levels that are known, shape (n, F); -1 stays.

    Raises
    ------
    DataError
        If a level is not known.
    """
    found = np.empty_like(codes)
    for k, (own, by) in enumerate(zip(met, known, strict=True)):
        places = by.places(pa.array(own.met))
        if not by.new and (places == NO_GROUP).any():
            raise DataError(by.unknown(own.met[int(np.argmax(places == NO_GROUP))]))
        found[:, k] = np.append(places, NO_GROUP)[codes[:, k]]
    return found
