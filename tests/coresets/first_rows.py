"""A method as somebody would add one: a file like this, and a line in `coresets.single`."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bayescore.coresets.method import BuildInfo, BuildResult, Method, ReduceResult
from bayescore.data.dataset import Dataset
from bayescore.data.sources import as_source
from bayescore.types import stack
from bayescore.validation import check_integer


@dataclass(frozen=True)
class FirstInfo(BuildInfo):
    """The rows left out before the first."""

    skipped: int


@dataclass(frozen=True)
class First(Method):
    """The first rows after `skip` of them, with the weight of all."""

    skip: int = 0

    name: ClassVar[str] = "first"
    families: ClassVar[tuple[str, ...]] = ("logistic",)
    one_pass: ClassVar[bool] = True

    def __post_init__(self):
        check_integer(self.skip, "skip", low=0)

    def build(self, dataset, size, seed, family):
        low, high = self.skip, self.skip + self.draws(dataset, size)

        def inside(start, block):
            return block.take(slice(max(low - start, 0), max(high - start, 0))), block.weights.sum()

        parts, weights = zip(*dataset.map(inside), strict=True)
        rows = stack(parts)
        scaled = rows.weights * (np.sum(weights) / rows.weights.sum())
        return BuildResult(rows.with_weights(scaled), FirstInfo(self.skip), self)

    def reduce(self, rows, request):
        built = self.build(Dataset(as_source(rows)), request.size, request.seed, request.family)
        return ReduceResult(built.rows)
