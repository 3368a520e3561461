r"""Multilevel coresets: pseudo-rows for the effects of each group, or cell of groups, and for beta within them.

.. math:: \eta_n = x_n \beta + o_n + \sum_f z_{fn} \cdot u_{f, g_f(n)}

The rows of a cell, a combination of all factors' levels that occurs, see the same effects, which add up to one vector
b_c in the columns z whose coefficients vary. At the normal density nearest the posterior (`cells.settle`) each cell
becomes up to as many binomial pseudo-rows as coefficients vary (`cells.pseudo`, `cells.points`), or keeps its rows
where they are few or have another shape. What rows say within cells becomes pseudo-rows of no cell, one for each
direction of beta (`cells.within`). Nearest published: Limpoco, Faes and Hens (2024), arXiv 2411.04002.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from bayescore.coresets.calibration.search import check_one_mode, mode_prior
from bayescore.coresets.cells.condense import Condensed, MultilevelInfo, columns_of, condense
from bayescore.coresets.cells.occupied import count_cells
from bayescore.coresets.cells.start import SEED, Move, Start
from bayescore.coresets.method import BuildResult, Method
from bayescore.coresets.sampling.by_column import draw_by_column
from bayescore.coresets.stream_state import rows_from_arrays, rows_to_arrays
from bayescore.data.checkpoint import Arrays
from bayescore.data.dataset import Dataset
from bayescore.data.design import Design
from bayescore.data.passes.cutter import block_rows
from bayescore.data.passes.threads import one_blas_thread
from bayescore.data.sources import ArraySource
from bayescore.models.families import Family, check_family
from bayescore.models.priors import Prior
from bayescore.types import WeightedData, stack
from bayescore.validation import DataError, warn

_BLOCKS = 4  # condensed together, of 8 MB: earlier rows have errors of second order in how far the centre moves later


@dataclass(frozen=True)
class Multilevel(Method):
    """Condenses rows into pseudo-rows for the effects of groups, and for the coefficients within groups.

    For random intercepts, `(1 | g)`, one a group. For slopes, `(1 + x | g)`, up to as many as coefficients vary. For
    several factors, `(1 | a) + (1 | b)`, those of each cell, a combination of their levels that occurs. Nothing is
    random: every `random_state` gives the same rows.

    Parameters
    ----------
    prior : prior or dict of str to prior, default Normal(0, 4)
        Prior under which the mode is sought; only the likelihood is condensed, so that the coreset serves other priors
        of like strength too, and any prior of the effects' sds.

    Raises
    ------
    TypeError, ValueError
        If an option is of the wrong kind or out of its range.

    Examples
    --------
    >>> import numpy as np, pandas as pd, bayescore as bc
    >>> rng = np.random.default_rng(0)
    >>> rows = pd.DataFrame({"age": rng.normal(size=5000), "county": rng.integers(0, 20, 5000)})
    >>> rows["vote"] = 0.5 * rows["age"] + rng.logistic(size=5000) > 0
    >>> core = bc.build_coreset(rows, formula="vote ~ age + (1 | county)", random_state=1, progressbar=False)
    >>> core.method, core.groups[0].name, core.n_total
    ('multilevel', 'county', 5000)
    """

    prior: Prior | Mapping[str, Prior] | None = None

    name: ClassVar[str] = "multilevel"
    takes_size: ClassVar[bool] = False
    knows_groups: ClassVar[bool] = True
    keeps_curvature: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_one_mode(self.prior, "condensed")

    def first_look(self, dataset: Dataset, seed: int) -> None:
        """Count cells, and draw the sample with which the search for the centre begins, too."""
        self._check_has_groups(dataset.design)
        with count_cells(dataset):
            draw_by_column(dataset, SEED)

    def build(self, dataset: Dataset, size: int | None, seed: int, family: Family) -> BuildResult[MultilevelInfo]:
        """Condense the rows by group, or by cell of all grouping factors."""
        self._check_groups(dataset.design)
        check_levels(dataset.design)
        prior = mode_prior(self.prior)
        prior.parts(dataset.n_features)  # shapes
        with one_blas_thread():
            found = condense(dataset, prior, family, getattr(dataset.rows, "start", None))
        for text in found.cautions:
            warn(text)
        return BuildResult(found.rows, found.info, self)

    @staticmethod
    def _check_has_groups(design: Design) -> None:
        if not design.groups:
            raise DataError(
                "method='multilevel' needs groups: give groups='column', or a term (1 | column) in the formula; "
                "without groups method='calibrated' fits, or 'merge_reduce' to a stream"
            )

    def _check_groups(self, design: Design) -> None:
        self._check_has_groups(design)
        columns_of(design)  # raises where effects cannot be condensed

    def stream_block(self, size: int, n_features: int) -> int:
        """Return the rows that are condensed together."""
        return _BLOCKS * block_rows(n_features)

    def begin(self, size: int, design: Design, seed: int, family: str) -> "MultilevelState":
        """Return the state before the first row; raise `DataError` without groups."""
        self._check_groups(design)
        return MultilevelState(self.named(design.names), design, family)


def check_levels(design: Design) -> None:
    """Raise if a grouping factor has one level."""
    if few := [own.name for own in design.groups if len(own) < 2]:
        raise DataError(f"groups={few[0]!r} has one level; the sd of one effect is no fact of the data: drop it")


@dataclass(frozen=True, eq=False)
class MultilevelState:
    """The rows of a stream: those of earlier blocks condensed, and the last block, so that an answer has new rows."""

    method: Multilevel
    design: Design
    family: str
    condensed: WeightedData | None = None
    last: WeightedData | None = None
    start: Start | None = None  # where those that are condensed have their centre

    def absorbed(self, block: WeightedData) -> Self:
        """Return the state with a block more; where rows so far cannot be condensed well they wait for others."""
        if self.last is None:
            return replace(self, last=block)
        rows, start = self._rows(None), self.start
        try:
            found = self._condense(rows)
        except (ArithmeticError, np.linalg.LinAlgError):
            pass
        else:
            if found.centre is not None and not found.doubts:
                rows, start = found.rows, found.centre
        return replace(self, condensed=rows, last=block, start=start)

    def answer(self, rest: WeightedData | None) -> BuildResult[MultilevelInfo]:
        """Return the rows of all blocks and the rest condensed."""
        rows = self._rows(rest)
        check_levels(self._dataset(rows).design)
        found = self._condense(rows)
        for text in found.doubts if rows.pseudo.any() else found.cautions:  # pseudo-rows are few
            warn(text)
        if self.start is None or found.centre is None:
            return BuildResult(found.rows, found.info, self.method)
        move = self.start.moved(found.centre, found.cells)
        info = replace(found.info, moved=move.sds, moved_limit=move.limit)
        return BuildResult(found.rows, info, self.method, self._caution(move) if move.sds > move.limit else None)

    def _caution(self, move: Move) -> str:
        if move.place is None:
            what = "an effect of a group"
        elif move.place < len(self.design.names):
            what = f"the mean of {self.design.names[move.place]!r}"
        else:
            what = "the log sd of effects of groups"
        return (
            f"{what} has moved by {move.sds:.2g} sds (limit {move.limit:.2g}) of the posterior about which earlier "
            "rows were condensed (are the rows sorted?), and means and effects may be off by sds: shuffle the rows, "
            "begin with rows of all kinds, or give build_coreset all rows"
        )

    def _condense(self, rows: WeightedData) -> Condensed:
        return condense(self._dataset(rows), mode_prior(self.method.prior), check_family(self.family), self.start)

    def _rows(self, rest: WeightedData | None) -> WeightedData:
        return stack([part for part in (self.condensed, self.last, rest) if part is not None])

    def _dataset(self, rows: WeightedData) -> Dataset:
        assert rows.group is not None
        sizes = rows.group.max(axis=0, initial=0) + 1
        groups = [
            replace(own, levels=tuple(range(size)))
            for own, size in zip(self.design.groups, sizes.tolist(), strict=True)
        ]
        design, beside = replace(self.design, groups=tuple(groups)), (rows.index, rows.offset)
        return Dataset(ArraySource(rows.X, rows.y, rows.weights, (-1, 1), "y", design, *beside, group=rows.group))

    def to_arrays(self) -> Arrays:
        """Return the rows as arrays."""
        found: Arrays = {}
        for part, rows in (("condensed", self.condensed), ("last", self.last)):
            found |= {} if rows is None else rows_to_arrays(part, rows)
        return found | ({} if self.start is None else {f"start_{name}": own for name, own in vars(self.start).items()})

    def from_arrays(self, arrays: Arrays) -> Self:
        """Return the state of `to_arrays`."""
        parts = {part: rows_from_arrays(part, arrays) for part in ("condensed", "last") if f"{part}_X" in arrays}
        own = {name.removeprefix("start_"): array for name, array in arrays.items() if name.startswith("start_")}
        start = Start(**own) if own else None
        if start is not None:
            start.check(len(self.design.names), len(self.design.groups))
        return replace(self, condensed=parts.get("condensed"), last=parts.get("last"), start=start)
