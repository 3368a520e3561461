r"""The sd of normal noise that rows tell: the mode of its restricted likelihood, all effects integrated out.

It is the unit of a coreset whose posterior has the sd as a parameter. With coefficients of a flat prior, and W the sum
of weights, sd^2 = r^2 / (W - p) without groups, r^2 the least sum of squares of residuals. With groups it is the mode
of `models.normal.GroupSdPosterior` under flat priors of coefficients and of log sd (Patterson and Thompson 1971), and
the default priors of sds and correlations of effects: none is then 0 where rows say little about it. Sums of rows tell
it as all rows do. See Bates, Maechler, Bolker and Walker (2015), Fitting linear mixed-effects models using lme4,
Journal of Statistical Software 67.

By the curvature at the mode log sd has the standard error 1 / sqrt(2 nu), nu degrees of freedom: W - p without groups,
fewer with effects.
"""

import math
from dataclasses import dataclass

import numpy as np

from bayescore.data.coreset import Coreset
from bayescore.families.family import check_family
from bayescore.models.normal import NO_NOISE, GroupSdPosterior, WhitenedRows
from bayescore.priors.groups import group_prior_for
from bayescore.validation import DataError

_DIGITS = 6  # of the sd: a ten thousandth of its standard error for 1e6 rows
_ROUNDING = 1e-12  # of responses


@dataclass(frozen=True)
class NoiseEstimate:
    """The sd of the noise, and the standard error of its logarithm."""

    sd: float
    log_se: float

    def params(self) -> dict[str, float]:
        """Return what a coreset keeps."""
        return {"sd": self.sd, "sd_se": self.sd * self.log_se, "sd_freedom": 0.5 / self.log_se**2}


def find_noise(core: Coreset) -> NoiseEstimate:
    """Return the estimated sd of the noise of rows of numbers, or of their sums, and the standard error of its log."""
    assert core.offset is not None
    rows, largest = WhitenedRows.flat(core), float(np.abs(core.offset).max())
    weight, p = float(rows.w.sum()), rows.X.shape[1]
    if weight - p < 1.0:
        raise DataError(
            f"family='normal' seeks the sd of the noise, and rows of the weight {weight:g} do not tell it beside {p} "
            "coefficients: a row of weight w counts as w rows; give more rows, weights with the mean 1, or the sd, as "
            "in 'normal(2.5)'"
        )
    sd, log_se = math.sqrt(rows.w @ rows.y**2 / (weight - p)), math.sqrt(0.5 / (weight - p))
    if core.group is not None and sd > _ROUNDING * largest:
        target = GroupSdPosterior.of(core, None, group_prior_for(None, core, check_family("normal", seek=True)), None)
        point, covariance = target.find_mode(sd)
        sd, log_se = math.exp(point[0]), math.sqrt(covariance[0, 0])
    if sd <= _ROUNDING * largest:
        raise DataError(NO_NOISE)
    return NoiseEstimate(float(f"{sd:.{_DIGITS}g}"), log_se)
