r"""Multilevel coresets: pseudo-rows for the effects of each group, or cell of groups, and for beta within them.

.. math:: \eta_n = x_n \beta + o_n + \sum_f z_{fn} \cdot u_{f, g_f(n)}

The rows of a cell, a combination of all factors' levels that occurs, see the same effects, which add up to one vector
b_c in the columns z whose coefficients vary. At the normal density nearest the posterior (`cells.settle`) each cell
becomes up to as many binomial pseudo-rows as coefficients vary (`cells.pseudo`, `cells.points`), or keeps its rows
where they are few or have another shape. What rows say within cells becomes pseudo-rows of no cell, one for each
direction of beta (`cells.within`). Nearest published: Limpoco, Faes and Hens (2024), arXiv 2411.04002.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from bayescore.coresets.calibration.search import check_one_mode, mode_prior
from bayescore.coresets.cells.condense import MultilevelInfo, condense
from bayescore.coresets.method import BuildResult, Method
from bayescore.data.dataset import Dataset
from bayescore.data.passes.threads import one_blas_thread
from bayescore.models.families import Family
from bayescore.models.priors import Prior
from bayescore.validation import DataError


@dataclass(frozen=True)
class Multilevel(Method):
    """Condenses rows into pseudo-rows for the effects of groups, and for the coefficients within groups.

    For random intercepts, `(1 | g)`, one a group. For slopes, `(1 + x | g)`, up to as many as coefficients vary. For
    several factors, `(1 | a) + (1 | b)`, those of each cell, a combination of their levels that occurs.

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

    def __post_init__(self) -> None:
        check_one_mode(self.prior, "condensed")

    def build(self, dataset: Dataset, size: int | None, seed: int, family: Family) -> BuildResult[MultilevelInfo]:
        """Condense the rows by group, or by cell of all grouping factors."""
        if not (groups := dataset.design.groups):
            raise DataError(
                "method='multilevel' needs groups: give groups='column', or a term (1 | column) in the formula; "
                "without groups method='calibrated' fits"
            )
        if few := [own.name for own in groups if len(own) < 2]:
            raise DataError(f"groups={few[0]!r} has one level; the sd of one effect is no fact of the data: drop it")
        prior = mode_prior(self.prior)
        prior.parts(dataset.n_features)  # shapes
        with one_blas_thread():
            return BuildResult(*condense(dataset, prior, family), self)
