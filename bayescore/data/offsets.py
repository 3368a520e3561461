"""Offsets by the name of a column, or by an expression of columns such as ``log(years)``.

An expression may come from a file, so that numbers, columns, arithmetic and the functions named below are computed here
and nothing else is.
"""

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from bayescore.types import FloatArray
from bayescore.validation import DataError, RowError, check_offset

_FUNCTIONS = {name: getattr(np, name) for name in ("log", "log10", "log2", "log1p", "exp", "sqrt")}
_OPERATORS: dict[type[ast.AST], Any] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.USub: np.negative,
    ast.UAdd: np.positive,
}


@dataclass(frozen=True)
class Offset:
    """The known part of linear predictors: its text, and the columns that it is made of."""

    text: str
    columns: tuple[str, ...]

    @classmethod
    def of(cls, text: str, names: Sequence[str]) -> Self:
        """Return the offset that a text means where the data have columns of these names; a column's name goes first.

        The columns of an expression need not be among `names`.
        """
        if text in names or re.fullmatch(r"[^\W\d][\w.]*", text):
            return cls(text, (text,))
        try:
            tree, named = _tree(text)
        except SyntaxError:
            return cls(text, (text,))
        calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
        functions = {id(node.value if isinstance(node, ast.Attribute) else node) for node in calls}
        own = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in functions]
        columns = tuple(dict.fromkeys(named.get(name, name) for name in own))
        _value(text, tree, dict.fromkeys(own, np.ones(1)))
        if not columns:
            raise DataError(f"offset={text!r} names no column; the same number for all rows is a part of the intercept")
        return cls(text, columns)

    @property
    def shown(self) -> str:
        """What an error calls it."""
        return f"offset (column {self.text!r})" if self.columns == (self.text,) else f"offset {self.text!r}"

    def values(
        self, column: Callable[[str], FloatArray], n_rows: int, start: int = 0, *, drop: bool = False
    ) -> FloatArray:
        """Return the offsets of rows start, start + 1, ..., shape (n,), given their columns; see `check_offset`."""
        if self.columns == (self.text,):
            return check_offset(column(self.text), n_rows, self.shown, start, drop=drop)
        tree, named = _tree(self.text)
        own = {name: column(name) for name in self.columns}
        held = {**own, **{alias: own[name] for alias, name in named.items()}}
        with np.errstate(all="ignore"):
            found = np.asarray(_value(self.text, tree, held), dtype=np.float64)
        missing = np.any([np.isnan(values) for values in own.values()], axis=0)
        if (bad := np.isnan(found) & ~missing).any():  # which missing='drop' would leave out
            row = int(np.argmax(bad))
            shown = ", ".join(f"{name!r} is {values[row]:g}" for name, values in own.items())
            raise RowError(
                f"{self.shown} is no number in row {start + row}, where {shown}; drop such rows", start + row
            )
        return check_offset(found, n_rows, self.shown, start, drop=drop)


def _tree(text: str) -> tuple[ast.expr, dict[str, str]]:
    """Return the expression, and the columns that stand in backticks by the names that they have in it."""
    named: dict[str, str] = {}

    def plain(found: re.Match[str]) -> str:
        alias = f"column_in_backticks_{len(named)}"
        named[alias] = found[1]
        return alias

    return ast.parse(re.sub("`([^`]+)`", plain, text.strip()), mode="eval").body, named


def _value(text: str, node: ast.expr, columns: Mapping[str, FloatArray]) -> Any:
    match node:
        case ast.Constant(value=int() | float() as value):
            return float(value)
        case ast.Name(id=name) if name in columns:
            return columns[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(text, left, columns), _value(text, right, columns))
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(text, operand, columns))
        case ast.Call(func=ast.Name(id=name), args=[own], keywords=[]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](_value(text, own, columns))
        case ast.Call(func=ast.Attribute(value=ast.Name(id="np"), attr=name), args=[own], keywords=[]) if (
            name in _FUNCTIONS
        ):
            return _FUNCTIONS[name](_value(text, own, columns))
    raise DataError(
        f"offset={text!r} has {ast.unparse(node)!r}; an offset is made of columns, numbers, + - * / and "
        f"{', '.join(_FUNCTIONS)}: make a column of it and name that"
    )
