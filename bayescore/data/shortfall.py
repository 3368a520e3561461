r"""The full data's log-likelihood less the coreset's, to second order: what the weighted rows miss at one point.

A build ends at the mode t of the full data, where it knows the score g and the curvature F (minus the Hessian) of all
rows. With those of the coreset there, g~ and F~,

.. math:: L(\theta) - \tilde L(\theta) \approx \text{const} + (g - \tilde g)' d - \tfrac12 d' (F - \tilde F) d,
          \qquad d = \theta - t,

so that the coreset knows the full data's score and curvature, too. The rows' own shape is in L~: what the formula
leaves out is of third order in d, times the difference of third derivatives of L and L~, not those of L.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from bayescore.types import FloatArray, read_only


@dataclass(frozen=True, eq=False)
class Shortfall:
    """What the score and the curvature of a coreset's rows miss at a point.

    Parameters
    ----------
    point : array, shape (D,)
        Coefficients, in the units of the design: the mode of the full data's posterior at the end of the build.
    score : array, shape (D,)
        Gradient there of the full data's log-likelihood less that of the coreset's; no prior is in it.
    precision : array, shape (D, D)
        Minus the Hessian of the same.
    rows_digest : str
        `Coreset.rows_digest` of the rows that it belongs to: a coreset of other rows, or weights, drops it.

    Raises
    ------
    ValueError
        If the arrays do not fit each other or are not finite, or `precision` is not symmetric.

    Examples
    --------
    >>> import bayescore as bc
    >>> X, y = bc.datasets.probit(5000, [1.0, 0.0], random_state=0)
    >>> core = bc.build_coreset(X, y, method="calibrated", size=60, random_state=1, progressbar=False)
    >>> core.shortfall.point.shape, core.shortfall.precision.shape
    ((2,), (2, 2))
    """

    point: FloatArray
    score: FloatArray
    precision: FloatArray
    rows_digest: str = ""

    def __post_init__(self) -> None:
        D = len(self.point)
        for name, shape in (("point", (D,)), ("score", (D,)), ("precision", (D, D))):
            array = np.asarray(getattr(self, name), dtype=np.float64)
            if array.shape != shape or not np.isfinite(array).all():
                raise ValueError(f"{name} of a shortfall has shape {array.shape} or entries that are not finite")
            object.__setattr__(self, name, read_only(array))
        if not np.array_equal(self.precision, self.precision.T):
            raise ValueError("precision of a shortfall is not symmetric")

    def at(self, point: FloatArray) -> Self:
        """Return the same quadratic about another point: its score there, by its curvature, which stays."""
        score = self.score - self.precision @ (point - self.point)
        return replace(self, point=point, score=score, rows_digest="")

    def __add__(self, other: "Shortfall") -> Self:
        """Return the shortfall of the rows of both, about this one's point."""
        moved = other.at(self.point)
        score, precision = self.score + moved.score, self.precision + moved.precision
        return replace(self, score=score, precision=precision, rows_digest="")

    def value(self, points: FloatArray) -> FloatArray:
        """Return the quadratic at points, shape (..., D); 0 at its own."""
        step = points - self.point
        return np.asarray(step @ self.score - 0.5 * (step @ self.precision * step).sum(axis=-1))

    def mirrored(self, sign: int) -> Self:
        """Return that of ``rows.mirrored(sign)``.

        If `sign` is -1, -beta is as likely for these as beta is for the rows.
        """
        return replace(self, point=sign * self.point, score=sign * self.score, rows_digest="")

    def to_array(self) -> FloatArray:
        """Return point, score and the lower triangle of `precision`, D (D + 5) / 2 numbers."""
        return np.concatenate([self.point, self.score, self.precision[np.tri(len(self.point), dtype=bool)]])

    @classmethod
    def from_array(cls, numbers: FloatArray, n_features: int) -> Self:
        """Return the shortfall of `to_array`; raise `ValueError` if there are more or fewer numbers."""
        if numbers.shape != (n_features * (n_features + 5) // 2,):
            raise ValueError(f"{len(numbers)} numbers are no shortfall of {n_features} columns")
        point, score, lower = np.split(numbers, [n_features, 2 * n_features])
        precision = np.zeros((n_features, n_features))
        precision[np.tri(n_features, dtype=bool)] = lower
        precision += np.tril(precision, -1).T
        return cls(point, score, precision)


def total(parts: Iterable[Shortfall | None], point: FloatArray) -> Shortfall | None:
    """Return the sum about one point of the shortfalls of disjoint rows; None stands for rows that were all kept."""
    known = [part.at(point) for part in parts if part is not None]
    return sum(known[1:], known[0]) if known else None


def of_union(parts: Sequence[tuple[Shortfall | None, bool]]) -> Shortfall | None:
    """Return the shortfall of a union about the mean of the points; None where one is not known.

    `parts` are those of disjoint data, and whether all rows are there, so that they miss nothing.
    """
    known = [own for own, _ in parts if own is not None]
    if not known or any(own is None and not whole for own, whole in parts):
        return None
    return total(known, np.mean([own.point for own in known], axis=0))
