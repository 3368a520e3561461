"""The few types that every room of bayescore shares.

A block of a stream, a full data set and a coreset are all `WeightedData`: rows, labels in {-1, +1} and
positive weights. Whatever takes one takes the others, so coresets compose.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from numbers import Number
from typing import Any, ClassVar, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from bayescore.compiled import jit

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
LabelArray = NDArray[np.int8]

A = TypeVar("A", bound=NDArray[Any])

NO_SHIFT: FloatArray = np.empty(0)  # what compiled kernels take where rows have no offsets
NO_ROW = -1  # the index of pseudo-rows, which stand for many rows and are none of them
NO_GROUP = -1  # code of a row that belongs to no group


def read_only(array: A) -> A:
    """Return a view of `array` that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


@dataclass(frozen=True, eq=False)
class WeightedData:
    """Rows of a design matrix with labels and weights; all arrays are read-only.

    Parameters
    ----------
    X : array, shape (n, D)
        Rows of the design matrix.
    y : int8 array, shape (n,)
        Labels, -1 or +1.
    weights : array, shape (n,)
        Positive weights: a row of weight w counts as w rows.
    index : int64 array, shape (n,)
        Number of each row in the data that it comes from; `NO_ROW` of pseudo-rows.
    offset : array, shape (n,), optional
        Known part o_n of each row's linear predictor, x_n . beta + o_n.
    group : int64 array, shape (n, F), optional
        Group of each row for each of F grouping factors: the place of its level in the factor's `Grouping`. `NO_GROUP`
        for a row that belongs to none, as pseudo-rows of a coreset may; data have no such rows.
    """

    X: FloatArray
    y: LabelArray
    weights: FloatArray
    index: IntArray
    offset: FloatArray | None = field(default=None, kw_only=True)
    group: IntArray | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        for name in ("X", "y", "weights", "index", "offset", "group"):
            if (array := getattr(self, name)) is not None:
                object.__setattr__(self, name, read_only(array))

    def __len__(self) -> int:
        return len(self.y)

    @property
    def n_features(self) -> int:
        """Number of columns of the design matrix."""
        return int(self.X.shape[1])

    @property
    def pseudo(self) -> NDArray[np.bool_]:
        """Which rows are pseudo-rows, shape (n,): they stand for many rows and are none of them."""
        return np.asarray(self.index == NO_ROW)

    @property
    def Z(self) -> FloatArray:
        """Signed rows z_n = y_n x_n, shape (n, D): all that a symmetric likelihood sees."""
        return self.X * self.y[:, None]

    @property
    def shift(self) -> FloatArray:
        """Signed offsets y_n o_n, shape (n,), as compiled kernels take them: `NO_SHIFT` where there are none."""
        return NO_SHIFT if self.offset is None else self.offset * self.y

    def shifted(self, eta: FloatArray) -> FloatArray:
        """Return z . beta, shape (n,) or (n, S), with the signed offsets added: the signed linear predictor."""
        if self.offset is None:
            return eta
        return eta + (self.shift if eta.ndim == 1 else self.shift[:, None])

    @property
    def signed(self) -> "WeightedData":
        """The signed rows, their offsets and groups, as rows whose labels are all +1."""
        positive = np.ones(len(self), dtype=np.int8)
        offset = None if self.offset is None else self.shift
        Z = np.ascontiguousarray(self.Z)
        return WeightedData(Z, positive, self.weights, self.index, offset=offset, group=self.group)

    def mirrored(self, sign: int) -> Self:
        """Return the rows of which -beta is as likely as beta is of these, if `sign` is -1."""
        return replace(self, y=self.y * sign, offset=None if self.offset is None else self.offset * sign)

    def take(self, which: NDArray[Any] | slice) -> Self:
        """Return the rows `which` (integers, a mask or a slice), in that order."""
        offset = None if self.offset is None else self.offset[which]
        group = None if self.group is None else self.group[which]
        X, y, weights, index = self.X[which], self.y[which], self.weights[which], self.index[which]
        return replace(self, X=X, y=y, weights=weights, index=index, offset=offset, group=group)

    def with_weights(self, weights: FloatArray) -> Self:
        """Return the same rows with other weights, shape (n,)."""
        return replace(self, weights=weights)


def stack(parts: Sequence[WeightedData]) -> WeightedData:
    """Put the rows of several data sets below each other."""
    offset = None
    if any(part.offset is not None for part in parts):  # rows beside pseudo-rows may have none
        offset = np.concatenate([np.zeros(len(part)) if part.offset is None else part.offset for part in parts])
    return WeightedData(
        np.concatenate([part.X for part in parts]),
        np.concatenate([part.y for part in parts]),
        np.concatenate([part.weights for part in parts]),
        np.concatenate([part.index for part in parts]),
        offset=offset,
        group=None if parts[0].group is None else np.concatenate([part.group for part in parts]),
    )


@jit
def _scale(raw: FloatArray, center: FloatArray, scale: FloatArray, design: FloatArray) -> None:
    lead = design.shape[1] - raw.shape[1]
    for n in range(raw.shape[0]):
        for d in range(lead):
            design[n, d] = 1.0
        for d in range(raw.shape[1]):
            design[n, lead + d] = (raw[n, d] - center[d]) / scale[d]


@dataclass(frozen=True)
class Grouping:
    """A grouping factor: what tells the groups of rows apart whose effects a multilevel model draws from one prior.

    Parameters
    ----------
    name : str
        Name of its column.
    levels : tuple
        Its groups, text, whole numbers or booleans; codes are places in it.
    effects : tuple of str
        What varies by group: "1" for an intercept, else the column of the design matrix whose coefficient does.
    """

    name: str
    levels: tuple[Any, ...]
    effects: tuple[str, ...] = ("1",)

    def __len__(self) -> int:
        return len(self.levels)


def one_intercept(groups: Sequence[Grouping]) -> bool:
    """Whether there is one grouping factor, whose intercept varies alone: (1 | g)."""
    return len(groups) == 1 and tuple(groups[0].effects) == ("1",)


def told_terms(groups: Sequence[Grouping]) -> str:
    """Return group terms as a formula has them."""
    return ", ".join(f"({' + '.join(own.effects)} | {own.name})" for own in groups)


INTERCEPT = "Intercept"
"""What the column of ones is called, as formulas and bambi call it."""


@dataclass(frozen=True)
class Design:
    """How raw features become the columns of a design matrix.

    Column d is (raw_d - center_d) / scale_d; with `intercept`, a column of ones stands first. `offset` is what the
    known part of rows' linear predictors is called, None where they have none; `groups` are the grouping factors of
    rows, in the order of their codes; `classes` are the two labels of the rows that it was made for, the second +1.

    A coreset and its posterior remember their design, so that predictions take raw features, and labels of other rows
    mean the same.
    """

    raw_names: tuple[str, ...]
    intercept: bool = False
    center: tuple[float, ...] | None = None
    scale: tuple[float, ...] | None = None
    offset: str | None = field(default=None, kw_only=True)
    classes: tuple[Any, Any] | None = field(default=None, kw_only=True, compare=False)  # says nothing of the columns
    groups: tuple[Grouping, ...] = field(default=(), kw_only=True)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the design matrix's columns."""
        return (INTERCEPT, *self.raw_names) if self.intercept else self.raw_names

    @property
    def is_identity(self) -> bool:
        """Whether the design matrix is the raw matrix."""
        return not self.intercept and self.center is None

    @property
    def is_affine(self) -> bool:
        """Whether each column is a raw one, moved and scaled, so that the range of one tells that of the other."""
        return True

    @property
    def constant(self) -> int | None:
        """Place of the intercept's column of ones, None if there is none."""
        return 0 if self.intercept else None

    def raw_coefficients(self, beta: FloatArray) -> FloatArray:
        r"""Return coefficients in units of the columns before they were scaled, both of shape (..., D).

        .. math:: c_d = \beta_d / \mathrm{scale}_d, \qquad c_0 = \beta_0 - \sum_d c_d \, \mathrm{center}_d

        with the intercept at 0. Without an intercept the linear predictor of raw columns is x . c less that sum.
        """
        if self.center is None or self.scale is None:
            return beta
        coef, slopes = beta.copy(), slice(int(self.intercept), None)
        coef[..., slopes] /= self.scale
        if self.constant is not None:
            coef[..., self.constant] -= coef[..., slopes] @ np.array(self.center)
        return coef

    def transform(self, raw: Any) -> FloatArray:
        """Return the design matrix of rows: formula, intercept and standardisation are applied.

        Parameters
        ----------
        raw : array, shape (n, D_raw), or data frame
            Raw features: columns in the order of `raw_names`, or a pandas, polars or Arrow table that has them by name;
            its other columns are left aside.

        Returns
        -------
        array, shape (n, D)
            Columns in the order of `names`.

        Raises
        ------
        ValueError
            If a column is missing, or holds no numbers, NaN or infinity.

        Examples
        --------
        >>> import pandas as pd
        >>> design = Design(("age", "income"), intercept=True, center=(40.0, 3.0), scale=(10.0, 2.0))
        >>> design.transform(pd.DataFrame({"income": [3.0, 5.0], "age": [40.0, 60.0]}))
        array([[1., 0., 0.],
               [1., 2., 1.]])
        """
        if hasattr(raw, "columns"):
            raw = _named_columns(raw, self.raw_names)
        if self.is_identity:
            own: FloatArray = raw
            return own
        n_raw = len(self.raw_names)
        center = np.zeros(n_raw) if self.center is None else np.array(self.center)
        scale = np.ones(n_raw) if self.scale is None else np.array(self.scale)
        design = np.empty((len(raw), len(self.names)))
        _scale(np.asarray(raw, dtype=np.float64), center, scale, design)
        return design

    def rows(self, block: WeightedData) -> WeightedData:
        """Return a block of raw features as rows of the design matrix."""
        return replace(block, X=self.transform(block.X))

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain JSON values."""
        return {
            "raw_names": list(self.raw_names),
            "intercept": self.intercept,
            "center": None if self.center is None else list(self.center),
            "scale": None if self.scale is None else list(self.scale),
            **({} if self.offset is None else {"offset": self.offset}),
            **({"groups": [asdict(grouping) for grouping in self.groups]} if self.groups else {}),
        }

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """Rebuild a design from `to_dict`'s value."""
        center, scale = fields["center"], fields["scale"]
        return cls(
            tuple(fields["raw_names"]),
            bool(fields["intercept"]),
            None if center is None else tuple(center),
            None if scale is None else tuple(scale),
            offset=fields.get("offset"),
            groups=tuple(
                Grouping(own["name"], tuple(own["levels"]), tuple(own["effects"])) for own in fields.get("groups", ())
            ),
        )


def _named_columns(table: Any, names: Sequence[str]) -> FloatArray:
    """Return columns of a pandas, polars or Arrow table by their names, shape (n, D)."""
    own = {str(name): name for name in getattr(table, "column_names", table.columns)}
    if missing := [name for name in names if name not in own]:
        raise ValueError(f"raw lacks the column {missing[0]!r}; it has {', '.join(own)}: give the design's raw columns")
    return np.column_stack([_numbers(name, np.asarray(table[own[name]])) for name in names])


def _numbers(name: str, values: Any) -> FloatArray:
    if values.dtype.kind == "O" and not any(isinstance(value, str) for value in values):  # entries that may be missing
        values = np.array([value if isinstance(value, Number) else np.nan for value in values.tolist()], dtype=float)
    if values.dtype.kind not in "biuf":
        raise ValueError(f"raw has no numbers in the column {name!r}, but {values.dtype}; convert it")
    column: FloatArray = values.astype(np.float64)
    if not np.isfinite(column).all():
        raise ValueError(f"raw has NaN or infinity in the column {name!r}; drop these rows, or fill them in")
    return column


@dataclass(frozen=True)
class Lifted(Design):
    """A design whose last column is the offset, as `Opened.lifted` has rows.

    With the coefficient 1 such rows are those with an offset: what bounds the likelihood of rows at all coefficients
    bounds theirs.
    """

    base: Design = Design(())

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the design matrix's columns."""
        return (*self.base.names, str(self.base.offset))

    @property
    def is_identity(self) -> bool:
        """Whether the design matrix is the raw matrix."""
        return False

    def rows(self, block: WeightedData) -> WeightedData:
        """Return a block of raw features as rows of the design matrix, the offset last."""
        return lifted(self.base.rows(block))


def lifted(rows: WeightedData) -> WeightedData:
    """Return rows with their offset as last column; as they are if they have none."""
    if rows.offset is None:
        return rows
    return replace(rows, X=np.column_stack([rows.X, rows.offset]), offset=None)


def unlifted(rows: WeightedData) -> WeightedData:
    """Return rows with their last column as offset."""
    return replace(rows, X=np.ascontiguousarray(rows.X[:, :-1]), offset=rows.X[:, -1].copy())


class Readable(Protocol):
    """Rows that come block by block, in order; perhaps once only.

    How the rows are cut into blocks is the source's own affair: no result may depend on it.
    """

    @property
    def design(self) -> Design:
        """How the columns of the blocks came from raw features."""
        ...

    @property
    def label(self) -> str:
        """Name of the label column."""
        ...

    def blocks(self) -> Iterator[WeightedData]:
        """Yield all rows, in order, in blocks."""
        ...


@runtime_checkable
class Source(Readable, Protocol):
    """Rows that can be read block by block, again and again.

    `blocks` starts a fresh pass over the same rows in the same order each time it is called.
    """

    @property
    def classes(self) -> tuple[Any, Any]:
        """The two labels as given; the second is +1."""
        ...

    @property
    def n_rows(self) -> int:
        """Number of rows of one pass."""
        ...


@jit
def _no_higher(eta: FloatArray, terms: FloatArray, out: FloatArray) -> None:  # noqa: ARG001
    out[:] = 0.0


class Likelihood(ABC):
    """A symmetric binary likelihood, 1 - p(eta) = p(-eta), as functions of eta = y (x . beta): the whole contract.

    All are finite for abs(eta) up to 1e4. A subclass is a frozen dataclass without fields, in a file of its own, whose
    one instance is given to `bayescore.models.likelihoods.register`. Sampling, modes, coresets and diagnostics of a
    registered likelihood need nothing else. Compiled functions are module-level ones, decorated with
    `bayescore.compiled.jit`; they agree with the NumPy formulas.

    Attributes
    ----------
    name : str
        Name of the link.
    rows : compiled function (eta, log_p) -> None
        Writes log p(eta), shape (n,), and replaces eta by the score.
    derivatives : compiled function (eta, out, scratch) -> None
        Writes log p, score, curvature and third derivative at eta, shape (TILE,), to the rows of `out`, shape
        (4, TILE); scratch has shape (3, TILE) (`data.passes.tiles`).
    higher : compiled function (eta, terms, out) -> None
        Writes the fourth and fifth derivative of log p to the rows of `out`, shape (2, TILE), given what `derivatives`
        wrote to `terms`; for the series below, so not needed where `near` is 0.
    near : float
        Moves of eta up to which the series of degree 5 is within 2e-10 of log p: (720 2e-10 / m)^(1/6), with m a bound
        of the sixth derivative. With 0, the default, log p over draws is evaluated anew at each, in three times the
        time.
    """

    name: ClassVar[str]
    rows: "ClassVar[staticmethod[[FloatArray, FloatArray], None]]"
    derivatives: "ClassVar[staticmethod[[FloatArray, FloatArray, FloatArray], None]]"
    higher: "ClassVar[staticmethod[[FloatArray, FloatArray, FloatArray], None]]" = staticmethod(_no_higher)
    near: ClassVar[float] = 0.0

    @abstractmethod
    def log_p(self, eta: FloatArray) -> FloatArray:
        """Log probability of the observed label."""

    @abstractmethod
    def score(self, eta: FloatArray) -> FloatArray:
        """First derivative of `log_p`."""

    @abstractmethod
    def curvature(self, eta: FloatArray) -> FloatArray:
        """Minus the second derivative of `log_p`; negative only where log p is not concave."""

    @abstractmethod
    def third(self, eta: FloatArray) -> FloatArray:
        """Third derivative of `log_p`."""

    @abstractmethod
    def probability(self, eta: FloatArray) -> FloatArray:
        """P(y = +1) for the linear predictor eta = x . beta."""

    @abstractmethod
    def log_p_graph(self, eta: Any) -> Any:
        """`log_p` as a PyTensor expression with finite value and gradient; PyTensor is imported here, not above."""
