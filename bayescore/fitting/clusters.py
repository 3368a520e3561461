"""Draws of a fit with cluster-robust spread: labels of clusters and strata from any source, checks, and words."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from bayescore.data.coreset import Coreset
from bayescore.data.design import terms_text
from bayescore.data.formulas.parsing import parsed
from bayescore.data.source import Source
from bayescore.data.sources import has_named_columns
from bayescore.diagnostics.full_pass import full_rows
from bayescore.fitting.cluster_sums import ClusterSums, cluster_sums, robust_map
from bayescore.fitting.given import Given
from bayescore.fitting.pictures import FitPictures
from bayescore.fitting.story import Step, overheard, words
from bayescore.limits import MIN_CLUSTERS, MIN_STRETCH
from bayescore.models.gaussian import Transport
from bayescore.models.priors import prior_from_dict
from bayescore.progress import say
from bayescore.samplers.inference_data import Posterior, read_posterior
from bayescore.types import WeightedData
from bayescore.validation import DataError, warn

ARGUMENTS = ("cluster", "strata")
_ALONE = re.compile(r"(^|(?<=beside )|(?<=as )|(?<=and ))groups\b")  # of errors that name no column


class FitClusters(FitPictures):
    """What a fit says where rows depend on each other; see `Fit`."""

    def cluster_robust(self, cluster: Any, *, strata: Any = None) -> Self:
        r"""Return the fit with draws whose spread is robust to rows of a cluster that depend on each other.

        The draws are moved by one affine map, so that their covariance under a prior that says little is the sandwich

        .. math:: F^{-1} J F^{-1}, \qquad J = \sum_h \frac{G_h}{G_h - 1} \sum_{c \in h} (u_{hc} - \bar u_h)
                  (u_{hc} - \bar u_h)',

        F the curvature of all rows' log-likelihood and u_hc the sum of the scores of cluster c in stratum h. It takes
        one pass, and G D numbers of memory for G clusters and D coefficients. A prior keeps its weight against
        it, see `fitting.cluster_sums`.

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
            strata, a stratum has one cluster, clusters are fewer than coefficients, or the rows are not there.

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
            _refuse_strata(strata)
            return replace(self, robust=None, story=tuple(step for step in self.story if step.what != "cluster"))
        begin, own = time.perf_counter(), self.cluster_robust(None)
        core, given, posterior = self.coreset, self.rows_given, own.posterior()
        if core.groups:
            raise DataError(_of_groups(terms_text(core.groups)))
        if not (story := read_posterior(self.drawn, "fit.drawn").story):
            raise DataError("the draws are of a model of your own, whose prior the fit does not know; see with_prior")
        if not (prior := prior_from_dict(story["prior"])).smooth:
            raise DataError(
                f"prior={prior} has no curvature that says how wide it is, which the cluster-robust spread needs; see "
                "with_prior for another, such as Normal or StudentT"
            )
        by = Labels.of(cluster, strata, given)
        with overheard() as caught, by.told():
            roles = {**given.roles, "clusters": by.groups}
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


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels of clusters, and perhaps of strata, as sources take groups: names of columns, or arrays by name."""

    groups: list[str] | dict[str, Any]

    @classmethod
    def of(cls, cluster: Any, strata: Any, given: Given) -> Self:
        """Return the labels, or raise `DataError` where they do not go with the data."""
        if cluster is None:
            _refuse_strata(strata)
        named = has_named_columns(given.data)
        if given.once:
            raise DataError("cluster is given, and the rows came once and are gone; give a file or a table")
        if isinstance(given.data, Coreset | Source | WeightedData) or callable(given.data):
            raise DataError(
                f"cluster is given, and data is a {type(given.data).__name__}, whose rows do not tell their clusters; "
                "fit a file, a table or arrays"
            )
        both = {name: own for name, own in zip(ARGUMENTS, (cluster, strata), strict=True) if own is not None}
        for name, own in both.items():
            if isinstance(own, str) and not named:
                raise DataError(f"{name}={own!r} names a column, but those of data have no names; give an array")
        if len({isinstance(own, str) for own in both.values()}) > 1:
            raise DataError("of cluster and strata one is a name and one an array; give two names, or two arrays")
        if not isinstance(cluster, str):
            return cls(both)
        if cluster == strata:
            raise DataError(f"cluster and strata both name the column {cluster!r}; strata hold several clusters each")
        return cls(list(both.values()))

    @contextmanager
    def told(self) -> Iterator[None]:
        """In errors of the body call the arguments as the user does: sources know them as groups."""
        try:
            yield
        except DataError as error:
            text = str(error)
            for place, (argument, name) in enumerate(zip(ARGUMENTS, self.groups, strict=False)):
                column = argument if isinstance(self.groups, dict) else f"{argument} (column {name!r})"
                text = text.replace(f"groups (column {name!r})", column)
                for known in (f"groups[{name!r}]", f"groups[{place}]"):
                    text = text.replace(known, argument)
            raise DataError(_ALONE.sub("cluster", text)) from None

    def text(self, sums: ClusterSums) -> str:
        """Return what the spread is robust by."""
        names = ["" if isinstance(self.groups, dict) else f" of {name!r}" for name in self.groups]
        text = f"cluster-robust by {len(sums.scores):,} clusters{names[0]}"
        return text if len(names) == 1 else f"{text} in {int((sums.sizes > 0).sum()):,} strata{names[1]}"

    def check_weight(self, weight: float, core: Coreset) -> None:
        """Raise unless the rows that have labels are those of the fit."""
        if not np.isclose(weight, core.weight_total, rtol=1e-6, atol=0.0):
            raise DataError(
                f"rows with a cluster have the total weight {weight:,.10g}, those of the fit "
                f"{core.weight_total:,.10g}: fit the rows whose cluster is known, or give the others a label"
            )


def check_labels(given: Given, cluster: Any, strata: Any, *, counts: bool) -> None:
    """Raise before any work if labels of clusters cannot be those of the rows of a fit that is to be made."""
    by = Labels.of(cluster, strata, given)
    groups = () if given.formula is None else parsed(given.formula).groups
    if groups or given.roles.get("groups") is not None:
        raise DataError(_of_groups("group terms"))
    if given.formula is None and isinstance(by.groups, list):
        raise DataError(
            f"cluster={cluster!r} names a column, which without a formula would be a feature too; give a formula, or "
            "data without that column and the labels as an array"
        )
    with by.told():
        survey = getattr(given.undesigned(counts=counts, groups=by.groups, clusters=True).rows, "survey", None)
        for name in by.groups:
            if survey is not None and survey.levels[name].missing:
                raise DataError(f"groups (column {name!r}) is missing in some rows; leave these out, or label them")


def _refuse_strata(strata: Any) -> None:
    """Raise if strata are given without clusters."""
    if strata is not None:
        raise DataError("strata is given without cluster; where rows were drawn one by one, give each its own label")


def moved(idata: Any, posterior: Posterior, transport: Transport, spread: str) -> Any:
    """Return draws moved by a map, which say whose spread they have, without what was true of the draws before."""
    found, source = idata.copy(), idata["posterior"]
    own = source.to_dataset() if hasattr(source, "to_dataset") else source
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
        stats = found["sample_stats"]
        found["sample_stats"] = (stats.to_dataset() if hasattr(stats, "to_dataset") else stats).drop_vars("lp")
    return found


def _of_groups(terms: str) -> str:
    return (
        f"cluster is given, and the fit has {terms}, whose effects would keep the model's spread: leave it out, as a "
        "group term (1 | school) models what the rows of a school share, or fit without group terms"
    )


def _mean_weight(core: Coreset, given: Given) -> float:
    """Return the mean weight of rows that have weights, by whose root the model's sds are too small; else 1."""
    weighted = given.roles.get("weights") is not None or "weights" in dict(core.design.roles)
    return core.weight_total / core.n_total if weighted else 1.0


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
            "effect, as no other cluster tells how its coefficient varies: leave it out"
        )
