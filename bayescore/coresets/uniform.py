"""Uniform coresets: rows drawn with equal probability, without replacement; a baseline for all others."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bayescore.coresets.method import BuildInfo, BuildResult, Method, check_enough
from bayescore.data.dataset import Dataset
from bayescore.families import Family
from bayescore.numerics.sampling import draw, equal_rates


@dataclass(frozen=True)
class Uniform(Method):
    """Draws rows with equal probability, without replacement: a baseline. No options.

    Each row represents N / M rows. The weighted log-likelihood is unbiased, and misses rare rows.

    Examples
    --------
    >>> import bayescore as bc
    >>> X, y = bc.datasets.probit(5000, [1.0, 0.0], random_state=0)
    >>> core = bc.build_coreset(X, y, method="uniform", size=100, random_state=1, progressbar=False)
    >>> core.weights[0].item()
    50.0
    """

    name: ClassVar[str] = "uniform"
    one_pass: ClassVar[bool] = True

    def build(self, dataset: Dataset, size: int | None, seed: int, family: Family) -> BuildResult[BuildInfo]:
        """Draw `size` different rows, or all if they are fewer."""
        drawn = draw(dataset, equal_rates, self.draws(dataset, size), seed, replace=False)
        check_enough(size, drawn.total)
        rows = drawn.rows.take(np.argsort(drawn.rows.index, kind="stable"))
        return BuildResult(rows.with_weights(rows.weights * (drawn.total / len(rows))), BuildInfo(), self)
