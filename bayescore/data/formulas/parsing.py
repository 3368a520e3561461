"""What a formula may contain, and what it needs of the data: columns, levels, numbers learnt in a pass.

A formula may come from a file, and its terms are Python expressions. So only arithmetic and comparisons of columns and
numbers, and calls of the functions named below, are evaluated. Anything else is refused by name before `formulaic` sees
data.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from bayescore.data.formulas.group_terms import GroupTerm, without_group_terms
from bayescore.validation import DataError

PLAIN = frozenset(("I", "abs", "sqrt", "log", "log10", "log2", "log1p", "exp", "exp10", "exp2", "expm1")) | frozenset(
    ("sin", "cos", "tan", "tanh", "floor", "ceil", "minimum", "maximum")
)
"""Functions of numbers, also as np.log."""
MOMENTS = frozenset(("center", "scale", "standardize"))
"""Functions that know the mean or sd of their argument."""
BASES = frozenset(("poly", "bs", "cr", "cs", "cc"))
"""Functions that know quantiles, bounds or products of their argument: polynomials and splines."""
CODINGS = frozenset(("Treatment", "Sum", "Helmert", "Diff", "Poly"))
"""Codings of a factor, `C(g, Sum)`; also as contr.sum and so on."""
CONTR = frozenset(f"contr.{name}" for name in ("treatment", "sum", "helmert", "diff", "poly", "SAS"))

_HARMLESS = (
    *(ast.Expression, ast.Name, ast.Load, ast.Constant, ast.List, ast.Tuple, ast.keyword),
    *(ast.BinOp, ast.UnaryOp, ast.Compare, ast.operator, ast.unaryop, ast.cmpop),
)
_NAME = r"`[^`]+`|[^\W\d][\w.]*"
_COUNTS = re.compile(
    rf"\s*(?:(?P<successes1>{_NAME})\s*\|\s*trials\(\s*(?P<trials1>{_NAME})\s*\)"
    rf"|p\(\s*(?P<successes2>{_NAME})\s*,\s*(?P<trials2>{_NAME})\s*\))\s*~"
)
_OFFSET = re.compile(r"(?<![\w.])offset\(")
_MAX_POWER = 64  # a**b of constants is computed before any row is read


@dataclass(frozen=True)
class Call:
    """A call whose function learns from the data: `key` is formulaic's name of it, and it is applied to `argument`.

    Columns in `argument` have Python names, see `Parsed.aliases`.
    """

    function: str
    key: str
    argument: str
    term: str


@dataclass(frozen=True)
class Parsed:
    """A formula taken apart."""

    text: str
    response: str | None  # column of the labels
    columns: tuple[str, ...]  # that terms use, in order
    calls: tuple[Call, ...]  # that learn from the data
    aliases: tuple[tuple[str, str], ...]  # Python names, and columns
    terms: Any  # formulaic's
    groups: tuple[GroupTerm, ...] = ()
    trials: str | None = None  # column of binomial trials; `response` has the successes
    offset: str | None = None  # what the terms offset(...) add up to, as `offsets.Offset` reads it

    @property
    def factors(self) -> tuple[str, ...]:
        """Columns that a term C(...) calls factors."""
        alias = dict(self.aliases)
        return tuple(alias.get(call.argument, call.argument) for call in self.calls if call.function == "C")


@lru_cache(maxsize=8)
def parsed(text: str) -> Parsed:
    """Take a formula apart; raise `DataError` if it cannot be read or has a term that is not supported."""
    if not isinstance(text, str):
        raise TypeError(f"formula is a {type(text).__name__}; give text such as 'clicked ~ age + device'")
    plain, groups = without_group_terms(text)
    plain, trials = _without_trials(plain)
    left, right = _sides(text, plain)
    right, offset = _without_offsets(text, plain, right)
    response = None if left is None else _response(text, left)
    columns: dict[str, None] = {}
    calls: dict[str, Call] = {}
    aliases: dict[str, str] = {}
    functions: set[str] = set()
    for factor in {factor.expr: factor for term in right for factor in term.factors}.values():
        if factor.eval_method.value == "lookup":
            columns[factor.expr] = None
        elif factor.eval_method.value == "python":
            for kind, found in _parts(text, factor.expr, aliases):
                if isinstance(found, Call):
                    calls[found.key] = found
                elif kind == "function":
                    functions.add(found)
                else:
                    columns[found] = None
    if not right or not plain.rpartition("~")[2].strip():  # formulaic reads nothing as an intercept
        raise DataError(f"formula={text!r} leaves no coefficient; add 1, the intercept, or a column")
    for name in columns:
        if name in functions:
            raise DataError(f"formula={text!r}: column {name!r} has the name of a function; rename the column")
        if name in (response, trials):
            what = "the label is" if name == response else "trials are"
            raise DataError(f"formula={text!r}: {name!r} stands on both sides; {what} no feature")
        if aliases.get(name, name) != name:
            raise DataError(f"formula={text!r}: columns {name!r} and {aliases[name]!r} are too alike; rename one")
    spelled = {str(term).replace(" ", ""): str(term) for term in right}
    own = tuple(_checked_group(text, group, (response, *columns), spelled) for group in groups)
    return Parsed(
        text, response, tuple(columns), tuple(calls.values()), tuple(aliases.items()), right, own, trials, offset
    )


def _checked_group(
    text: str, group: GroupTerm, columns: tuple[str | None, ...], spelled: Mapping[str, str]
) -> GroupTerm:
    """Return a group term whose effects are spelled as terms; raise unless groups are no feature and effects terms."""
    name = group.column
    if name in columns:
        raise DataError(
            f"formula={text!r}: column {name!r} is a grouping factor, and a feature or the label too; leave one out, "
            "or give a copy of it under another name"
        )
    terms = {"1": "1", **spelled}
    if alone := [effect for effect in group.effects if effect.replace(" ", "") not in terms]:
        raise DataError(
            f"formula={text!r}: {alone[0]!r} varies by {name!r} about a mean that is no term of the formula; add "
            f"{alone[0]!r}"
        )
    return replace(group, effects=tuple(dict.fromkeys(terms[effect.replace(" ", "")] for effect in group.effects)))


def _without_trials(text: str) -> tuple[str, str | None]:
    """Return a formula whose left side is the successes alone, and the column of the trials.

    >>> _without_trials("k | trials(n) ~ age"), _without_trials("p(k, n) ~ age")
    (('k ~ age', 'n'), ('k ~ age', 'n'))
    """
    found = _COUNTS.match(text)
    if found is None:
        return text, None
    successes, trials = (found[f"{name}1"] or found[f"{name}2"] for name in ("successes", "trials"))
    return f"{successes} ~{text[found.end() :]}", trials.strip("`")


def _without_offsets(text: str, plain: str, right: Any) -> tuple[Any, str | None]:
    """Return the terms without those that are offset(...), and the sum of these."""
    from formulaic import SimpleFormula

    written = len(_OFFSET.findall(plain))
    if not written:
        return right, None
    found = [str(term)[len("offset(") : -1] for term in right if _OFFSET.match(str(term)) and len(term.factors) == 1]
    kept = [term for term in right if not (_OFFSET.match(str(term)) and len(term.factors) == 1)]
    if len(found) != written or any(_OFFSET.search(own) for own in [*found, *map(str, kept)]):
        raise DataError(
            f"formula={text!r}: offset(...) must be a term of its own, once, as in y ~ x + offset(log(years)); in "
            "products, calls and subtractions it means nothing"
        )
    return SimpleFormula(kept, _ordering=right.ordering), " + ".join(found)


def _sides(text: str, plain: str) -> tuple[Any, Any]:
    """Return the terms on the left, or None, and on the right, without group terms."""
    from formulaic import Formula, SimpleFormula
    from formulaic.errors import FormulaicError
    from formulaic.parser.algos.tokenize import tokenize

    try:
        words = [token.token for token in tokenize(plain) if token.kind is token.Kind.OPERATOR]
        if "|" in words:
            raise DataError(
                f"formula={text!r} has a bar outside a group term; write one as (1 | g), and counts as k | trials(n)"
            )
        formula = Formula(plain)
    except (FormulaicError, SyntaxError, ValueError, RecursionError) as error:
        if isinstance(error, DataError):
            raise
        if "`.` operator" in str(error):
            every = "name the columns, or leave formula out for all"
            raise DataError(f"formula={text!r}: '.' is not supported; {every}") from None
        reason = re.sub(r"\x1b\[[0-9;]*m|[⧛⧚]", "", str(error).splitlines()[0]) if str(error) else "no formula"
        marked = re.search(r"⧛(?:\x1b)?\[[0-9;]*m(.*?)(?:\x1b)?\[0m⧚", str(error))
        place = f", at {marked[1]!r}" if marked else ""
        raise DataError(f"formula={text!r} cannot be read{place}: {reason.rstrip('.')}") from None
    if isinstance(formula, SimpleFormula):
        return None, formula
    sides = getattr(formula, "lhs", None), getattr(formula, "rhs", None)
    if not all(isinstance(side, SimpleFormula) for side in sides):
        raise DataError(f"formula={text!r} has several parts; write label ~ terms")
    return sides


def _response(text: str, left: Any) -> str:
    factors = [factor for term in left for factor in term.factors]
    if len(factors) != 1 or factors[0].eval_method.value != "lookup":
        shown = text.split("~")[0].strip()
        raise DataError(
            f"formula={text!r}: its left side must be the column of the labels alone, or 'k | trials(n)' of counts; it "
            f"is {shown!r}"
        )
    return str(factors[0].expr)


def _parts(text: str, term: str, aliases: dict[str, str]) -> Iterator[tuple[str, Any]]:
    """Yield the columns, functions and learning calls of a term, and check everything in it."""
    from formulaic.utils.code import format_expr, sanitize_variable_names

    def refused(what: str) -> DataError:
        served = ", ".join(sorted({*PLAIN, *MOMENTS, *BASES, "C"}))
        served += "; a spline is bs(x, df=4), a natural one cr(x, df=4, constraints='center')" if "(" in term else ""
        return DataError(f"formula={text!r}: term {term!r} has {what}; terms are made of columns, numbers and {served}")

    own: dict[str, str] = {}
    try:
        tree = ast.parse(sanitize_variable_names(term, {}, own), mode="eval")
    except (SyntaxError, ValueError) as error:
        raise DataError(f"formula={text!r}: term {term!r} cannot be read: {error}") from None
    aliases |= own
    named: dict[int, str] = {}  # nodes that name a function or a coding, and which
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = _function(node.func)
            if name is None or name not in PLAIN | MOMENTS | BASES | CODINGS | CONTR | {"C"}:
                raise refused(f"the call {ast.unparse(node.func)!r}")
            named[id(node.func)] = name
            if name == "C" and node is not tree.body:
                raise refused("C(...) inside another expression")
            if name == "C":
                for coding in [*node.args[1:2], *(k.value for k in node.keywords if k.arg == "contrasts")]:
                    if (known := _function(coding)) is not None and known in CODINGS | CONTR:
                        named[id(coding)] = known
            if name in MOMENTS | BASES | {"C"}:
                if not node.args:
                    raise refused(f"{name}() without an argument")
                if any(_learns(inner) for inner in ast.walk(node.args[0])):
                    raise refused(f"{name}(...) of what is itself learnt from the data")
                yield "call", Call(name, format_expr(node), ast.unparse(node.args[0]), term)
    for node in ast.walk(tree):
        if id(node) in named:  # np.log is known by now
            if isinstance(node, ast.Name):
                yield "function", node.id
        elif isinstance(node, ast.Name) and not _inside(node, tree, named):
            yield "column", own.get(node.id, node.id)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and not _small(node.right):
            raise refused(f"the power {ast.unparse(node)!r}")
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitXor):
            raise refused(f"{ast.unparse(node)!r}, and powers are written a**2 inside a call")
        elif not isinstance(node, (*_HARMLESS, ast.Call)):
            raise refused(f"{ast.unparse(node)!r}")


def _function(node: ast.AST) -> str | None:
    """Return the name of a function: "log" of np.log, "contr.sum" of contr.sum."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        if node.value.id == "np" and node.attr in PLAIN - {"I"}:
            return node.attr
        if node.value.id == "contr":
            return f"contr.{node.attr}"
    return None


def _learns(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and _function(node.func) in MOMENTS | BASES | {"C"}


def _inside(name: ast.Name, tree: ast.AST, named: dict[int, str]) -> bool:
    """Whether a name is the np or contr of an attribute that names a function."""
    return any(isinstance(node, ast.Attribute) and id(node) in named and node.value is name for node in ast.walk(tree))


def _small(node: ast.AST) -> bool:
    """Whether an exponent is a number of moderate size."""
    try:
        return abs(float(ast.literal_eval(node))) <= _MAX_POWER
    except (ValueError, TypeError, SyntaxError):
        return False
