r"""Draws of several grouping factors, or of effects of columns: importance weights on all of them.

At some of the draws the log-likelihood of the full data is added up in one pass, effects of groups included, and

.. math:: \log w = \log p(y | \beta, u) - \text{the same of the coreset}

weighs the draw: the priors cancel. Effects are not integrated out, as they are for `(1 | g)` (`marginal`), so the
weights see what all cells' pseudo-rows miss together: their log's sd grows with the root of the cells' number, 0.1 to
0.3 for 600 cells, and where it is too much the verdict says so.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayescore.data.coreset import Coreset
from bayescore.data.dataset import Dataset
from bayescore.data.design import Grouping
from bayescore.diagnostics.certificate.marginal import GROUPS_REMEDY
from bayescore.diagnostics.certificate.provenance import trouble_of_groups
from bayescore.diagnostics.certificate.weigh import EffectMoments, Weighed, effects_table
from bayescore.diagnostics.full_pass import check_finite, check_weight
from bayescore.diagnostics.full_weights import full_weights
from bayescore.diagnostics.group_draws import with_scales
from bayescore.models.families import Family, check_family
from bayescore.samplers.inference_data import Posterior, flat_draws
from bayescore.types import NO_GROUP, FloatArray, IntArray, WeightedData

_ROWS = 1024  # looked at together, at all draws


@dataclass(frozen=True, eq=False, kw_only=True)
class JointDraws(Weighed):
    """Weighed draws of coefficients and effects of all `groups`.

    Parameters
    ----------
    groups : tuple of Grouping
        The factors.
    u : array, shape (S, E)
        Effects, as `effects_table` has them.
    labels : array, shape (E, 2)
        Weight of the rows of +1 and of -1 in each effect's group.
    """

    groups: tuple[Grouping, ...]
    u: FloatArray
    labels: FloatArray

    def effects(self, slow: float) -> pd.DataFrame:
        """Return the table of all effects."""
        moments = EffectMoments(self.u, np.broadcast_to(0.0, self.u.shape))
        return effects_table(self.groups, self.weights.weights, (moments, moments), self.labels, slow)


class _Factor(NamedTuple):
    """Columns that a factor's effects are multiplied by, -1 the number 1, and draws of these, (S, G + 1, q)."""

    columns: tuple[int, ...]
    effects: FloatArray


@dataclass(frozen=True, eq=False)
class Joint:
    """The strategy for any group terms.

    Parameters
    ----------
    idata : InferenceData
        The draws.
    beta : Posterior
        The coefficients as read from them.
    core : Coreset
        The coreset.
    dataset : Opened
        The full data.
    """

    idata: Any
    beta: Posterior
    core: Coreset
    dataset: Dataset
    remedy = GROUPS_REMEDY
    scope = ""

    @cached_property
    def posterior(self) -> Posterior:
        """Draws of beta, the log sds, and of correlations Fisher's z."""
        return with_scales(self.idata, self.beta, self.core.groups)

    def provenance(self) -> str:
        """Return why the draws are not those of the coreset's posterior by their attributes."""
        return trouble_of_groups(self.idata, self.beta, self.core)

    def check_memory(self, n_draws: int) -> None:
        """Do nothing: draws of all effects are there already, and the pass keeps no more."""

    def miss(self) -> str:
        """Return that nothing is known."""
        return ""

    def tails(self) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Return that all coordinates have moments, as they do under half-t priors of sds, on the log scale."""
        D = len(self.posterior.features)
        return np.full(D, np.nan), np.zeros(D, dtype=bool)

    def weigh(self, at: IntArray) -> JointDraws:
        """Return the weights of some draws; one pass."""
        family = check_family(self.beta.family.name)
        factors = [self._factor(own, at) for own in self.core.groups]
        work = partial(_log_likelihood, self.beta.flat[at], factors, family)
        total, labels = np.zeros(len(at)), [np.zeros((len(own) + 1, 2)) for own in self.core.groups]
        for own, parts in self.dataset.map(work, "certifying", canonical=True):
            total = total + own
            labels = [before + part for before, part in zip(labels, parts, strict=True)]
        check_finite(self.dataset, total)
        check_weight(self.core, float(labels[0].sum()))
        weights = full_weights(total - work(0, self.core)[0])
        u = [each.effects[:, :-1].reshape(len(at), -1) for each in factors]
        rows = [np.repeat(own[:-1], len(each.columns), axis=0) for own, each in zip(labels, factors, strict=True)]
        stacked = np.concatenate(u, axis=1), np.concatenate(rows)
        return JointDraws(at=at, weights=weights, groups=self.core.groups, u=stacked[0], labels=stacked[1])

    def _factor(self, own: Grouping, at: IntArray) -> _Factor:
        core = self.core
        u = flat_draws(self.idata, f"u_{own.name}").reshape(-1, len(own), len(own.effects))[at]
        constant = -1 if core.design.constant is None else core.design.constant
        columns = tuple(constant if effect == "1" else core.feature_names.index(effect) for effect in own.effects)
        return _Factor(columns, np.concatenate([u, np.zeros((len(u), 1, u.shape[2]))], axis=1))  # the last: of no group


def _log_likelihood(
    beta: FloatArray, factors: list[_Factor], family: Family, _: int, block: WeightedData
) -> tuple[FloatArray, list[FloatArray]]:
    """Return the log-likelihood of rows at each draw, shape (S,), and by factor `labels`, shape (G + 1, 2)."""
    total, labels = np.zeros(len(beta)), []
    for rows in _pieces(block):
        assert rows.group is not None
        eta = rows.X @ beta.T
        if rows.offset is not None:
            eta += rows.offset[:, None]
        for each, codes in zip(factors, rows.group.T, strict=True):
            for k, column in enumerate(each.columns):
                z = np.ones(len(rows)) if column < 0 else rows.X[:, column]
                eta += z[:, None] * each.effects[:, codes, k].T  # NO_GROUP is the last place
        total += rows.weights @ family.log_p(eta, rows.y[:, None])
    assert block.group is not None
    for each, codes in zip(factors, block.group.T, strict=True):
        n = each.effects.shape[1]
        sides = [np.bincount(codes[block.y == side] % n, block.weights[block.y == side], n) for side in (1, -1)]
        labels.append(np.column_stack(sides).astype(np.float64))
    return total, labels


def _pieces(block: WeightedData) -> Iterator[WeightedData]:
    assert NO_GROUP == -1
    return (block.take(slice(start, start + _ROWS)) for start in range(0, len(block), _ROWS))
