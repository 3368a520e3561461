r"""Draws of a fit with cluster-robust spread, and what is said about them.

Labels of clusters and strata, from any source, and their checks before a fit.

Cluster-robust spread: how sure coefficients are where rows of a cluster depend on each other.

A posterior takes rows for independent. Where those of a cluster (a school, a district, a person) share what the model
does not have, its spread is too small. The scores of clusters, at a point t near the mode, say by how much. Of cluster
c in stratum h,

.. math:: u_{hc} = \sum_{n \in c} w_n x_n \ell'_n - \frac{f_c}{f} g, \qquad
          J = \sum_h \frac{G_h}{G_h - 1} \sum_{c \in h} (u_{hc} - \bar u_h)(u_{hc} - \bar u_h)',

l'_n the derivative of a row's log-likelihood by its predictor, g the score of all rows, f_c / f the cluster's share of
their curvatures, so that to first order the sums are those at the likelihood's maximum, and G_h the clusters of the
stratum. A stratum of one cluster has no such term, and `LONELY` are the ways to replace it. From one sample of clusters
to another the estimate varies by the sandwich F^{-1} J F^{-1}, F the curvature of the rows' log-likelihood at t. The
likelihood is given that covariance in place of F^{-1}. The prior, with its gradient and its curvature P at t, stays as
it is:

.. math:: V = (F J^{-1} F + P)^{-1}, \qquad m = t + V (F J^{-1} g + \nabla \log \pi_0(t)).

Draws are moved by the affine map that takes the posterior's mode and curvature to m and V. Under a prior that says
little V is the sandwich. Draws stay where they are if J = F, as it is on average where rows are independent and the
model holds. With c w for w neither V nor m changes: weights need not be normalised, unless they are so small that t,
which has them, is far from m.

The pass keeps a sum for each cluster: G D numbers.

References
----------
Müller (2013), Risk of Bayesian inference in misspecified models, and the sandwich covariance matrix, Econometrica 81,
1805-1849. Williams and Savitsky (2021), Uncertainty estimation for pseudo-Bayesian inference under complex sampling,
International Statistical Review 89, 72-107. Binder (1983), On the variances of asymptotically normal estimators from
complex surveys, International Statistical Review 51, 279-292.
"""

import re
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from scipy import linalg
from scipy.sparse import csr_array

from bayescore.compat import as_xarray
from bayescore.data.column_kinds import as_floats, as_table, check_numeric
from bayescore.data.columns import FilteredSource
from bayescore.data.coreset import Coreset
from bayescore.data.dataset import Dataset
from bayescore.data.design import terms_text
from bayescore.data.formula_parsing import parsed
from bayescore.data.groups import MISSING_HINT
from bayescore.data.source import Source
from bayescore.data.sources import has_named_columns
from bayescore.data.tables import is_table
from bayescore.diagnostics.row_sums import check_finite, full_rows
from bayescore.families import Family
from bayescore.families.normal import Gaussian
from bayescore.fitting.parts import known_prior
from bayescore.fitting.route import Given, Step, collected_warnings, warnings_text
from bayescore.limits import MAX_MOVE, MIN_CLUSTERS, MIN_STRETCH
from bayescore.models.groups.rows import codes_among
from bayescore.models.laplace import Transport, factor_of_inverse
from bayescore.models.posterior import Derivatives, likelihood_terms, no_terms, prior_part
from bayescore.models.row_kernels import derivatives_of
from bayescore.priors import Prior
from bayescore.progress import say
from bayescore.samplers.posterior import Posterior
from bayescore.text import counted, listed, see
from bayescore.types import FloatArray, IntArray, WeightedData
from bayescore.validation import DataError, check_choice, warn

if TYPE_CHECKING:
    from bayescore.fitting.result import Fit

LONELY = ("raise", "adjust", "average")
"""What a stratum of one cluster adds to J, as R's ``survey.lonely.psu`` has it: it is an error; u u', u about the mean
of all clusters, which is 0; or the mean of what other strata add, those that have rows in the fit."""

_NONE = np.iinfo(np.int64).max
_LEAST = 1e-10  # ratio of variances of combinations of coefficients, below which the rest is rounding


class _ClusterExtents(NamedTuple):
    """The k clusters of a block, and the least and the largest of their rows' positions and strata."""

    found: IntArray  # shape (k,)
    places: IntArray  # of each row's cluster among them
    least: IntArray  # shape (k, 2)
    most: IntArray


class _ClusterBlock(NamedTuple):
    """Of a block: terms of the log-likelihood, weight, the k clusters in it, and their sums."""

    terms: Derivatives
    weight: float
    products: FloatArray  # sum over rows of the data of outer products of score and curvature, shape (D + 1, D + 1)
    ends: _ClusterExtents
    sums: FloatArray  # of scores, and of curvatures by the predictor, shape (k, D + 1)


@dataclass(frozen=True, eq=False)
class ClusterSums:
    """Sums over all rows at a point: `scores` of the G clusters of the design, shape (G, D), and their strata."""

    terms: Derivatives
    weight: float
    scores: FloatArray  # 0 of clusters whose rows are all left out
    strata: IntArray  # from 0 on, shape (G,)
    single: bool  # whether every cluster is one row
    independent: FloatArray  # J of independent rows, shape (D, D)
    lonely: str = "raise"  # one of `LONELY`

    @property
    def sizes(self) -> IntArray:
        """Clusters of each stratum."""
        return np.bincount(self.strata)

    @property
    def degrees_of_freedom(self) -> int:
        """Clusters less the means that their scores are centred at: the rank that J has at most."""
        return len(self.scores) - n_means(self.sizes, self.lonely)

    def variance(self) -> FloatArray:
        """Return J, shape (D, D); raise if strata of one cluster take the average of others, and there are none."""
        several, sizes = self.sizes > 1, np.maximum(self.sizes, 2)
        sums = np.zeros((len(sizes), self.scores.shape[1]))
        np.add.at(sums, self.strata, self.scores)
        means = np.where(several[:, None], sums / sizes[:, None], 0.0)  # the mean of all clusters is 0
        factors = np.where(several, sizes / (sizes - 1.0), float(self.lonely == "adjust"))
        if self.lonely == "average":
            with_rows = np.bincount(self.strata, self.scores.any(axis=1)) > 0.0
            if not (with_rows & several).any():
                raise DataError(
                    "lonely='average' is the average over strata of several clusters, and all rows of the fit are in "
                    "strata of one: give lonely='adjust', or leave strata out"
                )
            factors *= with_rows.sum() / (with_rows & several).sum()
        deviations = self.scores - means[self.strata]
        deviations *= np.sqrt(factors)[self.strata, None]
        return np.asarray(deviations.T @ deviations)


def n_means(sizes: IntArray, lonely: str) -> int:
    """Return the number of means that scores of clusters are centred at, given the numbers of clusters by stratum.

    With "adjust" these are the means of strata of several clusters; without such a stratum, the mean of all clusters.
    """
    return max(int((sizes > 1).sum()), 1) if lonely == "adjust" else int((sizes > 0).sum())


def cluster_sums(
    dataset: Dataset,
    family: Family,
    point: FloatArray,
    levels: tuple[tuple[Any, ...], ...],
    everyone: Dataset | None = None,
    *,
    lonely: str = "raise",
) -> ClusterSums:
    """Return the sums of rows whose groups are a cluster, and perhaps a stratum, of these `levels`; one pass.

    `everyone` are all rows of the design, those that the fit leaves out too: their clusters count, with a score of 0.

    Raises
    ------
    DataError
        If a cluster is in two strata, there is one cluster only, or a stratum has one and `lonely` is "raise".
    """
    G, D = len(levels[0]), len(point)
    terms, weight, products, sums = no_terms(D), 0.0, np.zeros((D + 1, D + 1)), np.zeros((G, D + 1))
    ends = _no_extents(G) if everyone is None else _all_extents(everyone, G)
    for one in dataset.map(partial(_cluster_block, point, family, G), "summing scores by cluster", canonical=True):
        terms, weight, products = terms + one.terms, weight + one.weight, products + one.products
        sums[one.ends.found] += one.sums
        _merge_extents(ends, one.ends)
    check_finite(dataset, terms.precision)
    present, strata = _strata(levels, ends, lonely)
    single = bool((ends.least[present, 0] == ends.most[present, 0]).all())
    share = sums[present, D] / sums[present, D].sum()
    scores = sums[present, :D] - share[:, None] * terms.gradient
    centred = np.column_stack([np.eye(D), -terms.gradient / sums[present, D].sum()])
    return ClusterSums(terms, weight, scores, strata, single, centred @ products @ centred.T, lonely)


def _all_extents(dataset: Dataset, n_clusters: int) -> _ClusterExtents:
    """Return the ends of all rows; one pass."""
    ends = _no_extents(n_clusters)
    for one in dataset.map(partial(_block_extents, n_clusters), "checking strata"):
        _merge_extents(ends, one)
    return ends


def all_survey_rows(given: Given, rows: object, response: str, groups: list[str] | dict[str, Any]) -> Dataset | None:
    """Return all rows of a survey's design, without features; None where the fit leaves none of them out.

    Rows of weight 0 are not in the likelihood, and rows of one domain, or without missing entries, are part of a
    sample whose other clusters say how clusters vary, too (Binder 1983).
    """
    if not isinstance(rows, FilteredSource) or not {"weights", "missing"} & set(given.roles):
        return None
    left = None if given.formula is None else f"{given.formula.partition('~')[0]}~ 1"
    roles = {name: value for name, value in given.roles.items() if name not in ("weights", "offset")}
    plain = replace(given, formula=left, roles=roles)
    with warnings.catch_warnings(action="ignore"):  # the fit gave them
        return Dataset(
            plain.undesigned(response=response, groups=groups, clusters=True).rows, progress=given.progressbar
        )


def _no_extents(n_clusters: int) -> _ClusterExtents:
    every = np.arange(n_clusters)
    return _ClusterExtents(every, every, np.full((n_clusters, 2), _NONE), np.full((n_clusters, 2), -1))


def _merge_extents(ends: _ClusterExtents, one: _ClusterExtents) -> None:
    """Join the ends of a block to those of all rows, in place."""
    ends.least[one.found] = np.minimum(ends.least[one.found], one.least)
    ends.most[one.found] = np.maximum(ends.most[one.found], one.most)


def _block_extents(n_clusters: int, _start: int, block: WeightedData) -> _ClusterExtents:
    strata = block.group_codes[:, 1] if block.group_codes.shape[1] > 1 else np.zeros(len(block), dtype=np.int64)
    clusters, places = codes_among(block.group_codes[:, 0], n_clusters)
    least, most = np.full((len(clusters), 2), _NONE), np.full((len(clusters), 2), -1)
    for column, values in enumerate((block.index, strata)):
        np.minimum.at(least[:, column], places, values)
        np.maximum.at(most[:, column], places, values)
    return _ClusterExtents(clusters, places, least, most)


def _cluster_block(
    point: FloatArray, family: Family, n_clusters: int, start: int, block: WeightedData
) -> _ClusterBlock:
    n, ends = len(block), _block_extents(n_clusters, start, block)
    slope, curvature = derivatives_of(block.with_offset(block.X @ point), block.y, family)[1:3] * block.weights
    scores = np.column_stack([slope[:, None] * block.X, curvature])
    rows, places = np.unique(block.index, return_inverse=True)  # both sides of a count are one row of the data
    by_row = csr_array((np.ones(n), places, np.arange(n + 1)), shape=(n, len(rows))).T @ scores
    by_cluster = csr_array((np.ones(n), ends.places, np.arange(n + 1)), shape=(n, len(ends.found))).T
    sums = by_cluster @ scores
    terms = likelihood_terms(point, block, family)
    return _ClusterBlock(terms, float(block.weights.sum()), by_row.T @ by_row, ends, sums)


def _strata(levels: tuple[tuple[Any, ...], ...], ends: _ClusterExtents, lonely: str) -> tuple[IntArray, IntArray]:
    """Return the clusters that have rows and their strata; raise unless each lies in one, and each has two clusters.

    A stratum of one cluster raises if `lonely` is "raise".
    """
    present = np.flatnonzero(ends.most[:, 0] >= 0)
    least, most = ends.least[present, 1], ends.most[present, 1]
    check_several([levels[0][place] for place in present])
    if (split := np.flatnonzero(least != most)).size:
        place = split[0]
        one, other = levels[1][least[place]], levels[1][most[place]]
        raise DataError(
            f"{len(split):,} of {len(present):,} clusters are in more than one stratum, such as the cluster "
            f"{levels[0][present[place]]!r} in {one!r} and {other!r}: where strata number their clusters anew, give "
            "cluster a column that has both, else strata a column that is constant within clusters"
        )
    sizes = np.bincount(least)
    if lonely == "raise" and len(levels) > 1 and (single := np.flatnonzero(sizes == 1)).size:
        raise DataError(
            f"the stratum {levels[1][single[0]]!r} has one cluster, {levels[0][present[least == single[0]][0]]!r}, and "
            f"{len(single):,} of {int((sizes > 0).sum()):,} strata have one: one cluster does not show how clusters of "
            "a stratum differ; join it with a stratum that is like it, or give lonely='adjust' or 'average'"
            f"{see('how-to/survey.md#strata-of-one-cluster')}"
        )
    return present, least


def check_several(clusters: Sequence[Any]) -> None:
    """Raise unless there are two clusters."""
    if len(clusters) < 2:
        raise DataError(
            f"cluster has one level only, {clusters[0]!r}: one cluster does not show how clusters differ; name a "
            "column of several"
        )


def check_degrees_of_freedom(sizes: IntArray, lonely: str, n_coefficients: int) -> None:
    """Raise if clusters, which are `sizes` by stratum, less the means of their scores are fewer than coefficients."""
    n_clusters, taken = int(sizes.sum()), n_means(sizes, lonely)
    if n_clusters - taken < n_coefficients:
        less = counted(taken, "mean") if lonely == "adjust" else counted(taken, "stratum", "strata")
        raise DataError(
            f"{n_clusters:,} clusters less {less} are fewer than the {n_coefficients} coefficients, so that some "
            "combinations of these would have no spread at all: name smaller clusters, or fit fewer coefficients"
            + (", or give lonely='adjust'" if lonely == "average" else "")
        )


def robust_map(point: FloatArray, sums: ClusterSums, prior: Prior) -> Transport:
    """Return the map of the posterior's draws to the cluster-robust mode and spread, given the sums at a point.

    Raises
    ------
    DataError
        If the rows do not determine the coefficients, clusters are too few, or the prior moves the mode too far.
    """
    check_degrees_of_freedom(sums.sizes, sums.lonely, len(point))
    L, prior_terms = factor_of_inverse(sums.terms.precision), prior_part(point, prior)  # F^-1 = L L'
    values, vectors = linalg.eigh(L.T @ sums.variance() @ L)
    if not values[0] > _LEAST * values[-1]:
        raise DataError(
            "the scores of clusters do not vary along some combination of coefficients, as where columns depend on "
            "each other, or one tells a cluster from all others: leave such a column out, or name smaller clusters"
        )
    white = (vectors / np.sqrt(values)).T @ linalg.solve_triangular(L, np.eye(len(L)), lower=True)
    information = white.T @ white  # F J^-1 F
    gradient = information @ (L @ (L.T @ sums.terms.gradient)) + prior_terms.gradient
    model, robust = sums.terms + prior_terms, Derivatives(0.0, gradient, information + prior_terms.precision)
    start, end = (point + _step(each) for each in (model, robust))
    if (moves := float(np.sqrt((end - start) @ robust.precision @ (end - start)))) > MAX_MOVE:
        raise DataError(
            f"the prior says so much beside the clusters that it moves the mode by {moves:.2g} of the cluster-robust "
            f"sds (limit {MAX_MOVE:g}), too far for scores at one point. Give a wider prior, or where weights are far "
            "below 1 divide them by their mean; or the labels are separated: drop the columns that separate them, "
            "as a wider prior does not help there"
        )
    return Transport.between(start, model.precision, end, robust.precision)


def _step(terms: Derivatives) -> FloatArray:
    """Return Newton's step to the mode."""
    L = factor_of_inverse(terms.precision)
    return np.asarray(L @ (L.T @ terms.gradient))


ARGUMENTS = ("cluster", "strata")
_GROUPS_WORD = re.compile(r"(^|(?<=beside )|(?<=as )|(?<=and ))groups\b")  # of errors that name no column
_LABEL_THEM = "leave such rows out of the data, or give them a label of their own, such as 'unknown'"


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels of clusters, and perhaps of strata, as sources take groups: names of columns, or arrays by name."""

    groups: list[str] | dict[str, Any]

    @classmethod
    def of(cls, cluster: Any, strata: Any, given: Given) -> Self:
        """Return the labels, or raise `DataError` where they do not go with the data."""
        if cluster is None:
            refuse_strata(strata)
        named = has_named_columns(given.data)
        if isinstance(given.data, Coreset | Source | WeightedData) or callable(given.data):
            raise DataError(
                f"cluster is given, and data is a {type(given.data).__name__}, which has no clusters of its rows; fit "
                "a file, a table or arrays"
            )
        if given.once:
            raise DataError("cluster is given, and the rows came once and are gone; give a file or a table")
        both = {name: value for name, value in zip(ARGUMENTS, (cluster, strata), strict=True) if value is not None}
        n_rows = len(given.data) if is_table(given.data) else None
        for name, value in both.items():
            listed = named and isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)
            if listed and len(value) != n_rows:
                raise DataError(f"{name} is a list of names; make one column of them")
            if isinstance(value, str) and not named:
                raise DataError(f"{name}={value!r} names a column, but those of data have no names; give an array")
        if len({isinstance(value, str) for value in both.values()}) > 1:
            raise DataError("of cluster and strata one is a name and one an array; give two names, or two arrays")
        if not isinstance(cluster, str):
            return cls(both)
        if cluster == strata:
            raise DataError(f"cluster and strata both name the column {cluster!r}; strata hold several clusters each")
        return cls(list(both.values()))

    @contextmanager
    def errors_by_argument(self) -> Iterator[None]:
        """In errors of the body call the arguments as the user does: sources know them as groups."""
        try:
            yield
        except DataError as error:
            text = str(error).replace(MISSING_HINT, _LABEL_THEM)
            for place, (argument, name) in enumerate(zip(ARGUMENTS, self.groups, strict=False)):
                column = argument if isinstance(self.groups, dict) else f"{argument} (column {name!r})"
                text = text.replace(f"groups (column {name!r})", column)
                for name_of_groups in (f"groups[{name!r}]", f"groups[{place}]"):
                    text = text.replace(name_of_groups, argument)
            raise DataError(_GROUPS_WORD.sub("cluster", text)) from None

    def text(self, sums: ClusterSums) -> str:
        """Return what the spread is robust by."""
        names = ["" if isinstance(self.groups, dict) else f" of {name!r}" for name in self.groups]
        text = f"cluster-robust by {len(sums.scores):,} clusters{names[0]}"
        if len(names) == 1:
            return text
        text = f"{text} in {counted(int((sums.sizes > 0).sum()), 'stratum', 'strata')}{names[1]}"
        single = int((sums.sizes == 1).sum())
        return f"{text}, {single:,} with one cluster (lonely={sums.lonely!r})" if single else text

    def check_weight(self, weight: float, core: Coreset) -> None:
        """Raise unless the rows that have labels are those of the fit."""
        if not np.isclose(weight, core.weight_total, rtol=1e-6, atol=0.0):
            raise DataError(
                f"rows with a cluster have the total weight {weight:,.10g}, those of the fit "
                f"{core.weight_total:,.10g}: fit the rows whose cluster is known, or give the others a label"
            )


def why_no_smooths(term: str) -> str:
    """Return why a fit with a smooth term has no cluster-robust spread, and the remedy."""
    return (
        f"the cluster-robust spread needs a prior whose curvature is known, and that of {term} depends on an sd that "
        "is drawn; fit a natural spline, cr(x, df=4, constraints='center')"
    )


def check_curvature(prior: Prior | Mapping[str, Prior] | None, remedy: str) -> None:
    """Raise if a prior, or one of those by name, has no curvature."""
    for name, one in prior.items() if isinstance(prior, Mapping) else [("", prior)]:
        if one is not None and not one.smooth:
            raise DataError(
                f"prior{f'[{name!r}]' if name else ''}={one} has no curvature that says how wide it is, which the "
                f"cluster-robust spread needs; {remedy}, such as Normal or StudentT"
            )


def check_labels(given: Given, cluster: Any, strata: Any, *, lonely: str, response: str) -> None:
    """Raise before any work if labels of clusters cannot be those of the rows of a fit that is to be made."""
    by = Labels.of(cluster, strata, given)
    groups = () if given.formula is None else parsed(given.formula).groups
    if groups or given.roles.get("groups") is not None:
        raise DataError(of_groups("group terms"))
    if given.formula is None and isinstance(by.groups, list):
        raise DataError(
            f"cluster={cluster!r} names a column, which without a formula would be a feature too; give a formula, or "
            "data without that column and the labels as an array"
        )
    with by.errors_by_argument(), warnings.catch_warnings(action="ignore"):  # the build gives them
        dataset = given.undesigned(response=response, groups=by.groups, clusters=True)
        survey = getattr(dataset.rows, "survey", None)
        for name in by.groups:
            if survey is not None and survey.levels[name].missing:
                raise DataError(f"groups (column {name!r}) is missing in some rows: {MISSING_HINT}")
        drop, n_rows = given.roles.get("missing") == "drop", dataset.source.n_rows
        if drop and given.undesigned(response=response).source.n_rows > n_rows:
            raise DataError(f"some rows miss a label of cluster or strata, and nothing else: {MISSING_HINT}")
        levels = tuple(each.levels for each in dataset.rows.design.groups)
        check_several(levels[0])
        sizes = np.array([len(levels[0])])
        if strata is not None:
            everyone = all_survey_rows(given, dataset.rows, response, by.groups)
            ends = _all_extents(everyone or Dataset(dataset.rows, progress=given.progressbar), len(levels[0]))
            sizes = np.bincount(_strata(levels, ends, lonely)[1])
        added = given.formula is None and given.intercept
        check_degrees_of_freedom(sizes, lonely, len(dataset.design.names) + added)


def weights_in_domain(data: Any, weights: Any, domain: Any) -> FloatArray | str:
    """Return the weights of rows, 0 outside of a domain; of files and the like as an expression of their columns."""
    table = as_table(data, "data") if is_table(data) else None
    if table is None and has_named_columns(data) and isinstance(domain, str):
        if not (weights is None or isinstance(weights, str)):
            raise DataError("weights is an array, and domain a column of files or a collection; name a column of both")
        factor = f"in_domain(`{domain}`)"
        return factor if weights is None else f"`{weights}` * {factor}"

    def numbers(values: Any, name: str) -> FloatArray:
        if not isinstance(values, str):
            return np.asarray(values, dtype=np.float64)
        if table is None:
            raise DataError(
                f"{name}={values!r} names a column, but data is a {type(data).__name__}: give arrays, or in place of "
                "domain a column of weights that is 0 outside of it"
            )
        if values not in table.column_names:
            raise DataError(
                f"{name}={values!r} is not a column of the data; the columns are {listed(table.column_names, 10, str)}"
            )
        check_numeric(table.schema, (values,))
        return as_floats(table.column(values))

    inside = numbers(domain, "domain")
    if not np.isin(inside, (0.0, 1.0)).all():
        row = int(np.flatnonzero(~np.isin(inside, (0.0, 1.0)))[0])
        raise DataError(f"domain is {inside[row]:g} in row {row}; give True or 1 inside, False or 0 outside")
    if not inside.any():
        raise DataError("domain has no rows: it is False or 0 everywhere")
    given = np.ones_like(inside) if weights is None else numbers(weights, "weights")
    if given.shape != inside.shape:
        raise DataError(f"weights has shape {given.shape} and domain {inside.shape}; give one of each for each row")
    return np.where(inside == 1.0, given, 0.0)


def check_lonely(lonely: str, strata: Any) -> None:
    """Raise unless `lonely` says what becomes of a stratum of one cluster, and there are strata."""
    if check_choice(lonely, "lonely", LONELY) != "raise" and strata is None:
        raise DataError(f"lonely={lonely!r} is for strata of one cluster, and strata is not given; leave lonely out")


def refuse_strata(strata: Any) -> None:
    """Raise if strata are given without clusters."""
    if strata is not None:
        raise DataError("strata is given without cluster; where rows were drawn one by one, give each its own label")


def of_groups(terms: str) -> str:
    """Return why a fit that has group terms takes no clusters."""
    return (
        f"cluster is given, and the fit has {terms}, whose effects would keep the model's spread: leave it out, as a "
        "group term (1 | school) models what the rows of a school share, or fit without group terms"
    )


def cluster_robust(fit: "Fit", cluster: Any, strata: Any, lonely: str) -> tuple[Any, Step]:
    """Return draws with cluster-robust spread, and the step of the story, of a fit with the model's own spread."""
    begin, core, given, posterior = time.perf_counter(), fit.coreset, fit._rows_of_data, fit._posterior()
    if core.groups:
        raise DataError(of_groups(terms_text(core.groups)))
    if core.design.smooths:
        raise DataError(why_no_smooths(core.design.smooths[0]))
    if not (prior := known_prior(fit, "; see with_prior")).smooth:
        check_curvature(prior if fit.prior is None else fit.prior, "see with_prior for another")
    by = Labels.of(cluster, strata, given)
    with collected_warnings() as caught, by.errors_by_argument():
        roles = {**given.roles, "clusters": by.groups}
        with warnings.catch_warnings(action="ignore"):  # the fit gave them
            dataset = full_rows(core, given.data, given.y, progress=given.progressbar, **roles)
        levels = tuple(each.levels for each in dataset.rows.design.groups)
        point = posterior.flat.mean(axis=0)
        everyone = all_survey_rows(given, dataset.rows, core.response, by.groups)
        family = posterior.family
        if (
            family.quadratic and posterior.sd_prior is not None
        ):  # so that F^-1 is the covariance of the draws, the noise's sd averaged over
            assert posterior.size is not None
            family = Gaussian(float(np.sqrt((posterior.size**2).mean())))
        sums = cluster_sums(dataset, family, point, levels, everyone, lonely=lonely)
        by.check_weight(sums.weight, core)
        transport = robust_map(point, sums, prior)
        text = by.text(sums)
        _warn_of_clusters(sums, _least_stretch(transport, sums, prior_part(point, prior).precision))
    robust = move_draws(fit._used, posterior, transport, text)
    seconds = time.perf_counter() - begin
    n_passes = dataset.n_passes + (0 if everyone is None else everyone.n_passes)
    step = Step("cluster", core.n_total, n_passes, seconds, f"spread {text}{warnings_text(caught)}")
    if given.progressbar:
        say(str(step))
    return robust, step


def move_draws(idata: Any, posterior: Posterior, transport: Transport, spread: str) -> Any:
    """Return draws moved by a map, which say whose spread they have, without what was true of the draws before."""
    tree, group = idata.copy(), as_xarray(idata["posterior"])
    beta = group["beta"].transpose("chain", "draw", ...)
    draws = transport(posterior.draws)
    group = group.assign(beta=beta.copy(data=draws))
    if "coef" in group and posterior.design is not None:
        coef = group["coef"].transpose("chain", "draw", ...)
        group = group.assign(coef=coef.copy(data=np.array(posterior.design.raw_coefficients(draws))))
    attrs = {name: value for name, value in group.attrs.items() if name != "posterior_of"}
    group.attrs = {**attrs, "spread": spread}
    tree["posterior"] = group
    if "sample_stats" in tree and "lp" in tree["sample_stats"]:
        tree["sample_stats"] = as_xarray(tree["sample_stats"]).drop_vars("lp")
    return tree


def _least_stretch(transport: Transport, sums: ClusterSums, prior_precision: FloatArray) -> float:
    """Return the least ratio of cluster-robust sds to those that hold if rows are independent, of any combination."""
    F = sums.terms.precision
    independent = F @ linalg.solve(sums.independent, F, assume_a="pos") + prior_precision
    root = transport.root
    return float(np.sqrt(linalg.eigvalsh(root.T @ independent @ root)[0]))


def _warn_of_clusters(sums: ClusterSums, stretch: float) -> None:
    """Warn of few clusters, of clusters of one row, and of a small least ratio of sds to those of independent rows."""
    if sums.degrees_of_freedom < MIN_CLUSTERS:
        warn(
            f"there are {len(sums.scores):,} clusters: cluster-robust sds are uncertain by about "
            f"{1.0 / np.sqrt(2.0 * sums.degrees_of_freedom):.0%}, and too small rather than too large, even with the "
            f"factor G / (G - 1); from {MIN_CLUSTERS} on that matters less"
        )
    if sums.single:
        warn(
            "each cluster is one row: the spread is robust to a model that is wrong about single rows, such as "
            "overdispersed counts, and not to rows that depend on each other"
        )
    if stretch < MIN_STRETCH:
        warn(
            f"the cluster-robust sd of some combination of coefficients is {stretch:.2g} of that of independent rows: "
            "trust it only if rows of a cluster balance each other. A column that tells one cluster from all others "
            "has the same effect, as no other cluster shows how its coefficient varies: leave it out"
        )
