"""Draws that were made from all rows need no weights, whatever the model; `weigher_of` says how others are weighed.

The coreset's posterior is the full one where it has all rows (`all_rows`, groups too small to condense) or their
lossless sums (`aggregate`). Then only the draws themselves are judged, and handed over as they are. One pass sees
whether data and coreset agree: in log-likelihood, score and curvature at the draws' mean, by coefficients and effects.
If they do not, the draws are weighed as those of any coreset are, and the text says so.

Sums of squares within groups, which the rows of sums of numbers keep for all groups together.

Those rows tell W and the mean of each group, and so log p(y_g | beta, sigma) but for the squares of residuals about
their mean in the group, over -2 sd^2. One pass finds these for every group, as quadratics in beta.
"""

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd

from bayescore.data.coreset import Coreset, Shortfall
from bayescore.data.dataset import Dataset
from bayescore.data.design import one_intercept
from bayescore.diagnostics.certificate.flat import FlatStrategy
from bayescore.diagnostics.certificate.joint import (
    JointStrategy,
    NoiseStrategy,
    effect_label_weights,
    effects_of_draws,
    factor_shapes,
)
from bayescore.diagnostics.certificate.marginal import MarginalStrategy, elpd_logo, left_out
from bayescore.diagnostics.certificate.nodes import core_moments
from bayescore.diagnostics.certificate.weigh import Weighed, Weigher
from bayescore.diagnostics.elpd import PassSums, SampledCounts, elpd_loo, pass_sums
from bayescore.diagnostics.row_sums import DrawnApproximation, RowSums, RowSumsPlan, check_finite, check_weight
from bayescore.families import Family
from bayescore.families.family import check_family
from bayescore.models.groups.rows import joint_terms, largest_gap
from bayescore.models.posterior import OfModel, log_likelihoods
from bayescore.models.predictor import Predictor
from bayescore.numerics.psis import full_weights
from bayescore.priors import Prior
from bayescore.samplers.posterior import Posterior
from bayescore.text import number
from bayescore.types import FloatArray, IntArray, WeightedData

_MAX_PASS_WORK = 2e9
"""Rows times squared columns above which no pass is made: it takes some ten seconds."""


_MAX_QUADRATIC_NUMBERS = 10_000_000
"""Numbers of all groups' quadratics above which there are too many."""


def squares_within(beta: FloatArray, core: Coreset, dataset: Dataset) -> FloatArray | None:
    """Return the squares that rows of the data add to those of a coreset's rows, by group, at draws of beta: (S, G).

    None where that takes long.
    """
    G, K = len(core.groups[0]), core.n_features + 1
    if G * K * K > _MAX_QUADRATIC_NUMBERS or core.n_total * K * K > _MAX_PASS_WORK:
        return None
    middle = beta.mean(axis=0)

    def columns(rows: WeightedData) -> tuple[IntArray, FloatArray, FloatArray]:
        """Return codes, weights, and (x, residual at the middle) of rows that have a group."""
        groups = rows.group_codes[:, 0] >= 0
        a = np.column_stack([rows.X, rows.with_offset(rows.X @ middle)])
        return rows.group_codes[groups, 0], rows.weights[groups], a[groups]

    codes, w, a = columns(core)
    weight = np.maximum(np.bincount(codes, w, G), np.finfo(float).tiny)
    mean = np.stack([np.bincount(codes, w * column, G) / weight for column in a.T], axis=1)

    def moments(rows: WeightedData) -> tuple[IntArray, FloatArray]:
        """Return the groups of rows, and the sums of products of columns about the groups' means, (g, K, K)."""
        codes, w, a = columns(rows)
        about = a - mean[codes]
        groups, place = np.unique(codes, return_inverse=True)
        table = np.empty((len(groups), K, K))
        for i in range(K):
            for j in range(i + 1):
                table[:, i, j] = table[:, j, i] = np.bincount(place, w * about[:, i] * about[:, j], len(groups))
        return groups, table

    total = np.zeros((G, K, K))
    for groups, part in dataset.map(lambda _, block: moments(block), "adding up groups", canonical=True):
        total[groups] += part
    groups, part = moments(core)
    total[groups] -= part
    step = np.column_stack([beta - middle, np.ones(len(beta))])
    products = (step[:, :, None] * step[:, None]).reshape(len(step), -1)
    return np.asarray(np.maximum(products @ total.reshape(G, -1).T, 0.0))


_MAX_VALUE_GAP = 1e-3  # by which log-likelihoods may differ: no figure of the draws would show it


_MAX_TERMS_GAP = 1e-6  # of `largest_gap`: more than storing rows in another precision makes of it


_MAX_LOGO_WORK = 10_000_000  # rows times draws, above which groups are not left out: it takes a second


@dataclass(frozen=True, eq=False, kw_only=True)
class WholeDraws(Weighed):
    """Draws of all rows' posterior."""

    by: "AllRows"
    predictor: Predictor

    def effects(self, slow: float) -> pd.DataFrame:
        """Return the table of the effects of groups."""
        core = self.by.core
        if not core.groups:
            return super().effects(slow)
        labels = effect_label_weights(core, factor_shapes(core.groups))
        return effects_of_draws(self.predictor, self.weights.weights, labels, slow)

    def elpd(self, counts: SampledCounts | None = None) -> dict[str, Any]:
        """Return the predictive density of left-out groups of `(1 | g)`, where that is cheap, or of left-out rows."""
        by, predictor, w = self.by, self.predictor, self.weights
        if one_intercept(by.core.groups):
            log_p = by.log_likelihoods_of_groups(self.at)
            each = None if log_p is None else left_out(log_p, w.log_ratio)
            return {} if each is None else elpd_logo(each, counts)
        density = by.weigher.density(None) if isinstance(by.weigher, FlatStrategy) else None
        draws = predictor.beta if not predictor.factors and predictor.size is None else predictor
        more = dict[str, Any](n_chains=len(by.beta.draws), density=density, counts=counts)
        return elpd_loo(by.sums_at(predictor), w.log_ratio, w.weights, draws, by.family, **more)


@dataclass(frozen=True, eq=False)
class AllRows:
    """What weighs draws of all rows; `weigher` is the strategy for coresets of such a model."""

    weigher: Weigher
    beta: Posterior  # the coefficients as read
    family: Family

    @property
    def core(self) -> Coreset:
        """The coreset, which has all rows or their sums."""
        return self.weigher.core

    @cached_property
    def _draws(self) -> Predictor:
        return self.beta.predictor()

    @cached_property
    def _sums(self) -> RowSums:
        """Sums over the data at the mean of all draws; one pass."""
        near = DrawnApproximation.of(self.family, self._draws)
        sums = RowSums.of(self.weigher.dataset, RowSumsPlan.near(near, self.core))
        check_finite(self.weigher.dataset, sums.terms.coefficients.precision)
        check_weight(self.core, sums.weight)
        return sums

    @cached_property
    def _difference(self) -> str:
        """How data and coreset differ; empty if they agree."""
        data = self._sums.terms
        core = joint_terms(self._sums.near.middle, self.core, self.family)
        nats = abs(data.coefficients.value - core.coefficients.value)
        if nats <= _MAX_VALUE_GAP and largest_gap(data, core) <= _MAX_TERMS_GAP:
            return ""
        return (
            f"The coreset seems to have all rows, but not those of data: log-likelihoods at the draws' mean differ by "
            f"{number(nats, 2)}. Give the rows, weights and offsets that it was made of."
        )

    def weigh(self, at: IntArray) -> Weighed:
        """Return draws that need no weights; those of other data weighed as any."""
        if self._difference:
            return replace(self.weigher.weigh(at), note=self._difference)
        weights = full_weights(np.zeros(len(at)))
        return WholeDraws(at=at, weights=weights, exact=True, by=self, predictor=self._draws.take(at))

    def sums_at(self, draws: Predictor) -> PassSums:
        """Return the sums of all rows at draws: by the sample of the pass, or of the coreset's own rows."""
        sums = self._sums.at(draws) or pass_sums(draws, 0, self.core, self.family)
        if draws.size is None:
            return sums
        return replace(sums, log_likelihood=log_likelihoods(draws, self.core, self.family))

    def log_likelihoods_of_groups(self, at: IntArray) -> FloatArray | None:
        """Return log-likelihoods of groups at draws; None where that takes long."""
        weigher = self.weigher
        if len(self.core) * len(at) > _MAX_LOGO_WORK:
            return None
        if isinstance(weigher, NoiseStrategy):
            within = squares_within(self.beta.flat[at], self.core, self.weigher.dataset)
            return None if within is None else weigher.of_groups(at, within)
        assert isinstance(weigher, MarginalStrategy)
        theta, arguments = weigher.posterior.flat[at], weigher.target.arguments()
        log_p = core_moments(theta, arguments)[1].log_p[:, :-1]
        if self.family.quadratic:
            squares = squares_within(theta[:, :-1], self.core, self.weigher.dataset)
            if squares is None:
                return None
            log_p -= squares / (2.0 * self.family.unit**2)
        return log_p


def weigher_of(
    idata: Any,
    posterior: Posterior,
    core: Coreset,
    dataset: Dataset,
    *,
    model: Any = None,
    carried: Shortfall | None = None,
) -> Weigher:
    """Return the strategy for the kind of model."""
    if posterior.size is not None:
        return NoiseStrategy(idata, posterior, core, dataset)
    if core.group is None:
        family = check_family(posterior.attrs.get("family", core.family))
        prior = posterior.prior if posterior.story else None
        given = None
        if model is not None or (prior is not None and not prior.closed_form):
            given = partial(_of_model, model, idata, core, (family, prior))
        return FlatStrategy(posterior, core, dataset, family, given, carried)
    if model is not None:
        raise ValueError("model= of a coreset with groups cannot be certified; certify the draws of sample(core)")
    of_groups = MarginalStrategy if one_intercept(core.groups) else JointStrategy
    return of_groups(idata, posterior, core, dataset)


def _of_model(model: Any, idata: Any, core: Coreset, drawn: tuple[Family, Prior | None]) -> OfModel:
    """Return the prior that a user's model gives to its draws, or that of `sample` where it has no closed form."""
    family, prior = drawn
    if model is None:
        from bayescore.models.pymc import model as model_of  # PyMC takes seconds to import

        model = model_of(core, prior, family=family)
    source = idata["posterior"]
    ordered = {str(name): source[name].transpose("chain", "draw", ...) for name in source.data_vars}
    draws = {name: each.values.reshape(-1, *each.shape[2:]) for name, each in ordered.items()}
    prior_of_draws = OfModel(model, draws, core, family)
    prior_of_draws.check()
    return prior_of_draws
