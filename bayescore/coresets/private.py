r"""Private coreset: private centers with noisy counts for each label, as weighted rows.

Rows are clipped to the ball |x|_1 <= R, seeded by `private_k_variates`, and cut into the cells of the centers; released
are noisy counts of the cells for each label, and the cells' noisy means, drawn back into the ball:

.. math:: c_{jy} = \mathrm{count}_{jy} + \mathrm{Lap}(1/\epsilon_2), \qquad
          p_j = \frac{\sum_{a \in \mathrm{cell}_j} a + \mathrm{Lap}(R/\epsilon_3)^D}{\max(\sum_y c_{jy}, 1)}

(p_j, y) with weight c_jy is a row where c_jy > 0. Sums are taken in fixed point (multiples of R / 2^30), because
rounded sums can change by more than the row that comes. Cells and means are those of both labels together: means of
each label's own rows would pull the labels apart. docs/how-to/private.md says what is protected and what is not.
"""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayescore.clustering.divergences import SQUARED_EUCLIDEAN, Nearest, check_rows
from bayescore.clustering.peers import clip_to_ball, laplace, private_k_variates
from bayescore.coresets.build import check_names, make_coreset
from bayescore.data.coreset import Coreset
from bayescore.data.design import Design
from bayescore.data.sources import as_source
from bayescore.families.family import check_family
from bayescore.types import FloatArray, IntArray, LabelArray, WeightedData, stack
from bayescore.validation import DataError, RandomState, check_integer, check_positive, check_seed

_UNITS = 1 << 30  # of fixed point in R: rounding far below any noise; one more for the rounding of clipped rows
NEIGHBOURS = "one row added or removed"
SHARES = (0.1, 0.3, 0.6)  # of epsilon, for centers, counts and means


def private_coreset(
    data: Any,
    y: Any = None,
    *,
    n_clusters: int,
    epsilon: float,
    radius: float,
    label: str | None = None,
    intercept: bool = False,
    family: str = "logistic",
    random_state: RandomState = None,
) -> Coreset:
    """Build a differentially private weighted data set of at most 2 k rows.

    For data sets that differ by one row added or removed, label included, the probability of any coreset differs by a
    factor exp(epsilon) at most; a row replaced by another counts twice. Not protected are the names of columns and
    labels, the radius and the scale of the features, that both labels occur, and several rows of one person, whose
    losses add up. Coefficients are those of data rounded to cells; certificates and credible intervals do not account
    for that.

    Parameters
    ----------
    data, y, label
        Rows and labels, as in `build_coreset`; weights are not taken. Center and scale the features with public
        numbers only.
    n_clusters : int
        Centers k: the more, the finer the cells and the smaller their counts against the noise.
    epsilon : float
        Privacy loss in all: a tenth is spent on centers, 0.3 on counts, 0.6 on means.
    radius : float
        R of the ball ``|x|_1 <= R`` that rows are clipped to; a public number.
    intercept : bool
        Put a column of ones, named "Intercept", first.
    family : name of a registered family
        Model that the coreset is for.
    random_state : int, Generator, SeedSequence or None
        Seed of the rows picked; OpenDP's noise cannot be seeded, so that the coreset is another each time.

    Returns
    -------
    Coreset
        Its params hold the budget. `n_total` and `weight_total` are the sum of the noisy counts, and `index` numbers
        the coreset's own rows: it has no row of the data.

    Raises
    ------
    ImportError
        If OpenDP is not installed.
    DataError, ValueError, TypeError
        If the data cannot be used, an argument is out of range, or noise leaves no cell with a positive count.

    Warns
    -----
    UserWarning
        If rows were clipped: how many, which is not for release.

    References
    ----------
    Dwork et al. (2006), Calibrating noise to sensitivity in private data analysis; Nock et al. (2016), Theorem 12.

    Examples
    --------
    >>> import numpy as np
    >>> from bayescore.coresets.private import private_coreset
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(20_000, 2))
    >>> y = X[:, 0] + rng.logistic(size=20_000) > 0
    >>> released = private_coreset(X, y, n_clusters=10, epsilon=1.0, radius=2.0, random_state=0)
    >>> released.method, len(released) <= 20
    ('private', True)
    """
    k, R = check_integer(n_clusters, "n_clusters", low=1), check_positive(radius, "radius")
    budget = np.array(SHARES) * check_positive(epsilon, "epsilon")
    family, seed = check_family(family).name, check_seed(random_state)
    source = as_source(data, y, label=label)
    if source.design.offset is not None:
        raise DataError("data have an offset, which a private coreset would reveal; give rows without one")
    if source.design.groups:
        raise DataError("data have groups, which a private coreset would reveal; give rows without them")
    design = Design(source.design.raw_names, intercept=intercept)
    check_names(design, source.label, intercept)
    rows = stack(list(source.blocks()))
    clipped, outside = clip_to_ball(check_rows(rows.X, "data"), R)
    if outside:
        warnings.warn(
            f"{outside:,} of {len(clipped):,} rows lie outside |x|_1 <= {R:g} and were clipped (this count is for the "
            "owner of the data, not for release); a larger radius clips less and needs more noise",
            UserWarning,
            stacklevel=2,
        )
    points, counts = _noisy_centers(clipped, rows.y, k, radius=R, budget=budget, rng=np.random.default_rng(seed))
    cell, sign = np.nonzero(counts > 0)
    if not len(cell):
        raise DataError(f"epsilon={epsilon:g}: noise leaves no cell with a positive count; take a larger epsilon")
    weights = counts[cell, sign].astype(np.float64)
    return make_coreset(
        WeightedData(design.transform(points[cell]), (2 * sign - 1).astype(np.int8), weights, np.arange(len(cell))),
        design=design,
        classes=source.classes,
        label=source.label,
        n_total=int(weights.sum()),
        weight_total=float(weights.sum()),
        method="private",
        family=family,
        params={
            "clusters": k,
            "epsilon": float(epsilon),
            "epsilon_centers": float(budget[0]),
            "epsilon_counts": float(budget[1]),
            "epsilon_means": float(budget[2]),
            "neighbours": NEIGHBOURS,
            "radius": R,
        },
        random_state=seed,
    )


def _noisy_centers(
    X: FloatArray, y: LabelArray, k: int, *, radius: float, budget: FloatArray, rng: np.random.Generator
) -> tuple[FloatArray, IntArray]:
    """Return noisy centers of the k cells, shape (k, D), and their noisy counts for each label, shape (k, 2)."""
    seeding = private_k_variates(X, k, epsilon=float(budget[0]), radius=radius, random_state=rng)
    points, _ = clip_to_ball(seeding.centers, radius)
    cell = Nearest(X, np.ones(len(X)), SQUARED_EUCLIDEAN, points).owner
    exact = np.bincount(2 * cell + (y > 0), minlength=2 * k)
    counts = np.array(laplace(1.0, float(budget[1]), whole=True).measure(exact.tolist())).reshape(k, 2)
    sums = fixed_sums(X, cell, k, radius)
    noise = laplace(_UNITS + 1, float(budget[2]), whole=True)
    noisy = np.array(noise.measure(sums.ravel().tolist())).reshape(sums.shape)
    points, _ = clip_to_ball(noisy * (radius / _UNITS) / np.maximum(counts.sum(axis=1), 1)[:, None], radius)
    return points, counts


def fixed_sums(X: FloatArray, cell: NDArray[Any], k: int, radius: float) -> IntArray:
    """Return the sums of rows of the ball by cell, shape (k, D), in units of `radius` / 2^30.

    A row that comes or goes changes them by at most 2^30 + 1 in all: entries are rounded towards 0, and whole numbers
    add exactly (up to 2^33 rows).
    """
    sums = np.zeros((k, X.shape[1]), dtype=np.int64)
    np.add.at(sums, cell, np.trunc(X * (_UNITS / radius)).astype(np.int64))
    return sums
