"""Where searches for modes with Student t noise begin: that density is not concave, and may have several modes.

Least squares lie between the bulk of the rows and outliers, from where a climb ends with noise as wide as both. The
least absolute deviations stay with more than half of the rows, however far the others lie. Where few rows are near
either, as between two clusters, the rows of each side have a line of their own. All are tried, and the likeliest is the
start.

Reference: Schlossmacher (1973), An iterative technique for absolute deviations curve fitting, JASA 68.
"""

from typing import TYPE_CHECKING

import numpy as np

from bayescore.types import FloatArray, WeightedData

if TYPE_CHECKING:
    from bayescore.families import Family

_TURNS = 40  # with 40% of the rows far off in one direction each takes a third off the distance
_STILL = 1e-3  # of the median deviation: moves of predictors at which they end
_EASED = 10  # turns by weights of the noise
_HOLLOW = 0.4  # of the median of sizes of residuals, above which the smallest tenth says that few rows are near
_LEAST_ROWS, _ROWS_EACH = 2000, 10  # rows, and more for each column, that tell a start


def weighted_least_squares(X: FloatArray, y: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the coefficients, shape (D,), by rows of some weights."""
    root = np.sqrt(weights)
    return np.asarray(np.linalg.lstsq(X * root[:, None], y * root)[0])


def least_deviations(X: FloatArray, y: FloatArray, weights: FloatArray) -> FloatArray:
    """Return about the coefficients of least absolute deviations, shape (D,), by least squares over and over."""
    beta = weighted_least_squares(X, y, weights)
    for _ in range(_TURNS):
        size = np.abs(y - X @ beta)
        middle = float(np.median(size))
        if middle == 0.0:
            break
        moved = weighted_least_squares(X, y, weights / np.maximum(size, 1e-3 * middle))
        still = float(np.abs(X @ (moved - beta)).max()) < _STILL * middle
        beta = moved
        if still:
            break
    return beta


def lines(X: FloatArray, y: FloatArray, weights: FloatArray) -> list[FloatArray]:
    """Return coefficients, shape (D,) each, from which climbs begin, so that one reaches the highest mode."""
    found = [weighted_least_squares(X, y, weights), least_deviations(X, y, weights)]
    for beta in tuple(found):
        residuals = y - X @ beta
        near, middle = np.quantile(np.abs(residuals), [0.1, 0.5])
        for some in (residuals > 0.0, residuals < 0.0) if near > _HOLLOW * middle else ():
            if some.sum() > X.shape[1]:
                found.append(weighted_least_squares(X[some], y[some], weights[some]))
    return found


def search_start(rows: WeightedData, family: "Family") -> FloatArray:
    """Return where a search for the mode begins, shape (D,): at 0, but for Student t noise, whose -y is the offset."""
    if family.quadratic or not family.numbers or rows.offset is None:
        return np.zeros(rows.n_features)
    some = rows.take(slice(None, None, max(1, len(rows) // (_LEAST_ROWS + _ROWS_EACH * rows.n_features))))
    assert some.offset is not None
    X, y, w = some.X, -some.offset, some.weights

    def log_density(beta: FloatArray) -> float:
        return float(w @ family.log_p(X @ beta - y, 1))

    def eased(beta: FloatArray) -> FloatArray:
        for _ in range(_EASED):
            eta = X @ beta - y
            with np.errstate(divide="ignore", invalid="ignore"):
                pull = np.where(eta == 0.0, 0.0, -family.score(eta, 1) / eta)
            pull[eta == 0.0] = pull.max(initial=0.0)
            beta = weighted_least_squares(X, y, w * pull)
        return beta

    return max(map(eased, lines(X, y, w)), key=log_density)
