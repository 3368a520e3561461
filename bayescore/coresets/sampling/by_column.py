r"""A sample with rows of both labels for every column, drawn in the pass that checks the rows (Cohen 2015).

Row n gets one number u_n in (0, 1), a hash of (seed, position). For each label there are 1 + D measures of its rows:
m_0 = w, and m_d = w x_d^2 of each column but that of ones. By each measure the k rows with the smallest u / m are
drawn, and the sample is their union:

.. math:: \pi_n = \min\bigl(1, \max_d \tau_d\, m_d(n)\bigr), \qquad
          \tau_d \text{ the } (k + 1)\text{st smallest } u / m_d.

So rows of a rare category are in the sample, with both labels, and no scale of a column need be known beforehand. To
keep the smallest u / m is associative: the sample does not depend on how rows are cut into blocks.

When to use it: for a first fit to data that nobody has looked at yet. Reference: Cohen (2015), Multi-objective weighted
sampling, HotWeb, arXiv:1509.07445.
"""

from typing import NamedTuple

import numpy as np

from bayescore.compiled import jit
from bayescore.coresets.sampling.draw import hash_uniforms
from bayescore.coresets.sampling.fixed_size import Chosen
from bayescore.data.dataset import Dataset
from bayescore.data.design import Design
from bayescore.types import FloatArray, IntArray, LabelArray, WeightedData, stack

ROWS = 5000, 50_000  # of a sample, about, at least and at most
SHARE = 0.02  # of all rows, between the two: the mode of so many takes a fraction of a pass
ENTRIES = 4_000_000  # of a sample of wide rows, 32 MB,
ROWS_PER_COLUMN = 30  # but at least so many rows for each column
_SLACK = 1.0 + 1e-12  # so that rounding keeps out no row that the exact comparison lets in


class Drawn(NamedTuple):
    """Rows, some of them among the smallest by a measure: their uniform numbers and positions."""

    u: FloatArray
    position: IntArray
    rows: WeightedData


class Plan(NamedTuple):
    """How many rows of each label to draw by weight, and by the squares of each of some columns."""

    by_weight: int
    by_column: int
    columns: IntArray

    @classmethod
    def of(cls, design: Design, n_rows: int) -> "Plan":
        """Return the plan for `n_rows` rows of a design: half of the sample by weight, half by columns."""
        columns = np.array([d for d in range(len(design.names)) if d != design.constant], dtype=np.intp)
        n = max(1, len(columns))
        wanted = min(max(ROWS[0], int(SHARE * n_rows)), ROWS[1], ENTRIES // n)
        whole = max(wanted, ROWS_PER_COLUMN * n)
        return cls(whole // 4, max(1, whole // (4 * n)), columns)

    @property
    def no_bars(self) -> FloatArray:
        """What every row comes below, shape (2, 1 + n_columns)."""
        return np.full((2, 1 + len(self.columns)), np.inf)


@jit
def _passing(
    X: FloatArray, y: LabelArray, w: FloatArray, u: FloatArray, plan: tuple[IntArray, FloatArray]
) -> LabelArray:
    columns, bars = plan
    out = np.zeros(len(u), dtype=np.int8)
    for n in range(len(u)):
        bar = bars[1] if y[n] > 0 else bars[0]
        if u[n] <= bar[0] * w[n]:
            out[n] = 1
            continue
        for k in range(len(columns)):
            x = X[n, columns[k]]
            if u[n] <= bar[k + 1] * (w[n] * (x * x)):  # false for NaN, of infinity times 0
                out[n] = 1
                break
    return out


def _keys(drawn: Drawn, plan: Plan) -> tuple[FloatArray, FloatArray]:
    """Return the measures of rows and u over them, infinite for a measure of 0, shape (n, 1 + n_columns) each."""
    w, X = drawn.rows.weights[:, None], drawn.rows.X[:, plan.columns]
    measures = np.hstack([w, w * (X * X)])
    keys = np.full_like(measures, np.inf)
    np.divide(drawn.u[:, None], measures, out=keys, where=measures > 0.0)
    return measures, keys


def _bars(keys: FloatArray, y: LabelArray, plan: Plan) -> FloatArray:
    """Return tau of each label and measure, shape (2, 1 + n_columns); infinite where all rows are in."""
    bars = plan.no_bars
    for side, label in enumerate((-1, 1)):
        own = keys[y == label]
        if len(own) > plan.by_weight:
            bars[side, 0] = np.partition(own[:, 0], plan.by_weight)[plan.by_weight]
        if len(own) > plan.by_column:
            bars[side, 1:] = np.partition(own[:, 1:], plan.by_column, axis=0)[plan.by_column]
    return bars


def _best(drawn: Drawn, plan: Plan) -> tuple[Drawn, FloatArray]:
    """Return the rows that the sample of all rows may need, and the bars that others must come below."""
    _, keys = _keys(drawn, plan)
    bars = _bars(keys, drawn.rows.y, plan)
    own = bars[(drawn.rows.y > 0).astype(np.intp)]
    kept = np.flatnonzero(((keys <= own) & np.isfinite(keys)).any(axis=1))
    return Drawn(drawn.u[kept], drawn.position[kept], drawn.rows.take(kept)), bars


def _block(start: int, block: WeightedData, seed: int, plan: Plan, bars: FloatArray) -> Drawn:
    """Return the rows of a block that may be in the sample; only speed depends on the bars."""
    u = hash_uniforms(start, len(block), seed)
    found = np.flatnonzero(_passing(block.X, block.y, block.weights, u, (plan.columns, bars * _SLACK)))
    drawn = Drawn(u[found], start + found, block.take(found))
    return _best(drawn, plan)[0] if len(found) > 2 * plan.by_weight else drawn


def sample_by_column(dataset: Dataset, seed: int) -> Chosen:
    """Return the sample that `draw_by_column` left with the data, or draw it."""
    if dataset.sample is None:
        draw_by_column(dataset, seed)
    assert dataset.sample is not None
    rows, inclusion = dataset.sample
    return Chosen(rows, inclusion, int(np.count_nonzero(inclusion == 1.0)))


def draw_by_column(dataset: Dataset, seed: int, plan: Plan | None = None) -> None:
    """Scan the rows and leave a sample of them with the data; one pass."""
    plan = Plan.of(dataset.design, dataset.source.n_rows) if plan is None else plan
    bars = plan.no_bars
    parts: list[Drawn] = []
    held = 0

    def one(start: int, block: WeightedData) -> Drawn:
        return _block(start, block, seed, plan, bars)

    for part in dataset.scan_beside(one):
        parts.append(part)
        if sum(len(each.u) for each in parts) > 2 * held + 1000:
            best, bars = _best(_stacked(parts), plan)
            parts, held = [best], len(best.u)
    drawn = _stacked(parts)
    measures, keys = _keys(drawn, plan)
    own = _bars(keys, drawn.rows.y, plan)[(drawn.rows.y > 0).astype(np.intp)]
    inside = np.flatnonzero((keys < own).any(axis=1))
    bounds, sizes = own[inside], measures[inside]
    products = np.multiply(bounds, sizes, out=np.zeros_like(sizes), where=sizes > 0.0)
    dataset.sample = drawn.rows.take(inside), np.minimum(products.max(axis=1), 1.0)


def _stacked(parts: list[Drawn]) -> Drawn:
    return Drawn(
        np.concatenate([part.u for part in parts]),
        np.concatenate([part.position for part in parts]),
        stack([part.rows for part in parts]),
    )
