"""Does the model fit? Predicted probabilities against labels, and against labels that the model itself would give.

Rows fall into groups of equal weight by their predicted probability. In each, the share of rows that are +1, sum w y /
sum w, stands beside the mean prediction (calibration), and beside the same share of replicated labels y_rep ~ Bernoulli
p(x . beta_s + o), one set for each of some draws (posterior predictive check). Chance does not explain a share outside
of these. Rows of large weight make the interval wide, so that weighted rows of a coreset can serve. They are kinder to
the model than test rows, because it was fitted to them.

Of counts the share is the rate of a group, events by exposure, and counts are replicated. Of numbers with normal noise
it is the mean of y.

Reference: Gelman, Meng and Stern (1996), Posterior predictive assessment of model fitness, Statistica Sinica 6.
"""

from dataclasses import dataclass

import numpy as np

from bayescore.data.counts import events_of
from bayescore.data.sources.paired import numbers_of
from bayescore.samplers.inference_data import Posterior
from bayescore.types import FloatArray, WeightedData

GROUPS = 10  # at most
_EACH = 40  # effective rows of a group: its share is then known to 0.08
INTERVAL = 0.94
_ENDS = 0.5 * (1.0 - INTERVAL), 0.5 * (1.0 + INTERVAL)
_DRAWS = 400  # of replicated labels
_ROWS = 20_000  # that are looked at, at most: a group's share is then known to 0.01


@dataclass(frozen=True, eq=False)
class ModelCheck:
    """Shares of +1 by predicted probability: of each of G groups, in the order of the predictions, and of each row."""

    predicted: FloatArray  # mean prediction, shape (G,)
    observed: FloatArray  # share of +1
    low: FloatArray  # ends of the 94% interval of the share that the model would give
    high: FloatArray
    p: FloatArray  # prediction of each row, shape (n,)
    positive: FloatArray
    weights: FloatArray
    counts: bool = False  # whether shares are rates, events by exposure, and `positive` is whether there are events
    replicated: FloatArray | None = None  # of numbers, one set of the model's; `positive` are those observed

    @property
    def ess(self) -> float:
        """Effective number of rows."""
        return float(self.weights.sum() ** 2 / (self.weights**2).sum())

    @property
    def outside(self) -> int:
        """Groups whose share lies outside of its interval."""
        return int(((self.observed < self.low) | (self.observed > self.high)).sum())


def check_model(posterior: Posterior, rows: WeightedData, events: FloatArray | None = None) -> ModelCheck:
    """Return the check of a posterior on weighted rows of its design; of many rows, on some spread evenly over them.

    Rows of known groups have the effects of these; p is averaged over the effect of an unknown group. Of counts the
    weights are exposures and `events` the counts; without these rows are both sides of counts. Of numbers `events` are
    the responses; without these rows have them.
    """
    if posterior.family.response != "labels" and events is None:
        rows, events = events_of(rows) if posterior.family.counts else numbers_of(rows)
    if len(rows) > _ROWS:
        some = np.linspace(0, len(rows) - 1, _ROWS).round().astype(np.int64)
        rows, events = rows.take(some), None if events is None else events[some]
    rng, family, predictor = np.random.default_rng(0), posterior.family, posterior.predictor(_DRAWS)
    draws = (predictor.take(slice(s, s + 1)) for s in range(len(predictor)))
    each = [one.average(rows, family)[:, 0] for one in draws]
    p = np.mean(each, axis=0)
    ess = rows.weights.sum() ** 2 / (rows.weights**2).sum() if not family.counts or events is None else events.sum()
    n_groups = int(np.clip(ess / _EACH, 2, GROUPS))
    order = np.argsort(p, kind="stable")
    before = np.cumsum(rows.weights[order]) - 0.5 * rows.weights[order]
    group = np.empty(len(rows), dtype=np.int64)
    group[order] = np.minimum(n_groups * before / rows.weights.sum(), n_groups - 1).astype(np.int64)
    used, group = np.unique(group, return_inverse=True)
    positive, w = (rows.y > 0).astype(np.float64), rows.weights
    total = np.bincount(group, w, len(used))

    def share(values: FloatArray) -> FloatArray:
        return np.asarray(np.bincount(group, w * values, len(used)) / total)

    if events is not None and family.quadratic:
        sets = [p_of + (family.draw(p_of, rng) - p_of) / np.sqrt(w) for p_of in each]  # a row of weight w is w rows
        low, high = np.quantile([share(y) for y in sets], _ENDS, axis=0)
        return ModelCheck(share(p), share(events), low, high, p, events, w, replicated=sets[0])
    if events is not None:
        with np.errstate(divide="ignore"):  # of a rate of 0
            replicated = np.stack([share(family.draw(np.log(p_of), rng, w) / w) for p_of in each])
        low, high = np.quantile(replicated, _ENDS, axis=0)
        return ModelCheck(share(p), share(events / w), low, high, p, (events > 0.0).astype(np.float64), w, counts=True)
    counts = w.astype(np.int64)  # a row of weight w is w rows
    many = bool((w > 1.0).any() and (counts == w).all())

    def replicate(p_of: FloatArray) -> FloatArray:
        return np.asarray(rng.binomial(counts, p_of) / w if many else (rng.random(len(rows)) < p_of).astype(np.float64))

    replicated = np.stack([share(replicate(p_of)) for p_of in each])
    low, high = np.quantile(replicated, _ENDS, axis=0)
    return ModelCheck(share(p), share(positive), low, high, p, positive, w)
