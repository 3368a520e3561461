r"""Divergences of a row x from a center c, as small values.

Bregman divergences of three convex generators F,

.. math:: B_F(x, c) = \sum_d F(x_d) - F(c_d) - F'(c_d) (x_d - c_d):

F(t) = t^2 gives the squared Euclidean distance, t log t the (generalised) Kullback-Leibler divergence, -log t that of
Itakura and Saito; their best center of a cluster is its mean. The total Jensen divergence

.. math:: tJ_\alpha(x, c) = \sqrt{\frac{\Delta^2}{\Delta^2 + \Delta_F^2}} \;
          \frac{\alpha F(x) + (1 - \alpha) F(c) - F(\alpha x + (1 - \alpha) c)}{\alpha (1 - \alpha)},

Delta = |x - c|, Delta_F = F(x) - F(c), F summed over the coordinates, has no best center in closed form; seeding
needs none (Nock et al. 2016, Theorem 29).

When to use them: Kullback-Leibler for counts and shares, Itakura-Saito for positive magnitudes whose ratios matter,
total Jensen where the result should not depend on a rotation of the graph of F.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bayescore.compiled import jit_sums
from bayescore.types import FloatArray
from bayescore.validation import DataError, check_choice, check_positive

GENERATORS = ("square", "entropy", "burg")  # in the order of their codes


class Form(NamedTuple):
    """A divergence for compiled kernels: the number of its generator, and its skew."""

    generator: int
    alpha: float


@dataclass(frozen=True)
class Divergence:
    """A divergence of a row from a center, see the module."""

    name: str
    generator: str  # F: t^2 ("square"), t log t ("entropy") or -log t ("burg")
    alpha: float = 0.0  # skew of the total Jensen divergence; 0 is the Bregman divergence of F

    @property
    def form(self) -> Form:
        """The divergence for compiled kernels."""
        return Form(GENERATORS.index(self.generator), self.alpha)

    def check(self, X: FloatArray, name: str) -> None:
        """Raise `DataError` if X, shape (n, D), leaves the domain: t > 0 for entropy and burg."""
        if self.generator != "square" and not X.min() > 0.0:
            row, column = (int(i) for i in np.argwhere(X <= 0.0)[0])
            raise DataError(
                f"{name} is {X[row, column]:g} in row {row}, column {column}; the divergence {self.name!r} needs "
                "positive entries: add a small constant (a pseudo-count), or use 'squared_euclidean'"
            )


SQUARED_EUCLIDEAN = Divergence("squared_euclidean", "square")
KULLBACK_LEIBLER = Divergence("kullback_leibler", "entropy")
ITAKURA_SAITO = Divergence("itakura_saito", "burg")
_NAMED = {value.name: value for value in (SQUARED_EUCLIDEAN, KULLBACK_LEIBLER, ITAKURA_SAITO)}


def total_jensen(generator: str = "entropy", alpha: float = 0.5) -> Divergence:
    """Return the total Jensen divergence of a generator, see the module.

    Parameters
    ----------
    generator : str, default "entropy"
        Name of the convex generator.
    alpha : float, default 0.5
        Skew, between 0 and 1.

    Returns
    -------
    Divergence

    Raises
    ------
    ValueError
        If the generator is unknown or alpha not between 0 and 1.

    References
    ----------
    Nielsen and Nock (2015), Total Jensen divergences: definition, properties and clustering.

    Examples
    --------
    >>> import numpy as np
    >>> from bayescore.clustering import k_variates, total_jensen
    >>> X = np.random.default_rng(0).uniform(0.1, 1.0, size=(100, 2))
    >>> k_variates(X, 4, divergence=total_jensen(), random_state=1).centers.shape
    (4, 2)
    """
    check_choice(generator, "generator", GENERATORS)
    skew = check_positive(alpha, "alpha", below=1.0)
    return Divergence(f"total_jensen({generator}, {skew:g})", generator, skew)


def check_divergence(divergence: object) -> Divergence:
    """Return a `Divergence`, given as one or by its name."""
    return divergence if isinstance(divergence, Divergence) else _NAMED[check_choice(divergence, "divergence", _NAMED)]


@jit_sums
def _generator(t: float, code: int) -> float:
    if code == 0:
        return t * t
    return t * math.log(t) if code == 1 else -math.log(t)


@jit_sums
def _total_jensen(columns: FloatArray, start: int, c: FloatArray, form: Form, out: FloatArray) -> None:
    code, alpha = form.generator, form.alpha
    for n in range(out.size):
        total, square, rise = 0.0, 0.0, 0.0
        for d in range(c.size):
            x = columns[d, start + n]
            fx, fc = _generator(x, code), _generator(c[d], code)
            total += alpha * fx + (1.0 - alpha) * fc - _generator(alpha * x + (1.0 - alpha) * c[d], code)
            square += (x - c[d]) ** 2
            rise += fx - fc
        out[n] = 0.0  # of equal points, exactly
        if square > 0.0:
            factor = math.sqrt(square / (square + rise * rise))
            out[n] = max(total, 0.0) * factor / (alpha * (1.0 - alpha))


@jit_sums
def diverge(columns: FloatArray, start: int, c: FloatArray, form: Form, out: FloatArray) -> None:
    """Write the divergences from c of the columns start, ..., start + n - 1 of `columns` (D, N) to `out` (n,)."""
    if form.alpha > 0.0:
        _total_jensen(columns, start, c, form, out)
        return
    code = form.generator
    out[:] = 0.0
    if code == 0:
        for d in range(0, c.size, 2):  # two columns at a time: half the trips to `out`
            e = min(d + 1, c.size - 1)
            left, right, twice = c[d], c[e], 1.0 if e > d else 0.0
            first, second = columns[d][start : start + out.size], columns[e][start : start + out.size]
            for n in range(out.size):  # rows in the inner loop: that vectorises
                gap, other = first[n] - left, second[n] - right
                out[n] += gap * gap + twice * (other * other)
        return
    for d in range(c.size):
        center, column = c[d], columns[d][start : start + out.size]
        for n in range(out.size):
            ratio = column[n] / center
            log = math.log(ratio)
            rest = column[n] * log - column[n] + center if code == 1 else ratio - log - 1.0
            out[n] += max(rest, 0.0)
