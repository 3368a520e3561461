"""`Coreset`: weighted rows, what made them, and their Parquet file.

The file holds the columns of the design matrix, the label as given, `weight`, `offset` if rows have one, and the
groups as factors, so that R, SQL or pandas can use it. Its metadata holds the rest as JSON. A pseudo-row, a binomial
that stands for many rows, is two rows of the file, one of each label; `Coreset.to_counts` makes them one.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from bayescore.data.checkpoint import Arrays, digest
from bayescore.data.counts import counts_of
from bayescore.data.design import Design, Grouping
from bayescore.data.shortfall import Shortfall, of_union
from bayescore.data.shown import as_html, as_text, coreset_lines
from bayescore.data.sources import ArraySource
from bayescore.data.sources.paired import numbers_of, response_of
from bayescore.data.sources.parquet import CORESET_KEY
from bayescore.files import whole_file
from bayescore.types import WeightedData, stack
from bayescore.validation import DataError, check_choice

INDEX_KEY = b"bayescore.index"
SHORTFALL_KEY = b"bayescore.shortfall"
FORMAT = 3
READABLE = (2, FORMAT)  # 2 has no shortfall


@dataclass(frozen=True, eq=False, repr=False)
class Coreset(WeightedData):
    """Weighted rows that stand for a whole data set.

    Parameters
    ----------
    X, y, weights, index, offset, group : arrays
        The rows, see `WeightedData`; X is the design matrix.
    design : Design
        How X came from raw features; it is given `classes`.
    classes : tuple
        The two labels as given; the second is +1.
    label : str
        Name of the label column.
    n_total : int
        Rows of the data that the coreset stands for.
    weight_total : float
        Their total weight (n_total if unweighted).
    method, family : str
        How the rows were chosen, and for which likelihood.
    params : dict
        Arguments of the method, and what it reports.
    random_state : int
        Seed that repeats the build.
    version : str
        Version of bayescore that built it.
    shortfall : Shortfall, optional
        What the rows miss of the full data's score and curvature, where the build knows it and rows have no groups.
        `sample` moves draws by it. A change of the rows or their weights drops it.

    Raises
    ------
    DataError
        If the arrays do not fit each other, or are not finite.

    Examples
    --------
    >>> import numpy as np, bayescore as bc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> y = X[:, 0] + rng.logistic(size=5000) > 0
    >>> core = bc.build_coreset(X, y, method="calibrated", size=100, random_state=1, progressbar=False)
    >>> core.X.shape, core.classes, bool(core.weights.min() > 0)
    ((100, 2), (False, True), True)
    >>> core.to_frame().columns.tolist()
    ['x0', 'x1', 'y', 'weight']
    """

    design: Design
    classes: tuple[Any, Any]
    label: str
    n_total: int
    weight_total: float
    method: str
    family: str
    params: dict[str, Any]
    random_state: int
    version: str
    shortfall: Shortfall | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        stands_for_many = bool(self.pseudo.any())
        has_one = self.design.offset is not None or stands_for_many or self.numbers
        if not has_one and self.offset is not None and not self.offset.any():
            object.__setattr__(self, "offset", None)  # that rows had beside pseudo-rows
        if (self.offset is None) == has_one:
            raise ValueError(f"rows have {'no' if self.offset is None else 'an'} offset, unlike their design")
        if (0 if self.group is None else self.group.shape[1]) != len(self.design.groups):
            known = ", ".join(repr(grouping.name) for grouping in self.design.groups) or "none"
            own = "no" if self.group is None else "other"
            raise ValueError(f"rows have {own} groups; those of their design: {known}")
        object.__setattr__(self, "design", replace(self.design, classes=self.classes))  # for rows that follow it
        if (missed := self.shortfall) is not None:
            own = self.rows_digest
            fits = self.group is None and missed.rows_digest in ("", own)
            object.__setattr__(self, "shortfall", replace(missed, rows_digest=own) if fits else None)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns of X."""
        return self.design.names

    @property
    def groups(self) -> tuple[Grouping, ...]:
        """The grouping factors, in the order of the columns of `group`: their names, levels and effects."""
        return self.design.groups

    def take(self, which: Any) -> "Coreset":
        """Return the rows `which`, in that order, without the `shortfall` of all."""
        return WeightedData.take(self if self.shortfall is None else replace(self, shortfall=None), which)

    @property
    def response(self) -> str:
        """What responses are: "labels", "counts" or "numbers"."""
        return response_of(self.classes)

    @property
    def counts(self) -> bool:
        """Whether the labels are events and exposure."""
        return self.response == "counts"

    @property
    def numbers(self) -> bool:
        """Whether responses y are numbers, which rows have as offsets -y."""
        return self.response == "numbers"

    @property
    def weight_ess(self) -> float:
        """Effective sample size of the weights, (sum w)^2 / sum w^2; of pseudo-rows it tells nothing."""
        return float(self.weights.sum() ** 2 / (self.weights**2).sum())

    def as_source(self) -> ArraySource:
        """Return the rows as a source of their own design."""
        beside = self.classes, self.label, self.design, self.index, self.offset
        return ArraySource(self.X, self.y, self.weights, *beside, group=self.group)

    def to_frame(self, units: str = "design") -> pd.DataFrame:
        """Return the design matrix, the label as given, `weight`, `offset` and groups if any, indexed by `index`.

        Columns that the build standardised, as `fit` does, are in sds from their means. With ``units="data"`` all are
        as the data have them, for R and other programs.
        Groups are categoricals with all levels. A row without a group has a missing entry, as pseudo-rows within groups
        of a multilevel coreset do; programs that drop such rows, as R's ``na.omit`` does in every model formula, fit
        badly. Pseudo-rows, which have the index -1, have an offset even if the data had none.
        """
        X = self.design.raw_columns(self.X) if check_choice(units, "units", ("design", "data")) == "data" else self.X
        frame = pd.DataFrame(X, columns=list(self.feature_names), index=pd.Index(self.index, name="row"))
        offset = None if self.numbers else self.offset
        own = ["weight", *([] if offset is None else ["offset"]), *(grouping.name for grouping in self.groups)]
        if self.label in own:
            raise DataError(f"the label is named {self.label!r}, as the coreset's own column; rename the label")
        for name in (self.label, *own):
            if name in frame.columns:
                raise DataError(f"a feature is named {name!r}, as the coreset's own column; rename the feature")
        frame[self.label] = (
            numbers_of(self)[1] if self.numbers else np.where(self.y > 0, self.classes[1], self.classes[0])
        )
        frame["weight"] = self.weights
        if offset is not None:
            frame["offset"] = offset
        if self.group is not None:
            for grouping, codes in zip(self.groups, self.group.T, strict=True):
                frame[grouping.name] = pd.Categorical.from_codes(codes, pd.Index(grouping.levels))
        return frame

    def to_counts(self, units: str = "design") -> pd.DataFrame:
        """Return the rows as binomial counts, or events and exposures, as R's ``glm`` takes them.

        That is ``cbind(successes, failures) ~ ... + offset(offset)``, or ``events / exposure`` weighed by ``exposure``:
        the weights of labels +1 and -1 of adjacent rows, as `to_frame` has them, that differ only in the label.

        Raises
        ------
        DataError
            If pseudo-rows have no group but other rows have one, as within groups of a multilevel coreset.
        """
        if self.numbers:
            raise DataError("the responses are numbers, no counts: use to_frame, whose weights R's lm takes")
        return counts_of(self, self.to_frame(units), self.label, rates=self.counts)

    def summary(self) -> dict[str, Any]:
        """Return what made the coreset as plain JSON values."""
        return {
            "method": self.method,
            "family": self.family,
            "size": len(self),
            "n_total": self.n_total,
            "weight_total": self.weight_total,
            "params": self.params,
            "random_state": self.random_state,
            "version": self.version,
            "label": self.label,
            "classes": list(self.classes),
            "design": self.design.to_dict(),
            **({"roles": dict(self.design.roles)} if self.design.roles else {}),
            "feature_names": list(self.feature_names),
        }

    @property
    def rows_digest(self) -> str:
        """SHA-256 of rows, labels, weights, offsets and groups: what a posterior depends on."""
        return digest({}, self._arrays())

    def _arrays(self) -> Arrays:
        names = ("X", "y", "weights", "offset", "group")
        return {name: array for name in names if (array := getattr(self, name)) is not None}

    @property
    def file_digest(self) -> str:
        """SHA-256 of all that the file holds: the rows, their numbers, and what made the coreset."""
        own = {} if self.shortfall is None else {"shortfall": self.shortfall.to_array()}
        return digest(self.summary(), {**self._arrays(), "index": self.index, **own})

    def to_parquet(self, path: str | Path) -> None:
        """Write the coreset to a Parquet file that `read_coreset` reads back exactly.

        Raises
        ------
        OSError
            If the file cannot be written; an earlier file of that name is then untouched.

        Notes
        -----
        Other programs find the columns of `to_frame`. R's ``glm`` needs ``start = numeric(D)``: from its own start it
        may end at coefficients of 1e15 where weights are large, and say it has converged. The page
        :doc:`/how-to/hand-over-to-r` has the calls of ``glm``, ``rstanarm`` and ``brms``.
        """
        table = pa.Table.from_pandas(self.to_frame(), preserve_index=False)
        metadata = {
            CORESET_KEY: json.dumps({"format": FORMAT, "sha256": self.file_digest, **self.summary()}).encode(),
            INDEX_KEY: np.asarray(self.index, dtype="<i8").tobytes(),
        }
        if self.shortfall is not None:
            metadata[SHORTFALL_KEY] = self.shortfall.to_array().astype("<f8").tobytes()
        table = table.replace_schema_metadata({**(table.schema.metadata or {}), **metadata})
        with whole_file(path) as partial:
            pq.write_table(table, partial)

    @staticmethod
    def concat(coresets: Sequence["Coreset"]) -> "Coreset":
        """Return the union of coresets of disjoint data: a coreset of all those data.

        Where each knows its `shortfall`, or has all its rows, the union's is their sum.

        Raises
        ------
        ValueError
            If they differ in features, design, classes or likelihood.
        """
        if not coresets:
            raise ValueError("coresets is empty; give at least one")
        first = coresets[0]
        for other in coresets[1:]:
            for name in ("design", "classes", "label", "family"):
                mine, theirs = getattr(first, name), getattr(other, name)
                if mine != theirs:
                    raise ValueError(f"coresets differ in {name}: {mine!r} and {theirs!r}; build them alike")
        rows = stack(coresets)
        method = first.method
        if len({core.method for core in coresets}) > 1:
            method = "aggregate" if all(core.lossless for core in coresets) else "union"
        return replace(
            first,
            design=next((core.design for core in coresets if core.design.weighted), first.design),
            **{field.name: getattr(rows, field.name) for field in fields(WeightedData)},
            **{name: sum(getattr(core, name) for core in coresets) for name in ("n_total", "weight_total")},
            method=method,
            params={"parts": [core.params for core in coresets]},
            shortfall=of_union([(core.shortfall, core.lossless) for core in coresets]),
        )

    @property
    def lossless(self) -> bool:
        """Whether the rows are all of the data's, or their sums, so that nothing is missed."""
        return self.method == "aggregate" or (self.method == "full" and len(self) == self.n_total)

    def __repr__(self) -> str:
        return as_text("Coreset", coreset_lines(self))

    def _repr_html_(self) -> str:
        return as_html("Coreset", coreset_lines(self))
