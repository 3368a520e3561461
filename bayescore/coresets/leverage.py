r"""Probit coresets drawn by leverage scores (Peters 2021, Algorithms 2 and 3).

.. math:: a_n = l_n + w_n / W, \qquad s_n = w_n 2^{\lceil \log_2 (a_n / w_n) \rceil}

(80 + 16 mu) a_n bounds the sensitivity of row n under the probit likelihood, mu the complexity of the data (Lemma 6).
M rows are drawn with p_n proportional to s_n; row n, drawn K_n times, gets weight w_n K_n / (M p_n), which is unbiased.
Known offsets are one more column to the scores, to D and to mu.

When to use it: it needs no fit of the model and never misses a row that alone carries a direction. Posterior means are
off by about sqrt(N / M) posterior standard deviations, as with every draw by importance.

Leverage scores of weighted rows, exact, from a count sketch, and on-line: :math:`l_n = w_n x_n' (X'WX)^+ x_n`.

They lie between 0 and 1, sum to the rank of X, ignore signs of rows and scales of columns, and are 1 for a row that
alone carries a direction. Sources: Drineas, Magdon-Ismail, Mahoney and Woodruff (2012); Cohen, Musco and Pachocki
(2020), Online row sampling; Peters (2021), Algorithms 2 to 5.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from bayescore.compiled import one_blas_thread
from bayescore.coresets.method import (
    DELTA,
    BuildInfo,
    BuildResult,
    Method,
    ReduceRequest,
    ReduceResult,
    check_at_least_one,
    check_epsilon,
)
from bayescore.coresets.scores import RowWhitening, block_factor, data_factor, joined_factor, sketch_factor, whitening
from bayescore.data.dataset import Dataset
from bayescore.data.design import append_offset
from bayescore.data.sources import as_source, unlabelled
from bayescore.families import Family
from bayescore.numerics.sampling import draw, weighted
from bayescore.types import FloatArray, IntArray, WeightedData
from bayescore.validation import DataError, RandomState, check_choice, check_integer, check_positive, check_seed

SCORES = ("exact", "sketch")


def leverage_scores(
    X: ArrayLike,
    weights: ArrayLike | None = None,
    scores: str = "exact",
    *,
    project: bool = False,
    random_state: RandomState = None,
) -> FloatArray:
    """Return the leverage scores w_n x_n'(X'WX)^+ x_n, shape (n,), between 0 and 1, of the rows of X, shape (n, D).

    - ``scores="exact"``: by QR of blocks; they sum to the rank. Columns may be dependent.
    - ``"sketch"``: against X'WX of a count sketch of D^2 rows, 400 at least. Estimates within a constant factor, not
    upper
      bounds. With `project` the norms come from ceil(log n) random projections where that is less than D: faster for
      many columns, with a relative error of about sqrt(2 / log n) on top.
    - ``"online"``: against X'WX of the rows up to the end of the row's block: upper bounds of the exact scores.

    Examples
    --------
    >>> leverage_scores(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 3.0]])).round(6)
    array([0.5, 0.5, 1. ])
    """
    check_choice(scores, "scores", (*SCORES, "online"))
    if project and scores != "sketch":
        raise ValueError(f"project=True goes with scores='sketch', not scores={scores!r}; leave it out")
    seed = check_seed(random_state)
    return scores_of(Dataset(unlabelled(X, weights)), scores, project=project, seed=seed)


def scores_of(dataset: Dataset, scores: str, *, project: bool, seed: int) -> FloatArray:
    """Return the leverage scores of the rows of a data set, shape (n,); see `leverage_scores`."""
    _ = dataset.scan  # checks the rows
    with one_blas_thread():
        if scores == "online":
            factor, parts = np.empty((0, dataset.n_features)), []
            for block, part in dataset.map(lambda _, block: (block, block_factor(block)), canonical=True):
                factor = joined_factor(factor, part)
                parts.append(whitening(factor).leverage(block))
            return np.concatenate(parts)
        _, score = scorer(dataset, scores, project=project, seed=seed)
        return np.concatenate(list(dataset.map(lambda _, block: score(block), canonical=True)))


def scorer(
    dataset: Dataset, scores: str, *, project: bool, seed: int
) -> tuple[RowWhitening, Callable[[WeightedData], FloatArray]]:
    """Return a whitening of the rows, and their scores as a function of a block; one pass."""
    if scores == "exact":
        white = whitening(data_factor(dataset))
        return white, white.leverage
    rng = np.random.default_rng(seed)
    white = whitening(sketch_factor(dataset, int(rng.integers(2**63))))
    n_columns = max(1, math.ceil(math.log(dataset.scan.n_rows)))
    if project and n_columns < white.rank:
        white = white.projected(n_columns, rng)
    # two rows that each stand alone may share a bucket: the sketch then lacks a direction, and both rows leave its span
    return white, lambda block: np.where(white.outside(block), 1.0, white.leverage(block))


# Rates are whole multiples of 2^-44. s_n >= w_n / W, so none is below 1 as long as W / w_n <= 2^44 = 1.8e13; s_n < 4,
# so rates are exact as floats and a block of 2^16 rows adds up below 2^62. Of unit weights, powers of two themselves,
# the s_n are whole multiples; others are rounded up by less than one part in 2^44 w_n / W.
RATE_BITS = 44


BOUNDED = ("probit",)  # links whose sensitivities exact scores bound


_MANTISSA = (1 << 52) - 1


def rates_of(leverage: FloatArray, weights: FloatArray, weight_total: float) -> IntArray:
    """Return s_n as whole multiples of 2^-44, shape (n,)."""
    bits = ((leverage + weights / weight_total) / weights).view(np.int64)
    power = ((bits + _MANTISSA) & ~_MANTISSA).view(np.float64)  # rounded up; a power of two stays as it is
    return np.asarray(np.ceil(weights * power * 2.0**RATE_BITS), dtype=np.int64)


def score_total(total: int) -> float:
    """Return the sum of the s_n from that of the rates."""
    return math.ldexp(total, -RATE_BITS)


def check_rank(white: RowWhitening) -> None:
    """Raise if the rows span nothing."""
    if white.rank == 0:
        raise DataError("every entry of the design matrix is 0: no row has leverage; give other columns, or intercept")


def leverage_size(
    n_features: int,
    epsilon: float,
    delta: float,
    mu: float,
    weight_span: float,
    *,
    total: float | None = None,
    c: float = 1.0,
) -> int:
    r"""Return the number of draws M that makes an epsilon-coreset for probit regression with probability 1 - delta.

    .. math:: M = \lceil c S / \epsilon^2 (\Delta \log S + \log(1 / \delta)) \rceil, \qquad
              S = (80 + 16 \mu) \sum_n s_n, \qquad \Delta = (D + 1)(3 + \log_2(W / w_{\min}))

    Peters (2021), Theorem 5, for exact scores, whose `total`, sum s, is 2 (D + 1) at most, the default. For on-line
    scores (Theorem 6, with a proof in benchmarks/PAPERS.md) it is `score_total` in the coreset's params. `mu`
    is that of `mu_complexity`, `weight_span` W / w_min. Theorem 4 leaves `c` open: 1 is a convention, not a guarantee.

    Examples
    --------
    >>> leverage_size(10, epsilon=0.4, delta=0.05, mu=1.0, weight_span=1e6)
    25529421
    """
    epsilon, delta = check_positive(epsilon, "epsilon", below=0.5), check_positive(delta, "delta", below=0.5)
    check_integer(n_features, "n_features", low=1)
    for name, value in {"mu": mu, "weight_span": weight_span, "total": 1.0 if total is None else total}.items():
        check_at_least_one(value, name)
    sensitivity = (80.0 + 16.0 * mu) * (2.0 * (n_features + 1) if total is None else total)
    vc_dimension = (n_features + 1) * (3.0 + math.log2(weight_span))
    draws = sensitivity * (vc_dimension * math.log(sensitivity) + math.log(1.0 / delta))
    return math.ceil(check_positive(c, "c") * draws / epsilon**2)


@dataclass(frozen=True)
class LeverageInfo(BuildInfo):
    """Draws, scores, rank of the rows, sum of the s_n, and what was given."""

    draws: int
    scores: str
    rank: int
    score_total: float
    epsilon: float | None = None
    delta: float | None = None
    mu: float | None = None


@dataclass(frozen=True)
class Leverage(Method):
    """Draws by leverage scores (Peters 2021): unbiased, with a guarantee for the probit.

    Parameters
    ----------
    scores : {"exact", "sketch"}
        Exact scores, or estimates from a sketch, for which there is no guarantee.
    epsilon, delta : float, optional
        For ``size="auto"``: relative error of the log-likelihood, and probability of failure (default 0.05); probit
        only, see `leverage_size`.
    mu : float, optional
        Complexity of the data, which `epsilon` needs.

    Raises
    ------
    TypeError, ValueError
        If an option is of the wrong kind or out of its range, or `mu` or `delta` is given without `epsilon`.

    Notes
    -----
    A row that alone carries a direction is never missed.

    Examples
    --------
    >>> import bayescore as bc
    >>> X, y = bc.datasets.probit(5000, [1.0, 0.0], random_state=0)
    >>> core = bc.build_coreset(X, y, method="leverage", scores="sketch", size=100, random_state=1, progressbar=False)
    >>> core.method, core.n_total
    ('leverage', 5000)
    """

    scores: str = "exact"
    epsilon: float | None = None
    delta: float | None = None
    mu: float | None = None

    name: ClassVar[str] = "leverage"
    size_options: ClassVar[tuple[str, ...]] = ("epsilon",)
    needs_mu: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_choice(self.scores, "scores", SCORES)
        check_epsilon(self, "delta", "mu", below=0.5)
        if self.mu is not None:
            check_at_least_one(self.mu, "mu")

    def check(self, size: int | None, family: str) -> None:
        """Raise unless size and likelihood fit; epsilon goes with exact scores, mu and the probit."""
        super().check(size, family)
        if self.epsilon is None:
            return
        if family not in BOUNDED:
            raise ValueError(
                f"epsilon={self.epsilon:g}: leverage scores bound sensitivities under family="
                f"{' or '.join(map(repr, BOUNDED))} only, and this one is {family!r}; give a size"
            )
        if self.scores != "exact":
            raise ValueError(
                f"epsilon={self.epsilon:g} needs bounds, and scores={self.scores!r} are estimates; give a size"
            )
        if self.mu is None:
            raise ValueError(f"epsilon={self.epsilon:g} needs mu, the complexity of the data; give both, or a size")

    def build(self, dataset: Dataset, size: int | None, seed: int, family: Family) -> BuildResult[LeverageInfo]:
        """Draw by the scores; raise `DataError` if every entry is 0, `ValueError` if epsilon needs too many draws."""
        score_seed, draw_seed = np.random.default_rng(seed).integers(2**63, size=2).tolist()
        seen, scan = dataset.append_offset(), dataset.scan
        weight_total, draws = scan.weight_total, self.draws(dataset, size)
        delta = DELTA if self.delta is None else self.delta
        with one_blas_thread():
            white, score = scorer(seen, self.scores, project=False, seed=score_seed)
            check_rank(white)
            if self.epsilon is not None and self.mu is not None:
                span = weight_total / scan.smallest_weight
                draws = leverage_size(seen.n_features, self.epsilon, delta, self.mu, span, total=2.0 * (white.rank + 1))
                if draws > scan.n_rows:
                    raise ValueError(
                        f"epsilon={self.epsilon:g} and mu={self.mu:g} need {draws} draws, more than the {scan.n_rows} "
                        "rows; give a larger epsilon, or a size"
                    )
            drawn = draw(
                dataset,
                lambda block: rates_of(score(append_offset(block)), block.weights, weight_total),
                draws,
                draw_seed,
                canonical=True,
            )
        info = LeverageInfo(
            draws=draws,
            scores=self.scores,
            rank=white.rank,
            score_total=score_total(drawn.total),
            epsilon=self.epsilon,
            delta=None if self.epsilon is None else delta,
            mu=self.mu,
        )
        return BuildResult(weighted(drawn, draws), info, self)

    def reduce(self, rows: WeightedData, request: ReduceRequest) -> ReduceResult:
        """Return fewer rows in place of `rows`."""
        built = self.build(Dataset(as_source(rows)), request.size, request.seed, request.family)
        return ReduceResult(built.rows)
