"""Draws of numbers whose noise has an unknown sd: rows or their sums have the whole posterior, sigma included.

Nothing is to be weighed (`whole`). Log sigma is judged beside the other coordinates. Log densities that `sample` stored
say whether draws were changed; where there are none, Stein's identities of coefficients and log sigma do, given the
effects of groups.
"""

import json
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayescore.diagnostics.certificate.flat import without_moments
from bayescore.diagnostics.certificate.joint import JointDraws, JointStrategy
from bayescore.diagnostics.certificate.provenance import trouble_of_identities
from bayescore.diagnostics.certificate.stein import enough_draws, stein
from bayescore.numerics.psis import tail_k
from bayescore.priors import Prior
from bayescore.priors.by_name import prior_from_dict
from bayescore.priors.groups import GroupPrior, group_prior_from_dict, log_sigma_terms
from bayescore.samplers.groups import group_prior_of
from bayescore.types import FloatArray, IntArray
from bayescore.validation import DataError


@dataclass(frozen=True, eq=False)
class NoiseStrategy(JointStrategy):
    """The strategy for draws that have the sd of the noise, with group terms or without."""

    sampler = "normal"

    @property
    def all_priors(self) -> tuple[Prior, GroupPrior | None, GroupPrior]:
        """Those of coefficients, of sds of effects, and of the sd of the noise."""
        attrs = self.beta.attrs
        of_noise = group_prior_from_dict(json.loads(attrs["sd_prior"]))
        return prior_from_dict(self.beta.story["prior"]), group_prior_of(attrs), of_noise

    def miss(self) -> str:
        """Return how changed draws miss Stein's identities of the posterior; empty if they do not, or are as drawn."""
        prior, _, of_noise = self.all_priors
        if self.told or not prior.closed_form:
            return ""
        n_effects = sum(len(own) * len(own.effects) for own in self.core.groups)
        predictor, core = self.beta.predictor(), self.core
        at = self.beta.positions(enough_draws(len(core), n_effects))
        some = predictor.take(at)
        assert some.sd is not None
        eta, log_sd = some.eta(core), np.log(some.sd)
        scores = (-core.weights[:, None] * eta / some.sd**2).T @ core.X + prior.gradient(some.beta)
        steep = np.array([log_sigma_terms(each, *of_noise.table)[1] for each in log_sd])
        of_sd = core.weights @ eta**2 / some.sd**2 - core.weights.sum() + steep
        draws, gradients = np.column_stack([some.beta, log_sd]), np.column_stack([scores, of_sd])
        shape = len(self.beta.draws), -1, draws.shape[1]
        names = [*self.beta.features, "log sigma"]
        missed = stein(draws.reshape(shape), gradients.reshape(shape), np.diag(draws.var(axis=0)), names)
        return trouble_of_identities(missed, self.beta)

    def tails(self) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Return k-hat of each coordinate's tail, and which have no moments."""
        draws = self.posterior.draws
        k = tail_k(draws)
        return k, without_moments(k, draws.shape[0] * draws.shape[1], self.all_priors[0], separated=False)

    def weigh(self, at: IntArray) -> JointDraws:  # noqa: ARG002
        """Raise `DataError`: sums of rows have no other rows' posterior."""
        raise DataError("data are not the rows of the coreset; give those that it was made of, with their weights")

    def of_groups(self, at: IntArray, within: FloatArray) -> FloatArray:
        """Return log-likelihoods of groups of a model (1 | g) at draws, shape (S, G), their effects integrated out.

        `within`, of that shape, is what rows of the data add to squares of the coreset's residuals.
        """
        assert self.core.group is not None
        assert self.beta.sd is not None
        known = np.flatnonzero(self.core.group[:, 0] >= 0)
        rows, G = self.core.take(known), len(self.core.groups[0])
        codes, w = self.core.group[known, 0], rows.weights[:, None]
        eta = rows.with_offset(rows.X @ self.beta.flat[at].T)
        sums, squares = np.zeros((G, len(at))), within.T.copy()
        np.add.at(sums, codes, w * eta)
        np.add.at(squares, codes, w * eta**2)
        noise = self.beta.sd[at] ** 2
        effects = self.beta.variables[f"sigma_{self.core.groups[0].name}"].ravel()[at] ** 2
        weight = np.bincount(codes, rows.weights, G)[:, None]
        square = (squares - effects / (noise + weight * effects) * sums**2) / noise
        logs = weight * np.log(2.0 * np.pi * noise) + np.log1p(weight * effects / noise)
        return np.asarray(-0.5 * (square + logs)).T
