r"""How far figures of draws may be off, one kind at a time, and the chance that any of them is off by too much.

A figure x of the draws differs from the full posterior's by e, known within a numerical error; the draws' own Monte
Carlo error comes on top: together the standard error s. The *risk* bounds the chance that any is off by more,

.. math:: \sum_x P(|e_x + s_x Z| > 0.25), \qquad Z \sim N(0, 1)

(sds in a mean, relative in an sd, a correlation's own unit). The same rules hold for draws as they are and for
corrected ones, each in the units of its own sds: see `certificate.estimates`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize, special

from bayescore.diagnostics.formatting import number, with_error
from bayescore.limits import MAX_ERROR, MAX_FAILURE_PROBABILITY, NEGLIGIBLE_CORRECTION, NEGLIGIBLE_ERROR
from bayescore.types import FloatArray

_LEAST = 1e-12  # standard error: an exact figure is off by nothing
_READ = 1e-3  # of an error: a smaller standard error is not worth reading


@dataclass(frozen=True, eq=False)
class ErrorFamily:
    """Figures of one kind, flat, in units of the judged draws' own sds; arrays have the shape (n,)."""

    kind: str  # "mean", "sd", "correlation", "combination", "tail" or "quartile"
    names: Sequence[str]
    error: FloatArray  # the draws' figure minus the full posterior's; of sds the logarithm of the ratio
    error_mcse: FloatArray  # its numerical error, given the draws
    noise: FloatArray  # Monte Carlo error of the draws' figure
    limit: FloatArray | float = MAX_ERROR  # size from which an error is too large
    unit: str = " sd"  # or "%" or ""

    def spread(self, shrink: float = 1.0) -> FloatArray:
        """Return the standard errors of the errors, Monte Carlo noise times `shrink`."""
        return np.maximum(np.hypot(self.error_mcse, shrink * self.noise), _LEAST)

    @property
    def size(self) -> FloatArray:
        """Sizes of the errors, two standard errors on top, in limits."""
        return np.asarray((np.abs(self.error) + 2.0 * self.spread()) / self.limit)

    def phrase(self, i: int) -> str:
        """Return a clause on one of them."""
        error, s = float(self.error[i]), float(self.spread()[i])
        if self.unit == "%" and abs(error) > math.log(2.0):
            return f"the {self.names[i]} is off by a factor of {number(math.exp(min(abs(error), 700.0)), 2)}"
        if self.unit == "%":
            error, s = 100.0 * math.expm1(error), 100.0 * math.exp(error) * s
        if s < _READ * abs(error):
            return f"the {self.names[i]} is off by {number(abs(error), 2)}{self.unit}"
        shown, its_error = with_error(abs(error), s, digits=1)
        return f"the {self.names[i]} is off by {shown} ± {its_error}{self.unit}"


def risk(families: Sequence[ErrorFamily], *, shrink: float = 1.0) -> float:
    """Return the bound of the chance that any figure is off by more than its limit, Monte Carlo noise times `shrink`.

    Tails, whose noise is several times as large, count as a certain failure where error and two standard errors reach
    the limit, and not at all elsewhere.
    """
    total = 0.0
    for each in families:
        s = each.spread(shrink)
        if each.kind != "tail":
            total += _beyond(each, each.limit, s)
        elif (np.abs(each.error) + 2.0 * s >= each.limit).any():
            return 1.0
    return total


def bound_of_means(families: Sequence[ErrorFamily]) -> float:
    """Return by how many sds means may be off: the chance that any is off by more is `MAX_FAILURE_PROBABILITY`.

    Quartiles count where a coordinate has no mean. It is 0 where nothing was judged.
    """
    judged = [each for each in families if each.kind in ("mean", "quartile") and len(each.names)]
    if not judged:
        return 0.0
    high = max(float((np.abs(each.error) + 40.0 * each.spread()).max()) for each in judged)

    def spare(limit: float) -> float:
        return MAX_FAILURE_PROBABILITY - sum(_beyond(each, limit, each.spread()) for each in judged)

    return float(optimize.brentq(spare, 0.0, high, xtol=1e-6))  # at 0 the chance is 1 or more


def close(families: Sequence[ErrorFamily]) -> bool:
    """Whether every error of the coreset plus two standard errors is below `NEGLIGIBLE_ERROR`."""
    return all(
        float((np.abs(f.error) + 2.0 * f.error_mcse).max(initial=0.0)) <= NEGLIGIBLE_ERROR for f in _of_shape(families)
    )


def settled(families: Sequence[ErrorFamily]) -> bool:
    """Whether every error of moved draws is below `NEGLIGIBLE_CORRECTION` but for noise, so that they can stay."""
    return all(
        float((np.abs(f.error) - 2.0 * f.error_mcse).max(initial=0.0)) <= NEGLIGIBLE_CORRECTION
        for f in _of_shape(families)
    )


def worst(families: Sequence[ErrorFamily]) -> str:
    """Return a clause on the figure that comes nearest to its limit, two standard errors on top.

    Combinations, which have no name, are named where they are beyond their limit and no other figure is.
    """

    def order(family: ErrorFamily) -> tuple[bool, bool, float]:
        size, named = float(family.size.max()), family.kind != "combination"
        return size >= 1.0, named, size

    first = max((f for f in families if len(f.names)), key=order)
    return first.phrase(int(first.size.argmax()))


def _beyond(family: ErrorFamily, limit: FloatArray | float, s: FloatArray) -> float:
    """Return the bound of the chance that any figure is off by more than a limit, with standard errors s."""
    return float((special.ndtr((family.error - limit) / s) + special.ndtr((-family.error - limit) / s)).sum())


def _of_shape(families: Sequence[ErrorFamily]) -> list[ErrorFamily]:
    return [f for f in families if f.kind not in ("tail", "combination")]
