"""Grouping factors of rows: their levels, learnt once from any source, and codes, the places of levels.

Levels stand in the order of `factors`. There may be thousands, which a hash table of Arrow's looks up. Whole floats
count as integers, so that a CSV file and a Parquet file of the same rows give the same levels.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from bayescore.data.column_kinds import as_table, check_read, keeps_order
from bayescore.data.design import Design, Grouping
from bayescore.data.factors import column_of, factor_values, parts_of
from bayescore.data.survey import DistinctValues, Survey, distinct_values
from bayescore.text import listed
from bayescore.types import NO_GROUP, IntArray, Parts
from bayescore.validation import DataError, RowError, check_unmasked

GROUP = "group"  # what groups are called that come as an array without a name
MISSING_GROUP = -2  # code of a missing entry, in rows that are left out later
# dimensions and variables of posteriors, where effects have a dimension of their factor's name
_RESERVED_NAMES = frozenset(("chain", "draw", "__sample__", "feature", "beta", "coef"))
_NUMBERS_PER_LEVEL = 8  # up to which a table of all numbers from the least level to the largest is small
MISSING_HINT = "drop such rows (missing='drop'), or give them a level of their own, such as 'unknown'"


@dataclass(frozen=True, eq=False)
class Grouper:
    """A grouping factor and its levels, in a form that looks codes up; picklable."""

    grouping: Grouping
    new: bool = False  # whether an unknown level has the code `NO_GROUP`; else it is an error
    role: str = "groups"  # what messages call it
    table: pa.Array = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "table", pa.array(self.grouping.levels))

    def __getstate__(self) -> dict[str, Any]:
        """Return what travels to workers, who make tables of their own."""
        return {name: value for name, value in vars(self).items() if name != "_by_number"}

    @property
    def where(self) -> str:
        """What messages call its column, or columns."""
        names = [repr(name) for name in self.grouping.columns]
        return f"{self.role} (column{'s' * (len(names) > 1)} {' and '.join(names)})"

    def of(self, rows: pa.Table | pa.RecordBatch, name: str) -> pa.Array | pa.ChunkedArray:
        """Return the factor of rows, which may have it by another `name`, as `column_of` does."""
        return column_of(rows, name, self.grouping.parts if name == self.grouping.name else ())

    def codes(
        self, column: pa.Array | pa.ChunkedArray, start: int, *, drop: bool = False, hint: str = MISSING_HINT
    ) -> IntArray:
        """Return the codes of a column's entries, shape (n,); the first stands at position `start` of the data.

        Missing entries are `MISSING_GROUP` if `drop`. Else they, with `hint`, and unknown levels raise `RowError`.
        """
        plain = factor_values(column, self.grouping.name)
        if self._by_number is not None and plain.type == self.table.type:
            least, table = self._by_number
            # what is below is beyond the end too, as a number without a sign
            which = (plain.fill_null(least).to_numpy(zero_copy_only=False) - least).view(np.uint64)
            codes: IntArray = table[np.minimum(which, np.uint64(len(table) - 1))]
            if plain.null_count:
                codes[plain.is_null().to_numpy(zero_copy_only=False)] = MISSING_GROUP
        else:
            coded = plain if pa.types.is_dictionary(plain.type) else plain.dictionary_encode()
            which = coded.indices.fill_null(len(coded.dictionary)).to_numpy(zero_copy_only=False)
            codes = np.append(self.places(coded.dictionary), MISSING_GROUP)[which]
        if not drop and (row := _first_true(codes == MISSING_GROUP)) is not None:
            raise RowError(
                f"{self.where} is missing in {int((codes == MISSING_GROUP).sum())} of rows {start} to "
                f"{start + len(codes) - 1}, first in row {start + row}: {hint}",
                start + row,
            )
        if not self.new and (row := _first_true(codes == NO_GROUP)) is not None:
            raise RowError(f"{self.unknown(plain[row].as_py())}, in row {start + row}", start + row)
        return codes

    @cached_property
    def _by_number(self) -> tuple[np.int64, IntArray] | None:
        """The least level, and codes of it and the numbers that follow, if levels are numbers close together.

        Arrow makes its hash table of all levels anew for each block, which takes longer than its rows.
        """
        if self.table.type != pa.int64():
            return None
        levels = self.table.to_numpy()
        if (reach := int(levels.max()) - int(levels.min())) > _NUMBERS_PER_LEVEL * len(levels):
            return None
        table = np.full(reach + 2, NO_GROUP)  # the last is of all other numbers
        table[levels - levels.min()] = np.arange(len(levels))
        return levels.min(), table

    def places(self, levels: pa.Array) -> IntArray:
        """Return the places of distinct values among the levels, `NO_GROUP` for others."""
        if not len(levels):  # of entries that are all missing, which have any type
            return np.zeros(0, dtype=np.int64)
        if levels.type != self.table.type:
            raise DataError(
                f"{self.where} is {levels.type}, and its levels are {self.table.type} "
                f"({listed(self.grouping.levels)}); convert it"
            )
        places = pc.index_in(levels, self.table).fill_null(NO_GROUP)
        return np.asarray(places.to_numpy(zero_copy_only=False), dtype=np.int64)

    def unknown(self, level: Any) -> str:
        """Raise the error for a level that is new."""
        return (
            f"{self.where} has the level {level!r}, none of the {len(self.grouping):,} known "
            f"({listed(self.grouping.levels)}): drop such rows, or build with rows of every group"
        )


def check_groupings(design: Design, n_rows: int, *, single: bool) -> None:
    """Raise unless each factor has several levels, and fewer than rows; `single`: every row is one trial."""
    for grouping in design.groups:
        if len(grouping) < 2:
            raise DataError(
                f"groups (column {grouping.name!r}) has one level only, {grouping.levels[0]!r}: it tells no rows "
                "apart; leave it out"
            )
        if single and len(grouping) == n_rows:
            raise DataError(
                f"groups (column {grouping.name!r}) has {n_rows:,} levels, one for each row, whose effects nothing "
                f"tells from their labels' noise: name a column whose values several rows share, or leave it out"
            )


@dataclass(frozen=True, eq=False)
class GivenGroups:
    """Groups as arguments give them: names of columns of the data, or separate columns, by name."""

    names: tuple[str, ...] = ()
    columns: pa.Table | None = None
    parts: Mapping[str, Parts] = field(default_factory=dict)  # of columns that were joined

    def __post_init__(self) -> None:
        for name in self.names:
            others = [other for other in self.names if other != name]
            made = {f"{part}_{other}" for other in others for part in ("u", "sigma", "rho", "icc")}
            made |= {f"{other}_{part}" for other in others for part in ("effect", "pair", "standardised")}
            if name in _RESERVED_NAMES | made:
                raise DataError(
                    f"groups (column {name!r}) has the name of a dimension or variable of posteriors; "
                    f"rename the column, as {name + '_id'!r}"
                )

    @classmethod
    def of(cls, groups: Any, n_rows: int | None, names_of_data: Sequence[str] = ()) -> Self:
        """Take the argument `groups` apart: a name, names, an array of `n_rows` levels, or a dict of arrays.

        A list of names may be a list of levels: `names_of_data` are the columns of the data, which decide.
        """
        if groups is None:
            return cls()
        if isinstance(groups, str):
            return cls((groups,))
        several = isinstance(groups, list | tuple) and groups and all(isinstance(name, str) for name in groups)
        if several and (n_rows is None or len(groups) != n_rows or set(groups) <= set(names_of_data)):
            return cls(tuple(groups))
        if n_rows is None:
            raise DataError("groups of such data must be the name of a column, or a list of names")
        named = groups if isinstance(groups, Mapping) else {str(getattr(groups, "name", None) or GROUP): groups}
        if not named:
            raise DataError("groups is an empty dict; leave it out, or give a column of levels by its name")
        frame = {}
        for name, column_given in named.items():
            where = "groups" if not isinstance(groups, Mapping) else f"groups[{name!r}]"
            check_unmasked(column_given, where)
            shape = np.shape(column_given)
            if shape != (n_rows,):
                raise DataError(f"{where} has shape {shape}; it must be ({n_rows},), one level for each row")
            column = column_given.array if isinstance(column_given, pd.Series) else column_given
            is_coded = isinstance(getattr(column, "dtype", None), pd.CategoricalDtype)
            frame[str(name)] = pd.Categorical(column, ordered=True) if is_coded else column
        columns = as_table(pd.DataFrame(frame), "groups")
        check_read(columns.schema, frame)
        return cls(tuple(frame), columns)


def groupers_of(survey: Survey, names: Sequence[str]) -> tuple[Grouper, ...]:
    """Return grouping factors with their levels in a survey; raise if one has none, or they are not alike."""
    for name in names:
        if not survey.levels[name].values:
            raise DataError(f"groups (column {name!r}) is missing in every row: it tells no rows apart; leave it out")
    seen_levels = [(name, survey.levels[name]) for name in names]
    return tuple(Grouper(Grouping(name, distinct.levels(name), parts=distinct.parts)) for name, distinct in seen_levels)


def coded_columns(data: Any, names: Sequence[str]) -> tuple[tuple[Grouping, ...], IntArray]:
    """Return columns of a table as factors, and the codes of its rows, shape (n, F)."""
    table = as_table(data)
    with errors_name_by():
        groupers = groupers_of(Survey(levels=groups_seen(table, names)), names)
    groupers = tuple(replace(by, role="by") for by in groupers)
    codes = [by.codes(by.of(table, by.grouping.name), 0) for by in groupers]
    return tuple(by.grouping for by in groupers), np.stack(codes, axis=1)


@contextmanager
def errors_name_by() -> Iterator[None]:
    """Have errors about `groups` name `by` instead, the argument by which a user divides the rows."""
    try:
        yield
    except DataError as error:
        raise DataError(re.sub(r"\bgroups\b", "by", str(error))) from None


def groups_seen(batch: pa.Table | pa.RecordBatch, names: Iterable[str]) -> dict[str, DistinctValues]:
    """Return the levels of grouping factors in some rows."""
    distinct = {}
    for name in names:
        parts = parts_of(name, batch.schema)
        ordered = not parts and keeps_order(batch.schema, name)
        distinct[name] = replace(
            distinct_values(factor_values(column_of(batch, name), name), ordered=ordered), parts=parts
        )
    return distinct


def known_groupers(groupers: Sequence[Grouper] | None, names: Sequence[str]) -> tuple[Grouper, ...]:
    """Return the factors with given levels, () if none; raise unless as many groups are given."""
    if groupers is None:
        return ()
    if len(groupers) != len(names):
        shown = ", ".join(repr(by.grouping.name) for by in groupers) or "none"
        if not names:
            raise DataError(f"groups is missing: the design has {shown}; give the group of each row")
        raise DataError(f"groups has {len(names)} factors, the design {len(groupers)}: {shown}; give the same")
    return tuple(groupers)


def _first_true(mask: Any) -> int | None:
    return int(np.argmax(mask)) if mask.any() else None
