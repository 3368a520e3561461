"""The small changes that `tests.mutants` makes of a statement: a sign, a bound, a swapped argument, a dropped term."""

import ast
import copy
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

OPPOSITE = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}
BOUNDS = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
SYMMETRIC = {"max", "min", "maximum", "minimum", "add", "multiply", "zip", "isinstance", "hasattr", "array_equal"}
MESSAGES = {"warn", "print", "cast", "TypeVar", "namedtuple"}
BRACKETED = (ast.BinOp, ast.BoolOp, ast.Compare, ast.UnaryOp, ast.IfExp)


def statements(scope: ast.AST) -> Iterator[ast.stmt]:
    """Yield the statements of a function in order, those of functions and classes in it left out."""
    for child in ast.iter_child_nodes(scope):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        if isinstance(child, ast.stmt):
            yield child
        if isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case)):
            yield from statements(child)


def functions(scope: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yield the qualified names and definitions of all functions of a module."""
    for child in ast.iter_child_nodes(scope):
        if isinstance(child, ast.FunctionDef):
            yield prefix + child.name, child
            yield from functions(child, f"{prefix}{child.name}.<locals>.")
        else:
            yield from functions(child, f"{prefix}{child.name}." if isinstance(child, ast.ClassDef) else prefix)


def is_compiled(function: ast.FunctionDef) -> bool:
    """Say whether numba compiles a function."""
    return any(
        isinstance(each, ast.Name) and each.id in {"jit", "jit_sums", "jit_inner", "jit_inner_sums"}
        for each in function.decorator_list
    )


def parts(statement: ast.stmt) -> list[ast.expr]:
    """Return the expressions of a statement in which changes are made: of a compound one, those of its first line."""
    match statement:
        case ast.If(test=test) | ast.While(test=test):
            return [test]
        case ast.For(iter=sequence):
            return [sequence]
        case ast.With(items=items):
            return [item.context_expr for item in items]
        case ast.Assign(targets=targets, value=value):
            return [*targets, value]
        case ast.AugAssign(target=target, value=value):
            return [target, value]
        case ast.AnnAssign(value=value) | ast.Return(value=value) | ast.Expr(value=value):
            return [value] if value is not None else []
    return []


def text(statement: ast.stmt) -> str:
    """Return the code of a statement in one spelling: of a compound one, that of its first line."""
    if hasattr(statement, "body"):
        statement = copy.copy(statement)
        statement.body, statement.orelse = [ast.Pass()], []  # type: ignore[attr-defined]
        return ast.unparse(statement).removesuffix("\n    pass")
    return ast.unparse(statement)


def with_fields(node: Any, **fields: Any) -> Any:
    """Return a node of syntax with other fields."""
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def is_text(node: ast.AST) -> bool:
    """Say whether an operand is text or a list, which is joined and not added."""
    return isinstance(node, (ast.JoinedStr, ast.List, ast.Tuple, ast.ListComp)) or (
        isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes))
    )


def called(node: ast.Call) -> str:
    """Return the last part of the name of what is called."""
    return getattr(node.func, "attr", getattr(node.func, "id", ""))


def sites(statement: ast.stmt) -> list[tuple[str, Any, Any]]:
    """Return the changes that a statement allows, in order: kind, the node changed and what it becomes."""
    augmented = isinstance(statement, ast.AugAssign) and type(statement.op) in OPPOSITE and not is_text(statement.value)
    changes = [("sign", statement, with_fields(statement, op=OPPOSITE[type(statement.op)]()))] if augmented else []
    for part in parts(statement):
        changes += _sites(part, None)
    return changes


def _sites(node: ast.AST, parent: ast.AST | None) -> Iterator[tuple[str, Any, Any]]:
    match node:
        case ast.JoinedStr() | ast.Lambda(args=ast.arguments(defaults=[_, *_])):
            return
        case ast.Call() if called(node) in MESSAGES or called(node).endswith(("Error", "Warning")):
            return
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPPOSITE and not (is_text(left) or is_text(right)):
            yield "sign", node, with_fields(node, op=OPPOSITE[type(op)]())
            yield "drop", node, left
            if isinstance(op, (ast.Add, ast.Mult)):
                yield "drop", node, right
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            yield "sign", node, operand
        case ast.Compare(ops=[op]) if type(op) in BOUNDS:
            yield "bound", node, with_fields(node, ops=[BOUNDS[type(op)]()])
        case ast.Constant(value=int() | float() as value) if isinstance(parent, (ast.Compare, ast.BinOp, ast.Call)):
            if type(value) is int or (type(value) is float and value):
                yield "bound", node, ast.Constant(value + 1 if type(value) is int else float(f"{1.1 * value:.9g}"))
        case ast.BoolOp(values=values):
            for skipped in range(len(values)):
                kept = values[:skipped] + values[skipped + 1 :]
                yield "drop", node, kept[0] if len(kept) == 1 else with_fields(node, values=kept)
        case ast.IfExp(body=body, orelse=orelse) if not (is_text(body) or is_text(orelse)):
            yield "swap", node, with_fields(node, body=orelse, orelse=body)
        case ast.Call(args=[_, _, *_] as given) if called(node) not in SYMMETRIC:
            for n, (one, next_one) in enumerate(pairwise(given)):
                fixed = any(isinstance(each, ast.Starred) or is_text(each) for each in (one, next_one))
                if not fixed and ast.unparse(one) != ast.unparse(next_one):
                    yield "swap", node, with_fields(node, args=[*given[:n], next_one, one, *given[n + 2 :]])
    for child in ast.iter_child_nodes(node):
        keyword = isinstance(child, ast.keyword)
        yield from _sites(child.value if keyword else child, None if keyword else node)


def change(before: ast.AST, after: ast.AST) -> str:
    """Return a change as the list shows it."""
    return f"{ast.unparse(before)}  ->  {ast.unparse(after)}"


def replaced(source: str, node: Any, new: ast.AST) -> str:
    """Return a source in which the code of one node is that of another."""
    lines = [line.encode() for line in source.splitlines(keepends=True)]
    begin = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    end = sum(map(len, lines[: node.end_lineno - 1])) + node.end_col_offset
    code = f"({ast.unparse(new)})" if isinstance(node, BRACKETED) else ast.unparse(new)
    whole = b"".join(lines)
    return (whole[:begin] + code.encode() + whole[end:]).decode()
