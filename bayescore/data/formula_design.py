"""`FormulaDesign`: a design whose columns `formulaic` makes of raw ones; what it learnt is kept as JSON.

A raw block is a matrix of floats: numbers, and columns of text as codes, the positions of their levels. Without a
formula each column is taken as it is, and factors are coded against their first level.

Formulas: from a line of text and raw columns to a design matrix, the same for any source and any cut into blocks.

`formulaic` parses formulas, codes factors and evaluates terms. It is imported when a formula is first used: that takes
a second.
"""

import ast
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayescore.compiled import jit
from bayescore.data.design import LINEAR, ORIGINS_KEPT, Design, terms_text
from bayescore.data.factors import Levels
from bayescore.data.formula_parsing import SMOOTH, marked, parsed, unmarked
from bayescore.types import INTERCEPT, FloatArray, IntArray, WeightedData
from bayescore.validation import DataError, EarlierDesignError, check_finite


@dataclass(frozen=True)
class FormulaDesign(Design):
    """How raw columns become the columns of a design matrix by a formula, or each by itself."""

    formula: str | None = None
    state: str = "{}"  # JSON: formulaic's state of "calls" (centers, knots), "categories" of numeric factors C(...)
    columns: tuple[str, ...] = ()  # named as by formulaic

    is_identity = False

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the design matrix's columns."""
        return (INTERCEPT, *self.columns) if self.intercept else self.columns

    @property
    def constant(self) -> int | None:
        """Position of the intercept's column of ones, or None."""
        has_constant = self.formula is not None and INTERCEPT in self.columns
        return self.columns.index(INTERCEPT) if has_constant else super().constant

    def rows(self, block: WeightedData) -> WeightedData:
        """Return a block of raw features as rows of the design matrix; an error names the first entry not finite."""
        try:
            return super().rows(block)
        except DataError:
            check_finite(block.X, self.raw_names, block.index)
            raise

    def derivative(self, raw: FloatArray, name: str, spread: float) -> FloatArray:
        """Return the derivative of each column of the design by the raw column `name`, shape (n, D)."""
        derivative = np.zeros((len(raw), len(self.names)))
        derivative[:, int(self.intercept) :] = _compiled(self._key).derivative(np.array(raw), name, spread)
        return derivative / self.scales

    @property
    def _key(self) -> Self:
        """The design without what it shares with designs that have no formula."""
        return replace(self, intercept=False, center=None, scale=None, offset=None, groups=())

    def _matrix(self, raw: NDArray[Any]) -> FloatArray:
        return Design(self.columns, self.intercept, self.center, self.scale).transform(_compiled(self._key)(raw))

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain JSON values."""
        return {
            **super().to_dict(),
            "formula": self.formula,
            "levels": {name: list(levels) for name, levels in self.raw_levels},
            "state": json.loads(self.state),
            "columns": list(self.columns),
        }

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """Rebuild a design from `to_dict`'s value."""
        return replace(
            super().from_dict(fields),
            formula=fields["formula"],
            raw_levels=tuple((name, tuple(levels)) for name, levels in fields["levels"].items()),
            state=json.dumps(fields["state"]),
            columns=tuple(fields["columns"]),
        )


def read_design(fields: dict[str, Any]) -> Design:
    """Return the design that `to_dict` wrote; raise `EarlierDesignError` if its effects are not on today's columns.

    Effects apart from the intercept's, as of (0 + x | g), were on the centred column where rows were standardised.
    """
    design = (FormulaDesign if "columns" in fields else Design).from_dict(fields)
    moved = design.effects_of_origin
    if moved and fields.get("origins") != ORIGINS_KEPT:
        raise EarlierDesignError(
            f"effects of {', '.join(map(repr, moved))} in {terms_text(design.groups)} were written by an earlier "
            "version, which put them on the centred column: they are on the column as it is now, so that this is "
            "another model; build the coreset, or fit, again"
        )
    return design


def formula_of(design: Design) -> str | None:
    """Return the formula of a design, if it has one."""
    return design.formula if isinstance(design, FormulaDesign) else None


def categories_of(design: Design, name: str, term: str) -> tuple[Any, ...]:
    """Return the levels in the data of a column of text, or of numbers in the term ``C(...)``."""
    levels = dict(design.raw_levels).get(name, ())
    categories = json.loads(design.state).get("categories", {}) if isinstance(design, FormulaDesign) else {}
    return tuple(categories.get(term, levels))


def reference_of(design: Design, name: str) -> Any:
    """Return the level that a formula's terms of a factor are against: the first, unless C(...) names another.

    That is the first of ``levels=[...]``, or the one of ``Treatment("b")`` or ``contr.treatment(base="b")``.
    """
    formula = formula_of(design)
    call = None if formula is None else next((c for column, c in parsed(formula).codings if column == name), None)
    if call is None:
        return categories_of(design, name, f"C({name})")[0]
    by_position, given = call.arguments
    levels = categories_of(design, name, call.term)
    if "levels" in given:
        levels = tuple(ast.literal_eval(given["levels"]))
    coding = given.get("contrasts", by_position[1] if len(by_position) > 1 else None)
    if isinstance(coding, ast.Call):
        for node in [*coding.args, *(word.value for word in coding.keywords)][:1]:
            if isinstance(node, ast.Constant) and node.value in levels:
                return node.value
    return levels[0]


def formula_design(
    raw_names: tuple[str, ...], formula: str | None, levels: Levels, state: Mapping[str, Any]
) -> FormulaDesign:
    """Return a design with the names of its columns; raise `DataError` if a term cannot be computed for any rows."""
    design = FormulaDesign(raw_names, formula=formula, raw_levels=levels, state=json.dumps(state))
    columns = _compiled(design).columns
    twice = [name for name in columns if columns.count(name) > 1]
    if twice:
        raise DataError(f"two columns of the design are named {twice[0]!r}; rename a column of the data")
    calls = () if formula is None else parsed(formula).calls
    terms = tuple(f"{unmarked(call.term)}[" for call in calls if call.function == SMOOTH)
    lines = [name for name in columns if terms and name.startswith(terms) and name.endswith(f"[{LINEAR}]")]
    return replace(design, columns=columns, smooths=tuple(name.removesuffix(f"[{LINEAR}]") for name in lines))


class FormulaInputs:
    """Raw blocks as data of formulaic: the columns that terms use, and their levels."""

    def __init__(self, raw_names: Sequence[str], levels: Levels, used: Sequence[str]) -> None:
        self.places = [(raw_names.index(name), name) for name in used]
        self.kinds = {name: pd.CategoricalDtype(list(levels_of_name)) for name, levels_of_name in levels}

    def of(self, raw: FloatArray) -> dict[str, Any]:
        """Return the columns of a block by formulaic's names of them; NaN is missing."""
        data: dict[str, Any] = {}
        for place, name in self.places:
            column = np.ascontiguousarray(raw[:, place])
            if (kind := self.kinds.get(name)) is not None:
                codes = np.where(np.isnan(column), -1.0, column).astype(np.int32)
                data[marked(name)] = pd.Categorical.from_codes(codes, dtype=kind)
            else:
                data[marked(name)] = column
        return data

    def example(self) -> FloatArray:
        """Return raw rows that have every level and no numbers, shape (n, D_raw)."""
        n_rows = max((len(kind.categories) for kind in self.kinds.values()), default=1)
        rows = np.full((n_rows, max((place for place, _ in self.places), default=-1) + 1), np.nan)
        for place, name in self.places:
            if name in self.kinds:
                rows[:, place] = np.arange(n_rows) % len(self.kinds[name].categories)
        return rows


_ONES = -1


@jit
def _assemble_columns(raw: FloatArray, made: FloatArray, places: IntArray, out: FloatArray) -> None:
    n_raw = raw.shape[1]
    for n in range(out.shape[0]):
        for d in range(out.shape[1]):
            place = places[d]
            if place == _ONES:
                out[n, d] = 1.0
            else:
                out[n, d] = raw[n, place] if place < n_raw else made[n, place - n_raw]


class _Compiled:
    """A design ready for use: where columns stand in raw rows, and formulaic's specification of the others."""

    def __init__(self, design: FormulaDesign) -> None:
        names, levels = design.raw_names, design.raw_levels
        used = names if design.formula is None else parsed(design.formula).columns
        self.formula = design.formula
        self.used = FormulaInputs(names, levels, used)
        state = json.loads(design.state)
        spec = specification(design.formula, used, state.get("calls", {}), state.get("categories", {}))
        _, spec = materialised(self.used.of(self.used.example()), spec, self.formula)
        lead = 1 if self.formula is None else 0  # the intercept against which factors are coded
        self.terms = [
            (part.term, tuple(unmarked(str(name)) for name in part.columns)) for part in spec.structure[lead:]
        ]
        self.columns = tuple(unmarked(str(name)) for name in spec.column_names[lead:])
        as_they_are = {marked(name): place for place, name in self.used.places if name not in self.used.kinds}
        as_they_are["1"] = _ONES
        places: list[int] = []
        others, n_made = [], 0
        for part in spec.structure[lead:]:
            place = as_they_are.get(part.term.factors[0].expr) if len(part.term.factors) == 1 else None
            if place is None:
                others.append(part.term)
                places += range(len(names) + n_made, len(names) + n_made + len(part.columns))
                n_made += len(part.columns)
            else:
                places.append(place)
        self.places = np.array(places, dtype=np.intp)
        self.spec = spec.subset(others) if others else None
        needed = set() if self.spec is None else set(map(unmarked, self.spec.required_variables))
        self.materials = FormulaInputs(names, levels, [name for name in used if name in needed] or used[:1])

    def __call__(self, raw: FloatArray) -> FloatArray:
        if self.formula is not None and not np.isfinite(raw.sum()):  # a comparison would hide it
            for place, name in self.used.places:
                if not np.isfinite(raw[:, place]).all():
                    raise DataError(
                        f"column {name!r} is missing or infinite in some row; drop such rows (missing='drop' leaves "
                        "out those that miss something) or impute them"
                    )
        made = np.empty((len(raw), 0))
        if self.spec is not None:
            made, _ = materialised(self.materials.of(raw), self.spec, self.formula)
        out = np.empty((len(raw), len(self.places)))
        _assemble_columns(np.asarray(raw, dtype=np.float64), made, self.places, out)
        return out

    def derivative(self, raw: FloatArray, name: str, spread: float) -> FloatArray:
        """Return the derivative of each column by a raw one: of plain columns 0 or 1, of terms by differences."""
        out, n_raw = np.zeros((len(raw), len(self.places))), raw.shape[1]
        place = {used_name: place for place, used_name in self.used.places}.get(name)
        if place is None:  # it is in an offset or in a group term alone
            return out
        out[:, self.places == place] = 1.0
        if (whole := self.spec) is None:
            return out
        terms = [part.term for part in whole.structure]
        if moving := [term for term in terms if marked(name) in whole.subset([term]).required_variables]:
            spec, made = whole.subset(moving), list(whole.column_names)

            def of_terms(rows: IntArray, x: FloatArray) -> FloatArray:
                moved = raw[rows]
                moved[:, place] = x
                return materialised(self.materials.of(moved), spec, self.formula)[0]

            columns = [made.index(column) for column in spec.column_names]
            out[:, np.flatnonzero(self.places >= n_raw)[columns]] = row_derivatives(of_terms, raw[:, place], spread)
        return out


_STEP = 2.0**-10  # first step of a difference, of the entry's size
_SMALLEST = 2.0**-20  # size that an entry is taken to have at least, in ranges of the column: those at 0
_SHRINK = 2.0**-5  # of a step that was too long
_STEPS = 24  # tried: the last one is 2e-35 of the first
_AGREEMENT = 1e-5  # share by which a difference may differ from that over half its step
_BEND = 1e-2  # the same, of what the derivative changes by along the step
_NEARBY = (-0.5, -0.25, 0.25, 0.5)  # places, in ranges of the column
_NEGLIGIBLE_CHANGE = 1e-10  # of a derivative, in the sizes of entries nearby over the range: at zeros
_ROUNDING = 32.0 * float(np.finfo(np.float64).eps)  # of the entries of a difference

# places of entries in steps, and what they are multiplied by in differences of second order over a whole step, over
# half of one, and in the change of the derivative along the step
_STENCILS = (
    ((-1.0, -0.5, 0.0, 0.5, 1.0), (-0.5, 0.0, 0.0, 0.0, 0.5), (0.0, -1.0, 0.0, 1.0, 0.0), (1.0, 0.0, -2.0, 0.0, 1.0)),
    ((0.0, 0.25, 0.5, 1.0), (-3.0, 0.0, 4.0, -1.0), (-6.0, 8.0, -2.0, 0.0), (4.0, 0.0, -8.0, 4.0)),
    ((0.0, -0.25, -0.5, -1.0), (3.0, 0.0, -4.0, 1.0), (6.0, -8.0, 2.0, 0.0), (4.0, 0.0, -8.0, 4.0)),
)


def row_derivatives(function: Callable[[IntArray, FloatArray], FloatArray], x: FloatArray, spread: float) -> FloatArray:
    """Return the derivatives of function(rows, x[rows]), shape (k, D), at each entry of x, shape (n, D).

    They are differences over a step and half of it, extrapolated to step 0. Where these do not agree, as near the end
    of a domain or a kink, differences to one side are taken, and then shorter steps; NaN where none agree, as at jumps.
    A step is a small part of the entry itself, so that columns may have values of any size, and of the range at most.
    """
    spread = spread if spread > 0.0 else max(float(np.abs(x).max(initial=0.0)), 1.0)
    step = np.exp2(np.floor(np.log2(_STEP * np.clip(np.abs(x), _SMALLEST * spread, spread))))
    left, columns, nothing = np.arange(len(x)), np.zeros((0, 0)), np.zeros((1, 1))
    for k, side in product(range(_STEPS), _STENCILS):
        if not len(left):
            break
        with np.errstate(all="ignore"):  # beyond domains
            if k == 1 and side is _STENCILS[0]:
                nearby = np.stack([function(left, x[left] + place * spread) for place in _NEARBY])
                nothing = np.zeros((len(x), nearby.shape[2]))
                nothing[left] = (
                    _NEGLIGIBLE_CHANGE / spread * np.abs(np.where(np.isfinite(nearby), nearby, 0.0)).max(axis=0)
                )
            h, (places, whole, half, bend) = step[left, None] * _SHRINK**k, side
            values = np.stack([function(left, x[left] + place * h[:, 0]) for place in places])
            coarse, fine, second = (np.tensordot(weights, values, 1) / h for weights in (whole, half, bend))
            allowed = _AGREEMENT * np.abs(fine) + _BEND * np.abs(second) + _ROUNDING * np.abs(values).max(axis=0) / h
            good = (np.abs(fine - coarse) <= allowed + (nothing[left] if k else 0.0)).all(axis=1)
        columns = columns if columns.size else np.full((len(x), values.shape[2]), np.nan)
        columns[left[good]] = ((4.0 * fine - coarse) / 3.0)[good]
        left = left[~good]
    return columns


_compiled = lru_cache(maxsize=16)(_Compiled)


def effects_of(
    design: FormulaDesign, column: str, varying: Sequence[str], rows: Callable[[], FloatArray]
) -> tuple[Any, Any]:
    r"""Return the effects of the terms that vary, and those that are of sums of columns, as `Grouping` has them.

    What varies is coded as in a formula with nothing else, as in lme4, brms and bambi: in ``(0 + f | g)`` there is one
    effect for each level of f, also where the formula has an intercept and a column for each level but the first. The
    indicator of the first level is then a weighted sum of columns, found by least squares on all combinations of the
    term's levels, each with some raw `rows` of the data.
    """
    from formulaic import Formula

    assert design.formula is not None
    compiled, state = _compiled(design), json.loads(design.state)
    spelled = {"1": _intercept_term(), **{str(term): term for term in parsed(design.formula).terms}}
    terms = Formula([spelled[effect] for effect in varying], _ordering="degree")
    used, encodings = parsed(design.formula).columns, (state.get("calls", {}), state.get("categories", {}))
    example = FormulaInputs(design.raw_names, design.raw_levels, used)
    _, spec = materialised(example.of(example.example()), _specification(terms, *encodings), design.formula)
    effects = [
        "1" if str(each.term) == "1" else unmarked(str(name)) for each in spec.structure for name in each.columns
    ]
    if all(effect == "1" or effect in design.columns for effect in effects):
        return tuple(effects), ()
    sums = []
    for each in spec.structure:
        if str(each.term) == "1":
            continue
        names = {factor.expr for factor in each.term.factors}
        columns = [
            name for term, made in compiled.terms if {f.expr for f in term.factors} - {"1"} <= names for name in made
        ]
        raw = _level_combinations(design, spec.subset([each.term]).required_variables, rows())
        X = design.transform(raw)[:, [design.columns.index(name) for name in columns]]
        Z, _ = materialised(example.of(raw), spec, design.formula)
        at = [list(map(str, spec.column_names)).index(str(name)) for name in each.columns]
        weights = np.linalg.lstsq(X, Z[:, at])[0]
        rounded = np.round(weights, 12)
        if not np.allclose(X @ rounded, Z[:, at], rtol=1e-8, atol=1e-8 * np.abs(Z[:, at]).max()):
            raise DataError(
                f"formula={design.formula!r}: {str(each.term)!r} varies by {column!r} about means that are not "
                f"all in the formula; add the terms that {str(each.term)!r} is made of, as x * f has x, f and x:f"
            )
        sums += [
            (
                unmarked(str(name)),
                tuple((column, float(w)) for column, w in zip(columns, own_weights, strict=True) if w),
            )
            for name, own_weights in zip(each.columns, rounded.T, strict=True)
        ]
    return tuple(effects), tuple(sums)


def _level_combinations(design: FormulaDesign, wanted: Iterable[str], rows: FloatArray) -> FloatArray:
    """Return raw rows with all combinations of the levels of some factors, each with the numbers of some rows."""
    assert design.formula is not None
    levels: dict[str, Sequence[float]] = {}
    coded = {column: call.term for column, call in parsed(design.formula).codings}
    for name in sorted(map(unmarked, wanted)):
        if name in dict(design.raw_levels):
            levels[name] = range(len(dict(design.raw_levels)[name]))
        elif name in coded:
            levels[name] = categories_of(design, name, coded[name])
    numbers = rows[:50] if len(levels) < len(set(wanted)) else rows[:1]  # more than any term has columns of numbers
    if not levels:
        return numbers
    cells = np.array(list(product(*levels.values())), dtype=np.float64)
    raw = np.repeat(numbers, len(cells), axis=0)
    raw[:, [design.raw_names.index(name) for name in levels]] = np.tile(cells, (len(numbers), 1))
    return raw


def _intercept_term() -> Any:
    from formulaic.parser.types import Factor, Term

    return Term([Factor("1", eval_method="literal")])


def specification(
    formula: str | None, used: Sequence[str], calls: Mapping[str, Any], categories: Mapping[str, Any]
) -> Any:
    """Return formulaic's specification of a formula, or of each column as it is, with what was learnt."""
    from formulaic import Formula
    from formulaic.parser.types import Factor, Term

    if formula is not None:
        return _specification(parsed(formula).terms, calls, categories)
    columns = [Term([Factor(marked(name), eval_method="lookup")]) for name in used]
    return _specification(Formula([_intercept_term(), *columns], _ordering="none"), calls, categories)


def _specification(terms: Any, calls: Mapping[str, Any], categories: Mapping[str, Any]) -> Any:
    from formulaic import ModelSpec
    from formulaic.parser.types import Factor

    return ModelSpec(
        formula=terms,
        na_action="ignore",
        output="numpy",
        transform_state={key: state_from_json(value) for key, value in calls.items()},
        encoder_state={term: (Factor.Kind.CATEGORICAL, {"categories": levels}) for term, levels in categories.items()},
    )


def materialised(data: Mapping[str, Any], spec: Any, formula: str | None) -> tuple[FloatArray, Any]:
    """Return a block as rows of the design matrix, and the completed specification."""
    from formulaic.errors import FormulaicError

    from bayescore.data.formula_blocks import Blocks

    try:
        with np.errstate(all="ignore"):  # a pass over the rows names the entry that is not finite
            matrix = Blocks(data).matrix(spec)
    except DataError as error:
        raise error if formula is None else DataError(f"formula={formula!r}: {error}") from None
    except (FormulaicError, ValueError, TypeError, ArithmeticError, np.linalg.LinAlgError) as error:
        if isinstance(error.__cause__, DataError):  # of a term
            raise DataError(f"formula={formula!r}: {error.__cause__}") from None
        raise DataError(f"formula={formula!r} cannot be computed: {error}") from error
    return np.asarray(getattr(matrix, "__wrapped__", matrix)), matrix.model_spec


def state_to_json(value: Any) -> Any:
    """Return a state of formulaic as plain JSON values."""
    if isinstance(value, Mapping):
        return {str(key): state_to_json(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return state_to_json(value.tolist())
    return [state_to_json(item) for item in value] if isinstance(value, list | tuple) else value


def state_from_json(value: Any) -> Any:
    """Return JSON values as a state of formulaic: numbered entries by number, matrices as arrays."""
    if isinstance(value, Mapping):
        return {int(key) if key.isdigit() else key: state_from_json(item) for key, item in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], list):
        return np.array(value, dtype=np.float64)
    return value
