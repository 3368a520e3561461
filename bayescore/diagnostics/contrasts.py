r"""What averages are of: rows as they are or with a raw column changed, all of them or by the values of another column.

.. math:: P_k = \sum_{n \in k} w_n \sum_v c_v\, p(\eta_n^v)

k is a cell, v a change of row n, c_v its factor: a contrast of two levels has the factors 1 and -1, a central
difference 1 / 2h and -1 / 2h.
"""

from dataclasses import dataclass, replace

import numpy as np

from bayescore.data.dataset import Dataset
from bayescore.data.design import Design
from bayescore.data.sources.paired import LABELS, numbers_of
from bayescore.samplers.new_rows import finite_design
from bayescore.samplers.raw_columns import raw_column
from bayescore.types import NO_GROUP, FloatArray, IntArray, WeightedData
from bayescore.validation import DataError


@dataclass(frozen=True)
class Change:
    """A row with its raw column at `value`, or moved by `shift`, counts `factor` times in a sum."""

    factor: float = 1.0
    value: float | None = None
    shift: float = 0.0


@dataclass(frozen=True, eq=False)
class Cells:
    """What is summed: contrasts of the raw column `variable`, each over the rows of each value of the column `by`.

    A contrast adds up changes of a row. Blocks are raw rows, or with `designed` rows of the design matrix, whose
    columns tell the raw ones.
    """

    design: Design
    designed: bool
    by: str | None = None
    values: tuple[float, ...] = (0.0,)  # of `by`; of text and of groups the codes
    variable: str | None = None
    contrasts: tuple[tuple[Change, ...], ...] = ((Change(),),)
    response: str = LABELS  # what the rows' responses are

    def __len__(self) -> int:
        return len(self.contrasts) * len(self.values)

    def counted(self, block: WeightedData) -> WeightedData:
        """Return a block without its responses: of counts the exposures alone, as averages are of rates by exposure."""
        if self.response == "numbers":
            return numbers_of(block)[0]
        return block.with_weights(np.where(block.y < 0, block.weights, 0.0)) if self.response == "counts" else block

    def column(self, block: WeightedData, name: str) -> FloatArray:
        """Return a raw column, or the codes of groups, shape (n,)."""
        if name not in self.design.raw_names:
            assert block.group is not None
            return np.asarray(block.group[:, [own.name for own in self.design.groups].index(name)])
        if not self.designed:
            return np.asarray(block.X[:, self.design.raw_names.index(name)])
        found = raw_column(self.design, block.X, name)
        assert found is not None
        return found

    def parts(self, block: WeightedData) -> IntArray:
        """Return the place of each row's value of `by`, shape (n,)."""
        if self.by is None:
            return np.zeros(len(block), dtype=np.int64)
        column = self.column(block, self.by)
        if self.by not in self.design.raw_names and (column == NO_GROUP).any():
            raise DataError(
                f"by={self.by!r}: row {block.index[(column == NO_GROUP).argmax()]} of data is of a group that the "
                "posterior does not know; leave such rows out"
            )
        return np.searchsorted(self.values, np.round(column, 9))

    def terms(self, block: WeightedData, contrast: int) -> list[tuple[float, WeightedData]]:
        """Return the factors of a contrast, and the changed rows in the design, in the block's order."""
        changes = self.contrasts[contrast]
        if self.variable is None:
            X = block.X if self.designed else self._designed(block, block.X, "data")
            return [(change.factor, replace(block, X=X)) for change in changes]
        raw, place = self._raw(block), self.design.raw_names.index(self.variable)
        own, found = raw[:, place].copy(), []
        for change in changes:
            raw[:, place] = own + change.shift if change.value is None else change.value
            moved = f"moved by {change.shift:g}" if change.value is None else f"set to {change.value:g}"
            where = f"data with {self.variable!r} {moved}"
            found.append((change.factor, replace(block, X=self._designed(block, raw, where))))
        return found

    def _designed(self, block: WeightedData, raw: FloatArray, where: str) -> FloatArray:
        return finite_design(self.design, raw, block.index, where)

    def _raw(self, block: WeightedData) -> FloatArray:
        if not self.designed:
            return np.array(block.X)
        told = (raw_column(self.design, block.X, own) for own in self.design.raw_names)
        return np.column_stack([np.zeros(len(block)) if own is None else own for own in told])


def values_of(dataset: Dataset, cells: Cells, name: str, most: int) -> tuple[float, ...] | None:
    """Return the distinct values of a raw column, by a pass; None as soon as there are more than `most`."""

    def one(_: int, block: WeightedData) -> FloatArray:
        return np.unique(np.round(cells.column(block, name), 9))[: most + 1]

    values: FloatArray = np.zeros(0)
    for found in dataset.map(one, "learning levels"):
        values = np.union1d(values, found)
        if len(values) > most:
            return None
    return tuple(map(float, values))
