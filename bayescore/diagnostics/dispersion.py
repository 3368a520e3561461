r"""Are counts more spread than the model says, given the fitted rates? Pearson's statistic over the rows.

.. math:: \phi = \frac1n \sum_n \frac{(y_n - \mu_n)^2}{V(\mu_n)}, \qquad \mu_n = E_n \bar t_n

with the posterior mean of the rate t and the family's variance V, mu of Poisson counts. If the model holds phi is 1,
with the standard error sqrt(sum (2 + k)) / n, k the excess kurtosis, 1 / mu of Poisson counts. Where it is larger the
posterior of every coefficient is too narrow, by about sqrt(phi): rows of one rate differ by more than chance, and what
makes them differ is not in the model.

Where that is a gamma distribution of rates, counts are negative binomial. Their size is about the r for which

.. math:: \frac1n \sum_n \frac{(y_n - \mu_n)^2}{\mu_n + \mu_n^2 / r} = 1

(Breslow 1984), whatever family the means were fitted with.

Of numbers with normal noise V is the given variance, and phi the square of the residuals' sd over the given one.

A sample of the rows tells both: each row has its count and its exposure in it, chosen by a hash of its place.

References: McCullagh and Nelder (1989), Generalized Linear Models, section 6.2. Breslow (1984), Extra-Poisson variation
in log-linear models, Applied Statistics 33. Rubin (1984), Bayesianly justifiable and relevant frequency calculations
for the applied statistician, Annals of Statistics 12.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import optimize

from bayescore.data.coreset import Coreset
from bayescore.diagnostics.responses import SampledCounts
from bayescore.limits import MAX_DISPERSION, MAX_SD_RATIO
from bayescore.models.families import Family
from bayescore.models.predictor import Predictor
from bayescore.types import FloatArray

ROWS = 20_000  # of the sample: phi of 1 is then known to 0.01 where counts are not rare
SEED = 1989  # of the sample: the same data give the same rows
_SURE = 3.0  # standard errors under the model
_NO_MORE_THAN_POISSON = "family='poisson', or where it is that a cluster-robust spread, fit(cluster=)"
_LOG_SIZES = (-14.0, 14.0)  # among which the size is sought


@dataclass(frozen=True)
class Dispersion:
    """Pearson's statistic of counts, `pearson`, its standard error if the model holds, and the rows that it is of.

    `size` is the negative binomial's under which the statistic is 1; None where counts spread no more than Poisson's.
    Of numbers it is the sd under which the statistic is 1, the residuals'. `sd_se` is the standard error of the
    family's sd, where the build found that.
    """

    pearson: float
    se: float
    n_rows: int
    size: float | None = None
    numbers: bool = False
    sd_se: float | None = None

    @property
    def over(self) -> bool:
        """Whether responses are more spread than the model says, beyond chance and by more than matters."""
        return self.pearson > self._limit and self.pearson > 1.0 + _SURE * self.se

    @property
    def under(self) -> bool:
        """Whether they are less spread, by as much."""
        return self.pearson < 1.0 / self._limit and self.pearson < 1.0 - _SURE * self.se

    @property
    def _limit(self) -> float:
        return MAX_SD_RATIO**2 if self.numbers else MAX_DISPERSION

    @property
    def finding(self) -> str:
        """What was found, without what it does to intervals."""
        if self.numbers and self.size is not None:
            given = self.size / math.sqrt(self.pearson)
            if self.sd_se is not None:
                return (
                    f"The sd of the noise, {given:.4g} ± {self.sd_se:.2g}, was found from the rows, and the posterior "
                    f"is given it; the residuals' is {self.size:.4g}"
                )
            what = "more than" if self.over else "less than" if self.under else "and"
            return f"The residuals' sd is {self.size:.4g}, {what} the family's {given:.4g}"
        if not math.isfinite(self.pearson + self.se):
            return (
                "Pearson's dispersion is not a number: fitted rates of some rows are 0 or beyond all numbers; an "
                "offset of counts is the logarithm of an exposure"
            )
        what = "overdispersed" if self.over else "underdispersed" if self.under else "as spread as the family says"
        return f"Pearson's dispersion {self.pearson:.3g} (1 ± {self.se:.2g} if the model holds): counts are {what}"

    @property
    def text(self) -> str:
        """What that means, and what to do."""
        if not (math.isfinite(self.pearson + self.se) and (self.over or self.under)):
            return self.finding
        if self.numbers:
            factor = math.sqrt(self.pearson if self.over else 1.0 / self.pearson)
            return (
                f"{self.finding}: intervals are too {'narrow' if self.over else 'wide'} by a factor of about "
                f"{factor:.3g}; give family='normal({self.size:.4g})'"
            )
        other = "" if self.size is None else f"family='negative_binomial({self.size:.2g})'"
        if self.under:
            return (
                f"{self.finding}, and intervals too wide by a factor of about "
                f"{math.sqrt(1.0 / self.pearson):.2g}: give {other or _NO_MORE_THAN_POISSON}"
            )
        other = f", or give {other}" if other else ""
        return (
            f"{self.finding}, and intervals too narrow by a factor of about "
            f"{math.sqrt(self.pearson):.2g}: add what makes rows differ, as columns or as a group term (1 | g){other}, "
            "or take a cluster-robust spread, fit(cluster=)"
        )


def dispersion(counts: SampledCounts, predictor: Predictor, family: Family) -> Dispersion | None:
    """Return the statistic of counts, given draws of their predictor's parameters; weights would multiply phi.

    None where no count is above 1: events that come once, such as deaths, end their exposure, which phi takes as given.
    """
    rows, events = counts.responses.rows, counts.responses.events
    assert events is not None
    if events.max() <= 1.0:
        return None
    expected = rows.weights * predictor.average(rows, family).mean(axis=1)
    n = len(rows)
    with np.errstate(all="ignore"):  # rates of 0, or beyond all numbers: the text says so
        at, squares = np.log(expected), (events - expected) ** 2
        pearson = float((squares / family.variance(at)).mean())
        se = math.sqrt(float((2.0 + family.excess_kurtosis(at)).sum())) / n
        return Dispersion(pearson, se, n, _size(expected, squares))


def residual_dispersion(core: Coreset, predictor: Predictor, family: Family) -> Dispersion | None:
    r"""Return the statistic of numbers with normal noise, given rows or their exact sums and draws of the predictor.

    If the model holds, sd included, residuals at draws from the posterior have the mean square sd^2 (Rubin 1984):

    .. math:: n \, \mathrm{sd}^2 = E \sum_n (y_n - \eta_n)^2 = E \Big[ \sum_n (y_n - \bar\eta_n)^2
              + \sum_n \operatorname{var}(\eta_n \mid y) \Big]

    with the posterior mean of eta. So squares about it have n - p degrees of freedom, p the sum of variances over sd^2,
    whatever the prior. p is the number of coefficients where the prior says little, and more with effects of groups. It
    depends on the sd given: where that is far off, the sd that is named is nearer to the noise's, and not yet it.

    None for rows with weights, which may count rows or be precisions, unless the build found the sd, for which a row of
    weight w counts as w rows.
    """
    sd_se = core.params.get("sd_se")
    weighted = core.design.weighted or core.weight_total != core.n_total
    if (weighted and sd_se is None) or not core.lossless:
        return None
    eta = predictor.average(core, family)
    squares = float(core.weights @ eta.mean(axis=1) ** 2)
    used = float(core.weights @ eta.var(axis=1, ddof=1)) / family.unit**2
    freedom = max(core.weight_total - used, 1.0)
    pearson = squares / freedom / family.unit**2
    size, se = family.unit * math.sqrt(pearson), math.sqrt(2.0 / freedom)
    return Dispersion(pearson, se, core.n_total, size, numbers=True, sd_se=sd_se)


def _size(expected: FloatArray, squares: FloatArray) -> float | None:
    def beyond(log_size: float) -> float:
        return float((squares / (expected + expected**2 * math.exp(-log_size))).mean()) - 1.0

    low, high = _LOG_SIZES
    return math.exp(optimize.brentq(beyond, low, high, xtol=1e-6)) if beyond(low) < 0.0 < beyond(high) else None
