"""Draws of a fit with cluster-robust spread, and what is said about them."""

import time
import warnings
from dataclasses import replace
from typing import Any, Self

import numpy as np

from bayescore.compat import as_xarray
from bayescore.data.coreset import Coreset
from bayescore.data.design import terms_text
from bayescore.diagnostics.full_pass import full_rows
from bayescore.fitting.cluster_labels import Labels, check_curvature, of_groups, refuse_strata
from bayescore.fitting.cluster_sums import ClusterSums, cluster_sums, robust_map
from bayescore.fitting.given import Given
from bayescore.fitting.pictures import FitPictures
from bayescore.fitting.story import Step, overheard, words
from bayescore.limits import MIN_CLUSTERS, MIN_STRETCH
from bayescore.models.gaussian import Transport
from bayescore.models.priors import prior_from_dict
from bayescore.progress import say
from bayescore.samplers.inference_data import Posterior, read_posterior
from bayescore.validation import DataError, warn


class FitClusters(FitPictures):
    """What a fit says where rows depend on each other; see `Fit`."""

    def cluster_robust(self, cluster: Any, *, strata: Any = None) -> Self:
        r"""Return the fit with draws whose spread is robust to rows of a cluster that depend on each other.

        The draws are moved by one affine map, so that their covariance under a prior that says little is the sandwich

        .. math:: F^{-1} J F^{-1}, \qquad J = \sum_h \frac{G_h}{G_h - 1} \sum_{c \in h} (u_{hc} - \bar u_h)
                  (u_{hc} - \bar u_h)',

        F the curvature of all rows' log-likelihood and u_hc the sum of the scores of cluster c in stratum h. It reads
        the levels of the labels, then all rows once, and keeps G D numbers for G clusters and D coefficients. A prior
        keeps its weight against it, see `fitting.cluster_sums`.

        Weights of a survey (``weights=`` of `fit`) may be raw or have mean 1, as their scale cancels. Finite population
        corrections are left out: clusters count as drawn with replacement, so that intervals are too wide where a large
        share of all clusters is in the sample.

        Parameters
        ----------
        cluster : str or array, shape (n,)
            Column of the clusters, text or whole numbers, which may be a feature too; an array has one label for each
            row of the data. None gives the fit with the model's own spread.
        strata : str or array, optional
            The strata that clusters were drawn from; each cluster lies in one.

        Returns
        -------
        Fit
            Its summary, predictions, averages, pictures and page are by the moved draws, ``fit.idata``, and say so.
            Level and certificate are still those of the model's own posterior.

        Raises
        ------
        DataError
            If the fit has group terms, or a prior without a curvature; if labels are missing, a cluster is in two
            strata, a stratum has one cluster, clusters less strata are fewer than coefficients, or the rows are not
            there.

        Warns
        -----
        UserWarning
            If clusters are few, or each is one row, or some combination of coefficients has hardly any spread.

        References
        ----------
        Müller (2013), Risk of Bayesian inference in misspecified models, and the sandwich covariance matrix,
        Econometrica 81. Williams and Savitsky (2021), Uncertainty estimation for pseudo-Bayesian inference under
        complex sampling, International Statistical Review 89.

        Examples
        --------
        >>> import numpy as np, pandas as pd, bayescore as bc
        >>> rng = np.random.default_rng(0)
        >>> school = np.repeat(np.arange(100), 40)
        >>> rows = pd.DataFrame({"size": rng.normal(size=100)[school], "school": school})
        >>> rows["passed"] = rows["size"] + rng.normal(size=100)[school] + rng.logistic(size=4000) > 0
        >>> fit = bc.fit("passed ~ size", rows, random_state=1, progressbar=False)
        >>> robust = fit.cluster_robust("school")
        >>> robust.spread
        "cluster-robust by 100 clusters of 'school'"
        >>> bool(robust.summary()["sd"]["size"] > 2.0 * fit.summary()["sd"]["size"])
        True
        """
        if cluster is None:
            refuse_strata(strata)
            return replace(self, robust=None, story=tuple(step for step in self.story if step.what != "cluster"))
        begin, own = time.perf_counter(), self.cluster_robust(None)
        core, given, posterior = self.coreset, self.rows_of_data, own.posterior()
        if core.groups:
            raise DataError(of_groups(terms_text(core.groups)))
        if not (story := read_posterior(self.drawn, "fit.drawn").story):
            raise DataError("the draws are of a model of your own, whose prior the fit does not know; see with_prior")
        if not (prior := prior_from_dict(story["prior"])).smooth:
            check_curvature(prior if self.prior is None else self.prior, "see with_prior for another")
        by = Labels.of(cluster, strata, given)
        with overheard() as caught, by.told():
            roles = {**given.roles, "clusters": by.groups}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the fit gave them
                dataset = full_rows(core, given.data, given.y, progress=given.progressbar, **roles)
            levels = tuple(each.levels for each in dataset.rows.design.groups)
            point = posterior.flat.mean(axis=0)
            sums = cluster_sums(dataset, posterior.family, point, levels)
            by.check_weight(sums.weight, core)
            transport = robust_map(point, sums, prior)
            text = by.text(sums)
            _warn(sums, float(transport.stretch.min() / _mean_weight(core, given) ** 0.5))
        robust = moved(own.idata, posterior, transport, text)
        seconds = time.perf_counter() - begin
        step = Step("cluster", core.n_total, dataset.n_passes, seconds, f"spread {text}{words(caught)}")
        if given.progressbar:
            say(str(step))
        return replace(own, robust=robust, story=(*own.story, step))


def moved(idata: Any, posterior: Posterior, transport: Transport, spread: str) -> Any:
    """Return draws moved by a map, which say whose spread they have, without what was true of the draws before."""
    found, own = idata.copy(), as_xarray(idata["posterior"])
    beta = own["beta"].transpose("chain", "draw", ...)
    draws = transport(posterior.draws)
    own = own.assign(beta=beta.copy(data=draws))
    if "coef" in own and posterior.design is not None:
        coef = own["coef"].transpose("chain", "draw", ...)
        own = own.assign(coef=coef.copy(data=np.array(posterior.design.raw_coefficients(draws))))
    attrs = {name: value for name, value in own.attrs.items() if name != "posterior_of"}
    own.attrs = {**attrs, "spread": spread}
    found["posterior"] = own
    if "sample_stats" in found and "lp" in found["sample_stats"]:
        found["sample_stats"] = as_xarray(found["sample_stats"]).drop_vars("lp")
    return found


def _mean_weight(core: Coreset, given: Given) -> float:
    """Return the mean weight of labels that have weights, by whose root the model's sds are too small; else 1.

    The weights of trials and counts hold their numbers and exposures too: these have 1.
    """
    has = {role for role in ("weights", "trials") if given.roles.get(role) is not None} | set(dict(core.design.roles))
    return core.weight_total / core.n_total if "weights" in has and "trials" not in has and not core.counts else 1.0


def _warn(sums: ClusterSums, stretch: float) -> None:
    """Warn of few clusters, of clusters of one row, and of an sd that is only `stretch` of the model's."""
    if sums.freedom < MIN_CLUSTERS:
        warn(
            f"there are {len(sums.scores):,} clusters: cluster-robust sds are uncertain by about "
            f"{1.0 / np.sqrt(2.0 * sums.freedom):.0%}, and too small rather than too large, even with the factor "
            f"G / (G - 1); from {MIN_CLUSTERS} on that matters less"
        )
    if sums.single:
        warn(
            "each cluster is one row: the spread is robust to a model that is wrong about single rows, such as "
            "overdispersed counts, and not to rows that depend on each other"
        )
    if stretch < MIN_STRETCH:
        warn(
            f"the cluster-robust sd of some combination of coefficients is {stretch:.2g} of the model's: trust it only "
            "if rows of a cluster balance each other. A column that tells one cluster from all others has the same "
            "effect, as no other cluster shows how its coefficient varies: leave it out"
        )
