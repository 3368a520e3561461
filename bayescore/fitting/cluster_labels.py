"""Labels of clusters and strata, from any source, and their checks before a fit."""

import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from bayescore.data.coreset import Coreset
from bayescore.data.dataset import Dataset
from bayescore.data.formulas.parsing import parsed
from bayescore.data.source import Source
from bayescore.data.sources import has_named_columns
from bayescore.data.sources.groups import MISSING_HINT
from bayescore.data.tables import is_table
from bayescore.fitting.cluster_sums import ClusterSums, check_freedom, check_several, strata_of
from bayescore.fitting.given import Given
from bayescore.models.priors import Prior
from bayescore.types import WeightedData
from bayescore.validation import DataError

ARGUMENTS = ("cluster", "strata")
_ALONE = re.compile(r"(^|(?<=beside )|(?<=as )|(?<=and ))groups\b")  # of errors that name no column
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
        both = {name: own for name, own in zip(ARGUMENTS, (cluster, strata), strict=True) if own is not None}
        n_rows = len(given.data) if is_table(given.data) else None
        for name, own in both.items():
            listed = named and isinstance(own, list | tuple) and all(isinstance(each, str) for each in own)
            if listed and len(own) != n_rows:
                raise DataError(f"{name} is a list of names; make one column of them")
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
            text = str(error).replace(MISSING_HINT, _LABEL_THEM)
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
        strata = int((sums.sizes > 0).sum())
        return text if len(names) == 1 else f"{text} in {strata:,} {'stratum' if strata == 1 else 'strata'}{names[1]}"

    def check_weight(self, weight: float, core: Coreset) -> None:
        """Raise unless the rows that have labels are those of the fit."""
        if not np.isclose(weight, core.weight_total, rtol=1e-6, atol=0.0):
            raise DataError(
                f"rows with a cluster have the total weight {weight:,.10g}, those of the fit "
                f"{core.weight_total:,.10g}: fit the rows whose cluster is known, or give the others a label"
            )


def check_curvature(prior: Prior | Mapping[str, Prior] | None, remedy: str) -> None:
    """Raise if a prior, or one of those by name, has no curvature."""
    for name, own in prior.items() if isinstance(prior, Mapping) else [("", prior)]:
        if own is not None and not own.smooth:
            raise DataError(
                f"prior{f'[{name!r}]' if name else ''}={own} has no curvature that says how wide it is, which the "
                f"cluster-robust spread needs; {remedy}, such as Normal or StudentT"
            )


def check_labels(given: Given, cluster: Any, strata: Any, *, response: str) -> None:
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
    with by.told(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the build gives them
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
        n_clusters, n_strata = len(levels[0]), 1
        if strata is not None:
            sizes = np.bincount(strata_of(Dataset(dataset.rows, progress=given.progressbar), levels))
            n_clusters, n_strata = int(sizes.sum()), int((sizes > 0).sum())
        added = given.formula is None and given.intercept
        check_freedom(n_clusters, n_strata, len(dataset.design.names) + added)


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
