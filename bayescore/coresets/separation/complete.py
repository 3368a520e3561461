r"""Are the labels of all rows separated completely? A warning for whoever builds or certifies a coreset.

Where some direction has z_n . direction > 0 in every signed row z_n = y_n x_n, there is no maximum likelihood estimate,
and how far the posterior reaches is up to the prior. None has if and only if 0 is in the convex hull of the z_n (Gordan
1873), and else the point of the hull nearest to 0 is the direction of the widest margin. Non-negative least squares,

.. math:: \min_{m \ge 0} \; \Big| \sum_n m_n z_n \Big|^2 + \Big( 1 - \sum_n m_n \Big)^2,

finds that point, which rests on D + 1 rows at most. If some rows have 0 in their hull, all have: the coreset proves it
for all rows, or gives a direction to try on them in one pass.

When to use it: as a matter of course; it takes a fraction of the time of the linear program of `separability`, which
tells quasi-complete separation too, and the columns that separate.

References
----------
Gordan (1873), Über die Auflösung linearer Gleichungen mit reellen Coefficienten, Mathematische Annalen 6. Lawson and
Hanson (1974), Solving least squares problems, chapter 23.
"""

import numpy as np
from scipy.optimize import nnls

from bayescore.coresets.scores.factor import Whitening, block_factor, whitening
from bayescore.coresets.separation.hyperplane import TOLERANCE, against, unit_rows
from bayescore.data.dataset import Dataset
from bayescore.data.passes.threads import one_blas_thread
from bayescore.types import FloatArray, WeightedData, stack
from bayescore.validation import warn


def warn_if_completely_separated(dataset: Dataset, rows: WeightedData) -> bool:
    """Warn, and say so, if a hyperplane has all rows of `dataset` on the sides of their labels; `rows` is its coreset.

    No pass where the coreset proves that there is none, else one; where rows come once, none.

    Warns
    -----
    UserWarning
        If the labels are completely separated, or if the coreset's are and the pass has not told about all.
    """
    few = rows.take(slice(None, None, -(-len(rows) // (500 + 5 * rows.n_features))))  # few enough to be fast
    sure = False
    with one_blas_thread():
        found = parting(few)
        if found is not None and dataset.again:
            white, direction = found
            wrong = against(dataset, white, direction, strict=True)
            sure = wrong.n_rows == 0
            found = found if sure else parting(stack([few, wrong.worst]))
    if found is None:
        return False
    which = f"all {dataset.scan.n_rows:,}" if sure else f"{len(few):,} of the coreset's"
    unsure = "" if sure else " (separability tells of all rows)"
    warn(
        f"the labels {'are' if sure else 'may be'} completely separated: a hyperplane has {which} rows on the sides of "
        f"their labels{unsure}. Then no maximum likelihood estimate exists, and how far the posterior reaches is up to "
        "the prior: choose it with care, or drop the columns that separate"
    )
    return True


def parting(rows: WeightedData) -> tuple[Whitening, FloatArray] | None:
    """Return coordinates, and in them a direction, shape (r,), with z . direction > 0 in all rows; None if none."""
    white = whitening(block_factor(rows))
    unit, error = unit_rows(rows, white)
    target = np.append(np.zeros(white.rank), 1.0)
    try:
        multipliers, _ = nnls(np.vstack([unit.T, np.ones(len(unit))]), target, maxiter=10 * len(unit))
    except RuntimeError:  # not solved, which rounding can do where they all but overlap
        return None
    direction = multipliers @ unit
    direction /= max(np.abs(direction).max(initial=0.0), np.finfo(float).tiny)
    return (white, direction) if (unit @ direction - error).min() > TOLERANCE else None
