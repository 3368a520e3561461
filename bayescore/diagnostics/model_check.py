r"""Does the model fit? Predicted probabilities against labels, and against labels that the model itself would give.

Rows fall into groups of equal weight by their predicted probability. In each, the share of rows that are +1, sum w y /
sum w, stands beside the mean prediction (calibration), and beside the same share of replicated labels y_rep ~ Bernoulli
p(x . beta_s + o), one set for each of some draws (posterior predictive check). Chance does not explain a share outside
of these. Rows of large weight make the interval wide, so that weighted rows of a coreset can serve. They are kinder to
the model than test rows, because it was fitted to them.

Of counts the share is the rate of a group, events by exposure, and counts are replicated. Of numbers it is the mean of
y.

Reference: Gelman, Meng and Stern (1996), Posterior predictive assessment of model fitness, Statistica Sinica 6.

Are responses more spread than the model says, so that intervals are too narrow? From the rows' squared residuals.

Of counts the dispersion at given means is the mean of squared residuals, each by the information of its row on the log
mean:

.. math:: \phi(\mu) = \frac{\sum_n w_n z_n^2}{\sum_n w_n}, \qquad z_n^2 = \frac{(y_n - \mu_n)^2}{V(\mu_n)}, \qquad
          w_n = \frac{\mu_n^2}{V(\mu_n)}, \qquad \mu_n = E_n t_n

with the rate t, the exposure E and the family's variance V, mu of Poisson counts, so that there phi is
sum (y - mu)^2 / sum mu. With a log link the score of a row is sqrt(w) z times its columns, so that phi is the variance
of an intercept by the sandwich over that by the model: if it is larger than 1 intervals are too narrow, by about
sqrt(phi). Pearson's statistic, the mean of z^2, is no such factor: a count of 1 in a row with a mean of 0.001 adds
1,000 to its sum, and next to nothing to what the rows say about coefficients.

Fitted means are nearer to the counts than true ones, many effects of groups most of all. Over data from the model and
its prior a draw from the posterior is to the counts what the truth is, so that phi at draws has the mean 1 (Rubin
1984). What it has beyond that is divided by the part of the rows' information that the fit did not take up:

.. math:: \phi = 1 + \frac{E[\phi(\mu) \mid y] - 1}{q}, \qquad
          q = 1 - \frac{\sum_n (w_n / \mu_n)^2 \operatorname{var}(\mu_n \mid y)}{\sum_n w_n}

with w at posterior means. Of Poisson counts that is sum (y - mu)^2 at posterior means over q sum mu: n - p degrees of
freedom in place of n where p coefficients are fitted to numbers. It is at least phi at posterior means: where groups
have few rows, and counts are not the family's, the step from there is too long. No figure is given where q is below a
tenth.

If the model holds E z^2 = 1 and var z^2 = 2 + k, k the excess kurtosis, 1 / mu of Poisson counts. Rows are independent,
so that phi has the mean 1 and the standard error

.. math:: s = \frac{\sqrt{\sum_n w_n^2 (2 + k_n)}}{\sum_n w_n},

over the root of q; where effects fit much it is less. phi is positive and skewed. Its reference is the gamma
distribution of that mean and spread, chi-squared over its degrees of freedom, 2 / s^2 (Satterthwaite 1946). Counts are
said to be over- or underdispersed if phi is in a tail of 0.00135, that of three standard errors where phi is normal,
and above 1.2 or below 1 / 1.2. By simulation, of sets of 50 to 2,000 rows with known means that the model holds for, at
most 6 in 1,000 are said to be either.

What makes rows of one rate differ is not in the model. Where that is a gamma distribution of rates, counts are negative
binomial. `size` is the most likely r at the means of a draw from the posterior, as at fitted ones counts spread less,

.. math:: \sum_n \log\Gamma(y_n + r) - \log\Gamma(r) - y_n \log r - (y_n + r) \log(1 + \mu_n / r)

whatever family the means were fitted with: estimates of r and of coefficients are about uncorrelated (Lawless 1987).
The likelihood bounds what one count can say, as moments of residuals do not. Of positive numbers all is as of counts,
and `size` the most likely shape of a gamma distribution.

Of numbers with normal noise of a given sd V is its square, and phi the square of the residuals' sd over the given one.

A sample of the rows tells all: each row has its count and its exposure in it, chosen by a hash of its place.

References: McCullagh and Nelder (1989), Generalized Linear Models, section 6.2. White (1982), Maximum likelihood
estimation of misspecified models, Econometrica 50. Satterthwaite (1946), An approximate distribution of estimates of
variance components, Biometrics 2. Lawless (1987), Negative binomial and mixed Poisson regression,
Canadian Journal of Statistics 15. Rubin (1984), Bayesianly justifiable and relevant frequency calculations for the
applied statistician, Annals of Statistics 12.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from bayescore.data.coreset import Coreset
from bayescore.data.responses import events_of, numbers_of
from bayescore.diagnostics.elpd import SampledCounts
from bayescore.families import Family
from bayescore.families.family import Varying
from bayescore.families.negative_binomial import most_likely_size
from bayescore.families.poisson import Poisson
from bayescore.limits import ENDS, MAX_DISPERSION, MAX_SD_RATIO
from bayescore.models.predictor import Predictor
from bayescore.numerics.chains import evenly_spaced
from bayescore.samplers.posterior import Posterior
from bayescore.samplers.predict import positive_rows
from bayescore.types import FloatArray, IntArray, WeightedData

GROUPS = 10  # at most


_EACH = 40  # effective rows of a group: its share is then known to 0.08


_DRAWS = 400  # of replicated labels


_ROWS = 20_000  # that are looked at, at most: a group's share is then known to 0.01


_BARS = 30  # of a histogram of counts


_MOST_COUNTS = 0.998  # quantile of counts from which on they are counted together


@dataclass(frozen=True, eq=False)
class Frequencies:
    """How many rows have counts between `edges`, shape (K + 1,), the last and above: observed, and by the model."""

    edges: FloatArray
    observed: FloatArray
    expected: FloatArray
    low: FloatArray  # ends of the 95% interval that the model would give
    high: FloatArray

    @classmethod
    def of(cls, observed: FloatArray, sets: list[FloatArray]) -> "Frequencies":
        """Return the frequencies of counts and of replicated sets of them, in at most `_BARS` bins of one width."""
        top = float(max(np.quantile(observed, _MOST_COUNTS), 1.0))
        width = math.ceil((top + 1.0) / _BARS)
        edges = np.arange(0.0, top + width + 1.0, width) - 0.5

        def tally(counts: FloatArray) -> FloatArray:
            return np.histogram(np.minimum(counts, edges[-1]), edges)[0].astype(np.float64)

        tallies = [tally(counts_of_set) for counts_of_set in sets]
        low, high = np.quantile(tallies, ENDS, axis=0)
        return cls(edges, tally(observed), np.mean(tallies, axis=0), low, high)


@dataclass(frozen=True, eq=False)
class ModelCheck:
    """Shares of +1 by predicted probability: of each of G groups, in the order of the predictions, and of each row."""

    predicted: FloatArray  # mean prediction, shape (G,)
    observed: FloatArray  # share of +1
    low: FloatArray  # ends of the 95% interval of the share that the model would give
    high: FloatArray
    p: FloatArray  # prediction of each row, shape (n,)
    positive: FloatArray
    weights: FloatArray
    counts: bool = False  # whether shares are rates, events by exposure, and `positive` is whether there are events
    replicated: FloatArray | None = None  # of numbers, one set of the model's; `positive` are those observed
    groups: IntArray | None = None  # those given that have rows, shape (G,)
    frequencies: Frequencies | None = None  # of whole counts

    @property
    def ess(self) -> float:
        """Effective number of rows."""
        return float(self.weights.sum() ** 2 / (self.weights**2).sum())

    @property
    def outside(self) -> int:
        """Groups whose share lies outside of its interval."""
        return int(((self.observed < self.low) | (self.observed > self.high)).sum())


def check_model(
    posterior: Posterior, rows: WeightedData, events: FloatArray | None = None, groups: IntArray | None = None
) -> ModelCheck:
    """Return the check of a posterior on weighted rows of its design; of many rows, on some spread evenly over them.

    Rows of known groups have the effects of these; p is averaged over the effect of an unknown group. Of counts the
    weights are exposures and `events` the counts; without these rows are both sides of counts. Of numbers `events` are
    the responses; without these rows have them. `groups`, shape (n,), part the rows in place of their predictions.
    Of times p is the cumulative hazard by time, and rows of like mean time are a group, whatever their times.
    """
    if posterior.family.response != "labels" and events is None:
        rows, events = events_of(rows) if posterior.family.counts else numbers_of(rows)
    if len(rows) > _ROWS:
        some = evenly_spaced(len(rows), _ROWS)
        rows, events = rows.take(some), None if events is None else events[some]
        groups = None if groups is None else groups[some]
    rng, family, predictor = np.random.default_rng(0), posterior.family, posterior.predictor(_DRAWS)
    draws = [predictor.take(slice(s, s + 1)) for s in range(len(predictor))]
    if times := family.times:  # events by time at risk are as counts by exposure
        plain = positive_rows(rows.X, None, rows.group)
        alike = -np.mean([one.average(plain, family)[:, 0] for one in draws], axis=0)
        time = np.exp(-rows.offsets)
        each = [one.average(rows, one.at_draws(family), cumulative=True)[:, 0] / time for one in draws]
        rows, family = rows.with_weights(rows.weights * time), Poisson()
    else:
        each = [one.average(rows, family)[:, 0] for one in draws]
    p = np.mean(each, axis=0)
    of_events = family.counts and not family.amounts and events is not None
    ess = rows.weights.sum() ** 2 / (rows.weights**2).sum() if not of_events or events is None else events.sum()
    n_groups = int(np.clip(ess / _EACH, 2, GROUPS))
    used, group = np.unique(
        _bins(alike if times else p, rows.weights, n_groups) if groups is None else groups, return_inverse=True
    )
    positive, w = (rows.y > 0).astype(np.float64), rows.weights
    total = np.bincount(group, w, len(used))

    def share(values: FloatArray) -> FloatArray:
        return np.asarray(np.bincount(group, w * values, len(used)) / total)

    frequencies, replicated, shown = None, None, positive
    sets: list[FloatArray]
    if events is None:
        counts = w.astype(np.int64)  # a row of weight w is w rows
        many = bool((w > 1.0).any() and (counts == w).all())
        observed = positive
        coins = (rng.binomial(counts, p_of) / w if many else rng.random(len(rows)) < p_of for p_of in each)
        sets = [np.asarray(replicate, dtype=np.float64) for replicate in coins]
    elif family.numbers:
        pairs = zip(draws, each, strict=True)  # a row of weight w is w rows
        sets = [p_of + (one.at_draws(family).draw(p_of, rng) - p_of) / np.sqrt(w) for one, p_of in pairs]
        observed, shown, replicated = events, events, sets[0]
    else:
        drawn = [one.at_draws(family).draw(family.link(p_of), rng, w) for one, p_of in zip(draws, each, strict=True)]
        events = events + family.least * w
        observed, shown, sets = events / w, (events > 0.0).astype(np.float64), [replicate / w for replicate in drawn]
        if family.amounts:
            shown, replicated = observed, sets[0]
        elif not times and (events == np.rint(events)).all():
            frequencies = Frequencies.of(events, drawn)
    low, high = np.quantile([share(y) for y in sets], ENDS, axis=0)
    shares = share(p), share(observed), low, high
    return ModelCheck(*shares, p, shown, w, of_events, replicated, None if groups is None else used, frequencies)


def _bins(p: FloatArray, weights: FloatArray, n_bins: int) -> IntArray:
    """Return bins of rows of like p, of about equal weight, shape (n,)."""
    order = np.argsort(p, kind="stable")
    before = np.cumsum(weights[order]) - 0.5 * weights[order]
    bins = np.empty(len(p), dtype=np.int64)
    bins[order] = np.minimum(n_bins * before / weights.sum(), n_bins - 1).astype(np.int64)
    return bins


ROWS = 20_000  # of the sample: phi of 1 is then known to 0.01 where counts are not rare


SEED = 1989  # of the sample: the same data give the same rows


_CHANCE = float(special.ndtr(-3.0))  # of a false alarm on either side: that of three standard errors


_CLUSTERS = "a cluster-robust spread, fit(cluster=)"


_NO_MORE_THAN_POISSON = f"family='poisson', or where it is that {_CLUSTERS}"


_LEAST_LEFT = 0.1  # q, below which it is hardly known


_LEAST = 1e-6  # dispersion, by whose root intervals are divided


_FLAT = 1.1  # ratio of two sizes that the likelihood does not tell apart, or intervals do not change by


@dataclass(frozen=True)
class Dispersion:
    """The dispersion phi of counts, `ratio`, its standard error if the model holds, and the rows that it is of.

    `size` is the negative binomial's that is most likely at the means of a draw, None where that is Poisson's limit,
    and `given` that of the family, None of others. `exposed` is whether counts had exposures. Of positive numbers,
    `amounts`, `size` is the gamma distribution's shape.

    Of numbers `ratio` is the residuals' variance over the given one, and `size` the residuals' sd.
    """

    ratio: float
    se: float
    n_rows: int
    size: float | None = None
    given: float | None = None
    exposed: bool = False
    numbers: bool = False
    amounts: bool = False

    @property
    def over(self) -> bool:
        """Whether responses are more spread than the model says, beyond chance and by more than matters."""
        return self.ratio > self._limit and float(special.chdtrc(*self._chi_squared)) < _CHANCE

    @property
    def under(self) -> bool:
        """Whether they are less spread, by as much."""
        return self.ratio < 1.0 / self._limit and float(special.chdtr(*self._chi_squared)) < _CHANCE

    @property
    def _chi_squared(self) -> tuple[float, float]:
        """Degrees of freedom, and the value, of the chi-squared variable that the ratio is if the model holds."""
        freedom = 2.0 / self.se**2 if self.se else math.inf
        return (freedom, freedom * self.ratio) if 0.0 < freedom < math.inf else (math.nan, math.nan)

    @property
    def _limit(self) -> float:
        return MAX_SD_RATIO**2 if self.numbers else MAX_DISPERSION

    @property
    def finding(self) -> str:
        """What was found, without what it does to intervals."""
        if self.numbers and self.size is not None:
            given = self.size / math.sqrt(self.ratio)
            what = "more than" if self.over else "less than" if self.under else "and"
            return f"The residuals' sd is {self.size:.4g}, {what} the family's {given:.4g}"
        if not math.isfinite(self.ratio + self.se):
            return (
                "The dispersion is not a number: fitted rates of some rows are 0 or beyond all numbers; an "
                "offset of counts is the logarithm of an exposure"
            )
        what = "overdispersed" if self.over else "underdispersed" if self.under else self._matches
        return f"Dispersion {self.ratio:.3g} (1 ± {self.se:.2g} if the model holds): {self._responses} are {what}"

    @property
    def _responses(self) -> str:
        return "residuals" if self.numbers else "numbers" if self.amounts else "counts"

    @property
    def _matches(self) -> str:
        """How near the spread is to the family's, where the difference is chance or does not matter."""
        freedom = self._chi_squared
        if min(float(special.chdtrc(*freedom)), float(special.chdtr(*freedom))) >= _CHANCE:
            return "as spread as the family says"
        side = "too narrow" if self.ratio > 1.0 else "too wide"
        return f"nearly as spread as the family says, intervals {100 * abs(math.sqrt(self.ratio) - 1.0):.1g}% {side}"

    @property
    def doubt(self) -> str:
        """What is in doubt of a model whose draws are right, in few words; empty where nothing is."""
        if not (math.isfinite(self.ratio + self.se) and (self.over or self.under)):
            return ""
        what = self._responses
        side = "over" if self.over else "under"
        return f"{what} are {side}dispersed ({self.ratio:.2g}); intervals are {self._factor:.2g} times {self._wrong}"

    @property
    def text(self) -> str:
        """What that means, and what to do."""
        if not (math.isfinite(self.ratio + self.se) and (self.over or self.under)):
            return self.finding
        by = f"{self._wrong} by a factor of about"
        if self.numbers:
            return f"{self.finding}: intervals are {by} {self._factor:.3g}; give family='normal({self.size:.4g})'"
        text = f"{self.finding}, and intervals {by} {self._factor:.2g}:"
        if self.under:
            return f"{text} give {self._other_family or (_CLUSTERS if self.amounts else _NO_MORE_THAN_POISSON)}"
        other = f", or give {self._other_family}" if self._other_family else ""
        return f"{text} add what makes rows differ, as columns or as a group term (1 | g){other}, or take {_CLUSTERS}"

    @property
    def _factor(self) -> float:
        """By how much intervals are too narrow or too wide."""
        return math.sqrt(self.ratio if self.over else 1.0 / self.ratio)

    @property
    def _wrong(self) -> str:
        return "too narrow" if self.over else "too wide"

    @property
    def _other_family(self) -> str:
        """The family to give in place of this; empty where none is known that moves variances to where counts are."""
        given = math.inf if self.given is None else self.given
        if self.size is None or not (self.size * _FLAT < given if self.over else self.size > given * _FLAT):
            return ""
        if self.amounts:
            return f"family='gamma', of a shape near {self.size:.3g}"
        family = f"family='negative_binomial', of a size near {self.size:.3g}"
        return f"{family}, with offset= the log of the exposure in place of exposure=" if self.exposed else family


def dispersion(counts: SampledCounts, predictor: Predictor, family: Family, *, exposed: bool) -> Dispersion | None:
    """Return the dispersion of counts, given draws of their predictor's parameters; weights would multiply phi.

    `exposed` is whether the data had exposures. None where no count is above 1: events that come once, such as deaths,
    end their exposure, which phi takes as given. None, too, where effects fit nearly all that counts say.
    """
    rows, events = counts.responses.rows, counts.responses.events
    assert events is not None
    if family.times or family.least or (events.max() <= 1.0 and not family.amounts):
        return None
    means = rows.weights[:, None] * predictor.average(rows, family)
    return dispersion_of(events, means, family, exposed=exposed)


def dispersion_of(events: FloatArray, means: FloatArray, family: Family, *, exposed: bool = False) -> Dispersion | None:
    """Return the dispersion of counts, shape (n,), given their expected ones at draws, (n, S); None as `dispersion`."""
    fitted = means.mean(axis=1)
    with np.errstate(all="ignore"):  # rates of 0, or beyond all numbers: the text says so
        by, information = _weights(fitted, family)
        total, kurtosis = information.sum(), family.excess_kurtosis(np.log(fitted))
        left = 1.0 - (by**2 * means.var(axis=1)).sum() / total
        if left < _LEAST_LEFT:
            return None
        ratio = 1.0 + (np.mean([_phi(events, means_of_draw, family) for means_of_draw in means.T]) - 1.0) / left
        ratio = max(float(ratio), _phi(events, fitted, family), _LEAST)
        se = np.sqrt((information**2 * (2.0 + kurtosis)).sum() / left) / total
    likely, given = most_likely_size, None
    if isinstance(family, Varying):
        likely, given = family.most_likely, family.size
    size = likely(events, means[:, 0])
    return Dispersion(ratio, float(se), len(events), size, given, exposed, amounts=family.amounts)


def _weights(expected: FloatArray, family: Family) -> tuple[FloatArray, FloatArray]:
    """Return what a residual is multiplied by in the score of the log mean, and the information on that."""
    by = expected / family.variance(np.log(expected))
    return by, by * expected


def _phi(events: FloatArray, expected: FloatArray, family: Family) -> float:
    """Return phi at known means."""
    by, information = _weights(expected, family)
    return float(((by * (events - expected)) ** 2).sum() / information.sum())


def residual_dispersion(core: Coreset, predictor: Predictor, family: Family) -> Dispersion | None:
    r"""Return the statistic of numbers with normal noise, given rows or their exact sums and draws of the predictor.

    If the model holds, sd included, residuals at draws from the posterior have the mean square sd^2 (Rubin 1984):

    .. math:: n \, \mathrm{sd}^2 = E \sum_n (y_n - \eta_n)^2 = E \Big[ \sum_n (y_n - \bar\eta_n)^2
              + \sum_n \operatorname{var}(\eta_n \mid y) \Big]

    with the posterior mean of eta. So squares about it have n - p degrees of freedom, p the sum of variances over sd^2,
    whatever the prior. p is the number of coefficients where the prior says little, and more with effects of groups. It
    depends on the sd given: where that is far off, the sd that is named is nearer to the noise's, and not yet it.

    None for rows with weights, which may count rows or be precisions, and where the sd is a parameter.
    """
    weighted = core.design.weighted or core.weight_total != core.n_total
    if weighted or predictor.size is not None or not (core.lossless and family.quadratic):
        return None
    eta = predictor.average(core, family)
    squares = float(core.weights @ eta.mean(axis=1) ** 2)
    used = float(core.weights @ eta.var(axis=1, ddof=1)) / family.unit**2
    freedom = max(core.weight_total - used, 1.0)
    ratio = squares / freedom / family.unit**2
    size, se = family.unit * math.sqrt(ratio), math.sqrt(2.0 / freedom)
    return Dispersion(ratio, se, core.n_total, size, numbers=True)
