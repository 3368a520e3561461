"""Levels of factors that no row of positive weight has: levels that a formula lists, or that only dropped rows had.

Such a level is a column of zeros, or, where it is the base, a set of columns that add up to the column of ones; only
the prior determines its coefficient. With codings other than treatment coding, only listed levels are noticed.
"""

import ast
from collections.abc import Iterable, Iterator
from typing import Any

from bayescore.data.design import Design
from bayescore.data.formulas.design import FormulaDesign, categories_of
from bayescore.data.formulas.parsing import Parsed, parsed
from bayescore.data.passes.scan import Scan
from bayescore.listing import listed
from bayescore.validation import warn

_ROUNDING = 1e-10
"""Share of the total weight that is more than rounding: a sum of the 2^16 weights of a block is right to 1e-11."""


def warn_of_absent_levels(design: Design, scan: Scan) -> tuple[str, ...]:
    """Warn of levels, and combinations of levels, that no row has; return the columns of zeros.

    The scan is that of the rows in this design, which is not standardised.
    """
    if not isinstance(design, FormulaDesign):
        return ()
    asked = None if design.formula is None else parsed(design.formula)
    unseen = {} if asked is None else dict(_unseen(design, asked))
    terms = [name for name, _ in design.raw_levels]
    terms += [] if asked is None else [call.term for call in asked.calls if call.function == "C"]
    columns = zip(design.names, scan.low, scan.high, strict=True)
    zero = tuple(name for name, low, high in columns if low == high == 0.0 and _is_of(name, terms))
    found = [f"{term}[{level}]" for term, levels in unseen.items() for level in levels]
    found += [name for name in zero if not _is_of(name, unseen)]
    found += _bases(design, scan, asked)
    if found:
        warn(
            f"no row that counts has the level, or the combination of levels, {listed(found)}: the prior alone tells "
            "its coefficient; drop the level, or merge it with another"
        )
    return zero


def _is_of(column: str, terms: Iterable[str]) -> bool:
    """Whether a column, such as ``age:device[phone]``, has one of the factors."""
    return any(f":{term}[" in f":{column}" for term in terms)


def _unseen(design: FormulaDesign, asked: Parsed) -> Iterator[tuple[str, list[Any]]]:
    """Yield factors ``C(x, levels=[...])`` and their listed levels that the data do not have."""
    aliases = dict(asked.aliases)
    for call in asked.calls:
        tree = ast.parse(call.key, mode="eval").body
        given = [word.value for word in tree.keywords if word.arg == "levels"] if isinstance(tree, ast.Call) else []
        if call.function == "C" and given:
            known = categories_of(design, aliases.get(call.argument, call.argument), call.term)
            if new := [level for level in ast.literal_eval(given[0]) if level not in known]:
                yield call.term, new


def _bases(design: FormulaDesign, scan: Scan, asked: Parsed | None) -> list[str]:
    """Return base levels of treatment codings to which the rows of the other levels leave no weight."""
    if scan.smallest_weight < _ROUNDING * scan.weight_total:
        return []
    squares, found = dict(zip(design.names, scan.squares, strict=True)), []
    for term, levels in ((term, levels) for name, levels in design.raw_levels for term in _terms_of(name, asked)):
        others = [column for level in levels if (column := f"{term}[{level}]") in squares]
        base = [level for level in levels if f"{term}[{level}]" not in squares]
        if others and len(base) == 1:  # of zeros and ones: sums of squares are sums of weights
            left = scan.weight_total - sum(squares[name] for name in others)
            if left < 0.5 * scan.smallest_weight:
                found.append(f"{term}[{base[0]}]")
    return found


def _terms_of(name: str, asked: Parsed | None) -> list[str]:
    """Return the terms that a factor may have in a formula: its name, or ``C(...)`` of it."""
    aliases = {} if asked is None else dict(asked.aliases)
    calls = () if asked is None else asked.calls
    coded = [call.term for call in calls if call.function == "C" and aliases.get(call.argument, call.argument) == name]
    return list(dict.fromkeys((name, f"C({name})", *coded)))
