"""`Design`: how raw features become the columns of a design matrix; grouping factors; offsets as a column."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bayescore.compiled import jit
from bayescore.data.factors import Levels
from bayescore.data.tables import feature_matrix
from bayescore.types import INTERCEPT, FloatArray, IntArray, Parts, WeightedData, read_only
from bayescore.validation import DataError

ARRAY = ""  # the name of a column of an array


LINEAR = "linear"
"""Name of the column of a smooth term s(x) that is x itself; the others are its bends."""


ORIGINS_KEPT = "kept"
"""Mark of a stored design: effects whose column is centred in the matrix are on the column as it is."""


_FACTS = ("given_others", "means", "response")  # numbers of the rows that a design was learnt from


@jit
def _standardise(raw: FloatArray, center: FloatArray, scale: FloatArray, design: FloatArray) -> None:
    lead = design.shape[1] - raw.shape[1]
    for n in range(raw.shape[0]):
        for d in range(lead):
            design[n, d] = 1.0
        for d in range(raw.shape[1]):
            design[n, lead + d] = (raw[n, d] - center[d]) / scale[d]


@dataclass(frozen=True)
class Grouping:
    """A grouping factor: its groups are those whose effects a multilevel model draws from one prior."""

    name: str
    levels: tuple[Any, ...]  # text, whole numbers or booleans; codes are positions
    effects: tuple[str, ...] = ("1",)  # what varies: "1" for an intercept, else a column of the design matrix
    parts: Parts = ()
    # effects on weighted sums of columns before they are scaled, as those on all levels of a factor: columns, weights
    sums: tuple[tuple[str, tuple[tuple[str, float], ...]], ...] = ()
    # lengths of runs of effects that are correlated, (1, 1) of (1 + x || g); () if all are correlated
    blocks: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.levels)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of rows that it is read from."""
        return tuple(name for name, _ in self.parts) or (self.name,)

    @property
    def parameters(self) -> list[str]:
        """Names of the sds of effects, and of their correlations."""
        if len(self.effects) == 1:
            return [f"sigma_{self.name}"]
        pairs = [f"rho_{self.name}[{one},{other}]" for one, other in self.paired_effects]
        return [*(f"sigma_{self.name}[{effect}]" for effect in self.effects), *pairs]

    @property
    def block_ends(self) -> IntArray:
        """Of each effect the places of the first and past the last of the effects correlated with it, shape (q, 2)."""
        lengths = np.array(self.blocks or (len(self.effects),), dtype=np.int64)
        ends = np.cumsum(lengths)
        return np.repeat(np.stack([ends - lengths, ends], axis=1), lengths, axis=0)

    @property
    def pairs(self) -> tuple[IntArray, IntArray]:
        """Places of the effects that are correlated, by rows of the upper half of their matrix."""
        i, j = np.triu_indices(len(self.effects), 1)
        correlated = j < self.block_ends[i, 1]
        return i[correlated], j[correlated]

    @property
    def paired_effects(self) -> list[tuple[str, str]]:
        """The effects that are correlated, in the order of `pairs`."""
        return [(self.effects[i], self.effects[j]) for i, j in zip(*self.pairs, strict=True)]

    @property
    def effect_blocks(self) -> list[tuple[str, ...]]:
        """The effects, cut into blocks between which they are uncorrelated."""
        return [self.effects[first:end] for first, end in dict.fromkeys(map(tuple, self.block_ends.tolist()))]

    def is_correlated_with_intercept(self, effect: str) -> bool:
        """Whether an effect is correlated with the intercept's, so that its column may be centred."""
        return any("1" in block and effect in block for block in self.effect_blocks)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain JSON values."""
        names = [each.name for each in fields(self) if getattr(self, each.name) or each.default != ()]
        return {name: getattr(self, name) for name in names}  # `asdict` copies level by level, and they may be many

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """Rebuild a grouping factor from `to_dict`'s value."""
        parts = tuple((name, kind) for name, kind in fields.get("parts", ()))
        sums = tuple((name, tuple((of, float(w)) for of, w in weights)) for name, weights in fields.get("sums", ()))
        blocks = tuple(map(int, fields.get("blocks", ())))
        return cls(fields["name"], tuple(fields["levels"]), tuple(fields["effects"]), parts, sums, blocks)


def effect_name(factor: str, effect: str) -> str:
    """Return what readers call an effect that varies by a factor: by the factor's name, if it is an intercept."""
    return factor if effect == "1" else f"{effect} by {factor}"


def one_intercept(groups: Sequence[Grouping]) -> bool:
    """Whether the only group term is one varying intercept: (1 | g)."""
    return len(groups) == 1 and tuple(groups[0].effects) == ("1",)


def terms_text(groups: Sequence[Grouping]) -> str:
    """Return group terms as text of a formula."""
    return ", ".join(term_text(block, grouping.name) for grouping in groups for block in grouping.effect_blocks)


def term_text(effects: Sequence[str], column: str) -> str:
    """Return a group term of correlated effects as text of a formula.

    >>> term_text(["1", "x"], "g"), term_text(["x"], "g")
    ('(1 + x | g)', '(0 + x | g)')
    """
    return f"({'' if '1' in effects else '0 + '}{' + '.join(effects)} | {column})"


@dataclass(frozen=True)
class Design:
    """How raw features become the columns of a design matrix.

    Column d is (raw_d - center_d) / scale_d; with `intercept`, a column of ones comes first. A coreset and its
    posterior keep their design, so that predictions take raw features, and labels of other rows have the same meaning.
    """

    raw_names: tuple[str, ...]
    intercept: bool = False
    center: tuple[float, ...] | None = None
    scale: tuple[float, ...] | None = None
    offset: str | None = field(default=None, kw_only=True)  # name of the offset of the linear predictors
    exposure: str | None = field(default=None, kw_only=True, compare=False)  # name of the exposure of counts
    classes: tuple[Any, Any] | None = field(default=None, kw_only=True, compare=False)  # says nothing about the columns
    groups: tuple[Grouping, ...] = field(default=(), kw_only=True)
    raw_levels: Levels = field(default=(), kw_only=True)  # of the raw columns that hold text
    # sds of columns given the others over all rows, 0 of constant ones, and their means, 0 of scaled columns, shape
    # (D_raw,) each, which the default prior of their coefficients goes by
    given_others: tuple[float, ...] | None = field(default=None, kw_only=True, compare=False)
    means: tuple[float, ...] | None = field(default=None, kw_only=True, compare=False)
    # mean and sd of responses that are numbers over all rows, where the noise is not normal
    response: tuple[float, float] | None = field(default=None, kw_only=True, compare=False)
    smooths: tuple[str, ...] = field(default=(), kw_only=True)  # terms s(x), whose columns but the first have one sd
    # columns of label, weights and trials, for rows that follow the design; `ARRAY` for weights that are no column
    roles: tuple[tuple[str, str], ...] = field(default=(), kw_only=True, compare=False)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the design matrix's columns."""
        return (INTERCEPT, *self.raw_names) if self.intercept else self.raw_names

    @property
    def is_identity(self) -> bool:
        """Whether the design matrix is the raw matrix."""
        return not self.intercept and self.center is None

    @property
    def constant(self) -> int | None:
        """Position of the intercept's column of ones, or None."""
        return 0 if self.intercept else None

    @property
    def scales(self) -> FloatArray:
        """The sds by which the columns were divided, 1 for those that were not, shape (D,)."""
        scales = np.ones(len(self.names))
        if self.scale is not None:
            scales[int(self.intercept) :] = self.scale
        return scales

    def columns_of(self, grouping: Grouping, effect: str) -> dict[int, float]:
        """Return the columns whose weighted sum rows multiply an effect by, and the weights.

        No column for an intercept that is not one of the columns. A column whose effect is uncorrelated with that of
        the intercept is scaled and not centred: on another origin its effects would be correlated with the intercept's.
        """
        summed, lead = dict(grouping.sums).get(effect), int(self.intercept)
        if summed is None:
            place = self.constant if effect == "1" else self.names.index(effect)
            if place is None:
                return {}
            center, constant = self.center, self.constant
            if effect == "1" or center is None or constant is None or grouping.is_correlated_with_intercept(effect):
                return {place: 1.0}
            shift = center[place - lead] / float(self.scales[place])
            return {place: 1.0, **({constant: shift} if shift else {})}
        weights = dict.fromkeys(range(len(self.names)), 0.0)
        for name, weight in summed:
            place = self.names.index(name)
            weights[place] += weight * self.scales[place]
            if self.center is not None and self.constant is not None and place >= lead:
                weights[self.constant] += weight * self.center[place - lead]
        return {place: weight for place, weight in weights.items() if weight}

    @property
    def effects_of_origin(self) -> list[str]:
        """Names of effects on a column that is centred in the matrix, and for them is not."""
        each = ((group, effect) for group in self.groups for effect in group.effects if effect not in dict(group.sums))
        return [effect for group, effect in each if len(self.columns_of(group, effect)) > 1]

    @property
    def weighted(self) -> bool:
        """Whether rows have weights: of counts only their products with exposures are kept."""
        return "weights" in dict(self.roles)

    @property
    def role_columns(self) -> dict[str, str]:
        """Columns of rows that follow the design, by role."""
        return {role: name for role, name in self.roles if name != ARRAY}

    def with_weights(self) -> Self:
        """Return the design of rows whose weights are no column."""
        return self if self.weighted else replace(self, roles=(*self.roles, ("weights", ARRAY)))

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

    def raw_effects_map(self, grouping: Grouping) -> FloatArray:
        """Return A, shape (q, q), which maps effects of design columns to effects of raw columns."""
        A = np.eye(len(grouping.effects))
        if self.center is None:
            return A
        scales, lead = self.scales, int(self.intercept)
        for j, effect in enumerate(grouping.effects):
            if effect != "1" and effect not in dict(grouping.sums):
                d = self.names.index(effect)
                A[j, j] = 1.0 / scales[d]
                if grouping.is_correlated_with_intercept(effect):
                    A[grouping.effects.index("1"), j] = -self.center[d - lead] / scales[d]
        return A

    def raw_columns(self, X: FloatArray) -> FloatArray:
        r"""Return rows of the design, shape (n, D), in units of the columns before they were scaled.

        .. math:: r_d = \mathrm{scale}_d \, x_d + \mathrm{center}_d \, x_0

        with the intercept at 0, which is not 1 in pseudo-rows: r . c is x . beta, c from `raw_coefficients`.
        """
        if self.center is None or self.scale is None:
            return X
        if self.constant is None:
            raise DataError("units='data' needs an intercept, which takes up the columns' means; build with one")
        raw, slopes = np.array(X), slice(int(self.intercept), None)
        raw[:, slopes] = raw[:, slopes] * self.scale + raw[:, [self.constant]] * np.array(self.center)
        return raw

    def transform(self, raw: Any) -> FloatArray:
        """Return the design matrix of rows: formula, intercept and standardisation are applied.

        Parameters
        ----------
        raw : data frame, or array of shape (n, D_raw)
            A pandas, polars or Arrow table that has the raw columns by name; its other columns are left aside. In an
            array they stand in the order of `raw_names`, and text as codes, the places of its levels.

        Returns
        -------
        array, shape (n, D)
            Columns in the order of `names`.

        Raises
        ------
        DataError
            If a column is missing or holds no numbers, NaN or infinity, a term of the formula cannot be computed, or a
            level is new.

        Examples
        --------
        >>> import numpy as np, pandas as pd, bayescore as bc
        >>> rng = np.random.default_rng(0)
        >>> clicks = pd.DataFrame({"age": rng.normal(40.0, 9.0, 500), "device": rng.choice(["phone", "tablet"], 500)})
        >>> clicks["clicked"] = rng.random(500) < 0.5
        >>> core = bc.all_rows(clicks, formula="clicked ~ age * device", progressbar=False)
        >>> core.design.names
        ('Intercept', 'age', 'device[tablet]', 'age:device[tablet]')
        >>> core.design.transform(pd.DataFrame({"device": ["tablet", "phone"], "age": [30.0, 50.0]}))
        array([[ 1., 30.,  1., 30.],
               [ 1., 50.,  0.,  0.]])
        """
        if not isinstance(raw, np.ndarray) or raw.dtype.kind == "O":
            raw = feature_matrix(raw, self.raw_names, self.raw_levels)
        return self._matrix(raw)

    def _matrix(self, raw: NDArray[Any]) -> FloatArray:
        """Return rows of numbers and codes as rows of the design matrix."""
        if self.is_identity:
            return raw
        n_raw = len(self.raw_names)
        center = np.zeros(n_raw) if self.center is None else np.array(self.center)
        scale = np.ones(n_raw) if self.scale is None else np.array(self.scale)
        design = np.empty((len(raw), len(self.names)))
        _standardise(read_only(np.asarray(raw, dtype=np.float64)), center, scale, design)
        return design

    def derivative(self, raw: FloatArray, name: str, spread: float) -> FloatArray:  # noqa: ARG002
        """Return the derivative of each column of the design by the raw column `name`, shape (n, D).

        `spread` is the range or the sd of the raw column, from which terms of a formula take their steps. Rows have NaN
        where there is no derivative.
        """
        derivative, place = np.zeros((len(raw), len(self.names))), int(self.intercept) + self.raw_names.index(name)
        derivative[:, place] = 1.0 / self.scales[place]
        return derivative

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
            **{name: list(values) for name in _FACTS if (values := getattr(self, name)) is not None},
            **{name: text for name in ("offset", "exposure") if (text := getattr(self, name)) is not None},
            **({"smooths": list(self.smooths)} if self.smooths else {}),
            **({"groups": [grouping.to_dict() for grouping in self.groups]} if self.groups else {}),
            **({"origins": ORIGINS_KEPT} if self.effects_of_origin else {}),
        }

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """Rebuild a design from `to_dict`'s value."""
        lists: dict[str, Any] = {
            name: tuple(fields[name]) for name in ("center", "scale", *_FACTS) if fields.get(name) is not None
        }
        text: dict[str, Any] = {name: fields[name] for name in ("offset", "exposure") if name in fields}
        groups, smooths = tuple(map(Grouping.from_dict, fields.get("groups", ()))), tuple(fields.get("smooths", ()))
        named = {**lists, **text, "groups": groups, "smooths": smooths}
        return cls(tuple(fields["raw_names"]), bool(fields["intercept"]), **named)


@dataclass(frozen=True)
class OffsetColumnDesign(Design):
    """A design whose last column is the offset; its coefficient is 1.

    Any bound on the likelihood that holds for all coefficients therefore holds for rows with an offset.
    """

    base: Design = Design(())

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the design matrix's columns."""
        return (*self.base.names, str(self.base.offset))

    def rows(self, block: WeightedData) -> WeightedData:
        """Return a block of raw features as rows of the design matrix, the offset last."""
        return append_offset(self.base.rows(block))


def bend_columns(design: Design, term: str) -> IntArray:
    """Return the places of the bends of a smooth term among the columns of a design."""
    line = f"{term}[{LINEAR}]"
    return np.array([d for d, name in enumerate(design.names) if name.startswith(f"{term}[") and name != line])


def check_design(design: object) -> None:
    """Raise `TypeError` unless it is a design."""
    if not isinstance(design, Design):
        raise TypeError(f"design is a {type(design).__name__}; give core.design, or formula=")


def append_offset(rows: WeightedData) -> WeightedData:
    """Append the offset, if any, as a last column."""
    if rows.offset is None:
        return rows
    return replace(rows, X=np.column_stack([rows.X, rows.offset]), offset=None)
