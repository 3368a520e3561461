r"""`Coreset`: weighted rows, what made them, and their Parquet file.

The file holds the columns of the design matrix, the label as given, `weight`, `offset` if rows have one, and the
groups as factors, so that R, SQL or pandas can use it. Its metadata holds the rest as JSON. A pseudo-row, a binomial
that stands for many rows, is two rows of the file, one of each label; `Coreset.to_counts` makes them one.

Names and values as lines of text, and as a table in notebooks.

Checks that rows fit: names of columns, families, and the design of a posterior.

The full data's log-likelihood less the coreset's, to second order: what the weighted rows miss at one point.

A build ends at the mode t of the full data, where it knows the score g and the curvature F (minus the Hessian) of all
rows. With those of the coreset there, g~ and F~,

.. math:: L(\theta) - \tilde L(\theta) \approx \text{const} + (g - \tilde g)' d - \tfrac12 d' (F - \tilde F) d,
          \qquad d = \theta - t,

so that the coreset knows the full data's score and curvature, too. The rows' own shape is in L~: what the formula
leaves out is of third order in d, times the difference of third derivatives of L and L~, not those of L.

Reads the Parquet file that `Coreset.save` writes, and checks that it is unchanged.
"""

import html
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from bayescore.data.design import Design, Grouping
from bayescore.data.formula_design import formula_of, read_design
from bayescore.data.groups import Grouper
from bayescore.data.parquet import CORESET_KEY, LONGEST_TEXT
from bayescore.data.responses import (
    POSITIVE,
    TIMED,
    TWO_SIDED,
    counts_of,
    numbers_of,
    response_of,
    response_text,
    signed_labels,
)
from bayescore.data.sources import ArraySource
from bayescore.files import Arrays, check_path, digest, whole_file
from bayescore.text import first_difference, first_line, free_name
from bayescore.types import NO_ROW, FloatArray, IntArray, WeightedData, read_only, stack
from bayescore.validation import DataError, EarlierDesignError, check_choice, json_object


def size_curve(params: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the line on the errors at each size that a build tried; none where it tried one."""
    curve = params.get("size_curve", [])
    points = [f"{point['size']}: {max(point['mean_error'], point['sd_error']):.2g}" for point in curve]
    return [("error at size", ", ".join(points))] if len(points) > 1 else []


def coreset_lines(core: "Coreset") -> list[tuple[str, str]]:
    """Return what a coreset prints of itself, by name."""
    share, n_pseudo = f"{core.n_total:,} ({len(core) / core.n_total:.2%})", int(core.pseudo.sum())
    kept = f"for {share}: {n_pseudo:,} of pseudo-rows, with offsets" if n_pseudo else f"of {share}"
    kept = f"for {share}: their sums" if n_pseudo and core.numbers else kept
    sides = "numbers" if core.numbers else f"{core.classes[0]!r} = -1, {core.classes[1]!r} = +1"
    shown = {key: value for key, value in core.params.items() if isinstance(value, str | int | float | bool)}
    weights = [
        ("weight sum", f"{core.weights.sum():,.6g}"),
        ("largest weight", f"{core.weights.max():,.6g}"),
        ("weight ESS", f"{core.weight_ess:,.1f}"),
    ]
    return [
        ("method", core.method),
        ("family", core.family),
        ("rows", f"{len(core):,} {kept}"),
        *([] if (formula := formula_of(core.design)) is None else [("formula", formula)]),
        ("features", f"{core.n_features}" + (" with intercept" if core.design.intercept else "")),
        *([] if n_pseudo else weights),  # those of pseudo-rows count no rows, and their offsets scale them
        ("label", f"{core.label}: {sides}"),
        *([] if core.design.offset is None else [("offset", core.design.offset)]),
        *(("group", f"{grouping.name} ({len(grouping):,} levels)") for grouping in core.groups),
        *((key, f"{value:.6g}" if isinstance(value, float) else str(value)) for key, value in shown.items()),
        *size_curve(core.params),
        ("random_state", str(core.random_state)),
    ]


@dataclass(frozen=True, eq=False)
class Shortfall:
    """What the score and the curvature of a coreset's rows miss at a point.

    Parameters
    ----------
    point : array, shape (D,)
        Coefficients, in the units of the design: the mode of the full data's posterior at the end of the build.
    score : array, shape (D,)
        Gradient at the point of the full data's log-likelihood minus the coreset's, without a prior.
    precision : array, shape (D, D)
        Minus the Hessian of the same.
    rows_digest : str
        `Coreset.rows_digest` of the rows that it belongs to: a coreset of other rows, or weights, drops it.

    Raises
    ------
    ValueError
        If the arrays do not fit each other or are not finite, or `precision` is not symmetric.

    Examples
    --------
    >>> import bayescore as bc
    >>> X, y = bc.datasets.probit(5000, [1.0, 0.0], random_state=0)
    >>> core = bc.build_coreset(X, y, method="calibrated", size=60, random_state=1, progressbar=False)
    >>> core.shortfall.point.shape, core.shortfall.precision.shape
    ((2,), (2, 2))
    """

    point: FloatArray
    score: FloatArray
    precision: FloatArray
    rows_digest: str = ""

    def __post_init__(self) -> None:
        D = len(self.point)
        for name, shape in (("point", (D,)), ("score", (D,)), ("precision", (D, D))):
            array = np.asarray(getattr(self, name), dtype=np.float64)
            if array.shape != shape or not np.isfinite(array).all():
                raise ValueError(f"{name} of a shortfall has shape {array.shape} or entries that are not finite")
            object.__setattr__(self, name, read_only(array))
        if not np.array_equal(self.precision, self.precision.T):
            raise ValueError("precision of a shortfall is not symmetric")

    def at(self, point: FloatArray) -> Self:
        """Return the same quadratic about another point: the score moves, the curvature stays."""
        score = self.score - self.precision @ (point - self.point)
        return replace(self, point=point, score=score, rows_digest="")

    def __add__(self, other: "Shortfall") -> Self:
        """Return the shortfall of the rows of both, about this one's point."""
        moved = other.at(self.point)
        score, precision = self.score + moved.score, self.precision + moved.precision
        return replace(self, score=score, precision=precision, rows_digest="")

    def value(self, points: FloatArray) -> FloatArray:
        """Return the quadratic at points, shape (..., D); 0 at its centre."""
        step = points - self.point
        return np.asarray(step @ self.score - 0.5 * (step @ self.precision * step).sum(axis=-1))

    def mirrored(self, sign: int) -> Self:
        """Return that of ``rows.mirrored(sign)``.

        If `sign` is -1, -beta is as likely for these as beta is for the rows.
        """
        return replace(self, point=sign * self.point, score=sign * self.score, rows_digest="")

    def to_array(self) -> FloatArray:
        """Return point, score and the lower triangle of `precision`, D (D + 5) / 2 numbers."""
        return np.concatenate([self.point, self.score, self.precision[np.tri(len(self.point), dtype=bool)]])

    @classmethod
    def from_array(cls, numbers: FloatArray, n_features: int) -> Self:
        """Return the shortfall of `to_array`; raise `ValueError` if there are more or fewer numbers."""
        if numbers.shape != (n_features * (n_features + 5) // 2,):
            raise ValueError(f"{len(numbers)} numbers are no shortfall of {n_features} columns")
        point, score, lower = np.split(numbers, [n_features, 2 * n_features])
        precision = np.zeros((n_features, n_features))
        precision[np.tri(n_features, dtype=bool)] = lower
        precision += np.tril(precision, -1).T
        return cls(point, score, precision)


def total_shortfall(parts: Iterable[Shortfall | None], point: FloatArray) -> Shortfall | None:
    """Return the sum about one point of the shortfalls of disjoint rows; None stands for rows that were all kept."""
    values = [part.at(point) for part in parts if part is not None]
    return sum(values[1:], values[0]) if values else None


def union_shortfall(parts: Sequence[tuple[Shortfall | None, bool]]) -> Shortfall | None:
    """Return the shortfall of a union about the mean of the points; None where one is missing.

    `parts` are shortfalls of disjoint data, each with whether all its rows are kept, so that nothing is missed.
    """
    shortfalls = [shortfall for shortfall, _ in parts if shortfall is not None]
    if not shortfalls or any(shortfall is None and not whole for shortfall, whole in parts):
        return None
    return total_shortfall(shortfalls, np.mean([shortfall.point for shortfall in shortfalls], axis=0))


INDEX_KEY = b"bayescore.index"


SHORTFALL_KEY = b"bayescore.shortfall"


FORMAT = 3


READABLE = (2, FORMAT)  # 2 has no shortfall


TOTALS = ("n_total", "weight_total", "n_observations", "event_total")
"""Fields of a `Coreset` that are totals of its data."""


@dataclass(frozen=True, eq=False, repr=False)
class Coreset(WeightedData):
    """Weighted rows that represent a whole data set.

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
        Rows of the data that the coreset represents.
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
    n_observations : int, optional
        Observations among the rows; counts, and successes of trials, have two rows each. None if not counted.
    event_total : float, optional
        Weight of the rows whose label is +1; of counts their sum. None if not counted.
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
    n_observations: int | None = None
    event_total: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        stands_for_many = bool(self.pseudo.any())
        has_one = self.design.offset is not None or stands_for_many or self.numbers or self.times
        if not has_one and self.offset is not None and not self.offset.any():
            object.__setattr__(self, "offset", None)  # that rows had among pseudo-rows
        if (self.offset is None) == has_one:
            raise ValueError(f"rows have {'no' if self.offset is None else 'an'} offset, unlike their design")
        if (0 if self.group is None else self.group.shape[1]) != len(self.design.groups):
            names = ", ".join(repr(grouping.name) for grouping in self.design.groups) or "none"
            kind = "no" if self.group is None else "other"
            raise ValueError(f"rows have {kind} groups; those of their design: {names}")
        object.__setattr__(self, "design", replace(self.design, classes=self.classes))  # for rows that follow it
        if (missed := self.shortfall) is not None:
            computed = self.rows_digest
            fits = self.group is None and missed.rows_digest in ("", computed)
            object.__setattr__(self, "shortfall", replace(missed, rows_digest=computed) if fits else None)

    @property
    def _sd_unknown(self) -> bool:
        """Whether the sd of the noise of numbers is a parameter; that in `family` is then a unit, about its mode."""
        return _size_was_searched(self.params)

    @property
    def _family_asked(self) -> str:
        """The family that a build was asked for: "normal" where the sd is a parameter, else `family`."""
        return "normal" if self._sd_unknown else self.family

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
        """What responses are: "labels", "counts", "counts above 0", "positive numbers", "times" or "numbers"."""
        return response_of(self.classes)

    @property
    def counts(self) -> bool:
        """Whether the labels are events and exposure or time at risk, or amounts and what they are of."""
        return self.response in TWO_SIDED

    @property
    def amounts(self) -> bool:
        """Whether responses are positive numbers or times; then `counts` is true, too."""
        return self.response in (POSITIVE, TIMED)

    @property
    def times(self) -> bool:
        """Whether responses are times; then `amounts` is true, too, and -log(time) is an offset of rows."""
        return self.response == TIMED

    @property
    def numbers(self) -> bool:
        """Whether responses y are numbers, which rows have as offsets -y."""
        return self.response == "numbers"

    @property
    def weight_ess(self) -> float:
        """Effective sample size of the weights, (sum w)^2 / sum w^2; of pseudo-rows it has no meaning."""
        return float(self.weights.sum() ** 2 / (self.weights**2).sum())

    def as_source(self) -> ArraySource:
        """Return the rows as a source with the coreset's design."""
        facts = self.classes, self.label, self.design, self.index, self.offset
        return ArraySource(self.X, self.y, self.weights, *facts, group=self.group)

    def to_frame(self, units: str = "design") -> pd.DataFrame:
        """Return the design matrix, the label as given, `weight`, `offset` and groups if any, indexed by `index`.

        Where columns of the data have these names, the coreset's get an underscore: `weight_`.

        Columns that the build standardised, as `fit` does, are in sds from their means. With ``units="data"`` all are
        as the data have them, for R and other programs.
        Groups are categoricals with all levels. A row without a group has a missing entry, as pseudo-rows within groups
        of a multilevel coreset do; programs that drop such rows, as R's ``na.omit`` does in every model formula, fit
        badly. Pseudo-rows, which have the index -1, have an offset even if the data had none.
        """
        X = self.design.raw_columns(self.X) if check_choice(units, "units", ("design", "data")) == "data" else self.X
        frame = pd.DataFrame(X, columns=list(self.feature_names), index=pd.Index(self.index, name="row"))
        offset = None if self.numbers else self.offset
        label, weight, of_offset, *groups = columns_beside(self.design, self.label)
        frame[label] = numbers_of(self)[1] if self.numbers else np.where(self.y > 0, self.classes[1], self.classes[0])
        frame[weight] = self.weights
        if offset is not None:
            frame[of_offset] = offset
        if self.group is not None:
            for name, grouping, codes in zip(groups, self.groups, self.group.T, strict=True):
                frame[name] = pd.Categorical.from_codes(codes, pd.Index(grouping.levels))
        return frame

    def to_counts(self, units: str = "design") -> pd.DataFrame:
        """Return the rows as binomial counts, events and exposures, or amounts, as R's ``glm`` takes them.

        That is ``cbind(successes, failures) ~ ... + offset(offset)``, or ``events / exposure`` with weights
        ``exposure``: the weights of labels +1 and -1 of adjacent rows, as `to_frame` has them, that differ only in
        the label.

        Raises
        ------
        DataError
            If pseudo-rows have no group but other rows have one, as within groups of a multilevel coreset.
        """
        if self.numbers:
            raise DataError("the responses are numbers, no counts: use to_frame, whose weights R's lm takes")
        names = self.classes[::-1] if self.counts else ("successes", "failures")
        return counts_of(self, self.to_frame(units), columns_beside(self.design, self.label)[:2], names)

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
            **{name: total for name in TOTALS[2:] if (total := getattr(self, name)) is not None},
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
    def _file_digest(self) -> str:
        """SHA-256 of all that the file holds: the rows, their numbers, and what made the coreset."""
        extra = {} if self.shortfall is None else {"shortfall": self.shortfall.to_array()}
        return digest(self.summary(), {**self._arrays(), "index": self.index, **extra})

    def save(self, path: str | Path) -> None:
        """Write the coreset to a Parquet file that `read_coreset` reads back exactly.

        Raises
        ------
        OSError
            If the file cannot be written; an earlier file of that name is then untouched.

        Notes
        -----
        Other programs find the columns of `to_frame`. R's ``glm`` needs ``start = numeric(D)``: by default it
        may end at coefficients of 1e15 where weights are large, and say it has converged. The page
        :doc:`/how-to/hand-over-to-r` has the calls of ``glm``, ``rstanarm`` and ``brms``.
        """
        table = pa.Table.from_pandas(self.to_frame(), preserve_index=False)
        metadata = {
            CORESET_KEY: json.dumps({"format": FORMAT, "sha256": self._file_digest, **self.summary()}).encode(),
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
                alike = name == "family" and first._family_asked == other._family_asked  # but for its unit
                if mine != theirs and not alike:
                    raise ValueError(f"coresets differ in {name}: {mine!r} and {theirs!r}; build them alike")
        rows = stack(coresets)
        method = first.method
        if len({core.method for core in coresets}) > 1:
            method = "aggregate" if all(core.lossless for core in coresets) else "union"
        return replace(
            first,
            design=next((core.design for core in coresets if core.design.weighted), first.design),
            **{field.name: getattr(rows, field.name) for field in fields(WeightedData)},
            **totals_of(coresets),
            method=method,
            params={"parts": [core.params for core in coresets]},
            shortfall=union_shortfall([(core.shortfall, core.lossless) for core in coresets]),
        )

    @property
    def lossless(self) -> bool:
        """Whether the rows are all of the data's, or their sums, so that nothing is missed."""
        kept = self.method == "full" or self.params.get("kept_rows") == self.n_total  # as small groups are
        return self.method == "aggregate" or (kept and len(self) == self.n_total)

    def __repr__(self) -> str:
        lines = coreset_lines(self)
        width = max(len(name) for name, _ in lines)
        return "\n".join(["Coreset", *(f"  {name:<{width}}  {value}" for name, value in lines)])

    def _repr_html_(self) -> str:
        left = "style='text-align:left'"
        rows = "".join(
            f"<tr><th {left}>{html.escape(name)}</th><td {left}>{html.escape(value)}</td></tr>"
            for name, value in coreset_lines(self)
        )
        return f"<table><caption>Coreset</caption><tbody>{rows}</tbody></table>"


def totals_of(parts: Sequence["Coreset"]) -> dict[str, Any]:
    """Return the totals of disjoint data; None of those that a part does not know."""
    totals = {name: [getattr(part, name) for part in parts] for name in TOTALS}
    return {name: None if None in each else sum(each) for name, each in totals.items()}


def _size_was_searched(params: Mapping[str, Any]) -> bool:
    return "sd_se" in params or any(map(_size_was_searched, params.get("parts", ())))


def columns_beside(design: Design, label: str) -> list[str]:
    """Return the columns of label, weights, offset and groups in a coreset's table, which are no columns of X.

    A name that is taken gets an underscore; columns of the data keep their names.

    >>> columns_beside(Design(("age", "weight")), "y")
    ['y', 'weight_', 'offset']
    """
    names = list(design.names)
    for name in (label, *(grouping.name for grouping in design.groups), "weight", "offset"):
        names.append(free_name(name, names))
    label, *groups, weight, offset = names[len(design.names) :]
    return [label, weight, offset, *groups]


def feature_names(data: WeightedData) -> tuple[str, ...]:
    """Return the names of the columns of X; beta_0, beta_1, ... if `data` has none."""
    names: Sequence[str] | None = getattr(data, "feature_names", None)
    return tuple(names) if names is not None else tuple(f"beta_{d}" for d in range(data.n_features))


def family_or_own(data: object, family: str | None, name: str = "data") -> str:
    """Return `family`, by default the family of the coreset `data`, the argument called `name`."""
    if not isinstance(data, WeightedData):
        kind = type(data).__name__
        raise TypeError(f"{name} is a {kind}; give a coreset from build_coreset, or all_rows(...) for all the rows")
    if family is not None:
        return family
    stated: str | None = getattr(data, "family", None)
    if stated is None:
        raise ValueError("family is missing, and the data name none; give one, such as family='logistic'")
    return stated


def check_no_pseudo(data: WeightedData, argument: str) -> None:
    """Raise if there are pseudo-rows, which have no labels to predict."""
    if data.pseudo.any():
        raise DataError(
            f"{argument} has pseudo-rows, which stand for many rows: give rows of the data, such as "
            "all_rows(rows, design=core.design)"
        )


def check_flat(data: WeightedData, what: str) -> None:
    """Raise if rows have groups: `what` ignores their effects, on which pseudo-rows depend."""
    if data.group is None:
        return
    if data.pseudo.any():
        raise DataError(
            f"data have groups and pseudo-rows, whose offsets suppose the groups' effects; {what} leaves these out and "
            "would be of no model: use sample, bayescore.model, or weighted_potential(groups=)"
        )
    raise DataError(
        f"data have groups, whose effects {what} leaves out: use sample, bayescore.model, or "
        "weighted_potential(groups=); for a model without effects build the data without groups"
    )


def check_same_design(data: WeightedData, names: tuple[str, ...], design: Design | None, argument: str) -> None:
    """Raise unless `data` has the columns of a posterior with features `names` and design `design`."""
    if data.n_features != len(names):
        raise DataError(f"{argument} has {data.n_features} features, the posterior {len(names)}; use the same design")
    offset = (
        data.design.offset if isinstance(data, Coreset) else data.offset
    )  # pseudo-rows have offsets that the data had not
    if design is not None and response_of(design.classes) == "numbers":
        offset = design.offset  # what rows have are their responses
    if design is not None and (offset is None) != (design.offset is None):
        theirs = "had none" if design.offset is None else f"had one, {design.offset!r}"
        raise DataError(
            f"{argument} has {'no' if offset is None else 'an'} offset, and the posterior's rows {theirs}; give "
            "the same, 0 for none"
        )
    if not isinstance(data, Coreset):
        return
    if design is not None and design.classes not in (None, data.classes):
        raise DataError(
            f"{argument} has {response_text(data.classes)}, the posterior {response_text(design.classes)}: build it "
            "with all_rows(..., design=core.design), or labels, the second +1, with the same positive="
        )
    if data.feature_names != names:
        shown, drawn = first_difference(data.feature_names, names)
        raise DataError(
            f"{argument} has the features {shown}, the posterior {drawn}; give the same columns in the same order"
        )
    if design is not None and data.design != design:
        raise DataError(
            f"{argument} has another design (intercept, centers or scales) than the posterior; build it with "
            "all_rows(..., design=core.design)"
        )


def read_coreset(path: str | Path) -> Coreset:
    """Read a coreset that `Coreset.save` wrote.

    Parameters
    ----------
    path : str or Path
        A Parquet file.

    Returns
    -------
    Coreset

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    TypeError
        If `path` is no name of a file.
    DataError
        If the file is no coreset, is damaged, or was changed since.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np, bayescore as bc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> y = X[:, 0] + rng.logistic(size=5000) > 0
    >>> core = bc.build_coreset(X, y, method="calibrated", size=100, random_state=1, progressbar=False)
    >>> path = Path(tempfile.mkdtemp()) / "core.parquet"
    >>> core.save(path)
    >>> bc.read_coreset(path).n_total
    5000
    """
    source = check_path(path)
    if not source.is_file():
        raise FileNotFoundError(f"path={str(source)!r}: no such file")
    try:
        table = pq.read_table(source, thrift_string_size_limit=LONGEST_TEXT)
    except (pa.ArrowInvalid, OSError) as error:
        why = f"is not a readable Parquet file ({first_line(error)})"
        raise DataError(f"{str(source)!r} {why}; build the coreset again") from None
    metadata = table.schema.metadata or {}
    if CORESET_KEY not in metadata:
        raise DataError(
            f"{str(source)!r} is a Parquet file but no coreset of bayescore; read your own weighted rows with "
            "all_rows(path, label=..., weights=...)"
        )
    about = json_object(metadata[CORESET_KEY], f"{str(source)!r} has damaged metadata; build the coreset again")
    if about.get("format") not in READABLE:
        formats = " and ".join(map(str, READABLE))
        raise DataError(f"{str(source)!r} has coreset format {about.get('format')}; this version reads {formats}")
    changed = DataError(
        f"{str(source)!r} was changed after bayescore wrote it, or is damaged; build it again, or read your own "
        "weighted rows with all_rows(path, label=..., weights=...)"
    )
    try:
        frame = table.to_pandas()
        classes = (about["classes"][0], about["classes"][1])
        index = np.frombuffer(metadata[INDEX_KEY], dtype="<i8").astype(np.int64)
        design = replace(read_design(about["design"]), roles=tuple(about.get("roles", {}).items()))
        numbers_given = response_of(classes) == "numbers"
        has_offset = response_of(classes) == TIMED or (
            not numbers_given and (design.offset is not None or (index == NO_ROW).any())
        )
        label, weight, of_offset, *groups = columns_beside(design, about["label"])
        labels = frame[label].to_numpy()
        offset = frame[of_offset].to_numpy(dtype=np.float64) if has_offset else -labels if numbers_given else None
        numbers = None if SHORTFALL_KEY not in metadata else np.frombuffer(metadata[SHORTFALL_KEY], dtype="<f8")
        kept = {field.name: about[field.name] for field in fields(Coreset) if field.name in about}
        core = Coreset(
            np.ascontiguousarray(frame[about["feature_names"]].to_numpy(dtype=np.float64)),
            np.ones(len(labels), dtype=np.int8) if numbers_given else signed_labels(labels, classes, 0),
            frame[weight].to_numpy(dtype=np.float64),
            index,
            **{**kept, "design": design, "classes": classes},
            offset=offset,
            group=_group_codes(table, design, groups),
            shortfall=None if numbers is None else Shortfall.from_array(numbers, len(about["feature_names"])),
        )
        n_own = (3 if has_offset else 2) + len(core.groups)
        whole = table.num_columns == core.n_features + n_own and core._file_digest == about["sha256"]
    except EarlierDesignError as error:
        raise EarlierDesignError(f"{str(source)!r}: {error}") from None
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError, pa.ArrowException):  # facts or columns
        raise changed from None
    if not whole:
        raise changed
    return core


def _group_codes(table: pa.Table, design: Design, names: Sequence[str]) -> IntArray | None:
    """Return the codes of the groups, shape (n, F); pandas would read whole numbers with gaps as floats."""
    if not design.groups:
        return None
    coders = [Grouper(grouping, new=True) for grouping in design.groups]
    columns = [table.column(name).cast(by.table.type).combine_chunks() for name, by in zip(names, coders, strict=True)]
    return np.stack([by.places(column) for by, column in zip(coders, columns, strict=True)], axis=1)
