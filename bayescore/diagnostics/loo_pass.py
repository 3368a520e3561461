r"""One reading of the full data by several models: sums over all rows of what each model says of each.

Models of one design share one reading; other designs are read in step with it, block by block, so that what two models
say of a row can be multiplied. c_n = E l_n - var l_n / 2 over equally weighted draws is a model's first word on e_n,
its log predictive density with row n left out (see `elpd`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np

from bayescore.coresets.sampling.draw import Draw
from bayescore.data.dataset import Dataset
from bayescore.diagnostics.elpd import cumulants, left_out_of, rows_left_out
from bayescore.diagnostics.loo_draws import LooDraws
from bayescore.models.families import Family
from bayescore.models.predictor import Predictor
from bayescore.types import FloatArray, IntArray, LabelArray, WeightedData
from bayescore.validation import DataError


@dataclass(frozen=True, eq=False)
class _Block:
    """What some rows tell of the models of one design: c_n has shape (models, n)."""

    index: IntArray
    labels: LabelArray
    weights: FloatArray
    log_likelihood: list[FloatArray]
    variance: FloatArray
    first: FloatArray
    sample: Draw


@dataclass(frozen=True, eq=False)
class LooSums:
    """What the pass keeps of all rows: sum w l_s of each model, sum w var l, the products sum w c c', and rows."""

    log_likelihood: list[FloatArray]
    variance: FloatArray
    products: FloatArray
    weight: float
    samples: list[Draw]


def _of_block(models: Sequence[tuple[Predictor, Family]], start: int, block: WeightedData) -> _Block:
    """Return the sums of a block, its first row at position `start` of the data."""
    found = [cumulants(draws, block, family) for draws, family in models]
    totals, variance, first = zip(*found, strict=True)
    return _Block(
        block.index,
        block.y,
        block.weights,
        list(totals),
        np.array(variance),
        np.array(first),
        rows_left_out(start, block),
    )


def _results(group: list[LooDraws], dataset: Dataset, block_rows: int) -> Iterator[_Block]:
    models = [(model.predictor, model.family) for model in group]
    same_cuts = Dataset(dataset.rows, dataset.design, progress=dataset.progress, block_rows=block_rows)
    return same_cuts.map(lambda start, block: _of_block(models, start, block), "comparing", canonical=True)


def loo_pass(designs: list[list[LooDraws]], dataset: list[Dataset]) -> LooSums:
    """Return the sums of all rows, the designs read in step.

    Raises
    ------
    DataError
        If the designs take other rows of the data.
    """
    step = min(each.block_rows for each in dataset)
    sums: LooSums | None = None
    for blocks in zip_longest(*(_results(*each, step) for each in zip(designs, dataset, strict=True))):
        one = blocks[0]
        if not all(_same_rows(one, other) for other in blocks[1:]):
            raise DataError(
                "the models' designs take other rows of data: with missing='drop' each leaves out what its own columns "
                "miss; leave rows with missing values out before coresets are built"
            )
        first = np.concatenate([block.first for block in blocks])
        found = LooSums(
            [total for block in blocks for total in block.log_likelihood],
            np.concatenate([block.variance for block in blocks]),
            (first * one.weights) @ first.T,
            float(one.weights.sum()),
            [block.sample for block in blocks],
        )
        sums = found if sums is None else _added(sums, found)
    assert sums is not None
    return sums


def _same_rows(one: _Block | None, other: _Block | None) -> bool:
    if one is None or other is None:
        return False
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in ("index", "labels", "weights"))


def _added(one: LooSums, other: LooSums) -> LooSums:
    return LooSums(
        [mine + theirs for mine, theirs in zip(one.log_likelihood, other.log_likelihood, strict=True)],
        one.variance + other.variance,
        one.products + other.products,
        one.weight + other.weight,
        [left_out_of(pair) for pair in zip(one.samples, other.samples, strict=True)],
    )
