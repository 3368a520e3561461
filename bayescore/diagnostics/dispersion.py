r"""Are counts more spread than Poisson counts of the fitted rates? Pearson's statistic over the rows.

.. math:: \phi = \frac1n \sum_n \frac{(y_n - \mu_n)^2}{\mu_n}, \qquad \mu_n = E_n \bar t_n

with the posterior mean of the rate t. If the model holds phi is 1, with the standard error sqrt(sum (2 + 1 / mu)) / n.
Where it is larger the posterior of every coefficient is too narrow, by about sqrt(phi): rows of one rate differ by more
than chance, and what makes them differ is not in the model.

A sample of the rows tells phi: each row has its count and its exposure in it, chosen by a hash of its place.

Reference: McCullagh and Nelder (1989), Generalized Linear Models, section 6.2.
"""

import math
from dataclasses import dataclass

from bayescore.diagnostics.responses import SampledCounts
from bayescore.limits import MAX_DISPERSION
from bayescore.models.families import Family
from bayescore.models.predictor import Predictor

ROWS = 20_000  # of the sample: phi of 1 is then known to 0.01 where counts are not rare
SEED = 1989  # of the sample: the same data give the same rows
_SURE = 3.0  # standard errors under the model


@dataclass(frozen=True)
class Dispersion:
    """Pearson's statistic of counts, `pearson`, its standard error if the model holds, and the rows that it is of."""

    pearson: float
    se: float
    n_rows: int

    @property
    def over(self) -> bool:
        """Whether counts are more spread than the model says, beyond chance and by more than `MAX_DISPERSION`."""
        return self.pearson > MAX_DISPERSION and self.pearson > 1.0 + _SURE * self.se

    @property
    def text(self) -> str:
        """What that means, and what to do."""
        figure = f"Pearson's dispersion {self.pearson:.3g} (1 ± {self.se:.2g} if the model holds)"
        if not self.over:
            return f"{figure}: counts are no more spread than Poisson's"
        return (
            f"{figure}: counts are overdispersed, and intervals too narrow by a factor of about "
            f"{math.sqrt(self.pearson):.2g}: add what makes rows differ, as columns or as a group term (1 | g), "
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
    expected = rows.weights * predictor.average(rows, family.mean).mean(axis=1)
    n = len(rows)
    pearson = float(((events - expected) ** 2 / expected).mean())
    return Dispersion(pearson, math.sqrt(float((2.0 + 1.0 / expected).sum())) / n, n)
