"""What a formula learns from the data, in one pass over any source, the same for all cuts into blocks.

Means and sds of `center` and `scale` are exact sums. Bounds of splines are the range of their argument. Levels of
numeric factors are all that occur. The library formulaic finds knots of splines and the products of `poly` on all
rows up to `SAMPLE_ROWS`. Beyond, it takes about that many rows spread evenly: a quantile is then off by some 0.2 % of
the rows, and the columns still span the same space. Each row counts once, whatever its weight.

Levels of factors that no row of positive weight has: levels that a formula lists, or that only dropped rows had.

Such a level is a column of zeros, or, where it is the base, a set of columns that add up to the column of ones; only
the prior determines its coefficient. With codings other than treatment coding, only listed levels are noticed.
"""

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayescore.data.design import Design, Grouping
from bayescore.data.factors import Levels, check_level_count, check_levels
from bayescore.data.formula_design import (
    FormulaDesign,
    FormulaInputs,
    categories_of,
    effects_of,
    formula_design,
    materialised,
    specification,
    state_to_json,
)
from bayescore.data.formula_parsing import BASES, MOMENTS, SMOOTH, Call, Parsed, marked, parsed, unmarked
from bayescore.data.passes import ExactMoments, Scan, check_magnitude, scan_block
from bayescore.limits import MAX_EXACT, MAX_LEVELS_NAMED
from bayescore.text import listed
from bayescore.types import FloatArray, WeightedData
from bayescore.validation import DataError, check_finite, warn

SAMPLE_ROWS = 100_000
"""Rows, about, that knots are taken from: a quantile's rank is then right to 0.003, twice its sd 0.5 / sqrt(n)."""


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # multiples of the golden ratio, modulo 2^64, are spread evenly


@dataclass(frozen=True, eq=False)
class LearntSums:
    """What a formula learns from some rows; the sum over blocks is what it learns from all rows."""

    rows: list[Scan]
    moments: dict[str, ExactMoments]
    ranges: dict[str, tuple[float, float]]
    levels: dict[str, NDArray[np.float64]]
    sample: list[FloatArray] = field(default_factory=list)

    def __add__(self, other: "LearntSums") -> "LearntSums":
        theirs = other.ranges
        return LearntSums(
            self.rows + other.rows,
            {key: value + other.moments[key] for key, value in self.moments.items()},
            {key: (min(a, theirs[key][0]), max(b, theirs[key][1])) for key, (a, b) in self.ranges.items()},
            {key: np.union1d(value, other.levels[key]) for key, value in self.levels.items()},
            self.sample + other.sample,
        )


@dataclass(frozen=True)
class Learner:
    """The function of the pass that learns a formula; travels to workers."""

    formula: str
    raw_names: tuple[str, ...]
    levels: Levels
    threshold: int | None  # None: no rows are kept

    @property
    def learns(self) -> bool:
        """Whether some term learns from the rows; levels of text are learnt before."""
        return bool(self._numeric(parsed(self.formula).calls))

    def __call__(self, start: int, block: WeightedData) -> LearntSums:
        """Return what is learnt from a block of raw rows; its first row has position `start`."""
        whole = scan_block(self.raw_names, block)
        asked = parsed(self.formula)
        calls = self._numeric(asked.calls)
        values = self._arguments(calls, block)
        sample = []
        if self.threshold is not None:
            mixed = np.arange(start + 1, start + 1 + len(block), dtype=np.uint64) * _GOLDEN
            sample = [block.X[mixed <= np.uint64(self.threshold)]]
        levels = {key: np.unique(values[c.argument]) for key, c in calls.items() if c.function == "C"}
        columns = {call.key: column for column, call in asked.codings}
        for key, values_of_key in levels.items():  # so that no more travel
            check_level_count(key, columns[key], len(values_of_key), MAX_LEVELS_NAMED)
            if np.abs(values_of_key).max(initial=0.0) >= MAX_EXACT:
                raise DataError(
                    f"{key} has levels of {MAX_EXACT} and more, which floats do not tell apart: turn them into text"
                )
        return LearntSums(
            [whole],
            {key: ExactMoments.of(values[c.argument]) for key, c in calls.items() if c.function in MOMENTS},
            {
                key: (float(values[c.argument].min()), float(values[c.argument].max()))
                for key, c in calls.items()
                if c.function in BASES
            },
            levels,
            sample,
        )

    def _numeric(self, calls: Sequence[Call]) -> dict[str, Call]:
        """Return the calls that learn from numbers; the levels of text are learnt before."""
        text = {name for name, _ in self.levels}
        alias = dict(parsed(self.formula).aliases)
        asked = {}
        for call in calls:
            names = {node.id for node in ast.walk(ast.parse(call.argument)) if isinstance(node, ast.Name)}
            if call.function == "C" and alias.get(call.argument, call.argument) in text:
                continue
            held = {alias.get(name, name) for name in names} & text
            if held and call.function != "C":
                raise DataError(
                    f"formula={self.formula!r}: {call.key} is of column {min(held)!r}, which holds text; use numbers"
                )
            asked[call.key] = call
        return asked

    def _arguments(self, calls: Mapping[str, Call], block: WeightedData) -> dict[str, FloatArray]:
        from formulaic import Formula, ModelSpec
        from formulaic.parser.types import Factor, Term

        wanted = list(dict.fromkeys(call.argument for call in calls.values()))
        if not wanted:
            return {}
        asked = parsed(self.formula)
        data = FormulaInputs(self.raw_names, self.levels, asked.columns).of(block.X)
        data |= {alias: data[marked(name)] for alias, name in asked.aliases}
        terms = [Term([Factor(argument, eval_method="python")]) for argument in wanted]
        spec = ModelSpec(formula=Formula(terms, _ordering="none"), na_action="ignore", output="numpy")
        X, _ = materialised(data, spec, self.formula)
        check_finite(X, tuple(wanted), block.index, given=self.raw_names)
        check_magnitude(X.min(axis=0), X.max(axis=0), tuple(wanted))
        return dict(zip(wanted, np.ascontiguousarray(X.T), strict=True))


def learner(raw_names: tuple[str, ...], formula: str, levels: Levels, n_rows: int) -> Learner:
    """Return the function of a pass that learns a formula from `n_rows` raw rows."""
    asked = parsed(formula)
    missing = [name for name in asked.columns if name not in raw_names]
    if missing:
        raise DataError(
            f"formula={formula!r} names {missing[0]!r}, no column of the data; the columns are "
            f"{listed(raw_names, 10, str)}"
        )
    share = min(1.0, SAMPLE_ROWS / n_rows)
    sampled = any(call.function in BASES for call in asked.calls)
    return Learner(formula, raw_names, levels, (int(share * 2**53) << 11) - 1 if sampled else None)


def learnt_design(by: Learner, learnt: LearntSums | None) -> FormulaDesign:
    """Return the design of a formula, given what a pass learnt from all rows; None where no term learns."""
    formula, names = by.formula, by.raw_names
    if learnt is None:
        return formula_design(names, formula, by.levels, {"calls": {}, "categories": {}})
    Scan.of(learnt.rows, names)  # refuses entries whose squares overflow
    asked = parsed(formula)
    call_of_key = {call.key: call for call in asked.calls}
    columns = {call.key: column for column, call in asked.codings}
    for key, values in learnt.levels.items():
        check_levels(key, columns[key], values.tolist(), MAX_LEVELS_NAMED)
    categories = {call_of_key[key].term: _as_whole_numbers(values) for key, values in learnt.levels.items()}
    calls = {key: _moments_state(call_of_key[key], learnt.moments[key], formula) for key in learnt.moments}
    calls |= {key: _bounds_state(call_of_key[key], *learnt.ranges[key]) for key in learnt.ranges}
    if learnt.sample:
        rows = np.concatenate(learnt.sample)
        data = FormulaInputs(names, by.levels, asked.columns).of(rows)
        _, spec = materialised(data, specification(formula, asked.columns, calls, categories), formula)
        share = len(rows) / sum(block.n_rows for block in learnt.rows)
        calls = {key: state_to_json(value) for key, value in spec.transform_state.items()}
        for state in calls.values():  # norms of poly are sums over the rows
            if "norms2" in state:
                state["norms2"] = {k: value / share for k, value in state["norms2"].items()}
    return formula_design(names, formula, by.levels, {"calls": calls, "categories": categories})


def with_varying_effects(
    design: FormulaDesign, groups: tuple[Grouping, ...], rows: Callable[[], FloatArray]
) -> FormulaDesign:
    """Return a design with grouping factors, whose effects the group terms name; `rows` gives some raw rows."""
    assert design.formula is not None
    varied = []
    for grouping, term in zip(groups, parsed(design.formula).groups, strict=True):
        effects, sums = zip(*(effects_of(design, term.column, effect, rows) for effect in term.effects), strict=True)
        blocks = tuple(map(len, effects)) if len(effects) > 1 else ()
        varied.append(replace(grouping, effects=sum(effects, ()), sums=sum(sums, ()), blocks=blocks))
    return replace(design, groups=tuple(varied))


def _as_whole_numbers(values: NDArray[np.float64]) -> list[Any]:
    """Return levels as whole numbers if all are."""
    whole = bool((values == np.rint(values)).all())
    return list(values.astype(np.int64).tolist() if whole else values.tolist())


def _call_arguments(call: Call) -> dict[str, Any]:
    """Return the arguments of a call by name, as values."""
    from formulaic.transforms import TRANSFORMS

    from bayescore.data.smooths import s

    by_position, by_name = call.arguments
    try:
        given = signature({**TRANSFORMS, SMOOTH: s}[call.function]).bind_partial(*by_position, **by_name).arguments
    except TypeError as error:
        raise DataError(f"term {call.term!r}: {error}") from None
    bounds: dict[str, Any] = {}
    for name, node in list(given.items())[1:]:
        if name == "by":  # a column
            continue
        try:
            bounds[name] = ast.literal_eval(node)
        except ValueError:
            raise DataError(f"term {call.term!r}: {name}={ast.unparse(node)} must be a number or a list") from None
    return bounds


def _moments_state(call: Call, moments: ExactMoments, formula: str) -> dict[str, Any]:
    """Return the state of formulaic's `scale`."""
    given = _call_arguments(call)
    ddof = given.get("ddof", 0 if call.function == "standardize" else 1)
    center = given.get("center", True)
    scale = given.get("rescale" if call.function == "standardize" else "scale", call.function != "center")
    at = moments.mean() if center is True else None if center is False else float(center)
    spread: float | None = None
    if scale is True:
        spread = moments.spread(0.0 if at is None else at, ddof) if moments.n_rows > ddof else 0.0
        if not spread > 0.0:
            raise DataError(f"formula={formula!r}: {call.key} divides by 0, for {call.argument} is constant; drop it")
    elif scale is not False:
        spread = float(scale)
    return {"ddof": ddof, "center": at, "scale": spread}


def _bounds_state(call: Call, low: float, high: float) -> dict[str, Any]:
    """Return the bounds of formulaic's splines that are not given."""
    if call.function == "poly":
        return {}
    given = _call_arguments(call)
    bounds = {"lower_bound": low, "upper_bound": high}
    return {name: value for name, value in bounds.items() if given.get(name) is None}


_ROUNDING = 1e-10
"""Share of the total weight that is more than rounding: a sum of the 2^16 weights of a block is right to 1e-11."""


def warn_of_absent_levels(design: Design, scan: Scan) -> tuple[str, ...]:
    """Warn of levels, and combinations of levels, that no row has; return the columns of zeros.

    The scan is of the rows in this design, which is not standardised.
    """
    if not isinstance(design, FormulaDesign):
        return ()
    asked = None if design.formula is None else parsed(design.formula)
    unseen = {} if asked is None else dict(_absent_listed_levels(design, asked))
    terms = [name for name, _ in design.raw_levels]
    terms += [] if asked is None else [unmarked(call.term) for _, call in asked.codings]
    columns = zip(design.names, scan.low, scan.high, strict=True)
    zero = tuple(name for name, low, high in columns if low == high == 0.0 and _has_factor(name, terms))
    absent = [f"{term}[{level}]" for term, levels in unseen.items() for level in levels]
    absent += [name for name in zero if not _has_factor(name, unseen)]
    absent += _absent_base_levels(design, scan, asked)
    if absent:
        warn(
            f"no row that counts has the level, or the combination of levels, {listed(absent)}: the prior alone tells "
            "its coefficient; drop the level, or merge it with another"
        )
    return zero


def _has_factor(column: str, terms: Iterable[str]) -> bool:
    """Whether a column, such as ``age:device[phone]``, has one of the factors."""
    return any(f":{term}[" in f":{column}" for term in terms)


def _absent_listed_levels(design: FormulaDesign, asked: Parsed) -> Iterator[tuple[str, list[Any]]]:
    """Yield factors ``C(x, levels=[...])`` and their listed levels that the data do not have."""
    for column, call in asked.codings:
        _, given = call.arguments
        if "levels" in given:
            categories = categories_of(design, column, call.term)
            if new := [level for level in ast.literal_eval(given["levels"]) if level not in categories]:
                yield unmarked(call.term), new


def _absent_base_levels(design: FormulaDesign, scan: Scan, asked: Parsed | None) -> list[str]:
    """Return base levels of treatment codings to which the rows of the other levels leave no weight."""
    if scan.smallest_weight < _ROUNDING * scan.weight_total:
        return []
    squares, names = dict(zip(design.names, scan.squares, strict=True)), []
    for term, levels in ((term, levels) for name, levels in design.raw_levels for term in _terms_of(name, asked)):
        others = [column for level in levels if (column := f"{term}[{level}]") in squares]
        base = [level for level in levels if f"{term}[{level}]" not in squares]
        if others and len(base) == 1:  # of zeros and ones: sums of squares are sums of weights
            left = scan.weight_total - sum(squares[name] for name in others)
            if left < 0.5 * scan.smallest_weight:
                names.append(f"{term}[{base[0]}]")
    return names


def _terms_of(name: str, asked: Parsed | None) -> list[str]:
    """Return the terms that a factor may have in a formula: its name, or ``C(...)`` of it."""
    codings = [] if asked is None else asked.codings
    coded = [unmarked(call.term) for column, call in codings if column == name]
    return list(dict.fromkeys((name, f"C({name})", *coded)))
