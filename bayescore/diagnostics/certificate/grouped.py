"""What the certificate asks of every model with group terms: draws, provenance, Stein's identities, tails."""

import json
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayescore.data.coreset import Coreset
from bayescore.data.dataset import Dataset
from bayescore.diagnostics.certificate.provenance import covariance_of, trouble_of_groups
from bayescore.diagnostics.certificate.scores import Scores, scores
from bayescore.diagnostics.certificate.stein import Damping, enough_draws, stein
from bayescore.diagnostics.group_draws import with_scales
from bayescore.diagnostics.health import longer_warm_up
from bayescore.models.group_priors import GroupPrior, group_prior_from_dict
from bayescore.models.prior_ratio import score
from bayescore.models.priors import Prior, prior_from_dict
from bayescore.samplers.inference_data import Posterior, draws_digest
from bayescore.types import FloatArray, IntArray, WeightedData

_TOGETHER = 50  # effects whose correlations are checked, too
_NO_GRADIENT = "at some of them its density has no finite gradient."


@dataclass(frozen=True, eq=False)
class Grouped:
    """The base of `Marginal` and `Joint`."""

    idata: Any
    beta: Posterior  # the coefficients as read from `idata`
    core: Coreset
    dataset: Dataset  # the full data
    remedy = (
        "Build the coreset anew with the prior and group_prior that you sample with, or sample all_rows(...) if its "
        "rows are few."
    )
    scope = ""

    @cached_property
    def posterior(self) -> Posterior:
        """Draws of beta, the log sds, and of correlations Fisher's z."""
        return with_scales(self.beta, self.core.groups)

    @property
    def priors(self) -> tuple[Prior, GroupPrior]:
        """Those of beta and of the sds."""
        of_sds = json.loads(self.beta.attrs["group_prior"])
        return prior_from_dict(self.beta.story["prior"]), group_prior_from_dict(of_sds)

    @property
    def told(self) -> bool:
        """Whether digests tell that nobody changed the draws."""
        told = {"beta": self.beta.story["draws"], **json.loads(self.beta.attrs.get("effects_of", "{}"))}
        source = self.idata["posterior"]
        return all(name in source and draws_digest(source[name].values) == own for name, own in told.items())

    def provenance(self) -> str:
        """Return why the draws are not those of the coreset's posterior by their attributes.

        Raises
        ------
        DataError
            If parameters of groups are missing, or of other shapes.
        """
        if trouble := trouble_of_groups(self.beta, self.core):
            return trouble
        self.beta.predictor()
        return ""

    def miss(self) -> str:
        """Return how the draws miss Stein's identities of the posterior; empty if they do not.

        Those of (beta, log sigma, z) are the marginal posterior's, those of some levels' effects are given these. Exact
        draws miss one in less than `limits.FAMILYWISE_ALPHA` of the cases.
        """
        try:
            missed = self._missed()
        except np.linalg.LinAlgError:  # of an sd of 0
            missed = _NO_GRADIENT
        if not missed:
            return ""
        return (
            f"The draws are not those of the posterior of the coreset: {missed} If nobody changed them, sample again, "
            f"with {longer_warm_up(self.beta)}."
        )

    def scores(self, at: IntArray) -> Scores:
        """Return gradients of the coreset's posterior at some draws."""
        return scores(self.beta.predictor().take(at), self.core, self.beta.family, *self.priors)

    def _missed(self) -> str:
        judged, p, prior = self.posterior, len(self.beta.features), self.priors[0]
        n_effects = sum(len(own) * len(own.effects) for own in self.core.groups)
        at = judged.positions(enough_draws(len(self.core), n_effects))
        draws = judged.flat[at]
        if not np.isfinite(draws).all():
            return _NO_GRADIENT
        found = self.scores(at)
        if not np.isfinite(found.marginal).all():
            return _NO_GRADIENT
        K = np.diag(draws.var(axis=0, ddof=1))
        K[:p, :p] = covariance_of(found.precision, draws[:, :p], prior.gradient(draws[:, :p]), K[:p, :p])
        means = self.beta.predictor().means().effects(self.core)[:, 0]
        offset = means if self.core.offset is None else means + self.core.offset
        rows = WeightedData(self.core.X, self.core.y, self.core.weights, self.core.index, offset=offset)
        damping = Damping(draws[:, :p], score(draws[:, :p], rows, self.beta.family), rows, self.beta.family)
        cuts = [slice(start, start + _TOGETHER) for start in range(0, len(found.names), _TOGETHER)]
        check = partial(stein, parts=1 + len(cuts))
        by_chain = partial(np.reshape, shape=(len(judged.draws), len(at) // len(judged.draws), -1))
        missed = check(by_chain(draws), by_chain(found.marginal), K, list(judged.features), damping)
        for cut in cuts:
            u, slopes, names = found.effects[:, cut], found.effect_scores[:, cut], found.names[cut]
            missed = missed or check(by_chain(u), by_chain(slopes), np.eye(len(names)), names)
        return missed

    def tails(self) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Return that all coordinates have moments, as they do under half-t priors of sds, on the log scale."""
        D = len(self.posterior.features)
        return np.full(D, np.nan), np.zeros(D, dtype=bool)
