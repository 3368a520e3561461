"""From errors and their Monte Carlo errors to one of four words and a sentence.

A difference is *significant* when it exceeds q standard errors, where q is the two-sided normal Sidak quantile (1967)
at 1% for all 2 D + D (D - 1) / 2 means, sds and correlations together: among exact candidates, about one in a hundred
shows any. In this order:

====================  ==================================================================================
differs               some error is significant and above 0.1 (reference sds, relative sd, correlation)
too few draws         the Monte Carlo error of some mean or sd is 0.1 or more
indistinguishable     no error is significant
close                 every mean is within 0.1 sd and every sd within 10%
too few draws         otherwise: some errors are real, and an error above 0.1 may be chance
====================  ==================================================================================

Where the Monte Carlo error of some mean or sd is 0.1 or more, effective sample sizes are about 100 or less and
standard errors poor themselves. An error then counts as significant only against the largest of its kind, and
correlations are not judged.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayescore.diagnostics.errors import Moments, sidak_quantile
from bayescore.diagnostics.formatting import with_error
from bayescore.diagnostics.results import Level, Verdict
from bayescore.limits import NEGLIGIBLE_ERROR
from bayescore.types import FloatArray


@dataclass(frozen=True, eq=False)
class _Family:
    """The errors of one kind, flat, with their names and how many standard errors are significant."""

    error: FloatArray
    mcse: FloatArray
    names: list[str]
    unit: str
    quantile: float

    def significant(self, poor: bool) -> NDArray[np.bool_]:
        mcse = self.mcse.max(initial=0.0) if poor else self.mcse
        return np.asarray(np.abs(self.error) > self.quantile * mcse)

    def phrase(self, i: int) -> str:
        factor = 100.0 if self.unit == "%" else 1.0
        value, error = with_error(factor * self.error[i], factor * self.mcse[i], signed=True)
        spread = f" ± {error}" if error else ""
        return f"{value}{spread}{self.unit}, in the {self.names[i]}"


def verdict(errors: Moments, mcse: Moments, features: tuple[str, ...], noisier: str) -> Verdict:
    """Judge a candidate by its errors against the reference and their standard errors: see the table in this module.

    `noisier` says which side has the larger Monte Carlo error, for the remedy.
    """
    families = _families(errors, mcse, features)
    moving = families[:2]
    noisy = max(moving, key=lambda f: f.mcse.max())
    hidden = not noisy.mcse.max() < NEGLIGIBLE_ERROR
    judged = moving if hidden else families
    off = [np.where(f.significant(hidden), np.abs(f.error), 0.0) for f in judged]
    if max(values.max(initial=0.0) for values in off) > NEGLIGIBLE_ERROR:
        family, values = max(zip(judged, off, strict=True), key=lambda pair: pair[1].max(initial=0.0))
        return Verdict(
            Level.DIFFERS,
            f"The largest error is {family.phrase(int(values.argmax()))}: above {NEGLIGIBLE_ERROR:g} and more than "
            "Monte Carlo error explains. Use method='calibrated', or a larger coreset if it was.",
        )
    if hidden:
        i = int(noisy.mcse.argmax())
        return Verdict(
            Level.TOO_FEW_DRAWS,
            f"The Monte Carlo error of the {noisy.names[i]} is {noisy.mcse[i]:.2g} sd, too large to tell; it comes "
            f"mostly from the {noisier}. Run that about {_factor(noisy.mcse[i])} times as long.",
        )
    worst = max(moving, key=lambda f: np.abs(f.error).max())
    i = int(np.abs(worst.error).argmax())
    if not any(f.significant(hidden).any() for f in families):
        seen = families[0].quantile * families[0].mcse.max()
        return Verdict(
            Level.INDISTINGUISHABLE,
            "No mean, sd or correlation is off by more than Monte Carlo error explains. The largest error is "
            f"{worst.phrase(i)}; an error of {seen:.2g} sd in any mean would have shown.",
        )
    if abs(worst.error[i]) <= NEGLIGIBLE_ERROR:
        return Verdict(
            Level.CLOSE,
            f"Small but real differences: every mean is within {NEGLIGIBLE_ERROR:g} sd and every sd "
            f"within {NEGLIGIBLE_ERROR:.0%}. "
            f"The largest error is {worst.phrase(i)}; a larger coreset lowers it.",
        )
    return Verdict(
        Level.TOO_FEW_DRAWS,
        f"Some differences are real, but the largest, {worst.phrase(i)}, may be chance; Monte Carlo error comes "
        f"mostly from the {noisier}. Run that about {_factor(worst.mcse[i])} times as long.",
    )


def _families(errors: Moments, mcse: Moments, features: tuple[str, ...]) -> list[_Family]:
    upper = np.triu_indices(len(features), 1)
    quantile = sidak_quantile(2 * len(features) + len(upper[0]))
    pairs = [f"correlation of {features[i]!r} and {features[j]!r}" for i, j in zip(*upper, strict=True)]
    return [
        _Family(errors.mean, mcse.mean, [f"mean of {name!r}" for name in features], " sd", quantile),
        _Family(errors.sd, mcse.sd, [f"sd of {name!r}" for name in features], "%", quantile),
        _Family(errors.correlation[upper], mcse.correlation[upper], pairs, "", quantile),
    ]


def _factor(mcse: float) -> int:
    return max(2, int(np.ceil((mcse / (NEGLIGIBLE_ERROR / 2.0)) ** 2)))
